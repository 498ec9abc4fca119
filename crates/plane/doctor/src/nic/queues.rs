//! Queues, how packets are spread over them, and how many they hold.

use std::collections::BTreeSet;

use super::NicFacts;
use crate::Finding;

/// A ring that holds fewer packets overflows while its reader is away for a time slice.
const RING_SMALL: u32 = 1024;

/// What that means.
pub(super) fn judge(facts: &NicFacts) -> Vec<Finding> {
    [Some(queues(facts)), spread(facts), udp(facts), rings(facts)].into_iter().flatten().collect()
}

fn queues(facts: &NicFacts) -> Finding {
    let name = &facts.name;
    let subject = format!("{name} queues");
    let rx = facts.queues.rx;
    let most = match facts.queues_max {
        Some(max) if max > rx => format!(" of {max}"),
        _ => String::new(),
    };
    if rx <= 1 {
        return Finding::fine(subject, format!("{rx}{most} for receiving"));
    }
    Finding::fine(
        subject,
        format!(
            "{rx}{most} for receiving: xdp:{name} takes all of them, xdp:{name}@0 the first alone"
        ),
    )
}

/// RSS matters where there are several queues.
fn spread(facts: &NicFacts) -> Option<Finding> {
    let name = &facts.name;
    let subject = format!("{name} rss");
    let rx = facts.queues.rx;
    if rx <= 1 {
        return None;
    }
    let Some(table) = &facts.rss_table else {
        return Some(
            Finding::note(subject, "cannot be read: the driver has no table")
                .cost("which queue gets a flow is the driver's choice, and may change"),
        );
    };
    let used: BTreeSet<u16> = table.iter().copied().collect();
    let count = used.len();
    Some(if (count as u32) < rx {
        Finding::note(subject, format!("uses {count} of {rx} queues"))
            .cost("ports of the other queues receive what rules send there, and nothing else")
            .mend(format!("ethtool -X {name} equal {rx}"))
    } else {
        Finding::fine(subject, format!("spreads over all {rx} queues ({} entries)", table.len()))
    })
}

fn udp(facts: &NicFacts) -> Option<Finding> {
    let name = &facts.name;
    (facts.queues.rx > 1 && facts.udp_ports_hashed == Some(false)).then(|| {
        Finding::worse(format!("{name} rss"), "spreads UDP by addresses only")
            .cost("all flows between two hosts arrive at one queue")
            .mend(format!("ethtool -N {name} rx-flow-hash udp4 sdfn"))
    })
}

fn rings(facts: &NicFacts) -> Option<Finding> {
    let (name, rings) = (&facts.name, facts.rings?);
    let subject = format!("{name} rings");
    let (rx, max) = (rings.rx, rings.rx_max);
    if rx == 0 {
        return None;
    }
    Some(if rx < RING_SMALL && max > rx {
        let wanted = max.min(2 * RING_SMALL);
        Finding::note(subject, format!("hold {rx} received packets, of {max} possible"))
            .cost("longer bursts are lost while the reader is away (ethtool -S counts them)")
            .mend(format!("ethtool -G {name} rx {wanted}"))
    } else {
        Finding::fine(subject, format!("hold {rx} received packets"))
    })
}

#[cfg(test)]
mod tests {
    use sys::ethtool::{Channels, Rings};

    use super::super::tests::{ice, veth};
    use super::*;
    use crate::Level;

    #[test]
    fn several_queues_are_told_with_the_ports_that_take_them() {
        let finding = &judge(&ice())[0];
        assert_eq!(finding.level, Level::Fine);
        let all = "16 of 128 for receiving: xdp:eth1 takes all of them";
        assert!(finding.what.starts_with(all), "{finding:?}");
        let one = NicFacts { queues: Channels { rx: 1, tx: 1 }, ..veth() };
        assert_eq!(judge(&one)[0].level, Level::Fine);
    }

    #[test]
    fn queues_that_the_table_leaves_out_are_counted() {
        let whole = NicFacts { rss_table: Some((0..2048).map(|n| n % 16).collect()), ..ice() };
        assert_eq!(judge(&whole)[1].level, Level::Fine);
        let half = NicFacts { rss_table: Some((0..2048).map(|n| n % 8).collect()), ..ice() };
        assert_eq!(judge(&half)[1].what, "uses 8 of 16 queues");
        assert_eq!(judge(&half)[1].mend.as_deref(), Some("ethtool -X eth1 equal 16"));
        let none = NicFacts { rss_table: None, ..ice() };
        assert_eq!(judge(&none)[1].level, Level::Note);
    }

    #[test]
    fn a_hash_without_ports_is_worse_where_there_are_queues_to_spread_over() {
        let facts = NicFacts { udp_ports_hashed: Some(false), ..ice() };
        let finding = judge(&facts).into_iter().find(|f| f.what.contains("addresses only"));
        assert_eq!(finding.expect("it is told").level, Level::Worse);
        let one = NicFacts { queues: Channels { rx: 1, tx: 1 }, ..facts };
        assert!(judge(&one).iter().all(|finding| finding.level == Level::Fine));
    }

    #[test]
    fn a_small_ring_is_told_when_it_could_be_larger() {
        let level = |rx, rx_max| {
            let facts = NicFacts { rings: Some(Rings { rx, rx_max }), ..ice() };
            judge(&facts).last().expect("rings come last").clone()
        };
        assert_eq!(level(256, 8160).mend.as_deref(), Some("ethtool -G eth1 rx 2048"));
        assert_eq!(level(256, 256).level, Level::Fine);
        assert_eq!(level(2048, 8160).level, Level::Fine);
    }
}
