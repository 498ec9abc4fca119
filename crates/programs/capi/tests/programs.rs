//! Programs in C and Python over the library, against a small daemon.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Folder, Served};
use attach::AttachListener;
use base::Nanos;
use sys::poll;
use wire::build::UdpPacket;
use wire::{Outcome, classify};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Where cargo has put the libraries that were built for this test.
fn libraries() -> PathBuf {
    let binary = std::env::current_exe().expect("proc is mounted");
    binary.parent().expect("it lies in a folder").to_owned()
}

fn packet(payload: &[u8], sender: u8) -> Vec<u8> {
    let address = |text: String| text.parse().expect("an address");
    let packet = UdpPacket {
        source_mac: [2, 0, 0, 0, 0, sender],
        destination_mac: crate::common::MAC,
        source: address(format!("10.0.0.{sender}:4000")),
        destination: address("10.0.0.9:7".to_owned()),
        payload,
        vlan: None,
    };
    let mut bytes = vec![0; packet.len()];
    packet.write(&mut bytes).expect("it fits");
    bytes
}

fn deliver(served: &mut Served, bytes: &[u8]) {
    let Outcome::Flow(flow) = classify(bytes) else { panic!("it is a flow") };
    served.deliver_as(0, bytes, |frame| {
        let meta = frame.meta_mut();
        (meta.l3_offset, meta.l4_offset) = (flow.l3_offset, flow.l4_offset);
    });
}

/// Starts a program, welcomes it.
fn run(folder: &Folder, program: &mut Command) -> (Served, Child) {
    let listener = AttachListener::bind(&folder.socket(), 0o600).expect("the folder is ours");
    let child = program
        .env("CALISTO_APPS", folder.socket())
        .env("LD_LIBRARY_PATH", libraries())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be run");
    assert!(poll::wait_readable(listener.as_fd(), Nanos::from_secs(60)), "it does not attach");
    let peer = listener.accept().expect("descriptors are left").expect("one has connected");
    let served = Served::welcome(peer).expect("it asks");
    (served, child)
}

/// Asks it to end as Ctrl-C does; what it printed.
fn interrupt(child: Child) -> (Option<i32>, String, String) {
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is ours");
    output(child)
}

fn output(child: Child) -> (Option<i32>, String, String) {
    let output = child.wait_with_output().expect("it is ours");
    let text = |bytes| String::from_utf8(bytes).expect("it prints text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The next packet that the program sends.
fn answer(served: &mut Served) -> Vec<u8> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(packet) = served.sent(0) {
            return packet;
        }
        assert!(Instant::now() < end, "no answer");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn compile(folder: &Folder, how: &[&str]) -> PathBuf {
    let program = folder.socket().with_file_name("echo");
    let compiler = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1"])
        .arg("-I")
        .arg(root().join("crates/programs/capi/include"))
        .arg(root().join("examples/echo.c"))
        .arg("-o")
        .arg(&program)
        .args(how)
        .output()
        .expect("a C compiler is installed as `cc`");
    let said = String::from_utf8_lossy(&compiler.stderr);
    assert!(compiler.status.success(), "{said}");
    program
}

fn echoes(folder: &Folder, program: &Path) {
    let (mut served, child) = run(folder, Command::new(program).arg("udp:10.0.0.9:7"));
    for round in 0..3_u8 {
        deliver(&mut served, &packet(&[round; 5], 1));
        let sent = answer(&mut served);
        let Outcome::Flow(flow) = classify(&sent) else { panic!("it is a flow") };
        assert_eq!(flow.key.destination().to_string(), "10.0.0.1:4000");
        assert!(wire::checksum::verify(&sent, &flow));
        let payload = usize::from(flow.payload_offset)..;
        assert_eq!(sent[payload][..usize::from(flow.payload_len)], [round; 5]);
    }
    // What is no UDP packet is given back.
    served.deliver(0, b"nonsense");
    deliver(&mut served, &packet(b"last", 1));
    answer(&mut served);
    assert_eq!(interrupt(child), (Some(0), "4 packets answered\n".to_owned(), String::new()));
    while served.sent(0).is_some() {}
    assert_eq!(served.server.held(), 0);
}

#[test]
fn a_c_program_with_the_shared_library_echoes() {
    let folder = Folder::new("c-shared");
    let libraries = libraries();
    let libraries = libraries.to_str().expect("the target folder's name is text");
    let program = compile(&folder, &["-L", libraries, "-l:libcalisto.so"]);
    echoes(&folder, &program);
}

#[test]
fn a_c_program_with_the_static_library_echoes() {
    let folder = Folder::new("c-static");
    let library = libraries().join("libcalisto.a");
    let library = library.to_str().expect("the target folder's name is text");
    let program = compile(&folder, &[library, "-lpthread", "-ldl", "-lm", "-lgcc_s"]);
    echoes(&folder, &program);
}

#[test]
fn a_c_program_says_what_is_wrong() {
    let folder = Folder::new("c-wrong");
    let libraries = libraries();
    let text = libraries.to_str().expect("the target folder's name is text");
    let program = compile(&folder, &["-L", text, "-l:libcalisto.so"]);
    let alone = Command::new(&program)
        .arg("udp:10.0.0.9:7")
        .env("CALISTO_APPS", folder.socket())
        .env("LD_LIBRARY_PATH", &libraries)
        .output()
        .expect("it can be run");
    assert_eq!(alone.status.code(), Some(1));
    let said = String::from_utf8_lossy(&alone.stderr);
    assert!(said.contains("is the daemon running?"), "{said}");

    let (served, child) = run(&folder, Command::new(&program).arg("udp:10.0.0.9:7"));
    drop(served);
    let (code, _, said) = output(child);
    assert_eq!(code, Some(1));
    assert!(said.contains("the daemon is gone"), "{said}");
}

fn counter(arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.arg(root().join("examples/packet_counter.py")).args(arguments);
    command
}

/// The rows of the last table, without the spaces.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut rows: Vec<_> = rows.collect();
    let last = rows.iter().rposition(|row| row == &["source", "packets", "bytes"]);
    rows.split_off(last.expect("a table has a head") + 1)
}

#[test]
fn the_python_program_counts_by_source_until_it_is_interrupted() {
    let folder = Folder::new("python");
    let (mut served, child) = run(&folder, &mut counter(&["udp:10.0.0.9:7"]));
    for sender in [1, 2, 1, 1] {
        deliver(&mut served, &packet(b"12345678", sender));
    }
    let end = Instant::now() + Duration::from_secs(20);
    while served.server.held() > 0 {
        assert!(Instant::now() < end, "it does not give its packets back");
        assert_eq!(served.sent(0), None, "it sends nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
    let (code, printed, said) = interrupt(child);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    // 14 bytes of Ethernet, 20 of IPv4, 8 of UDP, 8 of payload.
    assert_eq!(
        rows(&printed),
        [["10.0.0.1", "3", "150"], ["10.0.0.2", "1", "50"], ["all", "4", "200"]]
    );
}

#[test]
fn the_python_program_ends_after_its_time_or_with_the_daemon() {
    let folder = Folder::new("python-end");
    let (_served, child) = run(&folder, &mut counter(&["udp:10.0.0.9:7", "--seconds", "0.2"]));
    let (code, printed, _) = output(child);
    assert_eq!(code, Some(0));
    assert_eq!(rows(&printed), [["all", "0", "0"]]);

    let (served, child) = run(&folder, &mut counter(&["udp:10.0.0.9:7"]));
    drop(served);
    let (code, _, said) = output(child);
    assert_eq!(code, Some(1));
    assert!(said.contains("the daemon is gone"), "{said}");
}
