//! The daemon's life as its starter sees it: signals, its log, its admin socket. Its ports are
//! capture files, so that no right and no interface is needed.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Whatever is waited for comes much sooner, on the busiest machine.
const PATIENT: Duration = Duration::from_secs(60);

/// A running daemon, ended with the value.
struct Daemon {
    child: Child,
    folder: PathBuf,
    /// Lines of its standard output, then of its standard error.
    out: Receiver<String>,
    err: Receiver<String>,
}

/// The daemon on these ports and settings, in a folder of its own; `{}` stands for the folder.
fn start(name: &str, ports: &str, settings: &str) -> Daemon {
    let folder = std::env::temp_dir().join(format!("calisto-life-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
    // An Ethernet capture without a packet: the header of pcap-savefile(5).
    let header: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1];
    fs::write(folder.join("in.pcap"), header.map(u32::to_le_bytes).concat()).expect("it is ours");
    let shown = folder.display().to_string();
    let text = format!(
        "ports = [\"{ports}\"]\nadmin_socket = \"{{}}/admin.sock\"\n{settings}\n[apps]\nmax = 0\n"
    );
    let config = folder.join("calisto.toml");
    fs::write(&config, text.replace("{}", &shown)).expect("it is ours");
    let mut child = Command::new(env!("CARGO_BIN_EXE_calistod"))
        .arg("--config")
        .arg(&config)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("calistod was built with this test");
    let out = lines(child.stdout.take().expect("it is piped"));
    let err = lines(child.stderr.take().expect("it is piped"));
    Daemon { child, folder, out, err }
}

fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        BufReader::new(from).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    lines
}

/// The next line that has `part`.
fn line_with(lines: &Receiver<String>, part: &str) -> String {
    let mut others = Vec::new();
    loop {
        match lines.recv_timeout(PATIENT) {
            Ok(line) if line.contains(part) => return line,
            Ok(line) => others.push(line),
            Err(_) => panic!("no line has {part:?}: {others:?}"),
        }
    }
}

impl Daemon {
    fn socket(&self) -> UnixStream {
        UnixStream::connect(self.folder.join("admin.sock")).expect("the daemon listens")
    }

    /// The answer; nothing if the daemon has closed the connection before.
    fn ask(&self, command: &str) -> String {
        let mut stream = self.socket();
        // One that is refused is told why without having been read.
        let _ = writeln!(stream, "{{\"v\":1,\"command\":\"{command}\"}}");
        let mut answer = String::new();
        let _ = BufReader::new(stream).read_line(&mut answer);
        answer
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is our child");
    }

    fn wait(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status;
            }
            assert!(began.elapsed() < PATIENT, "the daemon does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

const ECHO: &str = "listen = [\"udp:10.0.0.2:7\"]\n[workers]\njob = \"echo\"";

#[test]
fn a_message_that_comes_again_and_again_is_some_lines_and_a_number() {
    let daemon = start("repeats", "pcap:-,{}/out.pcap", ECHO);
    line_with(&daemon.out, "ready: ");
    let began = Instant::now();
    let mut lines = 0;
    loop {
        assert!(began.elapsed() < PATIENT, "{lines} lines, and none says that some were left out");
        daemon.signal(Signal::USR1);
        match daemon.err.try_recv() {
            Ok(line) if line.contains(" more like this were left out: SIGUSR1") => break,
            Ok(_) => lines += 1,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    assert!(lines >= 50, "{lines} lines: they are to tell what it is about");
    assert!(daemon.ask("status").contains("\"reply\":\"status\""));
}

#[test]
fn a_closed_terminal_and_signals_of_other_programs_do_not_end_it() {
    let mut daemon = start("signals", "pcap:-,{}/out.pcap", ECHO);
    line_with(&daemon.out, "ready: ");
    for (signal, name) in [(Signal::USR1, "SIGUSR1"), (Signal::USR2, "SIGUSR2")] {
        daemon.signal(signal);
        line_with(&daemon.err, name);
    }
    daemon.signal(Signal::HUP);
    line_with(&daemon.out, "read again: nothing has changed");
    assert!(daemon.ask("status").contains("\"reply\":\"status\""));
    daemon.signal(Signal::TERM);
    assert!(daemon.wait().success());
}

#[test]
fn its_first_line_is_for_scripts_and_the_others_have_time_and_level() {
    let daemon = start("log", "pcap:-,{}/out.pcap", ECHO);
    let first = daemon.out.recv_timeout(PATIENT).expect("it comes up");
    assert_eq!(first, format!("ready: {}/admin.sock", daemon.folder.display()));
    let line = line_with(&daemon.out, "port pcap:");
    let (time, rest) = line.split_once(' ').expect("time, level, text");
    assert!(time.len() == 24 && time.starts_with("20") && time.ends_with('Z'), "{line}");
    assert!(rest.starts_with("info daemon: port pcap:-,") && rest.contains("MTU"), "{line}");
    let line = line_with(&daemon.out, "workers 1, ");
    assert!(line.contains("job echo") && line.contains("listens on udp:10.0.0.2:7"), "{line}");
}

#[test]
fn clients_that_have_nothing_to_ask_do_not_keep_others_out() {
    let mut daemon = start("clients", "pcap:-,{}/out.pcap", ECHO);
    line_with(&daemon.out, "ready: ");
    let _idle: Vec<_> = (0..32).map(|_| daemon.socket()).collect();
    let began = Instant::now();
    // Those that have come a moment ago keep their places for that moment.
    while !daemon.ask("stop").contains("\"done\"") {
        assert!(began.elapsed() < PATIENT, "nobody can end it");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(daemon.wait().success());
}

#[test]
fn a_port_that_moves_nothing_any_more_has_a_line_in_the_log() {
    let daemon = start("port", "pcap:{}/in.pcap", ECHO);
    let line = line_with(&daemon.err, "moves nothing");
    assert!(line.contains("warn ports: port pcap:") && line.contains("has ended"), "{line}");
}

#[test]
fn a_tcp_listener_that_nobody_would_answer_at_is_refused_and_an_unasked_echo_is_told() {
    let mut daemon = start("tcp", "pcap:-,{}/out.pcap", "listen = [\"tcp:10.0.0.2:80\"]");
    let line = line_with(&daemon.err, "speaks no TCP");
    assert!(line.contains("10.0.0.2:80") && line.contains("tcp-echo"), "{line}");
    assert_eq!(daemon.wait().code(), Some(1));
    let daemon = start("echo", "pcap:-,{}/out.pcap", "listen = [\"udp:10.0.0.2:7\"]");
    line_with(&daemon.err, "no job is named");
}
