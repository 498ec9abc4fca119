//! UDP sockets beside connected ones of the kernel: more of them than it can tell in time.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use attach::{Call, FallbackReason, Reply};
use port::xdp::Protocol;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::super::super::guards::destination;
use super::super::super::routes::Link;
use super::fixture::{Fixture, shared, slot, user};

const UDP: Call = Call::Udp { remote: None };

/// Sockets at one port for which the kernel takes many times as long as a look may.
const CROWD: usize = 12_000;

/// Connected sockets of this user at a port, and at own addresses that no other test has.
fn crowd(port: u16) -> Vec<OwnedFd> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    assert!(maximum.is_none_or(|most| most >= CROWD as u64 + 1000), "this test needs descriptors");
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("it is allowed");
    let connected = |number: usize| {
        let ip = [127, 77, (number >> 8) as u8, number as u8];
        let (socket, _) = shared((ip, port).into());
        rustix::net::connect(&socket, &SocketAddr::from(([127, 0, 0, 1], 9))).expect("a route");
        socket
    };
    (0..CROWD).map(connected).collect()
}

#[test]
fn more_connected_sockets_at_one_port_than_can_be_told_end_what_is_served_there_and_nothing_else() {
    const LOOPBACK: u32 = 1;
    let lo = Link { interface: LOOPBACK, port: base::PortId(0), mac: [0; 6] };
    let mut place = Fixture::with_links("", vec![lo]);
    let (mut process, _) = place.attach_as("resolver", user(1000)).expect("anybody may");
    let free = SocketAddr::from(([127, 0, 0, 1], 0));
    let [(first, crowded), (other, alone), (late, beside)] = [(); 3].map(|()| shared(free));
    let [at_crowd, at_other] = [crowded, alone].map(|at| destination(Protocol::Udp, at));
    slot(&place.call(&mut process, &UDP, Some(&first)));
    slot(&place.call(&mut process, &UDP, Some(&other)));
    assert!(place.claims.has(at_crowd) && place.claims.has(at_other));
    let sockets = crowd(crowded.port());
    let claims = |place: &Fixture| (place.claims.has(at_crowd), place.claims.has(at_other));
    let begun = std::time::Instant::now();
    while claims(&place) != (false, true) {
        assert!(begun.elapsed().as_secs() < 30, "{:?}", claims(&place));
        place.socket_table.tend(&mut place.claims, sys::clock::now());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // What comes now is served where the kernel can tell whose else the port is.
    let (another, _) = shared(crowded);
    let in_use = Reply::Kernel { reason: FallbackReason::PortInUse };
    assert_eq!(place.call(&mut process, &UDP, Some(&another)).reply, in_use);
    slot(&place.call(&mut process, &UDP, Some(&late)));
    assert!(place.claims.has(destination(Protocol::Udp, beside)));
    drop(sockets);
}
