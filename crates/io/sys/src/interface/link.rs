//! One interface, as an answer of rtnetlink says it.

use crate::netlink::attributes;

/// One interface, as it was when asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index in this namespace.
    pub index: u32,
    /// Its address; zero where it has none or a longer one.
    pub mac: [u8; 6],
    /// Bytes of the largest packet, without the Ethernet header.
    pub mtu: u32,
    /// Whether it was set up.
    pub up: bool,
    /// Whether it has a carrier, too.
    pub running: bool,
    /// Whether its operational state is up (RFC 2863): until the kernel has taken note of a
    /// carrier, what is sent is dropped. Software interfaces such as lo have none, and never say
    /// so.
    pub operational: bool,
    /// Receive queues it was made with. How many are in use: [`crate::ethtool::channels`].
    pub rx_queues: u32,
    /// Transmit queues it was made with.
    pub tx_queues: u32,
    /// What it is, as `ip -details link` calls it: "veth", "bridge", "macvlan"; empty for hardware.
    pub kind: String,
    /// The index of the bridge, bond or other interface that it is a part of.
    pub master: Option<u32>,
    /// The index of the interface below it, or of its other end, if that is in this namespace.
    pub lower: Option<u32>,
    /// Its queueing discipline, as `tc` calls it; "noqueue": what is sent leaves at once.
    pub qdisc: String,
    /// The XDP program that is attached.
    pub xdp: Option<XdpAttached>,
}

/// An XDP program on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpAttached {
    /// As `bpftool prog show id` takes it.
    pub program_id: u32,
    /// Whether it runs in generic mode (on socket buffers, after the driver).
    pub generic: bool,
}

/// The interface that an answer (struct ifinfomsg and attributes) is about.
pub(super) fn parse_link(body: &[u8]) -> Option<Interface> {
    /// `IF_OPER_UP` of linux/if.h.
    const IF_OPER_UP: u8 = 6;
    /// Values of IFLA_XDP_ATTACHED, from linux/if_link.h.
    const XDP_ATTACHED_NONE: u8 = 0;
    const XDP_ATTACHED_SKB: u8 = 2;
    /// Attributes inside IFLA_XDP, from the same file.
    const IFLA_XDP_ATTACHED: u16 = 2;
    const IFLA_XDP_PROG_ID: u16 = 4;

    let (fixed, rest) = body.split_at_checked(16)?;
    let number = |bytes: &[u8]| Some(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?));
    let text = |bytes: &[u8]| {
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    };
    let flags = number(&fixed[8..])?;
    let mut interface = Interface {
        name: String::new(),
        index: number(&fixed[4..])?,
        mac: [0; 6],
        mtu: 0,
        up: flags & libc::IFF_UP as u32 != 0,
        running: flags & libc::IFF_RUNNING as u32 != 0,
        operational: false,
        rx_queues: 1,
        tx_queues: 1,
        kind: String::new(),
        master: None,
        lower: None,
        qdisc: String::new(),
        xdp: None,
    };
    let mut is_lower_elsewhere = false;
    for (kind, value) in attributes(rest) {
        match kind {
            libc::IFLA_MASTER => interface.master = Some(number(value)?),
            libc::IFLA_LINK => interface.lower = Some(number(value)?),
            libc::IFLA_LINK_NETNSID => is_lower_elsewhere = true,
            libc::IFLA_LINKINFO => {
                let mut inside = attributes(value);
                let kind = inside.find(|(kind, _)| *kind == libc::IFLA_INFO_KIND);
                interface.kind = kind.map(|(_, value)| text(value)).unwrap_or_default();
            }
            libc::IFLA_IFNAME => interface.name = text(value),
            libc::IFLA_OPERSTATE => interface.operational = value.first() == Some(&IF_OPER_UP),
            libc::IFLA_QDISC => interface.qdisc = text(value),
            libc::IFLA_ADDRESS => interface.mac = value.try_into().unwrap_or_default(),
            libc::IFLA_MTU => interface.mtu = number(value)?,
            libc::IFLA_NUM_RX_QUEUES => interface.rx_queues = number(value)?,
            libc::IFLA_NUM_TX_QUEUES => interface.tx_queues = number(value)?,
            libc::IFLA_XDP => {
                let (mut mode, mut program_id) = (XDP_ATTACHED_NONE, 0);
                for (kind, value) in attributes(value) {
                    match kind {
                        IFLA_XDP_ATTACHED => mode = value.first().copied().unwrap_or(0),
                        IFLA_XDP_PROG_ID => program_id = number(value)?,
                        _ => {}
                    }
                }
                interface.xdp = (mode != XDP_ATTACHED_NONE)
                    .then_some(XdpAttached { program_id, generic: mode == XDP_ATTACHED_SKB });
            }
            _ => {}
        }
    }
    if is_lower_elsewhere {
        interface.lower = None;
    }
    Some(interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_reply_is_no_interface() {
        assert_eq!(parse_link(&[0; 15]), None);
        assert!(parse_link(&[0; 16]).is_some());
        // An MTU attribute of two bytes instead of four.
        let mut body = vec![0; 16];
        body.extend_from_slice(&[6, 0, libc::IFLA_MTU as u8, 0, 1, 2]);
        assert_eq!(parse_link(&body), None);
    }
}
