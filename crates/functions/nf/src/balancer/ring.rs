//! Maglev's ring: which server a flow goes to (D. E. Eisenbud et al., Maglev: A Fast and Reliable
//! Software Network Load Balancer, NSDI 2016, section 3.4).
//!
//! Every server fills places of the ring in an order of its own, in turn; a server that comes or
//! goes moves few places of the others.

use crate::track::hash_of;

/// Places of the ring: a prime, a hundred times as many as the servers of most services.
pub(super) const PLACES: usize = 65_537;
/// No server.
pub(super) const NONE: u16 = u16::MAX;

/// The ring of servers given by what each is called, as a number, and its weight: in each place the
/// index of a server. Without any that weighs something, [`NONE`].
pub(super) fn fill(servers: &[(u64, u32)]) -> Box<[u16]> {
    let mut ring: Box<[u16]> = vec![NONE; PLACES].into();
    let heaviest = servers.iter().map(|(_, weight)| *weight).max().unwrap_or(0);
    if heaviest == 0 {
        return ring;
    }
    struct Turn {
        place: usize,
        skip: usize,
        credit: u64,
    }
    // Known to everybody: two balancers are to agree without a word.
    let mut turns: Vec<Turn> = servers
        .iter()
        .map(|(name, _)| Turn {
            place: hash_of(0x6d61_676c, &[*name]) as usize % PLACES,
            skip: hash_of(0x6576_2d32, &[*name]) as usize % (PLACES - 1) + 1,
            credit: 0,
        })
        .collect();
    let mut filled = 0;
    loop {
        for (index, (turn, (_, weight))) in turns.iter_mut().zip(servers).enumerate() {
            // One that weighs half as much has every other turn.
            turn.credit += u64::from(*weight);
            if turn.credit < u64::from(heaviest) {
                continue;
            }
            turn.credit -= u64::from(heaviest);
            while ring[turn.place] != NONE {
                turn.place = (turn.place + turn.skip) % PLACES;
            }
            ring[turn.place] = index as u16;
            filled += 1;
            if filled == PLACES {
                return ring;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn when_a_server_goes_few_flows_of_the_others_move(
            names in prop::collection::hash_set(any::<u64>(), 2..40), gone: usize,
        ) {
            let servers: Vec<(u64, u32)> = names.into_iter().map(|name| (name, 1)).collect();
            let gone = gone % servers.len();
            let before = fill(&servers);
            let mut fewer = servers.clone();
            fewer[gone].1 = 0;
            let after = fill(&fewer);
            let moved = before.iter().zip(&after).filter(|(old, new)| old != new).count();
            let most = PLACES / servers.len() + PLACES / 100;
            prop_assert!(moved <= most + 1, "{} of {} moved, {} servers", moved, PLACES, servers.len());
            prop_assert!(after.iter().all(|server| usize::from(*server) != gone));
        }
    }

    #[test]
    fn each_server_has_its_share_by_weight() {
        let ring = fill(&[(11, 1), (12, 2), (13, 0), (14, 5)]);
        let share = |server: u16| ring.iter().filter(|place| **place == server).count();
        for (server, eighths) in [(0, 1), (1, 2), (2, 0), (3, 5)] {
            let expected = PLACES * eighths / 8;
            assert!(
                share(server).abs_diff(expected) <= PLACES / 100,
                "{server}: {}",
                share(server)
            );
        }
        assert!(fill(&[(1, 0)]).iter().all(|place| *place == NONE));
        assert!(fill(&[]).iter().all(|place| *place == NONE));
    }
}
