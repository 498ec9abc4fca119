//! The other end of a connection within the host writes what it likes into the memory that both
//! map.

use std::sync::atomic::Ordering;

use crate::ends::{connected, pair, receive_text};
use crate::streams::{Daemon, LOCAL_PORTS};
use calisto_client::sockets::Errno;

#[test]
fn a_neighbour_that_writes_nonsense_breaks_its_connection_and_nothing_else() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let (socket, slot) = connected(&daemon, &session);
    daemon.deliver(slot, b"fine");
    assert_eq!(receive_text(&socket), "fine");
    for violation in [u64::MAX, 1 << 40, 3] {
        daemon.words(slot, |words| {
            words.rx_head.store(4, Ordering::Relaxed);
            words.rx_tail.store(violation, Ordering::Release);
        });
        assert!(!socket.readiness().is_empty());
        let result = socket.receive(&mut [0; 9]);
        assert!(result == Err(Errno::CONNRESET) || result == Ok(0), "{result:?}");
    }
    let (socket, slot) = connected(&daemon, &session);
    daemon.words(slot, |words| words.tx_ring.store(u64::MAX, Ordering::Release));
    assert!(socket.send(b"bytes").is_err());
    daemon.words(slot, |words| words.tx_head.store(99, Ordering::Release));
    assert!(socket.send(b"bytes").is_err());
}

#[test]
fn a_neighbour_that_writes_a_living_thread_into_a_lock_keeps_nobody_waiting_for_ever() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let (client, server) = pair(&session, LOCAL_PORTS.start + 70);
    let slot = client.key().1;
    // Process 1 lives for ever, and copies no bytes.
    daemon.local_words(slot, |words| words.tx_lock.store(1, Ordering::Release));
    assert_eq!(client.send(b"question"), Err(Errno::CONNRESET));
    assert!(client.is_over(), "the connection is over");
    assert!(client.send(b"question").is_err());
    daemon.local_words(slot.next(), |words| words.rx_lock.store(1, Ordering::Release));
    assert_eq!(server.receive(&mut [0; 9]), Err(Errno::CONNRESET));
}
