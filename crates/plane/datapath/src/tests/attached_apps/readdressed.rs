//! A port whose link address changes under applications.

use super::*;

#[test]
fn what_an_application_sends_leaves_with_the_link_address_that_its_port_has_by_then() {
    const NEW_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
    const OVER_IT: [u8; 6] = [2, 0, 0, 0, 0, 10];
    let mut harness = Harness::new();
    let mut app = harness.attach(&["udp:10.0.0.2:53"], 1);
    let [own, peer] = ["10.0.0.2:53", "10.0.0.1:9"].map(|text| text.parse().expect("an address"));
    let from = |mac: [u8; 6]| udp(mac, PEER_MAC, own, peer, &mac);
    app.send(&from(NEW_MAC));
    harness.turn();
    assert_eq!(harness.count(app.id, DispatchEvent::Spoofed), 1, "it has no station yet");
    harness.dispatcher.ports()[0].stations().set(NEW_MAC, &[OVER_IT]);
    // It was told the first, has seen the second in packets to it, and the third too.
    for mac in [OUR_MAC, NEW_MAC, OVER_IT] {
        app.send(&from(mac));
    }
    harness.turn();
    let came = harness.frames();
    let part = |from: usize| came.iter().map(move |frame| &frame[from..from + 6]);
    assert!(part(42).eq([OUR_MAC, NEW_MAC, OVER_IT]), "what each says");
    assert!(part(6).eq([NEW_MAC, NEW_MAC, OVER_IT]), "and where it comes from");
    app.send(&from(PEER_MAC));
    harness.turn();
    assert_eq!(harness.count(app.id, DispatchEvent::Spoofed), 2);
    assert!(harness.is_clean());
}
