//! How sockets end: in the middle of a move, with something left to say, or against the will of their application.

use super::*;

/// Has the slow side close a socket in order, or with a reset.
fn close(app: &App, slot: u32, is_abort: bool) {
    let generation = app.streams.server.generation(slot);
    app.front.command(&Command::Close { app: 5, slot, generation, is_abort });
}

#[test]
fn who_writes_after_it_has_ended_its_side_keeps_no_socket_alive() {
    let (mut bench, mut app) = bench(1, None);
    bench.turns(2);
    bench.talks(1);
    bench.turns(5);
    app.accept();
    let slot = app.accepted[0];
    app.ask(slot, Asks::SHUT_WRITE);
    bench.turns(3);
    app.words(slot).tx_tail.fetch_add(10, Ordering::Release);
    app.mark(slot);
    bench.turns(3);
    close(&app, slot, false);
    bench.turns(5);
    assert_eq!(app.streams.server.slots_taken(), 1, "the listener's");
}
