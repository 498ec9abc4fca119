//! A port whose link address changes.

use super::*;

const NEW: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// The link addresses that a datagram and a segment of the application's leave with.
fn sources(bench: &mut Bench, app: &App, stream: SlotId, datagram: SlotId) -> Vec<[u8; 6]> {
    let remote = Some("10.0.0.1:9".parse().expect("an address"));
    let record = Record { payload: 0, remote, ..Record::default() };
    assert_eq!(app.write(datagram, &record.encode()), HEADER_BYTES);
    assert_eq!(app.write(stream, b"more"), 4);
    // Nobody acknowledges what left before, so that it leaves again.
    bench.pass_time(base::Nanos::from_secs(5));
    let left: Vec<_> = (0..3).flat_map(|_| bench.pass(Vec::new())).collect();
    assert_eq!(left.iter().map(|frame| frame[23]).filter(|it| *it == 17).count(), 1);
    assert!(left.iter().any(|frame| frame[23] == 6), "no segment");
    left.iter().map(|frame| frame[6..12].try_into().expect("six bytes")).collect()
}

#[test]
fn what_leaves_has_a_changed_link_address_before_anything_has_come_to_it() {
    let (mut bench, app, _, stream) = accepted();
    let datagram = datagrams(&app);
    bench.turns(2);
    bench.pass(vec![packet(9, b"?")]);
    let tell = |mac, mac_before| {
        let link = PortLink { port: base::PortId(0), interface: 3, mac, mac_before };
        app.command_queue.command(&Command::Interfaces([link].into()));
    };
    tell(OURS, None);
    bench.turns(2);
    let before = sources(&mut bench, &app, stream, datagram);
    assert!(before.iter().all(|mac| *mac == OURS), "{before:x?}");
    tell(NEW, Some(OURS));
    bench.turns(2);
    let after = sources(&mut bench, &app, stream, datagram);
    assert!(after.iter().all(|mac| *mac == NEW), "{after:x?}");
    // Said again, as with every socket that is bound, it is no change.
    tell(NEW, Some(OURS));
    bench.turns(2);
    let after = sources(&mut bench, &app, stream, datagram);
    assert!(after.iter().all(|mac| *mac == NEW), "{after:x?}");
    tell(OURS, Some(NEW));
    bench.turns(2);
    let back = sources(&mut bench, &app, stream, datagram);
    assert!(back.iter().all(|mac| *mac == OURS), "{back:x?}");
}
