//! The link address of a target on the link, as the kernel knows it.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use crate::Error;

/// How long the kernel gets to ask the link.
const TIMEOUT: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);
/// The discard service (RFC 863): a packet to it asks nobody for anything.
const DISCARD: u16 = 9;

/// The link address of `target` on `interface`. Has the kernel ask for it where it must.
pub(super) fn find(target: SocketAddr, interface: Option<&str>) -> Result<[u8; 6], Error> {
    let unknown = |why: &str| {
        Error::Failed(format!(
            "the link address of {} is not known ({why}): give --next-hop MAC, that of the target \
             or of the router to it",
            target.ip()
        ))
    };
    let (SocketAddr::V4(v4), Some(interface)) = (target, interface) else {
        return Err(unknown("the kernel is asked for IPv4 on an interface only"));
    };
    let mut waited = Duration::ZERO;
    loop {
        // The table of the calling thread's network namespace.
        let table = std::fs::read_to_string("/proc/thread-self/net/arp").unwrap_or_default();
        if let Some(mac) = in_table(&table, *v4.ip(), interface) {
            return Ok(mac);
        }
        if waited >= TIMEOUT {
            return Err(unknown("it does not answer ARP, or is not on this link"));
        }
        if waited.is_zero() {
            // An error means that there is no route; the wait then ends with the sentence above.
            let _ = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
                .and_then(|socket| socket.send_to(&[], (*v4.ip(), DISCARD)));
        }
        std::thread::sleep(LOOK);
        waited += LOOK;
    }
}

/// proc_net(5): address, hardware type, flags, hardware address, mask, device.
fn in_table(table: &str, address: Ipv4Addr, interface: &str) -> Option<[u8; 6]> {
    table.lines().skip(1).find_map(|line| {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let [found, _, flags, mac, _, device] = *words.first_chunk::<6>()?;
        let is_it = found.parse() == Ok(address) && device == interface && flags != "0x0";
        is_it.then(|| super::args::parse_mac(mac).ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_entry_of_the_interface_counts() {
        let table = "IP address  HW type  Flags  HW address  Mask  Device\n\
                     10.0.0.2  0x1  0x0  00:00:00:00:00:00  *  veth0\n\
                     10.0.0.2  0x1  0x2  02:00:00:00:00:09  *  veth1\n\
                     10.0.0.3  0x1  0x6  02:00:00:00:00:07  *  veth0\nbroken line\n";
        let find = |address: [u8; 4], interface| in_table(table, address.into(), interface);
        assert_eq!(find([10, 0, 0, 2], "veth0"), None);
        assert_eq!(find([10, 0, 0, 2], "veth1"), Some([2, 0, 0, 0, 0, 9]));
        assert_eq!(find([10, 0, 0, 3], "veth0"), Some([2, 0, 0, 0, 0, 7]));
        assert_eq!(find([10, 0, 0, 4], "veth0"), None);
    }

    #[test]
    fn a_target_that_cannot_be_asked_for_needs_the_option() {
        let target = "[fd00::1]:7".parse().expect("it is an address");
        let error = find(target, Some("veth0")).expect_err("IPv6 is not asked for");
        assert!(error.to_string().contains("--next-hop"), "{error}");
    }
}
