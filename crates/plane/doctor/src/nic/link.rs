//! The link itself: up, and with packets that fit into a frame.

use super::{Context, NicFacts};
use crate::Finding;

/// XDP_PACKET_HEADROOM of linux/bpf.h: what the kernel keeps before each packet.
const HEADROOM_BYTES: u32 = 256;
/// Ethernet header and two VLAN tags (IEEE 802.1ad), on top of an MTU.
const LINK_BYTES: u32 = 22;
/// What drivers keep behind a packet of native XDP: skb_shared_info, on 64-bit machines.
const TAIL_BYTES: u32 = 320;

/// What that means.
pub(super) fn judge(facts: &NicFacts, context: &Context) -> Vec<Finding> {
    state(facts).into_iter().chain([mtu(facts, context)]).collect()
}

fn state(facts: &NicFacts) -> Option<Finding> {
    let name = &facts.name;
    let subject = format!("{name} link");
    if !facts.up {
        let finding = Finding::missing(subject, "is down").cost("no packet comes or goes");
        return Some(finding.mend(format!("ip link set dev {name} up")));
    }
    (!facts.running).then(|| {
        Finding::missing(subject, "has no carrier")
            .cost("no packet comes or goes")
            .mend("plug in the cable, or set up the other end")
    })
}

fn mtu(facts: &NicFacts, context: &Context) -> Finding {
    let NicFacts { name, mtu, .. } = facts;
    let frame = context.frame_bytes;
    let subject = format!("{name} mtu");
    let max = frame.saturating_sub(HEADROOM_BYTES + LINK_BYTES);
    let native_max = max.saturating_sub(TAIL_BYTES);
    if *mtu > max {
        Finding::worse(subject, format!("{mtu}: frames of {frame} bytes do not hold it"))
            .cost(format!(
                "an xdp port refuses to open over {max}, and native mode over {native_max}"
            ))
            .mend(format!("ip link set dev {name} mtu {native_max}"))
    } else if *mtu > native_max {
        Finding::note(subject, format!("{mtu}: frames of {frame} bytes hold it"))
            .cost(format!("most drivers refuse native XDP over {native_max}: generic mode then"))
            .mend(format!("ip link set dev {name} mtu {native_max}"))
    } else {
        Finding::fine(subject, format!("{mtu}: frames of {frame} bytes hold up to {max}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{context, ice};
    use super::*;
    use crate::Level;

    #[test]
    fn an_mtu_is_judged_by_the_frames() {
        let cases = [
            (1500, Level::Fine),
            (3498, Level::Fine),
            (3499, Level::Note),
            (3818, Level::Note),
            (3819, Level::Worse),
            (9000, Level::Worse),
        ];
        for (mtu, level) in cases {
            let findings = judge(&NicFacts { mtu, ..ice() }, &context());
            assert_eq!(findings[0].level, level, "{mtu}: {findings:?}");
        }
        let jumbo = judge(&NicFacts { mtu: 9000, ..ice() }, &context());
        assert_eq!(jumbo[0].mend.as_deref(), Some("ip link set dev eth1 mtu 3498"));
        let small = Context { frame_bytes: 2048, ..context() };
        assert_eq!(judge(&NicFacts { mtu: 2000, ..ice() }, &small)[0].level, Level::Worse);
    }

    #[test]
    fn a_link_that_is_down_or_without_carrier_comes_first() {
        let down = judge(&NicFacts { up: false, running: false, ..ice() }, &context());
        assert_eq!((down[0].level, down[0].what.as_str()), (Level::Missing, "is down"));
        let unplugged = judge(&NicFacts { running: false, ..ice() }, &context());
        assert_eq!(unplugged[0].what, "has no carrier");
        assert!(!down[0].blocks_ports, "another interface may be up");
    }
}
