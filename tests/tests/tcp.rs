//! TCP services of the data path, and Linux clients that check every byte.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testbed::{Side, Testbed, TestbedConfig};
use whole::{Daemon, TIMEOUT, Talks, bed, beside, read_chargen, run, wait_for};

/// A daemon at the server's end that serves `job` on port 7, IPv4 and IPv6.
fn service(bed: &Testbed, port: &str, job: &str, more: &str) -> Daemon {
    Daemon::start(bed.server(), &config(port, job, more))
}

/// A client that is away for a while is not taken for a loss.
fn config(port: &str, job: &str, more: &str) -> String {
    format!(
        "ports = [{port:?}]\nlisten = [\"tcp:10.77.0.2:7\", \"tcp:[fd77::2]:7\"]\n\
         [workers]\ncount = 2\njob = \"tcp-{job}\"\n{more}\n\
         [tcp]\nrto_min_ms = 2000\n"
    )
}

fn server(bed: &Testbed) -> SocketAddr {
    (bed.server().ipv4(), 7).into()
}

/// A connection from the client's end to port 7, with a bound on every wait.
fn connect(bed: &Testbed) -> TcpStream {
    let server = server(bed);
    let stream = bed.client().enter(|| TcpStream::connect_timeout(&server, TIMEOUT));
    let stream = stream.expect("the namespace is there").expect("somebody listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("no zero");
    stream.set_write_timeout(Some(TIMEOUT)).expect("no zero");
    stream
}

/// Many small connections, some larger ones, one of some MiB; all end in order.
fn echo_is_exact(bed: &Testbed, server: SocketAddr) {
    let client = bed.client();
    for (count, sizes) in [(40, &[1_u64, 2, 64, 1460, 3000][..]), (8, &[200_000]), (1, &[3 << 20])]
    {
        let mut talks = Talks::connect(client, count, server);
        for &bytes in sizes {
            talks.echo(bytes);
        }
        let all = sizes.iter().sum::<u64>() * count as u64;
        assert_eq!(talks.end(), all, "every byte, once");
    }
}

/// What must be true of the counters over any port of this machine's.
fn all_were_served(daemon: &Daemon, connections: u64, what: &str) {
    let count = |name: &str| daemon.counter(name);
    let connected = wait_for("all counts", || match count("tcp_connected") {
        connected if connected >= connections => Ok(connected),
        fewer => Err(format!("{fewer} connections")),
    });
    let stats = || daemon.calisto("stats");
    assert_eq!(connected, connections, "{what}\n{}", stats());
    assert_eq!(count("tcp_bad_checksum") + count("drop_bad_checksum"), 0, "{what}\n{}", stats());
    let (again, sent) = (count("tcp_retransmitted"), count("tcp_transmitted"));
    assert!(again * 20 <= sent, "{what}: {again} of {sent} sent again\n{}", stats());
}

/// The same where nothing is lost and nothing overtakes: a native XDP program has one queue, while
/// a veth without one has a queue for each CPU that sends.
fn nothing_was_lost(daemon: &Daemon, connections: u64, what: &str) {
    all_were_served(daemon, connections, what);
    let count = |name: &str| daemon.counter(name);
    let stats = || daemon.calisto("stats");
    assert_eq!(count("tcp_recoveries") + count("tcp_timeouts"), 0, "{what}\n{}", stats());
    // Who is not heard for milliseconds is asked by sending the last segment again (RFC 8985
    // section 7); until the answer its flow is not the common case. On a busy machine that happens.
    let probes = count("tcp_tail_probes");
    assert!(count("tcp_retransmitted") <= probes, "{what}\n{}", stats());
    let rare = if probes > 0 { count("tcp_punt_state") } else { 0 };
    let (fast, received) = (count("tcp_fast"), count("tcp_received"));
    assert!(fast * 10 > (received - rare) * 9, "{what}: {fast} of {received} fast\n{}", stats());
}

fn echoes(port: &str, arrangement: &str) {
    let bed = Testbed::new(TestbedConfig { ipv6: true, ..TestbedConfig::default() });
    let bed = bed.expect("this test needs root and the ip command");
    if port.starts_with("af_packet") {
        // A packet socket only gets copies: without the addresses the kernel has nothing to say to
        // the originals.
        for family in ["-4", "-6"] {
            let mut flush = bed.server().command("ip");
            let (status, _, said) = run(flush.args([family, "addr", "flush", "dev", "veth0"]));
            assert!(status.success(), "{said}");
        }
    }
    let daemon = service(&bed, port, "echo", &format!("arrangement = {arrangement:?}\n"));
    let addresses = [IpAddr::from(bed.server().ipv4()), bed.server().ipv6().into()];
    for address in addresses {
        echo_is_exact(&bed, (address, 7).into());
    }
    let (connections, what) = (2 * 49, format!("{port} {arrangement}"));
    match port.contains("native") {
        true => nothing_was_lost(&daemon, connections, &what),
        false => all_were_served(&daemon, connections, &what),
    }
}

#[test]
fn an_echo_over_native_xdp_is_exact_for_many_connections_and_sizes_fused_and_threaded() {
    for arrangement in ["fused", "threads"] {
        echoes("xdp:veth0,mode=native", arrangement);
    }
}

#[test]
fn an_echo_over_generic_xdp_is_exact_too() {
    for arrangement in ["fused", "threads"] {
        echoes("xdp:veth0,mode=generic", arrangement);
    }
}

#[test]
fn long_segments_of_this_hosts_kernel_come_whole_over_generic_xdp_and_are_cut_for_us() {
    for arrangement in ["fused", "threads"] {
        let config = TestbedConfig { offloads: true, ..TestbedConfig::default() };
        let bed = Testbed::new(config).expect("this test needs root and the ip command");
        let words = format!("arrangement = \"{arrangement}\"\n");
        let daemon = service(&bed, "xdp:veth0,mode=generic", "echo", &words);
        let mut talks = Talks::connect(bed.client(), 4, server(&bed));
        talks.echo(1_000_000);
        assert_eq!(talks.end(), 4_000_000);
        all_were_served(&daemon, 4, "long segments");
        let (packets, cut) = (daemon.counter("rx_packets"), daemon.port_counter("rx_cut"));
        assert!(cut > 10 && packets > 2 * cut, "{cut} cut, {packets} in all");
        let lost = ["rx_oversize", "rx_bad_checksum"].map(|name| daemon.port_counter(name));
        assert_eq!(lost, [0, 0], "{}", daemon.calisto("stats"));
    }
}

#[test]
fn an_echo_over_a_packet_socket_is_exact_too() {
    for arrangement in ["fused", "threads"] {
        echoes("af_packet:veth0", arrangement);
    }
}

#[test]
fn an_answer_carries_the_acknowledgement_of_its_request() {
    const CONNECTIONS: usize = 16;
    const ROUNDS: u64 = 200;
    let bed = bed();
    let daemon = service(&bed, "xdp:veth0", "echo", "");
    let mut talks = Talks::connect(bed.client(), CONNECTIONS, server(&bed));
    for _ in 0..ROUNDS {
        talks.echo(64);
    }
    talks.end();
    nothing_was_lost(&daemon, CONNECTIONS as u64, "requests");
    let connections = CONNECTIONS as u64;
    let (out, again) = (daemon.counter("tcp_transmitted"), daemon.counter("tcp_retransmitted"));
    // And two to open a connection and to close it.
    let most = connections * (ROUNDS + 4) + again;
    assert!(out <= most, "{out} packets out, not {most}");
}

#[test]
fn chargen_sends_the_lines_of_rfc_864_for_as_long_as_anybody_reads() {
    let bed = bed();
    let daemon = service(&bed, "xdp:veth0", "chargen", "");
    let mut streams = [connect(&bed), connect(&bed)];
    for part in 0..4 {
        for stream in &mut streams {
            read_chargen(stream, part << 20, 1 << 20);
        }
    }
    let [quiet, mut leaving] = streams;
    // Who says no more gets no more: RFC 864 ends when the connection does.
    leaving.shutdown(Shutdown::Write).expect("it is connected");
    let mut rest = Vec::new();
    leaving.read_to_end(&mut rest).expect("the service closes in order");
    drop(quiet);
    nothing_was_lost(&daemon, 2, "chargen");
}

#[test]
fn discard_takes_everything_and_says_nothing() {
    let bed = bed();
    let daemon = service(&bed, "xdp:veth0", "discard", "arrangement = \"threads\"\n");
    let mut stream = connect(&bed);
    stream.write_all(&vec![7; 8 << 20]).expect("it is taken");
    stream.shutdown(Shutdown::Write).expect("it is connected");
    let mut said = Vec::new();
    stream.read_to_end(&mut said).expect("the service closes in order");
    assert!(said.is_empty());
    // In order of arrival and of a full window each: but for the ends, all of it is the common
    // case.
    nothing_was_lost(&daemon, 1, "discard");
}

#[test]
fn who_says_that_no_more_will_come_still_gets_everything() {
    let bed = bed();
    let _daemon = service(&bed, "xdp:veth0", "echo", "");
    let mut stream = connect(&bed);
    let text: Vec<u8> = (0..60_000_u32).map(|at| (at % 251) as u8).collect();
    // Less than both sides buffer: all of it can be under way when the end comes.
    stream.write_all(&text).expect("it is taken");
    stream.shutdown(Shutdown::Write).expect("it is connected");
    let mut back = Vec::new();
    stream.read_to_end(&mut back).expect("the service closes in order");
    assert!(back == text, "{} of {} bytes came back", back.len(), text.len());
}

#[test]
fn connections_stay_whole_while_workers_come_and_go_and_policies_change() {
    let bed = bed();
    let daemon = service(&bed, "xdp:veth0", "echo", "arrangement = \"threads\"\n");
    let mut talks = Talks::connect(bed.client(), 24, server(&bed));
    talks.echo(1000);
    let talking = |stop: &AtomicBool| {
        talks.echo_until(stop);
        let received = talks.received();
        (received, talks.end())
    };
    let (ended, ()) = beside(talking, || {
        for (workers, policy) in [
            (4, "sticky"),
            (1, "modulo"),
            (3, "modulo"),
            (5, "sticky"),
            (2, "calisto"),
            (4, "modulo"),
        ] {
            daemon.calisto(&format!("workers {workers}"));
            daemon.calisto(&format!("steer set {policy}"));
            daemon.wait_until("a table that has settled", |_| true);
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    assert!(ended.0 > 24_000 && ended.0 == ended.1, "{ended:?}");
    assert!(daemon.counter("tcp_attached") > 0, "nobody has moved");
    assert_eq!(daemon.counter("tcp_attached"), daemon.counter("tcp_detached"));
    // A FIN that went out twice, since its answer was late, is acknowledged twice: the second time
    // there is no connection any more, which is what a reset says.
    let (resets, again) = (daemon.counter("tcp_resets_sent"), daemon.counter("tcp_retransmitted"));
    assert!(resets <= again, "{resets} resets, {again} sent again\n{}", daemon.calisto("stats"));
}

/// Waits for the end of the connection; why.
fn end_of(stream: &mut TcpStream) -> ErrorKind {
    stream.set_nonblocking(false).expect("a TCP socket can be");
    stream.set_read_timeout(Some(TIMEOUT)).expect("no zero");
    let mut bytes = [0; 1024];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => panic!("closed in order"),
            Ok(_) => {}
            Err(error) => return error.kind(),
        }
    }
}

#[test]
fn a_daemon_that_is_told_to_end_resets_who_is_connected() {
    for arrangement in ["fused", "threads"] {
        let bed = bed();
        let mut daemon =
            service(&bed, "xdp:veth0", "echo", &format!("arrangement = {arrangement:?}\n"));
        let mut talks = Talks::connect(bed.client(), 20, server(&bed));
        talks.echo(100);
        daemon.signal(Signal::TERM);
        assert!(daemon.wait().success());
        for mut stream in talks.into_streams() {
            assert_eq!(end_of(&mut stream), ErrorKind::ConnectionReset, "{arrangement}");
        }
    }
}

#[test]
fn after_the_daemon_was_killed_clients_notice_and_it_can_start_again_at_once() {
    let bed = bed();
    let mut daemon = service(&bed, "xdp:veth0", "echo", "");
    for starts_again in [false, true] {
        let mut talks = Talks::connect(bed.client(), 5, server(&bed));
        talks.echo(1000);
        daemon.kill();
        if starts_again {
            // Whoever answers now knows nothing of the connection.
            daemon.start_again(bed.server());
        }
        for mut stream in talks.into_streams() {
            stream.set_nonblocking(false).expect("a TCP socket can be");
            let began = Instant::now();
            let error = loop {
                match stream.write(b"is anybody there?") {
                    Ok(_) => std::thread::sleep(Duration::from_millis(10)),
                    Err(error) => break error.kind(),
                }
                assert!(began.elapsed() < TIMEOUT, "it is not noticed");
            };
            assert!(matches!(error, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
        }
        if !starts_again {
            daemon.start_again(bed.server());
        }
        let mut talks = Talks::connect(bed.client(), 5, server(&bed));
        talks.echo(1000);
        assert_eq!(talks.end(), 5000);
    }
}

/// A kernel socket of the server's end that says where it is.
fn kernel_service(side: &Side, port: u16) -> JoinHandle<()> {
    let address = SocketAddr::from((side.ipv4(), port));
    let listener = side.enter(|| TcpListener::bind(address).expect("the port is free"));
    let listener = listener.expect("the namespace is there");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody comes");
        stream.write_all(b"this is Linux").expect("it is connected");
    })
}

#[test]
fn other_ports_are_the_kernels_who_refuses_or_serves() {
    let bed = bed();
    let daemon = service(&bed, "xdp:veth0", "echo", "");
    let address = SocketAddr::from((bed.server().ipv4(), 8));
    let refused = bed.client().enter(|| TcpStream::connect_timeout(&address, TIMEOUT));
    let refused = refused.expect("the namespace is there").expect_err("nobody listens");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    let kernel = kernel_service(bed.server(), 8);
    let stream = bed.client().enter(|| TcpStream::connect_timeout(&address, TIMEOUT));
    let mut stream = stream.expect("the namespace is there").expect("Linux listens");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("Linux closes in order");
    kernel.join().expect("it does not panic");
    assert_eq!(said, "this is Linux");
    assert_eq!(daemon.counter("tcp_received"), 0, "none of it was ours");
}
