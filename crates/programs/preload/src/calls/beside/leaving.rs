//! Control messages of what leaves.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;

use calisto_client::sockets::Outgoing;
use libc::{c_int, cmsghdr, msghdr};
use rustix::io::Errno;

use super::UDP_SEGMENT;
use crate::system::copy;

/// Control messages of one datagram, at most: a program that has more lets the kernel read them.
const PARTS_MAX: usize = 16;

/// The longest value of those that are known: struct in6_pktinfo.
const VALUE_MAX: usize = 20;

const HEADER: usize = size_of::<cmsghdr>();

/// Has `how` say what the control messages of a datagram to an address of that family do; false:
/// one of them is the kernel's to carry out, or to refuse.
///
/// # Errors
/// EFAULT.
///
/// # Safety
/// Reading the control messages is the program's wish.
pub(crate) unsafe fn leaving(
    header: &msghdr,
    is_v4: bool,
    how: &mut Outgoing,
) -> Result<bool, Errno> {
    let (mut at, mut left) = (header.msg_control.cast::<u8>().cast_const(), header.msg_controllen);
    if c_int::try_from(left).is_err() {
        // More than any kernel reads.
        return Ok(false);
    }
    for _ in 0..PARTS_MAX {
        if left < HEADER {
            return Ok(true);
        }
        // SAFETY: the caller's promise; any bits are such a header.
        let part = unsafe { copy::get(at.cast::<cmsghdr>())? };
        let bytes = part.cmsg_len;
        if bytes < HEADER || bytes > left || bytes - HEADER > VALUE_MAX {
            return Ok(false);
        }
        let mut value = [0_u8; VALUE_MAX];
        // SAFETY: the caller's promise; there is room for that many.
        unsafe { copy::copy(value.as_mut_ptr(), at.wrapping_add(HEADER), bytes - HEADER)? };
        let value = &value[..bytes - HEADER];
        if heed(part.cmsg_level, part.cmsg_type, value, is_v4, how).is_none() {
            return Ok(false);
        }
        let step = bytes.next_multiple_of(size_of::<usize>()).min(left);
        (at, left) = (at.wrapping_add(step), left - step);
    }
    Ok(false)
}

/// One of them; nothing: it is the kernel's.
fn heed(level: c_int, kind: c_int, value: &[u8], is_v4: bool, how: &mut Outgoing) -> Option<()> {
    let number = || value.try_into().ok().map(c_int::from_ne_bytes);
    match (level, kind) {
        (libc::IPPROTO_UDP, UDP_SEGMENT) => {
            how.segment_bytes = NonZeroU16::new(u16::from_ne_bytes(value.try_into().ok()?));
        }
        (libc::IPPROTO_IP, libc::IP_TOS) if is_v4 => {
            let class = if let [class] = value { *class } else { number()?.try_into().ok()? };
            how.class = Some(class);
        }
        (libc::IPPROTO_IP, libc::IP_TTL) if is_v4 => {
            how.hop_limit = Some(u8::try_from(number()?).ok().filter(|hops| *hops > 0)?);
        }
        (libc::IPPROTO_IP, libc::IP_PKTINFO) if is_v4 => {
            // struct in_pktinfo: an interface, the address to come from, and one that is not read.
            let (interface, rest) = value.split_first_chunk::<4>()?;
            let (from, _) = rest.split_first_chunk::<4>().filter(|(_, rest)| rest.len() == 4)?;
            come_from(how, Ipv4Addr::from(*from).into(), *interface)?;
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let (from, interface) = value.split_first_chunk::<16>()?;
            let from = Ipv6Addr::from(*from).to_canonical();
            let fits = from.is_ipv4() == is_v4;
            come_from(how, Some(from).filter(|_| fits)?, interface.try_into().ok()?)?;
        }
        // What minus one and zero mean depends on the kernel.
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) if !is_v4 => {
            how.class = Some(number()?.try_into().ok()?);
        }
        (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) if !is_v4 => {
            how.hop_limit = Some(u8::try_from(number()?).ok().filter(|hops| *hops > 0)?);
        }
        _ => return None,
    }
    Some(())
}

/// The own address that a datagram is to come from. One that names an interface is the kernel's,
/// which has the others as well.
fn come_from(how: &mut Outgoing, from: IpAddr, interface: [u8; 4]) -> Option<()> {
    how.from = Some(from).filter(|from| !from.is_unspecified());
    (interface == [0; 4]).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heeded(level: c_int, kind: c_int, value: &[u8], is_v4: bool) -> Option<Outgoing> {
        let mut how = Outgoing::default();
        heed(level, kind, value, is_v4, &mut how).map(|()| how)
    }

    #[test]
    fn what_linux_refuses_or_leaves_out_is_the_kernels_to_judge() {
        let int = |value: c_int| value.to_ne_bytes();
        let (ip, ipv6) = (libc::IPPROTO_IP, libc::IPPROTO_IPV6);
        for (level, kind, value, is_v4) in [
            (ip, libc::IP_TOS, &int(256)[..], true),
            (ip, libc::IP_TOS, &[1, 2], true),
            (ip, libc::IP_TOS, &int(1), false),
            (ip, libc::IP_TTL, &int(0), true),
            (ip, libc::IP_TTL, &[9], true),
            (ip, libc::IP_PKTINFO, &[0; 11], true),
            (ip, libc::IP_PKTINFO, &[1; 12], true),
            (ipv6, libc::IPV6_TCLASS, &int(-2), false),
            (ipv6, libc::IPV6_HOPLIMIT, &int(0), false),
            (ipv6, libc::IPV6_PKTINFO, &[1; 20], false),
            (libc::IPPROTO_UDP, UDP_SEGMENT, &int(1), true),
            (libc::SOL_SOCKET, libc::SO_MARK, &int(1), true),
        ] {
            assert_eq!(heeded(level, kind, value, is_v4), None, "{level} {kind} {value:?}");
        }
    }

    #[test]
    fn what_stands_beside_a_datagram_goes_before_what_the_socket_says() {
        let mut how = Outgoing { segment_bytes: NonZeroU16::new(100), ..Outgoing::default() };
        for (bytes, expected) in [(50_u16, NonZeroU16::new(50)), (0, None)] {
            let value = bytes.to_ne_bytes();
            assert_eq!(heed(libc::IPPROTO_UDP, UDP_SEGMENT, &value, true, &mut how), Some(()));
            assert_eq!(how.segment_bytes, expected);
        }
    }

    #[test]
    fn a_class_may_be_a_byte_or_a_number_and_an_address_one_of_either_family() {
        let class = heeded(libc::IPPROTO_IP, libc::IP_TOS, &[2], true).and_then(|how| how.class);
        assert_eq!(class, Some(2));
        let mut info = [0; 20];
        info[..16].copy_from_slice(&Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped().octets());
        let how = heeded(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info, true);
        assert_eq!(how.and_then(|how| how.from), Some(Ipv4Addr::new(10, 0, 0, 1).into()));
        assert_eq!(heeded(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info, false), None);
    }
}
