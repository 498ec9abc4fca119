//! What is a message and what is not.

use proptest::prelude::*;

use super::*;
use crate::fallback::FallbackReason;
use crate::message::{AttachRequest, Attached, CoresClass, CoresRequest, Detached, PortInfo};
use crate::reason::DetachReason;
use crate::sockets::{Call, JoinRequest, Profile, RegionKind, Reply, SocketsRequest, Streaming};

fn attach(fields: &str) -> Result<ToDaemon, String> {
    decode_to_daemon(format!(r#"{{"v":1,"attach":{{{fields}}}}}"#).as_bytes())
}

#[test]
fn the_messages_of_version_1_are_read() {
    let request = AttachRequest {
        name: "dns".into(),
        listen: vec!["udp:10.0.0.2:53".into()],
        workers: 2,
        frames: Some(512),
        frame_bytes: Some(2048),
        cores: Some(CoresRequest {
            guaranteed: 1,
            burst: Some(2),
            class: CoresClass::Latency,
            queue_delay_us: 20,
        }),
        features: 0,
    };
    let all = r#""name":"dns","listen":["udp:10.0.0.2:53"],"workers":2,"frames":512,"frame_bytes":2048,"cores":{"guaranteed":1,"burst":2,"class":"latency","queue_delay_us":20},"features":0"#;
    assert_eq!(attach(all), Ok(ToDaemon::Attach(request.clone())));
    let few = attach(r#""name":"dns","listen":["udp:10.0.0.2:53"],"workers":2"#);
    assert_eq!(
        few,
        Ok(ToDaemon::Attach(AttachRequest {
            frames: None,
            frame_bytes: None,
            cores: None,
            ..request
        }))
    );

    let text = r#"{"v":1,"attached":{"id":3,"workers":2,"ports":[{"port":"xdp:eth1","mac":"02:00:00:0a:0B:ff","mtu":1500},{"port":"pcap","mac":null,"mtu":65535}],"on_granted_cores":true,"features":0}}"#;
    let port =
        PortInfo { port: "xdp:eth1".into(), mac: Some([2, 0, 0, 0x0a, 0x0b, 0xff]), mtu: 1500 };
    let capture = PortInfo { port: "pcap".into(), mac: None, mtu: 65535 };
    let attached = Attached {
        id: 3,
        workers: 2,
        ports: vec![port, capture],
        on_granted_cores: true,
        features: 0,
    };
    assert_eq!(decode_to_app(text.as_bytes()), Ok(ToApp::Attached(attached)));

    let text = r#"{"v":1,"detached":{"reason":"stalled","message":"too slow"}}"#;
    let detached = Detached { reason: DetachReason::Stalled, message: "too slow".into() };
    assert_eq!(decode_to_app(text.as_bytes()), Ok(ToApp::Detached(detached)));
    let text = r#"{"v":1,"refused":{"message":"no"}}"#;
    assert_eq!(decode_to_app(text.as_bytes()), Ok(ToApp::Refused { message: "no".into() }));
}

#[test]
fn the_messages_of_sockets_mode_are_read() {
    let token = "00112233445566778899aabbccddeeff";
    let stream = SocketsRequest {
        name: "redis".into(),
        profile: Profile::Throughput,
        features: 0,
        token_before: None,
    };
    let join = JoinRequest { app: 3, token: token.into() };
    let remote = "[2001:db8::1]:443".parse().expect("an address");
    let call = |call| ToDaemon::Call { id: 7, call };
    let said = [
        (r#""stream":{"name":"redis","profile":"throughput"}"#, ToDaemon::Stream(stream)),
        (r#""join":{"app":3,"token":"00112233445566778899aabbccddeeff"}"#, ToDaemon::Join(join)),
        (r#""call":{"id":7,"call":"ear"}"#, call(Call::Poller)),
        (r#""call":{"id":7,"call":{"drop_ear":{"ear":2}}}"#, call(Call::DropPoller { poller: 2 })),
        (
            r#""call":{"id":7,"call":{"listen":{"backlog":511}}}"#,
            call(Call::Listen { backlog: 511 }),
        ),
        (
            r#""call":{"id":7,"call":{"connect":{"remote":"[2001:db8::1]:443"}}}"#,
            call(Call::Connect { remote }),
        ),
        (r#""call":{"id":7,"call":{"udp":{"remote":null}}}"#, call(Call::Udp { remote: None })),
        (r#""call":{"id":7,"call":"adopt"}"#, call(Call::Adopt)),
        (
            r#""call":{"id":7,"call":{"fallback":{"reason":"tcp_ulp"}}}"#,
            call(Call::Fallback { reason: FallbackReason::TcpUlp }),
        ),
    ];
    for (text, message) in said {
        assert_eq!(decode_to_daemon(format!(r#"{{"v":1,{text}}}"#).as_bytes()), Ok(message));
    }
    let streaming = Streaming {
        app: 3,
        region: 5,
        token: token.into(),
        ticket: "ff".repeat(16),
        pollers: 256,
        join_listener: None,
        features: 0,
    };
    let reply = |reply| ToApp::Reply { id: 7, reply };
    let answered = [
        (
            r#""streaming":{"app":3,"region":5,"token":"00112233445566778899aabbccddeeff","ticket":"ffffffffffffffffffffffffffffffff","ears":256}"#,
            ToApp::Streaming(streaming),
        ),
        (r#""reply":{"id":7,"reply":"done"}"#, reply(Reply::Done)),
        (
            r#""reply":{"id":7,"reply":{"slot":{"region":5,"slot":17}}}"#,
            reply(Reply::Slot { region: 5, slot: 17 }),
        ),
        (
            r#""reply":{"id":7,"reply":{"kernel":{"reason":"no_route_here"}}}"#,
            reply(Reply::Kernel { reason: FallbackReason::NoRouteHere }),
        ),
        (r#""reply":{"id":7,"reply":{"errno":{"errno":111}}}"#, reply(Reply::Errno { errno: 111 })),
        (
            r#""reply":{"id":7,"reply":{"region":{"kind":"junction","side":1}}}"#,
            reply(Reply::Region { kind: RegionKind::LocalPair, side: 1 }),
        ),
    ];
    for (text, message) in answered {
        assert_eq!(decode_to_app(format!(r#"{{"v":1,{text}}}"#).as_bytes()), Ok(message));
    }
}

#[test]
fn what_names_no_application_and_no_token_does_not_enter_sockets_mode() {
    let token = "0".repeat(31);
    for (text, part) in [
        (r#""stream":{"name":"a b"}"#.to_owned(), "letters"),
        (r#""stream":{"name":"a","profile":"fast"}"#.to_owned(), "no such message"),
        (format!(r#""join":{{"app":1,"token":"{token}"}}"#), "32 hexadecimal"),
        (format!(r#""join":{{"app":1,"token":"{token}x"}}"#), "32 hexadecimal"),
        (r#""call":{"id":1,"call":{"connect":{"remote":"here:80"}}}"#.to_owned(), "no such"),
    ] {
        let error = decode_to_daemon(format!(r#"{{"v":1,{text}}}"#).as_bytes()).expect_err(&text);
        assert!(error.contains(part), "{text}: {error}");
    }
    for word in ["latency", "throughput", "safe"] {
        assert_eq!(word.parse::<Profile>().map(|profile| profile.to_string()), Ok(word.to_owned()));
    }
    assert!("fast\n".parse::<Profile>().is_err_and(|why| why.contains("throughput")));
}

#[test]
fn what_a_later_release_adds_is_ignored() {
    let text = r#"{"when":[1,{"a":null}],"v":1,"attach":{"name":"a","workers":1,"mood":"good"}}"#;
    assert!(decode_to_daemon(text.as_bytes()).is_ok());
    let text = r#"{"v":1,"detached":{"reason":"moon_phase","message":"full"}}"#;
    let detached = Detached { reason: DetachReason::Other, message: "full".into() };
    assert_eq!(decode_to_app(text.as_bytes()), Ok(ToApp::Detached(detached)));
}

#[test]
fn another_version_is_refused_by_its_number_whatever_else_it_says() {
    for text in [r#"{"v":2,"attach":7}"#, r#"{"hello":[],"v":2}"#] {
        let error = decode_to_daemon(text.as_bytes()).expect_err("of another time");
        assert!(error.contains("version 2") && error.contains("only 1"), "{error}");
    }
}

#[test]
fn what_is_no_message_is_refused_with_a_sentence() {
    for text in ["", "{}", "[]", "{\"v\":1}", r#"{"v":1,"attached":{}}"#, r#"{"v":1,"attach":3}"#] {
        let error = decode_to_daemon(text.as_bytes()).expect_err(text);
        let is_said = error.contains("no message") || error.contains("no such message");
        assert!(is_said, "{text}: {error}");
    }
    let deep = "[".repeat(60_000);
    assert!(decode_to_daemon(deep.as_bytes()).is_err());
    let deep = format!(r#"{{"v":1,"x":{}"#, "[".repeat(60_000));
    assert!(decode_to_daemon(deep.as_bytes()).is_err());
}

#[test]
fn a_sentence_about_a_message_is_short_and_harmless_whatever_it_repeats() {
    for text in [
        format!(r#"{{"v":"{}"}}"#, "x".repeat(60_000)),
        format!(r#"{{"v":1,"attach":"{}"}}"#, "\\u001b[2J\\n".repeat(5_000)),
    ] {
        let error = decode_to_daemon(text.as_bytes()).expect_err("no number");
        assert!(error.len() < 1000, "{error}");
        assert!(!error.contains(char::is_control), "{error:?}");
        assert!(encode(&ToApp::Refused { message: error }).is_some());
    }
}

#[test]
fn a_request_beyond_a_limit_is_refused_with_the_limit() {
    let long = "a".repeat(33);
    let cases = [
        (r#""name":"","workers":1"#.to_owned(), "1 to 32"),
        (format!(r#""name":"{long}","workers":1"#), "1 to 32"),
        (r#""name":"a\u001b[2J","workers":1"#.to_owned(), "letters"),
        (r#""name":"a","workers":0"#.to_owned(), "1 to 64"),
        (r#""name":"a","workers":65"#.to_owned(), "1 to 64"),
        (r#""name":"a","workers":1,"listen":["udp: 1"]"#.to_owned(), "printable"),
        (format!(r#""name":"a","workers":1,"listen":["{}"]"#, "u".repeat(129)), "128 printable"),
        (
            format!(r#""name":"a","workers":1,"listen":[{}"u"]"#, r#""u","#.repeat(64)),
            "64 addresses",
        ),
    ];
    for (fields, limit) in cases {
        let error = attach(&fields).expect_err(&fields);
        assert!(error.contains(limit), "{fields}: {error}");
    }
}

#[test]
fn a_message_too_long_for_the_socket_is_not_encoded() {
    let message = |bytes| ToApp::Refused { message: "x".repeat(bytes) };
    let room = MESSAGE_BYTES_MAX - r#"{"v":1,"refused":{"message":""}}"#.len();
    assert_eq!(encode(&message(room)).map(|text| text.len()), Some(MESSAGE_BYTES_MAX));
    assert!(encode(&message(room + 1)).is_none());
}

fn requests() -> impl Strategy<Value = AttachRequest> {
    let sizes = (1..=64_u32, any::<Option<u32>>(), any::<Option<u32>>(), any::<u64>());
    let listen = proptest::collection::vec("[!-~]{0,128}", 0..=64);
    ("[a-zA-Z0-9._-]{1,32}", listen, sizes).prop_map(|(name, listen, sizes)| {
        let (workers, frames, frame_bytes, features) = sizes;
        let cores = (features % 3 != 0).then(|| CoresRequest {
            guaranteed: features as u16,
            burst: frames.map(|frames| frames as u16),
            class: if workers < 9 { CoresClass::Batch } else { CoresClass::Latency },
            queue_delay_us: workers,
        });
        AttachRequest { name, listen, workers, frames, frame_bytes, cores, features }
    })
}

fn calls() -> impl Strategy<Value = Call> {
    let reasons = proptest::sample::select(FallbackReason::ALL);
    prop_oneof![
        Just(Call::Poller),
        any::<u32>().prop_map(|poller| Call::DropPoller { poller }),
        any::<u32>().prop_map(|backlog| Call::Listen { backlog }),
        any::<(u32, u32)>().prop_map(|(region, slot)| Call::Unlisten { region, slot }),
        any::<std::net::SocketAddr>().prop_map(|remote| Call::Connect { remote: plain(remote) }),
        any::<Option<std::net::SocketAddr>>()
            .prop_map(|remote| Call::Udp { remote: remote.map(plain) }),
        Just(Call::Adopt),
        any::<u32>().prop_map(|region| Call::Region { region }),
        reasons.prop_map(|reason| Call::Fallback { reason }),
    ]
}

/// A flow label is no part of an address as text.
fn plain(mut address: std::net::SocketAddr) -> std::net::SocketAddr {
    if let std::net::SocketAddr::V6(v6) = &mut address {
        v6.set_flowinfo(0);
    }
    address
}

fn replies() -> impl Strategy<Value = Reply> {
    let reasons = proptest::sample::select(FallbackReason::ALL);
    prop_oneof![
        any::<u32>().prop_map(|poller| Reply::Poller { poller }),
        Just(Reply::Done),
        any::<(u32, u32)>().prop_map(|(region, slot)| Reply::Slot { region, slot }),
        reasons.prop_map(|reason| Reply::Kernel { reason }),
        any::<i32>().prop_map(|errno| Reply::Errno { errno }),
        any::<u8>().prop_map(|side| Reply::Region { kind: RegionKind::App, side }),
    ]
}

fn answers() -> impl Strategy<Value = ToApp> {
    let port = (any::<String>(), any::<Option<[u8; 6]>>(), any::<u32>())
        .prop_map(|(port, mac, mtu)| PortInfo { port, mac, mtu });
    let attached =
        (any::<u32>(), any::<u32>(), proptest::collection::vec(port, 0..5), any::<u64>()).prop_map(
            |(id, workers, ports, features)| {
                let on_granted_cores = id % 2 == 0;
                ToApp::Attached(Attached { id, workers, ports, on_granted_cores, features })
            },
        );
    let detached = (1..10_u32, any::<String>()).prop_map(|(reason, message)| {
        let reason = DetachReason::from_number(reason).expect("not zero");
        ToApp::Detached(Detached { reason, message })
    });
    let refused = any::<String>().prop_map(|message| ToApp::Refused { message });
    let proofs = ("[0-9a-f]{32}", "[0-9a-f]{32}");
    let streaming = (any::<(u32, u32, u32, u64)>(), proofs).prop_map(|(numbers, proofs)| {
        let (app, region, pollers, features) = numbers;
        let (token, ticket) = proofs;
        let join_listener = None;
        ToApp::Streaming(Streaming { app, region, token, ticket, pollers, join_listener, features })
    });
    let reply = (any::<u64>(), replies()).prop_map(|(id, reply)| ToApp::Reply { id, reply });
    prop_oneof![attached, detached, refused, streaming, reply]
}

proptest! {
    #[test]
    fn a_request_survives_its_text(request in requests()) {
        let message = ToDaemon::Attach(request);
        let text = encode(&message).expect("the limits keep it short");
        prop_assert_eq!(decode_to_daemon(&text), Ok(message));
    }

    #[test]
    fn a_call_survives_its_text(id in any::<u64>(), call in calls()) {
        let message = ToDaemon::Call { id, call };
        let text = encode(&message).expect("short");
        prop_assert_eq!(decode_to_daemon(&text), Ok(message));
    }

    #[test]
    fn an_answer_survives_its_text(message in answers()) {
        let text = encode(&message).expect("short");
        prop_assert_eq!(decode_to_app(&text), Ok(message));
    }

    #[test]
    fn any_bytes_are_a_message_within_the_limits_or_a_sentence(bytes in any::<Vec<u8>>()) {
        prop_assert!(decode_to_daemon(&bytes).is_err_and(|sentence| !sentence.is_empty()));
        prop_assert!(decode_to_app(&bytes).is_err_and(|sentence| !sentence.is_empty()));
    }

    #[test]
    fn a_damaged_message_is_a_message_within_the_limits_or_a_sentence(
        request in requests(), at in any::<proptest::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut text = encode(&ToDaemon::Attach(request)).expect("the limits keep it short");
        let at = at.index(text.len());
        text[at] = byte;
        match decode_to_daemon(&text) {
            Ok(message) => prop_assert_eq!(message.check(), Ok(())),
            Err(sentence) => prop_assert!(!sentence.is_empty()),
        }
    }
}
