//! What a connection of the data path is put through by its peer, and by others in its peer's name.

use std::io::Read;
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use testbed::Testbed;
use whole::{
    Daemon, Forged, Intruder, Overheard, Sniffer, TIMEOUT, Talks, bed, beside, read_chargen,
    wait_for,
};
use wire::tcp::{ACK, FIN, PSH, RST, SYN};

fn service(bed: &Testbed, job: &str, more: &str) -> Daemon {
    let config = format!(
        "ports = [\"xdp:veth0\"]\nlisten = [\"tcp:10.77.0.2:7\"]\n\
         [workers]\ncount = 2\njob = \"tcp-{job}\"\n{more}"
    );
    Daemon::start(bed.server(), &config)
}

fn server(bed: &Testbed) -> SocketAddrV4 {
    SocketAddrV4::new(bed.server().ipv4(), 7)
}

fn ipv4(address: SocketAddr) -> SocketAddrV4 {
    match address {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(address) => panic!("{address} is no IPv4 address"),
    }
}

/// Waits until the counter has come to this.
fn wait_for_count(daemon: &Daemon, name: &str, least: u64) -> u64 {
    wait_for(name, || match daemon.counter(name) {
        count if count >= least => Ok(count),
        count => Err(format!("{count}")),
    })
}

/// Half of all numbers: as far from the window as can be.
const FAR: u32 = 1 << 31;

/// Beyond any window of these tests, on the far side of it.
const BEYOND: u32 = 1 << 24;

/// What is done to a live connection: the flags, the distance from the next number that the server
/// expects, the distance from what it has sent, options, payload, error in the checksum, and the
/// counter that must move.
type Trick = (&'static str, u8, u32, u32, &'static [u8], &'static [u8], u16, &'static str);

const TRICKS: &[Trick] = &[
    ("RST within the window", RST, 1, 0, &[], &[], 0, "tcp_inexact_reset"),
    ("RST left of the window", RST, u32::MAX, 0, &[], &[], 0, "tcp_out_of_window"),
    ("RST right of the window", RST, BEYOND, 0, &[], &[], 0, "tcp_out_of_window"),
    ("SYN within the window", SYN, 1, 0, &[], &[], 0, "tcp_late_syn"),
    ("SYN left of the window", SYN, FAR, 0, &[], &[], 0, "tcp_out_of_window"),
    ("SYN right of the window", SYN, BEYOND, 0, &[], &[], 0, "tcp_out_of_window"),
    ("data left of the window", ACK | PSH, FAR, 0, &[], b"old", 0, "tcp_out_of_window"),
    ("data right of the window", ACK | PSH, BEYOND, 0, &[], b"far", 0, "tcp_out_of_window"),
    (
        "other bytes than before",
        ACK | PSH,
        10_u32.wrapping_neg(),
        0,
        &[],
        b"otherwise!",
        0,
        "tcp_duplicate_bytes",
    ),
    ("the end, right of the window", ACK | FIN, BEYOND, 0, &[], &[], 0, "tcp_out_of_window"),
    ("a wrong checksum", ACK | PSH, 0, 0, &[], b"bad", 1, "drop_bad_checksum"),
    ("ACK of data never sent", ACK, 0, 1, &[], &[], 0, "tcp_bad_ack"),
    ("ACK far too old", ACK, 0, FAR, &[], &[], 0, "tcp_bad_ack"),
    ("no flag at all", 0, 0, 0, &[], b"what", 0, "tcp_no_ack_flag"),
    ("an option of no length", ACK, 0, 0, &[8, 0, 0, 0], &[], 0, "tcp_bad_options"),
    ("an option cut off", ACK, 0, 0, &[1, 1, 5, 34], &[], 0, "tcp_bad_options"),
    ("an option without its length", ACK, 0, 0, &[1, 1, 1, 5], &[], 0, "tcp_bad_options"),
    (
        "options again and again",
        ACK,
        0,
        0,
        &[4, 2, 4, 2, 3, 3, 14, 3, 3, 2, 2, 4, 0, 1, 2, 4, 255, 255, 4, 2, 1, 1, 1, 0],
        &[],
        0,
        "tcp_punt_options",
    ),
];

#[test]
fn segments_in_the_name_of_its_peer_leave_a_connection_alive_and_are_counted_each_by_its_name() {
    let bed = bed();
    // Without timestamps, which no intruder could guess: a missing one would be the only reason.
    let daemon = service(&bed, "echo", "[tcp]\ntimestamps = false\n");
    let sniffer = Sniffer::new(bed.client());
    let mut talks = Talks::connect(bed.client(), 1, server(&bed).into());
    let intruder = Intruder::new(bed.client());
    for &(what, flags, ahead, acked, options, payload, checksum_error, counter) in TRICKS {
        // The sniffer hears the intruder too, who tells no truth about the connection.
        let _ = sniffer.packets();
        talks.echo(500);
        // What acknowledges the last of it may still be on its way.
        std::thread::sleep(Duration::from_millis(60));
        let source = ipv4(talks.local());
        let Overheard { to_server, to_client } = Overheard::of(&sniffer, source.into());
        let before = daemon.counter(counter);
        intruder.send(&Forged {
            sequence: to_server.wrapping_add(ahead),
            acknowledgement: to_client.wrapping_add(acked),
            flags,
            options,
            payload,
            checksum_error,
            ..Forged::between(source, server(&bed))
        });
        wait_for(what, || match daemon.counter(counter) {
            count if count > before => Ok(()),
            _ => Err(format!("{counter} does not move: {}", daemon.calisto("stats"))),
        });
        talks.echo(500);
    }
    assert_eq!(talks.end(), 1000 * TRICKS.len() as u64);
    assert_eq!(daemon.counter("tcp_connected"), 1, "it was one connection all the time");
}

#[test]
fn segments_that_fit_no_connection_are_answered_by_a_reset_or_dropped_and_counted() {
    let bed = bed();
    let daemon = service(&bed, "echo", "");
    let intruder = Intruder::new(bed.client());
    let stranger = SocketAddrV4::new([198, 18, 0, 1].into(), 4000);
    let bare = Forged::between(stranger, server(&bed));
    intruder.send(&Forged { flags: RST, ..bare });
    wait_for_count(&daemon, "tcp_no_flow", 1);
    assert_eq!(daemon.counter("tcp_resets_sent"), 0, "nothing is due to a reset");
    intruder.send(&Forged { flags: ACK, acknowledgement: 77, ..bare });
    wait_for_count(&daemon, "tcp_resets_sent", 1);
    // A header longer than what is there, and flags that exclude each other.
    intruder.send(&Forged { flags: SYN | FIN | RST, ..bare });
    intruder.send(&Forged { flags: SYN | FIN, options: &[2, 0, 0, 0], ..bare });
    let mut talks = Talks::connect(bed.client(), 3, server(&bed).into());
    talks.echo(1000);
    assert_eq!(talks.end(), 3000);
}

#[test]
fn ten_thousand_half_open_connections_get_cookies_and_hold_up_nobody() {
    const BACKLOG: u32 = 256;
    let bed = bed();
    let daemon =
        service(&bed, "echo", &format!("arrangement = \"threads\"\n[tcp]\nbacklog = {BACKLOG}\n"));
    let mut talks = Talks::connect(bed.client(), 10, server(&bed).into());
    talks.echo(1000);
    let intruder = Intruder::new(bed.client());
    let talking = |stop: &AtomicBool| talks.echo_until(stop);
    beside(talking, || {
        // A busy machine's wire drops some of them, which no daemon has seen.
        wait_for("cookies", || {
            intruder.flood(server(&bed), 10_000);
            match daemon.counter("tcp_cookies_sent") {
                sent if sent > 5000 => Ok(()),
                sent => Err(format!("{sent} sent: {}", daemon.calisto("stats"))),
            }
        });
        // Who comes now meets full backlogs, gets a cookie, and pays with it.
        let mut late = Talks::connect(bed.client(), 8, server(&bed).into());
        late.echo(5000);
        assert_eq!(late.end(), 40_000);
    });
    talks.end();
    assert!(daemon.counter("tcp_cookies_accepted") >= 1, "{}", daemon.calisto("stats"));
    assert_eq!(daemon.counter("tcp_connected"), 18);
    // Two engines with a backlog each.
    assert!(daemon.counter("tcp_flows") <= 2 * u64::from(BACKLOG) + 18);
}

fn chargen_client(bed: &Testbed) -> TcpStream {
    let server = SocketAddr::V4(server(bed));
    let stream = bed.client().enter(|| TcpStream::connect_timeout(&server, TIMEOUT));
    let stream = stream.expect("the namespace is there").expect("somebody listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("no zero");
    stream
}

#[test]
fn a_window_that_was_zero_for_a_while_is_asked_for_and_goes_on_where_it_stood() {
    let bed = bed();
    let daemon = service(&bed, "chargen", "");
    let mut stream = chargen_client(&bed);
    read_chargen(&mut stream, 0, 1000);
    // Nobody reads: the window closes, and a question is due every now and then.
    wait_for_count(&daemon, "tcp_window_probes", 2);
    let asked = daemon.counter("tcp_retransmitted");
    read_chargen(&mut stream, 1000, 10 << 20);
    let again = daemon.counter("tcp_retransmitted") - asked;
    assert!(again <= 10, "{again} segments were sent again although none was lost");
}

#[test]
fn a_peer_that_stalls_again_and_again_meets_no_storm_of_retransmissions() {
    let bed = bed();
    let daemon = service(&bed, "chargen", "arrangement = \"threads\"\n");
    let mut streams: Vec<TcpStream> = (0..4).map(|_| chargen_client(&bed)).collect();
    let mut position = 0;
    for _ in 0..20 {
        for stream in &mut streams {
            read_chargen(stream, position, 100_000);
        }
        position += 100_000;
        std::thread::sleep(Duration::from_millis(40));
    }
    let (sent, again) = (daemon.counter("tcp_transmitted"), daemon.counter("tcp_retransmitted"));
    // A stall costs each flow at most a probe.
    assert!(again <= 20 * 4, "{again} of {sent} segments were sent again");
    assert_eq!(daemon.counter("tcp_recoveries"), 0);
}

#[test]
fn a_daemon_that_was_stopped_for_a_while_goes_on_without_a_storm() {
    let bed = bed();
    let daemon = service(&bed, "chargen", "");
    let mut stream = chargen_client(&bed);
    let mut position = 0;
    for _ in 0..5 {
        daemon.signal(rustix::process::Signal::STOP);
        std::thread::sleep(Duration::from_millis(60));
        daemon.signal(rustix::process::Signal::CONT);
        read_chargen(&mut stream, position, 200_000);
        position += 200_000;
    }
    let again = daemon.counter("tcp_retransmitted");
    assert!(again <= 5 * 20, "{again} segments were sent again for five stops");
    let mut byte = [0];
    assert_eq!(stream.read(&mut byte).expect("it stands"), 1);
}
