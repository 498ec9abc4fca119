//! Packets through chains that run nowhere.

use wire::build::UdpPacket;

use super::*;

/// From a host inside to one outside.
const ENDS: [&str; 2] = ["10.1.0.2:4000", "198.51.100.7:80"];

fn udp([source, destination]: [&str; 2], payload: &[u8]) -> Vec<u8> {
    let end = |text: &str| text.parse().expect("a test writes ends that parse");
    let packet = UdpPacket {
        source_mac: [2, 9, 9, 9, 9, 9],
        destination_mac: [2, 9, 9, 9, 9, 1],
        source: end(source),
        destination: end(destination),
        payload,
        vlan: None,
    };
    let mut frame = vec![0; packet.len()];
    assert_eq!(packet.write(&mut frame), Some(frame.len()));
    frame
}

/// A chain of these functions before a router, between 10.1.0.1/24 and 198.51.100.1/24.
fn tracer(functions: &str) -> Tracer {
    let text = format!(
        "name = \"edge\"\n[[slice]]\nports = [\"xdp:no-in\", \"xdp:no-out\"]\n{functions}\n\
         [[function]]\nkind = \"router\"\n"
    );
    let file = ChainFile::parse(&text, "edge.toml").expect("it is right");
    let address = |port: &str, address: [u8; 4]| (port.to_owned(), IpAddr::from(address), 24);
    let place = Place {
        addresses: vec![address("no-in", [10, 1, 0, 1]), address("no-out", [198, 51, 100, 1])],
        ..Place::default()
    };
    Tracer::new(&file, Path::new(""), &place).expect("no machine is asked")
}

fn traced(tracer: &mut Tracer, packet: &[u8]) -> Trace {
    let now = Nanos::from_secs(1) + Nanos::from_millis(tracer.traced);
    tracer.trace(packet, None, now).expect("it fits")
}

/// Place, function and counters of each step.
fn steps(way: &Way) -> Vec<String> {
    let counters = |step: &Step| {
        step.counters
            .iter()
            .map(|moved| format!(" {} {}", moved.name, moved.by))
            .collect::<String>()
    };
    way.steps
        .iter()
        .map(|step| format!("{} {}{}", step.place, step.function, counters(step)))
        .collect()
}

/// Source and destination when it leaves.
fn left(way: &Way) -> String {
    let last = way.steps.iter().rev().find_map(|step| step.packet.as_ref());
    let text = last.unwrap_or(&way.packet).to_string();
    text.split_once(" udp").map_or(text.clone(), |(ends, _)| ends.to_owned())
}

#[test]
fn each_function_is_named_with_what_it_decided_counted_and_changed() {
    let mut tracer = tracer(
        "[[function]]\nkind = \"nat\"\noutside = [\"no-out\"]\naddresses = [\"198.51.100.9\"]\n\
         [[function]]\nkind = \"acl\"\n[[function.rules]]\naction = \"permit\"\nprotocol = \"udp\"\n",
    );
    let trace = traced(&mut tracer, &udp(ENDS, b"hello"));
    assert_eq!((trace.port.as_str(), trace.is_taken), ("no-in", Some(true)));
    let [first, second] = &trace.ways[..] else { panic!("{trace:?}") };
    assert_eq!(steps(first), ["1 nat", "2 acl permitted 1 rule_1 1", "3 router held 1"]);
    assert_eq!((&first.end, first.asked.len()), (&End::Waits, 1));
    let of_nat = "1 nat outbound 1 opened 1 connections 1 mappings 1 subscribers 1";
    assert_eq!(steps(second), ["3 router forwarded 1", of_nat]);
    assert_eq!(second.end, End::Leaves("no-out".to_owned()));
    let after = left(second);
    let (source, destination) = after.split_once(" > ").expect("two ends");
    assert!(source.starts_with("198.51.100.9:") && destination == ENDS[1], "{after}");
    // What comes back belongs to what has gone: the packets share the chain's memory.
    let trace = traced(&mut tracer, &udp([ENDS[1], source], b"hello yourself"));
    assert_eq!(trace.port, "no-out");
    let last = trace.ways.last().expect("a way");
    assert_eq!(left(last), format!("{} > {}", ENDS[1], ENDS[0]));
    assert_eq!(last.end, End::Leaves("no-in".to_owned()));
    // And a stranger's packet does not.
    let trace = traced(&mut tracer, &udp(["198.51.100.8:80", "198.51.100.9:9"], b"who are you"));
    assert_eq!(trace.ways[0].end, End::Dropped("nat".to_owned()), "{trace:?}");
}

#[test]
fn the_rule_that_drops_a_packet_is_named_and_no_later_function_is() {
    let mut tracer = tracer(
        "[[function]]\nkind = \"acl\"\ndefault = \"permit\"\n[[function.rules]]\naction = \"deny\"\n\
         destination_port = 80\n",
    );
    let trace = traced(&mut tracer, &udp(ENDS, b"hello"));
    let [way] = &trace.ways[..] else { panic!("{trace:?}") };
    assert_eq!(steps(way), ["1 acl denied 1 rule_1 1"]);
    assert_eq!(way.end, End::Dropped("acl".to_owned()));
    let help = &way.steps[0].counters[1].help;
    assert!(help.contains("deny") && help.contains("port 80"), "{help}");
}

#[test]
fn what_the_chain_does_not_take_is_the_kernels() {
    let mut tracer = tracer("");
    let trace = traced(&mut tracer, &udp([ENDS[0], "10.1.0.1:22"], b"to the router itself"));
    assert_eq!((trace.is_taken, trace.ways.len()), (Some(false), 0));
    assert!(trace.filter.is_some_and(|filter| filter.contains("10.1.0.1")));
}

#[test]
fn pieces_of_a_packet_have_ways_of_their_own() {
    let mut tracer = tracer("");
    let mut long = udp(ENDS, &[7; 3000]);
    // It may be cut.
    long[20] = 0;
    long[24..26].fill(0);
    let sum = wire::checksum::of(&long[14..34]);
    long[24..26].copy_from_slice(&sum.to_be_bytes());
    // Its neighbour is known then: what is so long does not wait for one.
    traced(&mut tracer, &udp(ENDS, b"hello"));
    let trace = traced(&mut tracer, &long);
    let ends: Vec<&End> = trace.ways.iter().map(|way| &way.end).collect();
    let out = End::Leaves("no-out".to_owned());
    assert_eq!(ends, [&out, &out, &out], "{trace:?}");
    let offset = |way: &Way| way.packet.ip.as_ref().and_then(|ip| ip.fragment);
    assert_eq!([offset(&trace.ways[1]), offset(&trace.ways[2])], [Some(1480), Some(2960)]);
    assert_eq!(tracer.pool.outstanding(), 0, "every frame has come home");
}

#[test]
fn an_answer_to_the_sender_is_shown_as_what_the_packet_became() {
    let mut tracer = tracer("");
    let mut packet = udp(ENDS, b"hello");
    packet[22] = 1;
    packet[24..26].fill(0);
    let sum = wire::checksum::of(&packet[14..34]);
    packet[24..26].copy_from_slice(&sum.to_be_bytes());
    let trace = traced(&mut tracer, &packet);
    let way = &trace.ways[0];
    assert_eq!(steps(way), ["1 router expired 1 icmp_sent 1"]);
    assert_eq!(way.end, End::Leaves("no-in".to_owned()));
    let became = way.steps[0].packet.as_ref().and_then(|packet| packet.ip.as_ref());
    assert_eq!(became.and_then(|ip| ip.icmp), Some((11, 0)));
}

#[test]
fn whatever_comes_is_traced_and_no_frame_is_lost() {
    let mut tracer = tracer(
        "[[function]]\nkind = \"firewall\"\n[[function]]\nkind = \"policer\"\n[[function.classes]]\n\
         rate_mbit = 100\n",
    );
    let packet = udp(ENDS, b"hello");
    for len in 0..packet.len() {
        for bit in 0..8 {
            let mut cut = packet[..=len].to_vec();
            cut[len] ^= 1 << bit;
            let _ = traced(&mut tracer, &cut);
        }
    }
    assert_eq!(tracer.pool.outstanding(), 0);
    assert_eq!(tracer.trace(&[0; 9000], None, Nanos::from_secs(9)).err(), Some(4096 - 256));
}
