//! Programs that do to their sockets what they should not: the daemon and all others go on.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use attach::{Link, Profile, SocketsRequest, ToDaemon};
use rustix::process::Signal;
use shm::sockets::SlotState;
use whole::{Accelerated, FIELDS, KernelTcp, Random, StreamLiar, looks_like_linux, wait_for};

const PYTHON: &str = "/usr/bin/python3";

#[test]
fn nonsense_in_every_word_of_a_socket_harms_nobody_else() {
    let accelerated = Accelerated::start();
    let remote = SocketAddr::from((accelerated.there().ipv4(), 7));
    let _echo = KernelTcp::echo(accelerated.there(), remote);
    for (name, write) in FIELDS {
        for value in [0, 1, 0x8000_0000, u64::MAX, u64::MAX >> 1, 0x0123_4567_89ab_cdef] {
            let liar = StreamLiar::connect(&accelerated, remote);
            wait_for("a connection", || {
                let state = liar.words().state();
                if state.has(SlotState::CONNECTED) { Ok(()) } else { Err(format!("{state:?}")) }
            });
            write(liar.words(), value);
            liar.ring();
            // It goes on lying for as long as it is there.
            write(liar.words(), !value);
            liar.ring();
            let alive = accelerated.daemon().calisto("stats");
            assert!(!alive.is_empty(), "after {value:#x} in {name}");
        }
    }
    accelerated.others_are_served();
    accelerated.nothing_is_left();
}

#[test]
fn a_program_that_goes_before_it_has_heard_the_answer_leaves_nothing() {
    let accelerated = Accelerated::start();
    // Until it is stopped it could answer in time.
    accelerated.daemon().signal(Signal::STOP);
    for number in 0..20 {
        let link = Link::connect(&accelerated.daemon().apps_socket()).expect("it listens");
        let (name, profile) = (format!("hasty-{number}"), Profile::Safe);
        let request = SocketsRequest { name, profile, features: 0, token_before: None };
        link.send(&ToDaemon::Stream(request)).expect("it reads");
    }
    accelerated.daemon().signal(Signal::CONT);
    // It has heard them all before whoever comes later.
    accelerated.others_are_served();
    accelerated.nothing_is_left();
}

/// A word that looks like one of those that are there, as often as it looks like nothing.
fn word(random: &mut Random) -> u64 {
    let word = random.any();
    match word % 5 {
        0 => 0,
        1 => u64::MAX,
        2 => word >> 58,
        3 => word >> 32,
        _ => word,
    }
}

/// A program with one socket overwrites all that it shares, again and again, while others talk to
/// it.
fn nonsense_everywhere(start: fn(&Accelerated, SocketAddr) -> StreamLiar, is_caller: bool) {
    // Little memory, so that it is soon overwritten.
    let limits = "[[tenant]]\nuid = \"*\"\nconnections = 64\nmemory_mib = 8\n";
    let accelerated = Accelerated::with(limits);
    let remote = SocketAddr::from((accelerated.there().ipv4(), 7));
    let _echo = KernelTcp::echo(accelerated.there(), remote);
    for seed in 0..10 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        // The port of the one before may take a moment to come back.
        let here = SocketAddr::from((accelerated.here().ipv4(), 9000 + seed as u16));
        let liar = start(&accelerated, if is_caller { remote } else { here });
        for _ in 0..3 {
            // Whether anything comes of it is not asked.
            let call = || {
                let caller = UdpSocket::bind("0.0.0.0:0").expect("a port is free");
                let _ = caller.send_to(&[7; 1000], here);
                (!is_caller).then(|| TcpStream::connect_timeout(&here, Duration::from_millis(20)))
            };
            let _caller = accelerated.there().enter(call).expect("the namespace is there");
            liar.overwrite(|| word(&mut random));
            liar.ring();
            assert!(!accelerated.daemon().calisto("stats").is_empty());
        }
    }
    accelerated.others_are_served();
    accelerated.nothing_is_left();
}

#[test]
fn nonsense_in_all_memory_around_a_connection_harms_nobody_else() {
    nonsense_everywhere(StreamLiar::connect, true);
}

#[test]
fn nonsense_in_all_memory_around_a_listener_harms_nobody_else() {
    nonsense_everywhere(StreamLiar::listen, false);
}

#[test]
fn nonsense_in_all_memory_around_a_udp_socket_harms_nobody_else() {
    nonsense_everywhere(StreamLiar::datagrams, false);
}

#[test]
fn a_program_may_close_every_descriptor_and_go_on() {
    looks_like_linux("close_all");
}

#[test]
fn a_program_that_leaks_descriptors_takes_only_its_own() {
    let accelerated = Accelerated::start();
    let remote = SocketAddr::from((accelerated.there().ipv4(), 7));
    let _echo = KernelTcp::echo(accelerated.there(), remote);
    let leak = "import resource, socket, sys\n\
        resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))\n\
        kept = []\n\
        try:\n\
        \x20   while True: kept.append(socket.create_connection((sys.argv[1], 7)))\n\
        except OSError as error: print(error.errno, len(kept) > 200, flush=True)\n";
    let host = remote.ip().to_string();
    let said = accelerated.run(&[PYTHON, "-c", leak, &host]).succeed();
    // EMFILE.
    assert_eq!(said, "24 True\n");
    accelerated.others_are_served();
    accelerated.all_was_accelerated();
    accelerated.nothing_is_left();
}

#[test]
fn a_program_that_fills_all_buffers_and_reads_nothing_stops_at_its_own_limit() {
    let accelerated = Accelerated::with("[[tenant]]\nuid = \"*\"\nmemory_mib = 8\n");
    let remote = SocketAddr::from((accelerated.there().ipv4(), 7));
    let _echo = KernelTcp::echo(accelerated.there(), remote);
    let fill = "import socket, sys, time\n\
        kept = [socket.create_connection((sys.argv[1], 7)) for _ in range(50)]\n\
        text = bytes(1 << 16)\n\
        for one in kept: one.setblocking(False)\n\
        quiet = 0\n\
        while quiet < 20:\n\
        \x20   quiet += 1\n\
        \x20   for one in kept:\n\
        \x20       try:\n\
        \x20           while one.send(text): quiet = 0\n\
        \x20       except BlockingIOError: pass\n\
        \x20   time.sleep(0.01)\n\
        print('full', flush=True)\n\
        time.sleep(60)\n";
    let host = remote.ip().to_string();
    let mut program = accelerated.run(&[PYTHON, "-c", fill, &host]);
    program.wait_until_it_says("full");
    let used = accelerated.daemon().counter("tcp_ring_bytes");
    assert!(used <= 8 << 20, "{used} bytes of rings");
    program.kill();
    accelerated.others_are_served();
    accelerated.nothing_is_left();
}
