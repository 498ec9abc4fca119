//! `calisto load` against real servers: what it counts is what they count. And against servers that
//! misbehave, with others at its side, and over Calisto's own TCP.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use serde_json::Value;
use testbed::{Side, Testbed};
use whole::{
    Accelerated, Finished, Program, TIMEOUT, bed, beside, binary, project, serve_with_the_kernel,
    wait_for,
};

/// Installs what is missing, once.
fn install() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let mut script = Command::new(project().join("script/install-missing"));
        let packages = ["redis-server=redis-server", "memcached=memcached", "nginx=nginx"];
        let output = script.args(packages).output().expect("bash is there");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the servers cannot be installed: {said}");
    });
}

/// A folder for a server, gone with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("calisto-load-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(path.join("www")).expect("there is room");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn start(side: &Side, words: &str) -> Program {
    let (program, words) = words.split_once(' ').expect("a program and its words");
    Program::spawn(side.command(program).args(words.split(' ')))
}

/// `calisto load` with these words in the client's namespace, ended.
fn load(side: &Side, words: &str) -> Finished {
    let mut command = side.command(binary("calisto"));
    Program::spawn(command.arg("load").args(words.split_ascii_whitespace())).end()
}

/// Its report. `words` ask for one second or so.
fn report(side: &Side, words: &str) -> Value {
    let finished = load(side, &format!("{words} -j"));
    assert!(finished.status.success(), "{words}: {}", finished.said);
    serde_json::from_str(&finished.out).unwrap_or_else(|error| panic!("{error}: {}", finished.out))
}

fn count(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap_or_else(|| panic!("{name} in {report}"))
}

/// Of the runs at honest servers, which answer everything in the end: the run lasts until they
/// have.
const PATIENT: &str = "--grace 20s";

/// What a busy machine did not let the generator send says nothing about the answers.
fn nothing_went_wrong(report: &Value) {
    for name in ["lost", "corrupted", "errors", "closed", "broken", "resent"] {
        assert_eq!(count(report, name), 0, "{name}: {report}");
    }
    assert!(count(report, "sent") + count(report, "never_sent") > 100, "{report}");
    assert_eq!(count(report, "sent"), count(report, "received"), "{report}");
}

/// What a server says to one line, until it says `last`.
fn ask(bed: &Testbed, port: u16, line: &str, last: &str) -> Vec<String> {
    let address = SocketAddr::from((bed.server().ipv4(), port));
    let stream = wait_for("a server that listens", || {
        let stream = bed.client().enter(|| TcpStream::connect_timeout(&address, TIMEOUT));
        stream.expect("the namespace is there").map_err(|error| error.to_string())
    });
    stream.set_read_timeout(Some(TIMEOUT)).expect("no zero");
    (&stream).write_all(format!("{line}\r\n").as_bytes()).expect("it is connected");
    let mut lines = Vec::new();
    for line in BufReader::new(&stream).lines() {
        lines.push(line.expect("it answers"));
        if lines.last().is_some_and(|line| line.starts_with(last)) {
            return lines;
        }
    }
    panic!("it closed after {lines:?}");
}

/// The number behind `name` in one of `lines`.
fn number(lines: &[String], name: &str) -> u64 {
    let rest = lines.iter().find_map(|line| line.strip_prefix(name));
    let rest = rest.unwrap_or_else(|| panic!("{name} in {lines:?}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{name} in {lines:?}"))
}

#[test]
fn redis_counts_the_same_gets_sets_hits_and_misses() {
    install();
    let (bed, folder) = (bed(), Folder::new("redis"));
    let (here, dir) = (bed.server().ipv4(), folder.0.display());
    let words = format!("redis-server --port 6379 --bind {here} --protected-mode no --dir {dir}");
    let mut server = Program::spawn(
        bed.server().command("redis-server").args(words.split(' ').skip(1)).args(["--save", ""]),
    );
    server.wait_until_it_says("Ready to accept connections");
    let stats = || {
        let lines = ask(&bed, 6379, "INFO all", "# Keyspace");
        let get =
            |name| lines.iter().any(|line| line.starts_with(name)).then(|| number(&lines, name));
        [
            get("cmdstat_get:calls=").unwrap_or(0),
            get("cmdstat_set:calls=").unwrap_or(0),
            number(&lines, "keyspace_hits:"),
            number(&lines, "keyspace_misses:"),
        ]
    };
    // Nothing is filled in: at first every get misses.
    let words = "--rate 4k --seconds 1 --flows 7 --keys 300 --key-order zipf --value-bytes 1-900";
    let words = format!("redis {here}:6379 {words} --no-fill --sets 0.3 {PATIENT}");
    let found = report(bed.client(), &words);
    nothing_went_wrong(&found);
    let [gets, sets, hits, misses] = stats();
    assert_eq!(gets + sets, count(&found, "received"));
    let own = ["stored", "hits", "misses"].map(|name| count(&found, name));
    assert_eq!([sets, hits, misses], own, "{found}");
    assert!(hits > 0 && misses > 0, "{found}");
    // All is filled in: every get hits.
    let words = "--outstanding 8 --seconds 1 --flows 8 --keys 500 --sets 0.2";
    let filled = report(bed.client(), &format!("redis {here}:6379 {words} {PATIENT}"));
    nothing_went_wrong(&filled);
    let after = stats();
    assert_eq!(after[0] - gets, count(&filled, "hits"), "{filled}");
    assert_eq!(after[1] - sets - 500, count(&filled, "stored"), "{filled}");
    assert_eq!((after[3], count(&filled, "misses")), (misses, 0));
    server.stop();
}

#[test]
fn memcached_counts_the_same_gets_sets_hits_and_misses() {
    install();
    let bed = bed();
    let here = bed.server().ipv4();
    let server = start(bed.server(), &format!("memcached -u nobody -p 11211 -U 0 -l {here}"));
    let stats = || {
        let lines = ask(&bed, 11211, "stats", "END");
        ["cmd_get", "cmd_set", "get_hits", "get_misses"]
            .map(|name| number(&lines, &format!("STAT {name} ")))
    };
    assert_eq!(stats(), [0; 4]);
    let words = "--rate 4k --seconds 1 --threads 2 --flows 6 --keys 200 --value-bytes 10-2000";
    let words = format!("memcached {here}:11211 {words} --no-fill --sets 0.3 {PATIENT}");
    let found = report(bed.client(), &words);
    nothing_went_wrong(&found);
    let [gets, sets, hits, misses] = stats();
    assert_eq!(gets + sets, count(&found, "received"));
    let own = ["stored", "hits", "misses"].map(|name| count(&found, name));
    assert_eq!([sets, hits, misses], own, "{found}");
    assert!(hits > 0 && misses > 0, "{found}");
    server.stop();
}

/// One worker, everything in `folder`, and that many requests on a connection.
fn nginx(bed: &Testbed, folder: &Path, keepalive_requests: u32) -> Program {
    let dir = folder.display();
    let text = format!(
        "worker_processes 1;\ndaemon off;\nuser root;\npid {dir}/nginx.pid;\n\
         error_log stderr notice;\nevents {{ worker_connections 256; }}\nhttp {{\n\
         log_format status \"$status\";\naccess_log {dir}/access status;\n\
         keepalive_requests {keepalive_requests};\n\
         client_body_temp_path {dir}/b;\nproxy_temp_path {dir}/p;\nfastcgi_temp_path {dir}/f;\n\
         uwsgi_temp_path {dir}/u;\nscgi_temp_path {dir}/s;\n\
         server {{ listen 8080; root {dir}/www; }}\n}}\n"
    );
    std::fs::write(folder.join("nginx.conf"), text).expect("the folder is ours");
    std::fs::write(folder.join("www/page"), "a page\n".repeat(400)).expect("the folder is ours");
    let mut server = start(bed.server(), &format!("/usr/sbin/nginx -c {dir}/nginx.conf"));
    server.wait_until_it_says("start worker processes");
    server
}

#[test]
fn nginx_logs_as_many_pages_as_were_answered_though_it_closes_connections() {
    install();
    let (bed, folder) = (bed(), Folder::new("nginx"));
    let server = nginx(&bed, &folder.0, 50);
    let url = format!("http://{}:8080", bed.server().ipv4());
    let logged = |status: &str| {
        let text = std::fs::read_to_string(folder.0.join("access")).expect("nginx writes it");
        text.lines().filter(|line| *line == status).count() as u64
    };
    // One in flight: what closes a connection is always an answer, and nothing is asked twice.
    let words = format!("http {url}/page --outstanding 1 --seconds 1 {PATIENT}");
    let found = report(bed.client(), &words);
    nothing_went_wrong(&found);
    wait_for("every page in the log", || {
        let logged = logged("200");
        if logged == count(&found, "received") { Ok(()) } else { Err(format!("{logged}: {found}")) }
    });
    // Open loop on four connections: what was owed when one was closed is asked again.
    let words = format!("http {url}/page --rate 2k --flows 4 --seconds 0.5 {PATIENT}");
    let found = report(bed.client(), &words);
    assert_eq!((count(&found, "lost"), count(&found, "broken")), (0, 0), "{found}");
    let before = logged("404");
    let words = format!("http {url}/none --rate 500 --seconds 1 {PATIENT}");
    let missing = report(bed.client(), &words);
    assert_eq!(count(&missing, "errors"), count(&missing, "received"), "{missing}");
    wait_for("every miss in the log", || {
        let logged = logged("404") - before;
        if logged == count(&missing, "received") { Ok(()) } else { Err(format!("{logged}")) }
    });
    let failed = load(bed.client(), &format!("{words} --check errors=0"));
    assert!(!failed.status.success() && failed.said.contains("errors is"), "{}", failed.said);
    server.stop();
}

#[test]
fn a_server_that_talks_nonsense_is_counted_and_fails_its_check() {
    let bed = bed();
    let address = SocketAddr::from((bed.server().ipv4(), 7777));
    let listener = bed.server().enter(|| TcpListener::bind(address));
    let listener = listener.expect("the namespace is there").expect("the port is free");
    listener.set_nonblocking(true).expect("it is a socket");
    let nonsense = |is_over: &AtomicBool| {
        let mut number = 0;
        while !is_over.load(Ordering::Relaxed) {
            let Ok((mut stream, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            number += 1;
            let _ = stream.set_nonblocking(false);
            let _ = stream.set_read_timeout(Some(Duration::from_millis(50)));
            let _ = stream.read(&mut [0; 4096]);
            // Garbage, half an answer, too much, nothing: in turns.
            let _ = match number % 4 {
                0 => stream.write_all(&[0xff; 3000]),
                1 => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"),
                2 => stream.write_all(&[b'x'; 200_000]),
                _ => Ok(()),
            };
        }
    };
    beside(nonsense, || {
        for kind in ["http http://", "redis ", "memcached ", "tcp "] {
            let no_fill = if kind == "redis " || kind == "memcached " { "--no-fill" } else { "" };
            let words = format!("{kind}{address} --rate 200 --flows 4 --seconds 0.6 {no_fill}");
            // Where nothing at all was an answer, it fails and says what to look at; the report is
            // there.
            let finished = load(bed.client(), &format!("{words} -j"));
            let found: Value = serde_json::from_str(&finished.out).expect("a report");
            let is_silent = count(&found, "received") == 0;
            assert_eq!(finished.status.success(), !is_silent, "{}", finished.said);
            assert!(count(&found, "closed") + count(&found, "broken") > 0, "{found}");
            assert!(count(&found, "received") < count(&found, "sent"), "{found}");
            let failed = load(bed.client(), &format!("{words} --check lost=0"));
            assert_eq!(failed.status.code(), Some(1), "{}", failed.said);
            assert!(failed.said.contains("lost is"), "{}", failed.said);
        }
        // What cannot be filled is said so.
        let failed = load(bed.client(), &format!("redis {address} --seconds 0.1"));
        assert!(failed.said.contains("cannot be filled"), "{}", failed.said);
    });
    let failed = load(bed.client(), &format!("tcp {}:1 --seconds 0.1", bed.server().ipv4()));
    assert_eq!(failed.status.code(), Some(1));
    assert!(failed.said.contains("cannot connect to"), "{}", failed.said);
}

#[test]
fn clients_that_begin_together_send_nothing_before_the_last_one_is_there() {
    let bed = bed();
    let address = SocketAddr::from((bed.server().ipv4(), 7));
    let socket = bed.server().enter(|| UdpSocket::bind(address));
    let socket = socket.expect("the namespace is there").expect("the port is free");
    socket.set_nonblocking(true).expect("it is a socket");
    // Room for all requests of both: whoever answers them may not get a CPU for as long.
    set_socket_recv_buffer_size_force(&socket, 4 << 20).expect("root may do so");
    let words = format!("load udp {address} --rate 1k --seconds 0.3 {PATIENT} -j");
    let start = |more: &str| {
        let mut command = bed.client().command(binary("calisto"));
        Program::spawn(command.args(words.split(' ')).args(more.split(' ')))
    };
    let leader = start("--clients 2 --barrier-listen 127.0.0.1:23232");
    // Whoever began alone would be through by then.
    std::thread::sleep(Duration::from_millis(800));
    let early = socket.recv(&mut [0; 64]).map_err(|error| error.kind());
    assert_eq!(early, Err(ErrorKind::WouldBlock), "the leader waits");
    let echo = |is_over: &AtomicBool| {
        let (mut bytes, mut count) = ([0; 64], 0);
        while !is_over.load(Ordering::Relaxed) {
            match socket.recv_from(&mut bytes) {
                Ok((len, from)) => {
                    count += 1;
                    socket.send_to(&bytes[..len], from).expect("the way is there");
                }
                Err(_) => std::thread::sleep(Duration::from_micros(200)),
            }
        }
        count
    };
    let (answered, reports) = beside(echo, || {
        let follower = start("--leader 127.0.0.1");
        [leader, follower].map(Program::succeed)
    });
    let reports = reports.map(|said| {
        serde_json::from_str::<Value>(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
    });
    reports.iter().for_each(nothing_went_wrong);
    assert_eq!(reports.iter().map(|report| count(report, "sent")).sum::<u64>(), answered);
    let alone = load(bed.client(), "udp 127.0.0.1:7 --leader 127.0.0.1 --barrier-wait 100ms");
    assert_eq!(alone.status.code(), Some(1));
    assert!(alone.said.contains("there was no common start"), "{}", alone.said);
}

#[test]
fn a_sweep_prints_the_header_of_synthetic_and_a_line_for_each_step() {
    let bed = bed();
    let echo = serve_with_the_kernel(&bed, 7);
    let target = format!("{}:7", bed.server().ipv4());
    let words = "--mpps 0.003 --start_mpps 0.001 --samples 4 --runtime 0.1 --arrival constant";
    let swept = load(bed.client(), &format!("udp {target} {words} --mean 100 -d bimodal1 --csv"));
    assert!(swept.status.success(), "{}", swept.said);
    let lines: Vec<&str> = swept.out.lines().collect();
    let header = "Distribution, Target, Actual, Dropped, Never Sent, Median, 90th, 99th, 99.9th, \
                  99.99th, Start";
    assert_eq!((lines[0], lines.len()), (header, 5), "{}", swept.out);
    for (line, target) in lines[1..].iter().zip([1500, 2000, 2500, 3000]) {
        assert!(line.starts_with(&format!("bimodal1, {target}, ")), "{line}");
        assert_eq!(line.split(", ").count(), 11, "{line}");
    }
    echo.end();
}

#[test]
fn requests_on_connections_of_calisto_are_answered_without_the_kernels_tcp() {
    let accelerated = Accelerated::start();
    let address = SocketAddr::from((accelerated.there().ipv4(), 7));
    let listener = accelerated.there().enter(|| TcpListener::bind(address));
    let listener = listener.expect("the namespace is there").expect("the port is free");
    let flows = 5;
    let found = std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let all: Vec<_> = (0..flows)
                .map(|_| {
                    let (mut stream, _) = listener.accept().expect("it comes");
                    scope.spawn(move || {
                        let mut bytes = [0; 4096];
                        while let Ok(count) = stream.read(&mut bytes)
                            && count > 0
                        {
                            stream.write_all(&bytes[..count]).expect("it reads");
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|one| one.join().expect("no assertion failed"));
        });
        let mut command = accelerated.here().command(binary("calisto"));
        command.env("CALISTO_APPS", accelerated.daemon().apps_socket());
        let words = format!("load tcp {address} --transport calisto --flows {flows} --payload 100");
        command.args(words.split(' ')).args(PATIENT.split(' '));
        command.args(["--rate", "1k", "--seconds", "0.5", "-j"]);
        let said = Program::spawn(&mut command).succeed();
        serving.join().expect("no assertion failed");
        serde_json::from_str::<Value>(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
    });
    nothing_went_wrong(&found);
    assert!(found["generator"].as_str().is_some_and(|text| text.contains("of Calisto")), "{found}");
    accelerated.all_was_accelerated();
    accelerated.nothing_is_left();
}
