//! What the kernel knows of neighbours, in namespaces of our own.

use std::os::fd::AsFd;

use base::Nanos;

use super::*;
use crate::net_changes::NetChanges;
use crate::testing::{in_pair_of_namespaces, ip};
use crate::{clock, interface, poll};

fn at(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn veth0() -> u32 {
    interface::index_of("veth0").expect("it was made")
}

/// veth0 with an address of both families on both ends; `work` gets the other end's link address.
fn with_neighbour(work: impl FnOnce([u8; 6]) + Send + 'static) {
    in_pair_of_namespaces(|far| {
        ip("addr add 10.1.0.1/24 dev veth0");
        ip("addr add fd01::1/64 dev veth0 nodad");
        let mac = far.within(|| {
            ip("addr add 10.1.0.2/24 dev veth0");
            ip("addr add fd01::2/64 dev veth0 nodad");
            interface::by_name("veth0").expect("it was made").mac
        });
        work(mac.expect("root may enter"));
    });
}

/// What is known of `neighbour` once `wanted` holds of it, or after ten seconds.
fn once(neighbour: IpAddr, wanted: impl Fn(&Neighbour) -> bool) -> Option<Neighbour> {
    let end = clock::now() + Nanos::from_secs(10);
    loop {
        let known = lookup(veth0(), neighbour).expect("veth0 is there");
        if known.as_ref().is_some_and(&wanted) || clock::now() > end {
            return known;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn a_neighbour_that_nobody_asked_for_is_resolved_when_we_do_and_its_news_is_told() {
    with_neighbour(|mac| {
        for neighbour in [at("10.1.0.2"), at("fd01::2")] {
            assert_eq!(lookup(veth0(), neighbour), Ok(None));
            let mut changes = NetChanges::watch().expect("rtnetlink is there");
            resolve(veth0(), neighbour).expect("we are root");
            let fresh = Neighbour { state: NeighbourState::Fresh, mac: Some(mac) };
            let mut known = None;
            while known != Some(fresh) {
                assert!(poll::wait_readable(changes.as_fd(), Nanos::from_secs(10)), "{known:?}");
                let _ = changes.take();
                known = lookup(veth0(), neighbour).expect("veth0 is there");
                if known.is_some_and(|known| known.state == NeighbourState::Failed) {
                    // The kernel has asked three times, and the other end had no processor.
                    resolve(veth0(), neighbour).expect("we are root");
                }
            }
            assert_eq!(fresh.usable_mac(), Some(mac));
        }
    });
}

#[test]
fn a_neighbour_that_does_not_answer_fails_and_is_asked_again() {
    with_neighbour(|_mac| {
        let probe_again_after = |millis| {
            let file = "/proc/sys/net/ipv4/neigh/veth0/retrans_time_ms";
            std::fs::write(file, millis).expect("root may");
        };
        let nobody = at("10.1.0.77");
        for _ in 0..2 {
            // Time enough to see that it is being asked, and then no time to lose.
            probe_again_after("1000");
            resolve(veth0(), nobody).expect("we are root");
            let known = lookup(veth0(), nobody).expect("veth0 is there").expect("it was asked for");
            assert_eq!(known, Neighbour { state: NeighbourState::Incomplete, mac: None });
            probe_again_after("10");
            let known = once(nobody, |known| known.state == NeighbourState::Failed);
            let known = known.expect("it was asked for");
            assert_eq!((known.state, known.usable_mac()), (NeighbourState::Failed, None));
        }
    });
}

#[test]
fn a_stale_neighbour_is_usable_and_made_fresh() {
    with_neighbour(|mac| {
        std::fs::write("/proc/sys/net/ipv4/neigh/veth0/delay_first_probe_time", "0")
            .expect("root may");
        let neighbour = at("10.1.0.2");
        let [a, b, c, d, e, f] = mac;
        let text = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
        ip(&format!("neigh replace 10.1.0.2 lladdr {text} dev veth0 nud stale"));
        let known = lookup(veth0(), neighbour).expect("veth0 is there").expect("it was set");
        assert_eq!((known.state, known.usable_mac()), (NeighbourState::Stale, Some(mac)));
        resolve(veth0(), neighbour).expect("we are root");
        let known = once(neighbour, |known| known.state == NeighbourState::Fresh);
        assert_eq!(known, Some(Neighbour { state: NeighbourState::Fresh, mac: Some(mac) }));
    });
}

#[test]
fn an_entry_that_somebody_set_stays_what_it_is() {
    with_neighbour(|_mac| {
        ip("neigh add 10.1.0.9 lladdr 02:00:00:00:00:09 dev veth0 nud permanent");
        let fixed = Neighbour { state: NeighbourState::Fixed, mac: Some([2, 0, 0, 0, 0, 9]) };
        assert_eq!(lookup(veth0(), at("10.1.0.9")), Ok(Some(fixed)));
        resolve(veth0(), at("10.1.0.9")).expect("there is nothing to do");
        assert_eq!(lookup(veth0(), at("10.1.0.9")), Ok(Some(fixed)));
    });
}

#[test]
fn an_interface_that_is_none_is_an_error() {
    let error = resolve(4711, at("10.1.0.9")).expect_err("there is none");
    assert_eq!(error.errno(), Errno::NODEV);
    assert!(lookup(4711, at("10.1.0.9")).is_err());
}

#[test]
fn a_message_that_is_cut_or_names_nobody_is_no_neighbour() {
    assert_eq!(parse(&[0; 11]), None);
    assert_eq!(parse(&[0; 12]), None);
    let body = [&[0; 12][..], &[8, 0, libc::NDA_DST as u8, 0, 10, 1, 0, 2]].concat();
    let unknown = Neighbour { state: NeighbourState::Incomplete, mac: None };
    assert_eq!(parse(&body), Some((at("10.1.0.2"), unknown)));
}
