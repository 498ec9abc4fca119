//! Strangers who keep to no rule, and honest clients of the same program: nobody is put out, no
//! connection of the honest breaks, and nothing stays. `calisto bench abuse` plays the same for
//! longer, with Linux beside it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::Nanos;
use testbed::{Abuse, Attack, AttackCounts, AttackPlan, Bystanders, Conduct, Exchange, TINY_MSS};
use whole::{Accelerated, Program, project, wait_for, wait_within};

/// Of a long answer: more than any window of an attacker's takes at once.
const LONG: usize = 1 << 20;

const PORT: u16 = 7000;

/// What most daemons here may have in memory for rings, so that a few hundred connections come up
/// to it, and besides rings: frames, flows, code.
const RINGS: &str = "[sockets]\nmemory_mib = 64\n";
const OTHERS_BYTES: u64 = 48 << 20;

/// What is attacked.
struct Served {
    // Ended in this order.
    programs: Vec<Program>,
    accelerated: Accelerated,
    server: SocketAddrV4,
    exchange: Exchange,
    long: Vec<u8>,
    /// Sockets that were the kernel's before anybody came: haproxy tries some things.
    fallbacks: Vec<admin::FallbackTotal>,
}

fn install(packages: &[&str]) {
    let mut script = Command::new(project().join("script/install-missing"));
    let output = script.args(packages).output().expect("bash is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the programs to test cannot be installed: {said}");
}

impl Served {
    fn new(
        mut accelerated: Accelerated,
        programs: Vec<Program>,
        asked: [&str; 2],
        keeps: bool,
    ) -> Self {
        let server = SocketAddrV4::new(accelerated.here().ipv4(), PORT);
        let [long, short] = asked.map(|text| text.as_bytes().to_vec());
        let answer_bytes = wait_for("an answer", || {
            let ask = || answer_bytes(server.into(), &short);
            let bytes = accelerated.there().enter(ask).expect("it is there");
            bytes.map_err(|error| error.to_string())
        });
        accelerated.begin_counting();
        let exchange = Exchange { request: short, answer_bytes, keeps };
        let fallbacks = accelerated.fallbacks();
        Self { programs, accelerated, server, exchange, long, fallbacks }
    }

    /// Accepts, receives, sends and closes.
    fn plain(accelerated: Accelerated) -> Self {
        install(&["cc=gcc"]);
        let program = accelerated.daemon().folder().join("plain_server");
        let source = project().join("crates/lab/bench/src/sockets/programs/plain_server.c");
        let status = Command::new("cc").arg("-O1").arg(source).arg("-o").arg(&program).status();
        assert!(status.expect("there is a compiler").success());
        let words = [program.display().to_string(), "0.0.0.0".to_owned(), PORT.to_string()];
        let running = accelerated.run(&words.each_ref().map(String::as_str));
        Self::new(accelerated, vec![running], ["L\n", "S\n"], false)
    }

    fn redis() -> Self {
        install(&["redis-server=redis-server"]);
        let accelerated = Accelerated::with(RINGS);
        let port = PORT.to_string();
        let words = ["redis-server", "--port", &port, "--protected-mode", "no", "--save", ""];
        let redis = accelerated.run(&words);
        let served = Self::new(accelerated, vec![redis], ["GET long\r\n", "PING\r\n"], true);
        let mut set = format!("*3\r\n$3\r\nSET\r\n$4\r\nlong\r\n${LONG}\r\n").into_bytes();
        set.resize(set.len() + LONG, b'.');
        set.extend(b"\r\n");
        let ask = || answer_bytes(served.server.into(), &set);
        let answer = served.accelerated.there().enter(ask).expect("it is there");
        assert_eq!(answer.expect("it answers"), "+OK\r\n".len());
        served
    }

    fn nginx() -> Self {
        install(&["nginx=nginx"]);
        let accelerated = Accelerated::with(RINGS);
        let program = nginx(&accelerated, PORT);
        Self::new(accelerated, vec![program], HTTP, true)
    }

    /// In front of an nginx.
    fn haproxy() -> Self {
        install(&["nginx=nginx", "haproxy=haproxy"]);
        // Its connections to nginx take rings as well, and are the kernel's where there are none.
        let accelerated = Accelerated::start();
        let behind = nginx(&accelerated, PORT + 1);
        let (host, port) = (accelerated.here().ipv4(), PORT + 1);
        let config = format!(
            "global\n maxconn 2000\n nbthread 1\ndefaults\n mode http\n timeout connect 10s\n \
             timeout client 60s\n timeout server 60s\nfrontend in\n bind 0.0.0.0:{PORT}\n \
             default_backend behind\nbackend behind\n server one {host}:{port}\n"
        );
        let path = accelerated.daemon().folder().join("haproxy.cfg");
        std::fs::write(&path, config).expect("the folder is ours");
        let path = path.display().to_string();
        let haproxy = accelerated.run(&["/usr/sbin/haproxy", "-db", "-f", &path]);
        Self::new(accelerated, vec![haproxy, behind], HTTP, true)
    }

    /// Honest clients ask for as long as `attack` goes on.
    fn beside(&self, conducts: &[Conduct], size: [u64; 2], holds: Nanos) -> AttackCounts {
        let [connections, per_second] = size;
        let (server, conducts) = (self.server, conducts.to_vec());
        let plan = AttackPlan { server, conducts, connections, per_second, holds, first: 0 };
        let mut attack = Attack::new(self.accelerated.bed(), plan).expect("this test needs root");
        let honest = Bystanders {
            server: self.server.into(),
            exchange: self.exchange.clone(),
            clients: 4,
            per_second: 100,
        };
        let is_over = AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            let stop = || is_over.load(Ordering::Relaxed);
            let asking = scope.spawn(move || honest.ask(self.accelerated.there(), &stop));
            let go_on = |attack: &mut Attack| {
                if !attack.turn(sys::clock::now()) {
                    std::thread::sleep(Duration::from_micros(200));
                }
            };
            while !attack.is_over() {
                go_on(&mut attack);
            }
            is_over.store(true, Ordering::Relaxed);
            while !asking.is_finished() {
                go_on(&mut attack);
            }
            // What is still sent to the attacker is answered by resets, until all have ended.
            wait_within(Duration::from_secs(120), "an end of the attacker's connections", || {
                for _ in 0..50 {
                    go_on(&mut attack);
                }
                match self.accelerated.daemon().counter("tcp_flows") {
                    flows if flows <= self.programs.len() as u64 => Ok(()),
                    flows => {
                        let mut rows = self.accelerated.sockets();
                        rows.retain(|row| row.remote.is_some());
                        Err(format!("{flows} flows: {rows:?}"))
                    }
                }
            });
            asking.join().expect("it does not panic").expect("the namespace is there")
        });
        let counts = attack.counts();
        assert_eq!(seen.broken, 0, "{:?}: {counts:?}", seen.why);
        assert!(!seen.latencies.is_empty(), "the honest are answered: {counts:?}");
        assert_eq!(counts.opened, connections, "{counts:?}");
        counts
    }

    /// Nobody was put out, and the programs serve by Calisto as before.
    fn is_unharmed(&self) {
        let reasons = self.accelerated.daemon().apps().into_iter().filter_map(|app| app.reason);
        let put_out: Vec<admin::Reason> =
            reasons.filter(|reason| !["left", "died"].contains(&reason.name.as_str())).collect();
        assert!(put_out.is_empty(), "{put_out:?}: {}", self.accelerated.daemon().said());
        assert_eq!(self.accelerated.fallbacks(), self.fallbacks, "more was left to the kernel");
        self.accelerated.kernel_has_no_connections();
    }

    /// Bytes of the daemon in memory.
    fn resident_bytes(&self) -> u64 {
        let status = format!("/proc/{}/status", self.accelerated.daemon().pid());
        let status = std::fs::read_to_string(status).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
        kib.expect("the kernel tells it") << 10
    }

    /// Everything that it had goes when its programs do.
    fn leaves_nothing(self) {
        let Self { programs, accelerated, .. } = self;
        for program in programs {
            program.stop();
        }
        accelerated.nothing_is_left();
    }
}

/// A long file and a short one.
const HTTP: [&str; 2] =
    ["GET /long HTTP/1.1\r\nHost: a\r\n\r\n", "GET /short HTTP/1.1\r\nHost: a\r\n\r\n"];

fn nginx(accelerated: &Accelerated, port: u16) -> Program {
    let root = accelerated.daemon().folder().display().to_string();
    let config = format!(
        "daemon off;\nuser root;\nworker_processes 1;\npid {root}/pid;\nerror_log stderr notice;\n\
         events {{ worker_connections 4096; }}\nhttp {{ access_log off; sendfile on;\n\
         keepalive_timeout 600;\nserver {{ listen 0.0.0.0:{port} backlog=1024; root {root}; }} }}\n"
    );
    for (name, text) in [("long", vec![b'.'; LONG]), ("short", b"a small file\n".to_vec())] {
        std::fs::write(accelerated.daemon().folder().join(name), text).expect("it is ours");
    }
    let path = accelerated.daemon().folder().join("nginx.conf");
    std::fs::write(&path, config).expect("the folder is ours");
    let path = path.display().to_string();
    let mut program = accelerated.run(&["/usr/sbin/nginx", "-c", &path]);
    program.wait_until_it_says("start worker processes");
    program
}

/// Bytes that come until nothing comes any more.
fn answer_bytes(server: SocketAddr, request: &[u8]) -> std::io::Result<usize> {
    let mut stream = TcpStream::connect(server)?;
    stream.write_all(request)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let (mut bytes, mut chunk) = (0, [0; 4096]);
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return Ok(bytes),
            Ok(read) => bytes += read,
            Err(error) if error.kind() == ErrorKind::WouldBlock && bytes > 0 => return Ok(bytes),
            Err(error) => return Err(error),
        }
    }
}

/// Each way of aborting a connection; who reads to the end reads little.
fn aborts(served: &Served) -> Vec<Conduct> {
    let conduct = |abuse| {
        let short = &served.exchange.request;
        Conduct::new(abuse, if abuse == Abuse::HalfClose { short } else { &served.long })
    };
    Abuse::ABORTS.map(conduct).to_vec()
}

fn connections_that_are_aborted_harm_nobody(served: Served) {
    let conducts = aborts(&served);
    let hold = Nanos::from_millis(1000);
    let counts = served.beside(&conducts, [280, 140], hold);
    assert!(counts.accepted > 200, "{counts:?}");
    served.is_unharmed();
    served.beside(&conducts, [280, 140], hold);
    served.is_unharmed();
    let resident = served.resident_bytes();
    let rings = served.accelerated.daemon().counter("ring_memory_limit_bytes");
    assert!(resident <= rings + OTHERS_BYTES, "{resident} bytes in memory, {rings} for rings");
    served.leaves_nothing();
}

#[test]
fn connections_to_a_plain_server_that_are_aborted_in_every_way_harm_nobody() {
    connections_that_are_aborted_harm_nobody(Served::plain(Accelerated::with(RINGS)));
}

#[test]
fn connections_to_redis_that_are_aborted_in_every_way_harm_nobody() {
    connections_that_are_aborted_harm_nobody(Served::redis());
}

#[test]
fn connections_to_nginx_that_are_aborted_in_every_way_harm_nobody() {
    connections_that_are_aborted_harm_nobody(Served::nginx());
}

#[test]
fn connections_to_haproxy_that_are_aborted_in_every_way_harm_nobody() {
    connections_that_are_aborted_harm_nobody(Served::haproxy());
}

#[test]
fn what_wants_all_of_something_leaves_the_honest_their_part() {
    let served = Served::nginx();
    let long = |abuse| Conduct::new(abuse, &served.long);
    let hold = Nanos::from_secs(2);
    // Readers that take a few bytes now and then.
    served.beside(&[long(Abuse::SlowRead)], [200, 200], hold);
    served.is_unharmed();
    // More SYNs than a backlog has places.
    served.beside(&[long(Abuse::SynOnly)], [10_000, 5000], Nanos::from_millis(200));
    served.is_unharmed();
    // Many small segments whose acknowledgement never comes.
    let silent = Conduct { reads: 256 << 10, ..long(Abuse::TinySegments) };
    served.beside(&[silent], [8, 100], hold);
    served.is_unharmed();
    // Nonsense about many small segments, a thousand times a second.
    let sacks = Conduct { mss: TINY_MSS, reads: 128 << 10, ..long(Abuse::SackSpam) };
    served.beside(&[sacks], [1, 100], hold);
    served.is_unharmed();
    served.leaves_nothing();
}

#[test]
fn more_names_in_time_wait_than_there_are_flows_keep_nobody_out() {
    let served = Served::plain(Accelerated::configured(
        "ports = [\"xdp:veth0\"]\n[workers]\njob = \"sockets\"\n[tcp]\nflows = 256\n\
         time_wait_ms = 5000\n",
    ));
    let polite = Conduct::new(Abuse::Polite, &served.exchange.request);
    let counts = served.beside(&[polite], [1000, 500], Nanos::from_secs(3));
    assert!(counts.ended > 500, "{counts:?}");
    served.is_unharmed();
    let evicted = served.accelerated.daemon().counter("tcp_time_wait_evicted");
    assert!(evicted > 0, "{counts:?}: {}", served.accelerated.daemon().calisto("stats"));
    served.leaves_nothing();
}
