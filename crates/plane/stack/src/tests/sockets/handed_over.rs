//! Connections that a worker lets go, for the kernel to go on with.

use base::SlotId;

use super::*;

fn hand_over(app: &App, slot: SlotId) -> Vec<crate::Parcel> {
    let generation = app.streams.server.generation(slot);
    let number = app.streams.app;
    let request = LetGoRequest::default();
    app.command_queue.command(&Command::HandOver { app: number, slot, generation, request });
    app.command_queue.take_parcels()
}

#[test]
fn a_connection_that_is_handed_over_is_let_go_with_every_byte_and_its_peer_hears_nothing() {
    let (mut bench, app, flow, slot) = accepted();
    assert_eq!(bench.write(flow, b"read and unread"), 15);
    bench.turns(3);
    assert_eq!(app.read(slot, 9), b"read and ");
    assert_eq!(app.write(slot, b"written"), 7);
    app.command_queue.command(&Command::BeSilent);
    assert!(hand_over(&app, slot).is_empty(), "in the worker's turn");
    bench.turns(1);
    let mut parcels = app.command_queue.take_parcels();
    let parcel = parcels.pop().expect("one that was asked for");
    assert!(parcels.is_empty() && parcel.slot == slot);
    let let_go = parcel.connection.expect("it stood");
    let inherited = let_go.inherited();
    assert_eq!(inherited.unread, b"unread");
    assert!(b"written".ends_with(&inherited.queued), "{:?}", inherited.queued);
    assert!(!let_go.was_opened && !let_go.repair.has_peer_closed && !let_go.repair.is_shut);
    // Nobody answers its peer any more, whatever that says.
    bench.write(flow, b"more");
    bench.turns(50);
    assert!(bench.closed.is_empty(), "{:?}", bench.closed);
    assert_eq!(bench.count("resets_sent"), 0);
    assert!(bench.count("unanswered") > 0);
    assert!(app.streams.server.is_taken(slot), "its words are looked at still");
    let_go.give_back();
    assert_eq!(app.streams.server.heap().bytes(), 1 << 10, "the listener's backlog");
}

#[test]
fn one_that_is_over_or_another_sockets_is_not_handed_over() {
    let (mut bench, app, flow, slot) = accepted();
    let number = app.streams.app;
    let generation = app.streams.server.generation(slot).next();
    let request = LetGoRequest::default();
    app.command_queue.command(&Command::HandOver { app: number, slot, generation, request });
    bench.turns(3);
    assert!(app.command_queue.take_parcels().is_empty(), "no worker has it");
    bench.engine.abort(flow).expect("it lives");
    bench.turns(3);
    hand_over(&app, slot);
    bench.turns(3);
    let parcels = app.command_queue.take_parcels();
    let outcomes: Vec<_> =
        parcels.iter().map(|parcel| parcel.connection.as_ref().map(|_| ()).err()).collect();
    assert_eq!(outcomes, [Some(&tcp::NoRepair::Gone)]);
}

#[test]
fn a_request_that_was_taken_back_leaves_the_connection_as_it_is() {
    let (mut bench, app, flow, slot) = accepted();
    let (number, generation) = (app.streams.app, app.streams.server.generation(slot));
    let request = LetGoRequest::default();
    assert!(request.decide(), "nobody was first");
    app.command_queue.command(&Command::HandOver { app: number, slot, generation, request });
    bench.turns(3);
    assert!(app.command_queue.take_parcels().is_empty(), "nobody waits for one");
    assert_eq!(bench.write(flow, b"goes on"), 7);
    bench.turns(3);
    assert_eq!(app.read(slot, 7), b"goes on");
}
