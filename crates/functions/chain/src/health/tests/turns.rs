//! Whose turn it is.

use super::*;

/// A port of loopback that answers nobody: its backlog is full.
fn silent() -> (TcpListener, Vec<TcpStream>, SocketAddrV4) {
    let (listener, at) = listener();
    rustix::net::listen(&listener, 0).expect("it listens");
    // One more than the backlog: what comes now waits.
    let held = (0..4)
        .map(|_| begin(at).expect("it begins"))
        .inspect(|_| std::thread::sleep(Duration::from_millis(20)))
        .collect();
    (listener, held, at)
}

fn server(address: SocketAddrV4, number: usize) -> Server {
    Server {
        at: (number, 0),
        address,
        every: Nanos::from_secs(1),
        check: Check::Tcp,
        is_well: true,
        failures: 0,
        next: Nanos::ZERO,
        asked: None,
    }
}

#[test]
fn as_many_silent_servers_as_are_asked_at_once_keep_no_other_from_its_turn() {
    let (_listener, _held, quiet) = silent();
    let (gone, closed) = listener();
    drop(gone);
    let servers = (0..ASKED_MAX).map(|number| server(quiet, number)).collect();
    let mut health = Health { servers, ..Health::default() };
    health.servers.push(server(closed, ASKED_MAX));
    let mut was_found = false;
    for turn in 0..200 {
        let now = Nanos::from_millis(turn * 100);
        health.turn(now, |address, is_well| was_found |= address == closed && !is_well);
        let asked = health.servers.iter().filter(|one| one.asked.is_some()).count();
        assert!(asked <= ASKED_MAX, "{asked}");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(was_found, "it was never asked");
}

#[test]
fn servers_that_flap_are_put_in_force_once_a_second_with_their_services_alone() {
    let mut health = Health::default();
    health.changed.extend([3, 5]);
    let changed = health.take_changed(Nanos::from_secs(9)).expect("the first at once");
    assert_eq!(Vec::from_iter(changed), [3, 5]);
    health.changed.insert(4);
    assert_eq!(health.take_changed(Nanos::from_millis(9999)), None);
    let next = Health::of(&file(SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 80), ""), &health);
    let mut next = next;
    assert!(next.take_changed(Nanos::from_secs(10)).is_some(), "a reload forgets none");
    assert_eq!(next.take_changed(Nanos::from_secs(20)), None);
}
