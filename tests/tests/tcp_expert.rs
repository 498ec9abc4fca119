//! Captures of our connections, read by tshark(1): what its experts warn of must have a reason.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use rustix::net::sockopt;
use testbed::{Side, Testbed};
use whole::{Crossing, Daemon, Recorder, TIMEOUT, Talks, bed, read_chargen, run, wait_for};

/// A warning of tshark, and why there is nothing wrong.
struct Explained {
    summary: &'static str,
    #[expect(dead_code, reason = "it is for the reader of this file")]
    reason: &'static str,
}

const fn explained(summary: &'static str, reason: &'static str) -> Explained {
    Explained { summary, reason }
}

const RESET: Explained = explained(
    "Connection reset (RST)",
    "The test resets connections, or leaves with data unread, for which Linux resets.",
);
const FULL: Explained = explained(
    "TCP window specified by the receiver is now completely full",
    "Bulk fills any window at its start: rings grow when they were filled within a round trip.",
);
const CLOSED: Explained = explained(
    "TCP Zero Window segment",
    "Nobody reads: the client of the test, or an echo whose answers wait for the wire.",
);
const GAP: Explained = explained(
    "Previous segment(s) not captured (common at capture start)",
    "The wire has lost it on its way to where it would have been captured.",
);
const LATE: Explained = explained(
    "This frame is a (suspected) out-of-order segment",
    "What was lost on the wire and is sent again within a round trip looks like that; so does the \
     probe of the end of a flight (RFC 8985 section 7) when its answer is late on a busy machine.",
);

const TWICE: Explained = explained(
    "D-SACK Sequence",
    "What a probe repeated for nothing has come twice, and its receiver says so (RFC 2883).",
);

const FOLDED: Explained = explained(
    "TCP Checksum 0xffff instead of 0x0000 (see RFC 1624)",
    "The kernel completes sums, its own and in copy mode ours, and writes 0xffff for 0, as UDP needs \
     it (RFC 768); to whoever verifies TCP both are the same.",
);

/// A recording under way.
struct Scene {
    path: PathBuf,
    recorder: Recorder,
}

impl Scene {
    fn begin(name: &str, side: &Side) -> Self {
        let file = format!("calisto-expert-{}-{name}.pcap", std::process::id());
        Self { path: std::env::temp_dir().join(file), recorder: Recorder::new(side) }
    }

    /// Ends a recording without loss: our side has sent nothing again, but for probes of an end.
    fn end_calm(self, daemon: &Daemon, explained: &[Explained]) {
        let probes = daemon.counter("tcp_tail_probes");
        assert!(daemon.counter("tcp_retransmitted") <= probes, "{}", daemon.calisto("stats"));
        self.end(explained);
    }

    /// Ends the recording; every warning and every error must be one of these, or [`FOLDED`].
    fn end(self, explained: &[Explained]) {
        let Self { path, recorder } = self;
        let packets = recorder.end(&path);
        assert!(packets > 0, "nothing was recorded");
        let mut tshark = Command::new("tshark");
        tshark.args(["-n", "-q", "-z", "expert", "-o", "tcp.check_checksum:TRUE"]);
        tshark.args(["-o", "ip.check_checksum:TRUE", "-r"]).arg(&path);
        let (status, out, said) = run(&mut tshark);
        assert!(status.success(), "{said}");
        let unexplained: Vec<&str> = serious(&out)
            .filter(|line| {
                let mut known = explained.iter().chain([&FOLDED]);
                !known.any(|known| line.ends_with(known.summary))
            })
            .collect();
        assert!(unexplained.is_empty(), "{}: {unexplained:#?}\n{out}", path.display());
        let _ = std::fs::remove_file(path);
    }
}

/// The lines of the tables "Errors" and "Warns".
fn serious(out: &str) -> impl Iterator<Item = &str> {
    let mut is_serious = false;
    out.lines().filter(move |line| {
        let is_head = line.split_once(" (").is_some_and(|(_, count)| count.ends_with(')'));
        if is_head && !line.starts_with(' ') {
            is_serious = line.starts_with("Errors") || line.starts_with("Warns");
            return false;
        }
        let is_row = line.split_whitespace().next().is_some_and(|word| word.parse::<u64>().is_ok());
        is_serious && is_row
    })
}

/// A client that is away for a while is not taken for a loss.
fn service(bed: &Testbed, job: &str) -> Daemon {
    let config = format!(
        "ports = [\"xdp:veth0\"]\nlisten = [\"tcp:10.77.0.2:7\"]\n[workers]\njob = \"tcp-{job}\"\n\
         [tcp]\nrto_min_ms = 2000\n"
    );
    Daemon::start(bed.server(), &config)
}

fn connect(bed: &Testbed) -> TcpStream {
    let server = SocketAddr::from((bed.server().ipv4(), 7));
    let stream = bed.client().enter(|| TcpStream::connect_timeout(&server, TIMEOUT));
    let stream = stream.expect("the namespace is there").expect("somebody listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("no zero");
    stream
}

fn talks(bed: &Testbed, count: usize) -> Talks {
    Talks::connect(bed.client(), count, (bed.server().ipv4(), 7).into())
}

#[test]
fn only_full_and_closed_windows_are_odd_about_bulk_both_ways() {
    let bed = bed();
    let daemon = service(&bed, "echo");
    let scene = Scene::begin("bulk", bed.client());
    let mut talks = talks(&bed, 2);
    talks.echo(2 << 20);
    talks.end();
    scene.end_calm(&daemon, &[FULL, CLOSED, LATE, TWICE]);
}

#[test]
fn nothing_is_odd_about_requests_and_responses() {
    let bed = bed();
    let daemon = service(&bed, "echo");
    let scene = Scene::begin("rpc", bed.client());
    let mut talks = talks(&bed, 16);
    for _ in 0..100 {
        talks.echo(64);
    }
    talks.end();
    scene.end_calm(&daemon, &[LATE, TWICE]);
}

#[test]
fn nothing_is_odd_about_a_half_close() {
    let bed = bed();
    let daemon = service(&bed, "echo");
    let scene = Scene::begin("half", bed.client());
    let mut stream = connect(&bed);
    stream.write_all(&[9; 50_000]).expect("it is taken");
    stream.shutdown(Shutdown::Write).expect("it is connected");
    let mut back = Vec::new();
    stream.read_to_end(&mut back).expect("the service closes in order");
    assert_eq!(back, [9; 50_000]);
    scene.end_calm(&daemon, &[FULL, LATE, TWICE]);
}

#[test]
fn only_resets_are_odd_about_resets_of_either_side() {
    let bed = bed();
    let mut daemon = service(&bed, "echo");
    let scene = Scene::begin("reset", bed.client());
    let mut talks = talks(&bed, 3);
    talks.echo(1000);
    let aborted = connect(&bed);
    sockopt::set_socket_linger(&aborted, Some(std::time::Duration::ZERO)).expect("a TCP socket");
    drop(aborted);
    wait_for("the reset", || match daemon.counter("tcp_flows") {
        3 => Ok(()),
        flows => Err(format!("{flows} flows")),
    });
    daemon.signal(rustix::process::Signal::TERM);
    assert!(daemon.wait().success());
    for mut stream in talks.into_streams() {
        stream.set_nonblocking(false).expect("a TCP socket can be");
        stream.read(&mut [0; 100]).expect_err("it is reset");
    }
    scene.end(&[RESET]);
}

#[test]
fn only_full_and_closed_windows_are_odd_about_a_client_that_does_not_read() {
    let bed = bed();
    let daemon = service(&bed, "chargen");
    let scene = Scene::begin("window", bed.client());
    let mut stream = connect(&bed);
    read_chargen(&mut stream, 0, 1000);
    wait_for("questions to a closed window", || match daemon.counter("tcp_window_probes") {
        2.. => Ok(()),
        probes => Err(format!("{probes}")),
    });
    read_chargen(&mut stream, 1000, 8 << 20);
    drop(stream);
    scene.end(&[FULL, CLOSED, RESET, LATE, TWICE]);
}

#[test]
fn only_what_was_lost_is_odd_about_bulk_over_a_wire_that_loses() {
    let crossing = Crossing::new();
    let config = format!(
        "ports = [\"xdp:veth0\"]\nlisten = [\"tcp:{}\"]\n[workers]\njob = \"tcp-echo\"\n",
        crossing.address(7)
    );
    let _daemon = Daemon::start(crossing.far(), &config);
    let _wire = crossing.join("--delay 2ms --loss 2% --seed 11");
    let scene = Scene::begin("loss", crossing.near());
    let mut talks = Talks::connect(crossing.near(), 2, crossing.address(7));
    talks.echo(500_000);
    talks.end();
    scene.end(&[GAP, LATE, FULL, CLOSED, TWICE]);
}
