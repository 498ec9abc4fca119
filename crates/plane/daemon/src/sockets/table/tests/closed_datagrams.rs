//! UDP sockets whose programs have closed them, before any worker has heard of it.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use attach::{Call, FallbackReason, Reply};
use base::SlotId;
use port::xdp::Protocol;
use shm::sockets::Asks;

use super::super::super::guards::destination;
use super::super::super::routes::Link;
use super::fixture::{Fixture, Process, shared, slot};

const UDP: Call = Call::Udp { remote: None };

fn close(process: &Process, slot: SlotId) {
    let words = process.memory.slot(slot).expect("the daemon has lent it");
    words.asks.fetch_or(Asks::CLOSE, Ordering::Release);
}

#[test]
fn what_comes_for_a_closed_socket_is_the_kernels_or_the_next_ones_though_no_worker_has_heard() {
    const LOOPBACK: u32 = 1;
    let lo = Link { interface: LOOPBACK, port: base::PortId(0), mac: [0; 6] };
    let mut place = Fixture::with_links("", vec![lo]);
    let (mut process, _) = place.attach("resolver").expect("anybody may");
    let (first, at) = shared(SocketAddr::from(([127, 0, 0, 1], 0)));
    let taken = destination(Protocol::Udp, at);
    let (_, first_slot) = slot(&place.call(&mut process, &UDP, Some(&first)));
    assert!(place.claims.has(taken));
    close(&process, first_slot);
    let reason = FallbackReason::UnsupportedOption;
    place.call(&mut process, &Call::Fallback { reason }, Some(&first));
    assert!(!place.claims.has(taken), "the kernel has it from the answer on");
    let again = place.call(&mut process, &UDP, Some(&first));
    let busy = Reply::Kernel { reason: FallbackReason::DaemonBusy };
    assert_eq!(again.reply, busy, "what it has written has not left");
    // The next one at the port is served at once, and so is the one after it.
    let (second, _) = shared(at);
    let (_, second_slot) = slot(&place.call(&mut process, &UDP, Some(&second)));
    let (third, _) = shared(at);
    let in_use = Reply::Kernel { reason: FallbackReason::PortInUse };
    assert_eq!(place.call(&mut process, &UDP, Some(&third)).reply, in_use);
    close(&process, second_slot);
    slot(&place.call(&mut process, &UDP, Some(&third)));
    assert!(place.claims.has(taken));
}
