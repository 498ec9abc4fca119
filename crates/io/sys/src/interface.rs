//! What the kernel knows of its network interfaces, and how to change it.
//!
//! Asked by rtnetlink, not /sys: that shows the namespace in which it was mounted, not the one
//! that the calling thread has entered.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use base::Nanos;
use rustix::io::Errno;

use crate::netlink::{NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE, Request, attributes};
use crate::{SysError, clock};

mod link;

use self::link::parse_link;
pub use self::link::{Interface, XdpAttached};

/// The longest name an interface can have (IFNAMSIZ without its zero).
pub const NAME_BYTES_MAX: usize = 15;

/// The interface called `name` in the calling thread's namespace.
///
/// # Errors
/// There is none; the sentence names those there are.
pub fn by_name(name: &str) -> Result<Interface, SysError> {
    let missing = |errno| {
        let names: Vec<_> =
            list().unwrap_or_default().into_iter().map(|interface| interface.name).collect();
        let advice = format!("interfaces here: {}", names.join(", "));
        SysError::new(format!("find interface {name:?}"), errno, advice)
    };
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(['/', '\0']) {
        return Err(missing(Errno::NODEV));
    }
    let zero_ended = [name.as_bytes(), &[0]].concat();
    let mut found = None;
    Request::new(libc::RTM_GETLINK, 0, &link_message(0, 0, 0))
        .attribute(libc::IFLA_IFNAME, &zero_ended)
        .send(|kind, body| {
            if kind == libc::RTM_NEWLINK {
                found = parse_link(body);
            }
        })
        .map_err(missing)?;
    found.ok_or_else(|| missing(Errno::NODEV))
}

/// Waits until the interface called `name` may send. Who gets a carrier from an end that comes up
/// later is told so by a thread of the kernel's, and until then all that is sent is dropped, on a
/// busy machine for a good while.
///
/// # Errors
/// There is no such interface, or it takes longer than `timeout`.
pub fn wait_until_operational(name: &str, timeout: Nanos) -> Result<(), SysError> {
    let end = clock::now() + timeout;
    while !by_name(name)?.operational {
        if clock::now() > end {
            let doing = format!("wait for the carrier of {name}");
            return Err(SysError::new(doing, Errno::TIMEDOUT, "is its other end up?"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Its name's index now; `None` when no interface is called that any more.
pub fn index_of(name: &str) -> Option<u32> {
    rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)
        .and_then(|socket| rustix::net::netdevice::name_to_index(&socket, name))
        .ok()
}

/// All interfaces of the calling thread's namespace.
///
/// # Errors
/// Netlink is not available.
pub fn list() -> Result<Vec<Interface>, SysError> {
    let mut interfaces = Vec::new();
    Request::new(libc::RTM_GETLINK, NLM_F_DUMP, &link_message(0, 0, 0))
        .send(|kind, body| {
            if kind == libc::RTM_NEWLINK {
                interfaces.extend(parse_link(body));
            }
        })
        .map_err(|errno| SysError::new("list the network interfaces", errno, ""))?;
    Ok(interfaces)
}

/// Sets interface `index` up or down.
///
/// # Errors
/// CAP_NET_ADMIN is missing, or the interface is gone.
pub fn set_up(index: u32, up: bool) -> Result<(), SysError> {
    let flag = libc::IFF_UP as u32;
    let message = link_message(index, if up { flag } else { 0 }, flag);
    let word = if up { "up" } else { "down" };
    Request::new(libc::RTM_NEWLINK, NLM_F_ACK, &message)
        .send(|_, _| {})
        .map_err(|errno| refused(format!("set interface {index} {word}"), errno))
}

/// Sets the largest packet of interface `index`.
///
/// # Errors
/// CAP_NET_ADMIN is missing, or the driver does not take that size.
pub fn set_mtu(index: u32, mtu: u32) -> Result<(), SysError> {
    Request::new(libc::RTM_NEWLINK, NLM_F_ACK, &link_message(index, 0, 0))
        .attribute(libc::IFLA_MTU, &mtu.to_ne_bytes())
        .send(|_, _| {})
        .map_err(|errno| refused(format!("set the MTU of interface {index} to {mtu}"), errno))
}

/// Gives interface `index` an address; one that it has already is no error.
///
/// # Errors
/// CAP_NET_ADMIN is missing, the prefix is too long, or the interface is gone.
pub fn add_address(index: u32, address: IpAddr, prefix_bits: u8) -> Result<(), SysError> {
    let (family, octets) = match address {
        IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec()),
    };
    // struct ifaddrmsg of linux/if_addr.h: family, prefix length, flags, scope, index. IPv6
    // addresses skip duplicate detection (IFA_F_NODAD, 2): there is nobody else on the wire yet.
    let flags = if address.is_ipv6() { 2 } else { 0 };
    let mut message = vec![family as u8, prefix_bits, flags, 0];
    message.extend_from_slice(&index.to_ne_bytes());
    Request::new(libc::RTM_NEWADDR, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, &message)
        .attribute(libc::IFA_LOCAL, &octets)
        .attribute(libc::IFA_ADDRESS, &octets)
        .send(|_, _| {})
        .map_err(|errno| {
            refused(format!("give interface {index} address {address}/{prefix_bits}"), errno)
        })
}

/// The addresses of interface `index`, of both families.
///
/// # Errors
/// Netlink is not available.
pub fn addresses(index: u32) -> Result<Vec<IpAddr>, SysError> {
    let all = all_addresses()?;
    Ok(all.into_iter().filter(|(at, _)| *at == index).map(|(_, address)| address).collect())
}

/// The addresses of all interfaces, of both families, each with its interface's index, in the order
/// in which the kernel prefers them on that interface.
///
/// # Errors
/// Netlink is not available.
pub fn all_addresses() -> Result<Vec<(u32, IpAddr)>, SysError> {
    let mut addresses = Vec::new();
    // struct ifaddrmsg of linux/if_addr.h; a zero family asks for all.
    Request::new(libc::RTM_GETADDR, NLM_F_DUMP, &[0; 8])
        .send(|kind, body| {
            if kind == libc::RTM_NEWADDR {
                addresses.extend(parse_address(body));
            }
        })
        .map_err(|errno| SysError::new("list the addresses of this host", errno, ""))?;
    Ok(addresses)
}

/// The addresses of everybody on the links of this host (IPv4): those that go with its prefixes,
/// and those that somebody chose beside them.
///
/// # Errors
/// Netlink is not available.
pub fn broadcasts() -> Result<Vec<Ipv4Addr>, SysError> {
    let mut broadcasts = Vec::new();
    Request::new(libc::RTM_GETADDR, NLM_F_DUMP, &[0; 8])
        .send(|kind, body| {
            if kind == libc::RTM_NEWADDR {
                broadcasts.extend(broadcasts_of(body).into_iter().flatten());
            }
        })
        .map_err(|errno| SysError::new("list the addresses of this host", errno, ""))?;
    Ok(broadcasts)
}

/// The last address of its prefix, unless the prefix is too short for one (RFC 3021), and the
/// chosen one.
fn broadcasts_of(body: &[u8]) -> [Option<Ipv4Addr>; 2] {
    let mut found = [None; 2];
    let Some((&[family, bits, ..], rest)) = body.split_at_checked(8) else { return found };
    if i32::from(family) != libc::AF_INET {
        return found;
    }
    for (kind, value) in attributes(rest) {
        let Ok(octets) = <[u8; 4]>::try_from(value) else { continue };
        match kind {
            libc::IFA_ADDRESS if bits < 31 => {
                let last = u32::from_be_bytes(octets) | u32::MAX >> bits;
                found[0] = Some(last.into());
            }
            libc::IFA_BROADCAST => found[1] = Some(octets.into()),
            _ => {}
        }
    }
    found
}

/// Index of the interface, and its address: the local one where the link has two ends.
fn parse_address(body: &[u8]) -> Option<(u32, IpAddr)> {
    let (fixed, rest) = body.split_at_checked(8)?;
    let index = u32::from_ne_bytes(fixed[4..].try_into().ok()?);
    let address_of = |value: &[u8]| match value.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(value).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(value).ok()?)),
        _ => None,
    };
    let mut found = None;
    for (kind, value) in attributes(rest) {
        match kind {
            libc::IFA_LOCAL => return Some((index, address_of(value)?)),
            libc::IFA_ADDRESS => found = address_of(value),
            _ => {}
        }
    }
    found.map(|address| (index, address))
}

fn refused(doing: String, errno: Errno) -> SysError {
    let advice = match errno {
        Errno::PERM | Errno::ACCESS => "CAP_NET_ADMIN is needed: run as root",
        Errno::NODEV => "the interface is gone",
        _ => "",
    };
    SysError::new(doing, errno, advice)
}

/// struct ifinfomsg of linux/rtnetlink.h: family, pad, type, index, flags, change mask.
fn link_message(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut message = [0; 16];
    message[4..8].copy_from_slice(&index.to_ne_bytes());
    message[8..12].copy_from_slice(&flags.to_ne_bytes());
    message[12..16].copy_from_slice(&change.to_ne_bytes());
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{in_pair_of_namespaces, ip};

    #[test]
    fn the_loopback_interface_is_found_by_name_and_in_the_list() {
        let lo = by_name("lo").expect("every namespace has one");
        assert_eq!((lo.name.as_str(), lo.mac), ("lo", [0; 6]));
        assert!(lo.mtu >= 1280 && lo.rx_queues >= 1, "{lo:?}");
        assert_eq!(lo.qdisc, "noqueue");
        assert_eq!(index_of("lo"), Some(lo.index));
        let listed = list().expect("netlink is there");
        assert!(listed.iter().any(|interface| interface.index == lo.index), "{listed:?}");
    }

    #[test]
    fn the_loopback_interface_has_its_address() {
        let lo = by_name("lo").expect("every namespace has one");
        let found = addresses(lo.index).expect("netlink is there");
        assert_eq!(lo.up, found.contains(&IpAddr::from([127, 0, 0, 1])), "{found:?}");
        assert_eq!(addresses(u32::MAX), Ok(Vec::new()), "nobody has that index");
    }

    #[test]
    fn everybody_on_a_link_has_the_last_address_of_its_prefix_and_the_chosen_one() {
        let message = |bits: u8, attributes: &[(u16, [u8; 4])]| {
            let mut body = vec![libc::AF_INET as u8, bits, 0, 0, 2, 0, 0, 0];
            for (kind, octets) in attributes {
                body.extend_from_slice(&[8, 0, *kind as u8, 0]);
                body.extend_from_slice(octets);
            }
            body
        };
        let address = (libc::IFA_ADDRESS, [10, 1, 0, 2]);
        let chosen = (libc::IFA_BROADCAST, [10, 1, 9, 9]);
        let at = |octets: [u8; 4]| Some(Ipv4Addr::from(octets));
        assert_eq!(broadcasts_of(&message(24, &[address])), [at([10, 1, 0, 255]), None]);
        assert_eq!(
            broadcasts_of(&message(20, &[address, chosen])),
            [at([10, 1, 15, 255]), at([10, 1, 9, 9])]
        );
        assert_eq!(broadcasts_of(&message(31, &[address])), [None; 2]);
        assert_eq!(broadcasts_of(&message(0, &[address])), [at([255; 4]), None]);
        assert_eq!(broadcasts_of(&[10; 8]), [None; 2], "of another family");
        assert_eq!(broadcasts_of(&[2; 7]), [None; 2], "cut short");
    }

    #[test]
    fn a_name_that_nobody_has_is_an_error_that_lists_the_real_ones() {
        for name in ["none-such0", "", "a-name-that-is-far-too-long", "a/b", "a\0b"] {
            let error = by_name(name).expect_err("nobody is called that").to_string();
            assert!(error.contains("interfaces here:") && error.contains("lo"), "{error}");
        }
        assert_eq!(index_of("none-such0"), None);
    }

    #[test]
    fn what_an_interface_is_part_of_and_what_is_below_it_is_read() {
        in_pair_of_namespaces(|_far| {
            ip("link add br0 type bridge");
            ip("link set veth0 master br0");
            ip("link add up0 link br0 type macvlan mode bridge");
            let all = list().expect("netlink is there");
            let named = |name: &str| all.iter().find(|one| one.name == name).expect("it was made");
            let (veth, bridge, upper) = (named("veth0"), named("br0"), named("up0"));
            assert_eq!((veth.kind.as_str(), veth.master), ("veth", Some(bridge.index)));
            assert_eq!(veth.lower, None, "its other end is in another namespace");
            assert_eq!((bridge.kind.as_str(), bridge.master, bridge.lower), ("bridge", None, None));
            assert_eq!((upper.kind.as_str(), upper.lower), ("macvlan", Some(bridge.index)));
            assert_eq!((named("lo").kind.as_str(), named("lo").lower), ("", None));
        });
    }
}
