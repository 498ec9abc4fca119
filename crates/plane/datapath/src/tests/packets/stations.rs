//! Frames to link addresses of others, of groups and of nobody, on a port that hears everything.

use super::*;

const OTHER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 3];

/// Ports that hear frames of others, as all real ones do.
fn on_shared_link() -> Bench<Echo> {
    let wire = WireConfig { hears_others: true, ..WireConfig::default() };
    Bench::over(wire, "sticky", 64, vec![Echo], |_| ())
}

fn to(mac: [u8; 6], mut frame: Vec<u8>) -> Vec<u8> {
    frame[..6].copy_from_slice(&mac);
    frame
}

#[test]
fn a_frame_to_another_host_is_dropped_and_counted_whatever_is_in_it() {
    let mut bench = on_shared_link();
    let last_byte = [OUR_MAC[0], 0, 0, 0, 0, 0x82];
    let first_byte = [0x82, 0, 0, 0, 0, OUR_MAC[5]];
    let frames = [OTHER_MAC, CLIENT_MAC, [0; 6], last_byte, first_byte];
    let frames = frames.map(|mac| to(mac, request(b"not for us")));
    assert_eq!(bench.exchange(&frames), [[0u8; 0]; 0]);
    assert_eq!(bench.count(DispatchEvent::OtherHost), 5);
    let tagged = udp("10.0.0.1:5000", "10.0.0.2:7", b"tagged", Some(7));
    let garbage = to(OTHER_MAC, vec![0xaa; 60]);
    assert_eq!(bench.exchange(&[to(OTHER_MAC, tagged), garbage]).len(), 0);
    assert_eq!(bench.count(DispatchEvent::OtherHost), 7);
    assert_eq!(bench.exchange(&[request(b"for us")]).len(), 1);
    assert_eq!(bench.count(DispatchEvent::OtherHost), 7);
    bench.assert_all_home();
}

#[test]
fn a_frame_to_a_group_or_everybody_serves_no_flow_and_is_no_other_hosts() {
    let mut bench = on_shared_link();
    let group = [1, 0, 0x5e, 0, 0, 1];
    let frames = [[0xff; 6], group].map(|mac| to(mac, request(b"for many")));
    assert_eq!(bench.exchange(&frames).len(), 0);
    assert_eq!(bench.count(NotOurs::Broadcast), 1);
    assert_eq!(bench.count(NotOurs::Multicast), 1);
    assert_eq!(bench.count(DispatchEvent::OtherHost), 0);
    bench.assert_all_home();
}

#[test]
fn questions_for_our_link_address_are_answered_unless_they_are_to_another_host() {
    let ask = |mac: [u8; 6]| {
        let mut frame = [&mac[..], &CLIENT_MAC].concat();
        frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        frame.extend(CLIENT_MAC);
        frame.extend([10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
        frame
    };
    let mut bench = on_shared_link();
    assert_eq!(bench.exchange(&[ask([0xff; 6]), ask(OUR_MAC), ask(OTHER_MAC)]).len(), 2);
    assert_eq!(bench.count(DispatchEvent::OtherHost), 1);
    bench.assert_all_home();
}

#[test]
fn a_frame_that_ends_in_its_header_is_malformed_and_not_another_hosts() {
    let mut bench = on_shared_link();
    let frames = [7, 8, 13].map(|bytes| to(OUR_MAC, request(b"cut"))[..bytes].to_vec());
    assert_eq!(bench.exchange(&frames).len(), 0);
    assert_eq!(bench.count(Malformed::EthernetTruncated), 3);
    assert_eq!(bench.exchange(&[OTHER_MAC[..].to_vec()]).len(), 0);
    assert_eq!(bench.count(Malformed::EthernetTruncated), 4);
    bench.assert_all_home();
}

#[test]
fn a_changed_link_address_is_ours_from_then_on_and_the_old_one_another_hosts() {
    let mut bench = on_shared_link();
    let stations = Arc::clone(bench.dispatcher.ports()[0].stations());
    assert_eq!(stations.set(OTHER_MAC, &[]), 0);
    assert_eq!(bench.exchange(&[request(b"to the old one")]).len(), 0);
    assert_eq!(bench.count(DispatchEvent::OtherHost), 1);
    let replies = bench.exchange(&[to(OTHER_MAC, request(b"to the new one"))]);
    assert_eq!(replies.len(), 1);
    assert_eq!(&replies[0][6..12], &OTHER_MAC, "it is the source of what leaves");
    assert_eq!(bench.dispatcher.ports()[0].mac(), OTHER_MAC);
    // A macvlan of the host, say, or the bridge that the port is in.
    assert_eq!(stations.set(OTHER_MAC, &[[6; 6], OUR_MAC]), 0);
    let frames = [OTHER_MAC, OUR_MAC, [6; 6]].map(|mac| to(mac, request(b"each")));
    assert_eq!(bench.exchange(&frames).len(), 3);
    assert_eq!(bench.count(DispatchEvent::OtherHost), 1);
    bench.assert_all_home();
}

#[test]
fn a_packet_of_our_own_names_no_host_of_the_link() {
    let mut bench = on_shared_link();
    let probe = to([0; 6], request(b"of our own"));
    assert!(bench.dispatcher.inject(|frame| frame.fill(&probe), bench.now));
    bench.turn();
    assert_eq!(bench.replies().len(), 1);
    assert_eq!(bench.count(DispatchEvent::OtherHost), 0);
    bench.assert_all_home();
}

#[test]
fn a_capture_or_a_wire_in_memory_brings_frames_to_whichever_address() {
    let mut bench = Bench::echo();
    assert_eq!(bench.exchange(&[to(OTHER_MAC, request(b"from a capture"))]).len(), 1);
    assert_eq!(bench.count(DispatchEvent::OtherHost), 0);
    bench.assert_all_home();
}
