//! What a driver says of its XDP, and which NAPI instances poll its queues: the generic netlink
//! family "netdev" (Linux 6.3).

use rustix::io::Errno;
use rustix::net::netlink;

use crate::SysError;
use crate::netlink::{NLM_F_ACK, Request, attributes};

mod napi;

pub use napi::{Napi, napi_of_queue, set_threaded};

/// What native XDP of an interface can do (enum netdev_xdp_act of linux/netdev.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpFeatures {
    /// Programs run in the driver, before there is a socket buffer.
    pub native: bool,
    /// A native program may redirect, into AF_XDP sockets too.
    pub redirect: bool,
    /// It sends what programs of other interfaces redirect to it (`ndo_xdp_xmit`). A veth does
    /// while its other end has a program or puts segments together (GRO).
    pub sends: bool,
    /// AF_XDP without a copy.
    pub zero_copy: bool,
    /// Packets that lie in several pieces are handed to programs that can take them.
    pub pieces: bool,
}

/// The features of interface `index` in the calling thread's namespace.
///
/// # Errors
/// ENOENT: the kernel is older than 6.3. ENODEV: no such interface.
pub fn xdp_features(index: u32) -> Result<XdpFeatures, SysError> {
    ask(index).map_err(|errno| {
        let advice = match errno {
            Errno::NOENT => "Linux 6.3 is the first that tells",
            Errno::NODEV => "the interface is gone",
            _ => "",
        };
        SysError::new(format!("ask for the XDP features of interface {index}"), errno, advice)
    })
}

fn ask(index: u32) -> Result<XdpFeatures, Errno> {
    /// linux/netdev.h.
    const NETDEV_CMD_DEV_GET: u8 = 1;
    const NETDEV_A_DEV_IFINDEX: u16 = 1;
    let mut features = None;
    Request::new(family()?, NLM_F_ACK, &command(NETDEV_CMD_DEV_GET))
        .attribute(NETDEV_A_DEV_IFINDEX, &index.to_ne_bytes())
        .send_to(Some(netlink::GENERIC), |_, body| features = features.or(parse(body)))?;
    features.ok_or(Errno::BADMSG)
}

/// The number that this kernel gave the family.
fn family() -> Result<u16, Errno> {
    /// linux/genetlink.h.
    const GENL_ID_CTRL: u16 = 0x10;
    const CTRL_CMD_GETFAMILY: u8 = 3;
    const CTRL_ATTR_FAMILY_ID: u16 = 1;
    const CTRL_ATTR_FAMILY_NAME: u16 = 2;
    let mut id = None;
    Request::new(GENL_ID_CTRL, NLM_F_ACK, &command(CTRL_CMD_GETFAMILY))
        .attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0")
        .send_to(Some(netlink::GENERIC), |_, body| {
            let mut found = attributes(body.get(4..).unwrap_or_default());
            let value = found.find(|&(kind, _)| kind == CTRL_ATTR_FAMILY_ID);
            id = id
                .or(value.and_then(|(_, value)| Some(u16::from_ne_bytes(value.try_into().ok()?))));
        })?;
    id.ok_or(Errno::BADMSG)
}

/// struct genlmsghdr: command, version, reserved.
fn command(command: u8) -> [u8; 4] {
    [command, 1, 0, 0]
}

fn parse(body: &[u8]) -> Option<XdpFeatures> {
    const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
    let (_, value) =
        attributes(body.get(4..)?).find(|&(kind, _)| kind == NETDEV_A_DEV_XDP_FEATURES)?;
    let word = u64::from_ne_bytes(value.try_into().ok()?);
    let bit = |number: u32| word >> number & 1 == 1;
    Some(XdpFeatures {
        native: bit(0),
        redirect: bit(1),
        sends: bit(2),
        zero_copy: bit(3),
        pieces: bit(5),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(kind: u8, value: &[u8]) -> Vec<u8> {
        [&[1, 1, 0, 0, 4 + value.len() as u8, 0, kind, 0], value].concat()
    }

    #[test]
    fn each_feature_has_its_bit() {
        let none = XdpFeatures::default();
        let word = |word: u64| parse(&reply(3, &word.to_ne_bytes()));
        assert_eq!(word(0), Some(none));
        assert_eq!(word(1), Some(XdpFeatures { native: true, ..none }));
        assert_eq!(word(2), Some(XdpFeatures { redirect: true, ..none }));
        assert_eq!(word(4), Some(XdpFeatures { sends: true, ..none }));
        assert_eq!(word(8), Some(XdpFeatures { zero_copy: true, ..none }));
        assert_eq!(word(32), Some(XdpFeatures { pieces: true, ..none }));
    }

    #[test]
    fn a_reply_that_is_cut_or_about_something_else_tells_nothing() {
        assert_eq!(parse(&[1, 1]), None);
        assert_eq!(parse(&reply(3, &[1, 2, 3, 4])), None);
        assert_eq!(parse(&reply(4, &[0; 8])), None);
    }

    #[test]
    fn the_loopback_interface_has_no_native_xdp_and_a_missing_one_is_an_error() {
        let index = crate::interface::index_of("lo").expect("every namespace has one");
        match xdp_features(index) {
            Ok(features) => assert_eq!(features, XdpFeatures::default()),
            Err(error) => assert_eq!(error.errno(), Errno::NOENT, "an old kernel: {error}"),
        }
        assert!(xdp_features(u32::MAX >> 1).is_err());
    }
}
