//! Tests of health checks, with servers that are real sockets.

mod turns;

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use super::*;

fn file(server: SocketAddrV4, check: &str) -> ChainFile {
    let text = format!(
        "name = \"c\"\n[[slice]]\nports = [\"xdp:a\"]\n[[function]]\nkind = \"balancer\"\n\
         [[function.services]]\naddress = \"192.0.2.80:80\"\n{check}\ncheck_seconds = 1\n\
         [[function.services.servers]]\naddress = \"{server}\"\n[[function]]\nkind = \"router\"\n"
    );
    ChainFile::parse(&text, "c.toml").expect("it is right")
}

fn listener() -> (TcpListener, SocketAddrV4) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    (listener, SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
}

/// Turns until the first change, a second of the checks' time each few milliseconds.
fn change(health: &mut Health, at: &mut u64) -> Option<bool> {
    let began = Instant::now();
    let mut seen = None;
    while seen.is_none() && began.elapsed() < Duration::from_secs(20) {
        *at += 50;
        health.turn(Nanos::from_millis(*at), |_, is_well| seen = Some(is_well));
        std::thread::sleep(Duration::from_millis(5));
    }
    seen
}

/// Answers each request with this until it is asked no more.
fn answering(listener: TcpListener, text: &'static str) {
    std::thread::spawn(move || {
        for stream in listener.incoming().take(50) {
            let Ok(mut stream) = stream else { continue };
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(text.as_bytes());
        }
    });
}

#[test]
fn the_checks_of_a_file_of_loopback_are_refused() {
    let text = file_text_with("127.0.0.1:80");
    let refused = ChainFile::parse(&text, "c.toml").expect_err("no host but this has it");
    assert!(refused.to_string().contains("an IPv4 address and a port"), "{refused}");
}

fn file_text_with(server: &str) -> String {
    format!(
        "name = \"c\"\n[[slice]]\nports = [\"xdp:a\"]\n[[function]]\nkind = \"balancer\"\n\
         [[function.services]]\naddress = \"192.0.2.80:80\"\n[[function.services.servers]]\n\
         address = \"{server}\"\n[[function]]\nkind = \"router\"\n"
    )
}

/// The health of one server on loopback.
fn health_of(server: SocketAddrV4, check: &str) -> Health {
    let mut health = Health::of(
        &file(SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 80), check),
        &Health::default(),
    );
    health.servers[0].address = server;
    health
}

#[test]
fn a_server_whose_port_closes_is_not_well_and_one_that_opens_it_again_is() {
    let (open, at) = listener();
    let mut health = health_of(at, "check = \"tcp\"");
    let mut now = 0;
    for _ in 0..40 {
        now += 100;
        health.turn(Nanos::from_millis(now), |_, _| panic!("it was well all the time"));
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(open);
    assert_eq!(change(&mut health, &mut now), Some(false));
    assert!(!health.is_well(0, 0));
    let again = Health::of(
        &file(SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 80), "check = \"tcp\""),
        &health,
    );
    assert!(again.is_well(0, 0), "nothing is known of that address");
    let _open = TcpListener::bind(at).expect("it is free again");
    assert_eq!(change(&mut health, &mut now), Some(true));
    assert!(health.is_well(0, 0));
}

#[test]
fn http_is_well_with_a_good_status_alone() {
    for (answer, expected) in [
        ("HTTP/1.1 503 Service Unavailable\r\n\r\n", Some(false)),
        ("SSH-2.0-OpenSSH_9.9\r\n", Some(false)),
        ("HTTP/1.1 204 No Content\r\n\r\n", None),
    ] {
        let (open, at) = listener();
        answering(open, answer);
        let mut health = health_of(at, "check = \"http\"\ncheck_path = \"/healthz\"");
        let mut now = 0;
        if expected.is_some() {
            assert_eq!(change(&mut health, &mut now), expected, "{answer}");
            continue;
        }
        health.servers[0].is_well = false;
        assert_eq!(change(&mut health, &mut now), Some(true), "{answer}");
    }
}
