//! The example applications as people run them, against a small daemon.

#[path = "../../crates/programs/client/tests/common/mod.rs"]
mod common;

use std::io::Read;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use attach::{AttachListener, DetachReason, Detached, ToApp};
use base::Nanos;
use common::{Folder, MAC, Served};
use serde_json::Value;
use sys::poll;
use wire::build::UdpPacket;
use wire::{Outcome, classify};

const CLIENT: &str = "10.0.0.1:4000";
const SERVER: &str = "10.0.0.9:53";

/// A program that runs, killed at the end whatever happens.
struct Program(Option<Child>);

impl Program {
    fn start(binary: &str, folder: &Folder, arguments: &[&str]) -> Self {
        let child = Command::new(binary)
            .args(["--listen", "udp:10.0.0.9:53", "-j"])
            .args(arguments)
            .env("CALISTO_APPS", folder.socket())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("cargo has built it");
        Self(Some(child))
    }

    fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("it is taken at the end only")
    }

    /// Ctrl-C; its figures and what it said.
    fn interrupt(mut self) -> (Value, String) {
        let pid = rustix::process::Pid::from_child(self.child());
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is ours");
        let (code, figures, said) = self.end();
        assert_eq!(code, Some(0), "{said}");
        (figures, said)
    }

    /// Waits for its end.
    fn end(mut self) -> (Option<i32>, Value, String) {
        let output = self.0.take().expect("once").wait_with_output().expect("it is ours");
        let said = String::from_utf8(output.stderr).expect("it prints text");
        let figures = serde_json::from_slice(&output.stdout);
        (output.status.code(), figures.unwrap_or_else(|error| panic!("{error}: {said}")), said)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let mut said = String::new();
            let _ = child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said));
            let _ = child.wait();
            eprintln!("{said}");
        }
    }
}

fn listen(folder: &Folder) -> AttachListener {
    AttachListener::bind(&folder.socket(), 0o600).expect("the folder is ours")
}

fn welcome(listener: &AttachListener) -> Served {
    assert!(poll::wait_readable(listener.as_fd(), Nanos::from_secs(60)), "it does not attach");
    let peer = listener.accept().expect("descriptors are left").expect("one has connected");
    Served::welcome(peer).expect("it asks")
}

fn packet(from: &str, to: &str, macs: [[u8; 6]; 2], payload: &[u8]) -> Vec<u8> {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let packet = UdpPacket {
        source_mac: macs[0],
        destination_mac: macs[1],
        source: address(from),
        destination: address(to),
        payload,
        vlan: None,
    };
    let mut bytes = vec![0; packet.len()];
    packet.write(&mut bytes).expect("it fits");
    bytes
}

const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

fn ask(served: &mut Served, worker: usize, payload: &[u8]) {
    let bytes = packet(CLIENT, SERVER, [PEER_MAC, MAC], payload);
    let Outcome::Flow(flow) = classify(&bytes) else { panic!("it is a flow") };
    served.deliver_as(worker, &bytes, |frame| {
        let meta = frame.meta_mut();
        (meta.l3_offset, meta.l4_offset) = (flow.l3_offset, flow.l4_offset);
    });
}

/// Waits for an answer, which must be a right packet; its payload.
fn answer(served: &mut Served, worker: usize) -> Vec<u8> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(bytes) = served.sent(worker) {
            let Outcome::Flow(flow) = classify(&bytes) else { panic!("it is a flow") };
            let payload = &bytes[usize::from(flow.payload_offset)..][..flow.payload_len.into()];
            assert_eq!(bytes, packet(SERVER, CLIENT, [MAC, PEER_MAC], payload));
            return payload.to_vec();
        }
        assert!(Instant::now() < end, "no answer");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until the program has given every packet back, unanswered.
fn all_home(served: &mut Served) {
    let end = Instant::now() + Duration::from_secs(20);
    while served.server.held() > 0 {
        assert_eq!(served.sent(0), None);
        assert!(Instant::now() < end, "it keeps a packet");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn udp_echo_answers_with_every_worker_where_it_was_put() {
    let folder = Folder::new("udp-echo");
    let listener = listen(&folder);
    let cpus = sys::thread::allowed_cpus();
    let last = cpus.last().expect("some CPU runs this").to_string();
    let arguments = ["--workers", "2", "--cpus", &last, "--name", "my-echo"];
    let mut program = Program::start(env!("CARGO_BIN_EXE_udp-echo"), &folder, &arguments);
    let mut served = welcome(&listener);
    for (worker, payload) in [(0, b"first"), (1, b"other")] {
        ask(&mut served, worker, payload);
        assert_eq!(answer(&mut served, worker), payload);
    }
    let tasks = format!("/proc/{}/task", program.child().id());
    let mut workers = 0;
    for task in std::fs::read_dir(tasks).expect("it runs") {
        let task = task.expect("it runs").path();
        let read = |file| std::fs::read_to_string(task.join(file)).expect("it runs");
        if read("comm").starts_with("worker-") {
            workers += 1;
            assert!(read("status").contains(&format!("Cpus_allowed_list:\t{last}\n")));
        }
    }
    assert_eq!(workers, 2);
    served.deliver(0, b"no UDP");
    all_home(&mut served);
    let (figures, said) = program.interrupt();
    assert_eq!((&figures["received"], &figures["sent"]), (&3.into(), &2.into()));
    assert_eq!((&figures["done"], &figures["attachments"]), (&1.into(), &1.into()));
    assert!(said.contains("attached as application 7 with 2 workers"), "{said}");
}

#[test]
fn dns_responder_answers_what_it_knows_and_counts_the_rest() {
    let folder = Folder::new("dns");
    let listener = listen(&folder);
    let arguments = ["--record", "www.example.org A 192.0.2.1", "--ttl", "5"];
    let program = Program::start(env!("CARGO_BIN_EXE_dns-responder"), &folder, &arguments);
    let mut served = welcome(&listener);
    let query = |name: &[u8]| {
        [&b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"[..], name, b"\x00\x00\x01\x00\x01"]
            .concat()
    };
    let known = query(b"\x03www\x07example\x03org");
    ask(&mut served, 0, &known);
    let response = answer(&mut served, 0);
    assert_eq!(response[..4], *b"\x12\x34\x85\x00");
    assert_eq!(
        response[known.len()..],
        *b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x05\x00\x04\xc0\x00\x02\x01"
    );
    ask(&mut served, 0, &query(b"\x03ftp\x07example\x03org"));
    assert_eq!(answer(&mut served, 0)[3], 3, "NXDOMAIN");
    for wrong in [&known[..20], &known[..5], &response] {
        ask(&mut served, 0, wrong);
    }
    served.deliver(0, b"no UDP");
    all_home(&mut served);
    let (figures, _) = program.interrupt();
    for (name, count) in
        [("answered", 2), ("malformed", 1), ("too_short", 1), ("responses", 1), ("not_udp", 1)]
    {
        assert_eq!(figures[name], count, "{name}");
    }
}

#[test]
fn synthetic_answers_requests_that_are_work_and_no_others() {
    let folder = Folder::new("synthetic");
    let listener = listen(&folder);
    let program = Program::start(env!("CARGO_BIN_EXE_synthetic"), &folder, &[]);
    let mut served = welcome(&listener);
    let request =
        |iterations: u64, index: u64| [iterations.to_be_bytes(), index.to_be_bytes()].concat();
    ask(&mut served, 0, &request(1000, 42));
    assert_eq!(answer(&mut served, 0), request(1000, 42));
    ask(&mut served, 0, &request(20_000_001, 0));
    ask(&mut served, 0, &request(1, 0)[..15]);
    all_home(&mut served);
    let (figures, _) = program.interrupt();
    assert_eq!((&figures["sent"], &figures["bad_requests"]), (&1.into(), &2.into()));
}

#[test]
fn a_program_that_is_to_be_kept_waits_for_its_daemon_and_attaches_again() {
    let folder = Folder::new("keep");
    let program = Program::start(env!("CARGO_BIN_EXE_udp-echo"), &folder, &["--keep"]);
    for round in 0..2_u8 {
        let listener = listen(&folder);
        let mut served = welcome(&listener);
        ask(&mut served, 0, &[round]);
        assert_eq!(answer(&mut served, 0), [round]);
    }
    let listener = listen(&folder);
    let _served = welcome(&listener);
    let (figures, said) = program.interrupt();
    assert_eq!((&figures["attachments"], &figures["received"]), (&3.into(), &2.into()));
    assert_eq!(said.matches("it attaches again").count(), 2, "{said}");
}

#[test]
fn a_program_that_waits_for_its_daemon_ends_when_it_is_asked() {
    let folder = Folder::new("waiting");
    let mut program = Program::start(env!("CARGO_BIN_EXE_udp-echo"), &folder, &["--keep"]);
    let mut said = [0; 64];
    let stderr = program.child().stderr.as_mut().expect("it is a pipe");
    assert!(stderr.read(&mut said).expect("it is a pipe") > 0, "it says that it waits");
    let (figures, _) = program.interrupt();
    assert_eq!(figures["attachments"], 0);
}

#[test]
fn without_keep_the_end_of_the_attachment_is_an_error_and_the_figures_come_all_the_same() {
    let folder = Folder::new("end");
    let program = Program::start(env!("CARGO_BIN_EXE_udp-echo"), &folder, &[]);
    let (code, figures, said) = program.end();
    assert_eq!((code, &figures["attachments"]), (Some(1), &0.into()));
    assert!(said.contains("is the daemon running?"), "{said}");

    let listener = listen(&folder);
    let program = Program::start(env!("CARGO_BIN_EXE_udp-echo"), &folder, &[]);
    let mut served = welcome(&listener);
    ask(&mut served, 0, b"x");
    assert_eq!(answer(&mut served, 0), b"x");
    let words = Detached { reason: DetachReason::Operator, message: "not wanted here".into() };
    assert_eq!(served.peer.send(&ToApp::Detached(words), &[]), Ok(true));
    served.server.detach(DetachReason::Operator.number());
    drop(served);
    let (code, figures, said) = program.end();
    assert_eq!((code, &figures["received"]), (Some(1), &1.into()));
    assert!(said.contains("not wanted here"), "{said}");
}

#[test]
fn a_cpu_that_is_not_there_and_a_record_that_is_none_are_refused() {
    let folder = Folder::new("refused");
    let listener = listen(&folder);
    let program = Program::start(env!("CARGO_BIN_EXE_udp-echo"), &folder, &["--cpus", "4000"]);
    let _served = welcome(&listener);
    let (code, _, said) = program.end();
    assert_eq!(code, Some(1));
    assert!(said.contains("choose among CPUs"), "{said}");

    let output = Command::new(env!("CARGO_BIN_EXE_dns-responder"))
        .args(["--listen", "udp:10.0.0.9:53", "--record", "nothing"])
        .output()
        .expect("cargo has built it");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("such as 'www.example.org A 192.0.2.1'"), "{said}");
}
