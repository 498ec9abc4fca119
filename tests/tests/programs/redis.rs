//! redis-server: its protocol, expiry, pub/sub and the forks of its persistence; redis-cli as a
//! client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use admin::{Command, CoreApp, CoresStatus, ReplyBody};

use rustix::process::Signal;
use testbed::Side;
use whole::{Accelerated, Carried, Program, TIMEOUT, wait_for};

use crate::install;

const PORT: u16 = 6379;

/// What redis-server is told: nothing of the machine's own configuration, and everything in one
/// folder.
fn words(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let words =
        ["redis-server", "--port", "6379", "--bind", "0.0.0.0", "::", "--save", "", "--dir"];
    let more = ["--protected-mode", "no"];
    words.into_iter().chain([folder.as_str()]).chain(more).map(str::to_owned).collect()
}

fn server(accelerated: &Accelerated) -> Program {
    let words = words(accelerated.daemon().folder());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut server = accelerated.run(&words);
    server.wait_until_it_says("Ready to accept connections");
    server
}

#[test]
fn redis_survives_the_end_of_the_daemon_and_is_accelerated_by_the_next_one() {
    install();
    let mut accelerated = Accelerated::start();
    let server = server(&accelerated);
    let host = accelerated.here().ipv4().to_string();
    let say = |accelerated: &Accelerated, words: &[&str]| {
        let all: Vec<&str> = ["redis-cli", "-h", &host].iter().chain(words).copied().collect();
        accelerated.run_there(&all).succeed()
    };
    assert_eq!(say(&accelerated, &["SET", "key", "kept"]), "OK\n");
    let pid = server.pid().to_string();
    let asked = accelerated.daemon().try_calisto("down");
    assert!(asked.0.success(), "{asked:?}");
    let (daemon, _) = accelerated.daemon_mut();
    daemon.wait();
    // In between the kernel serves it.
    assert_eq!(say(&accelerated, &["GET", "key"]), "kept\n");
    server.signal(Signal::STOP);
    let (daemon, side) = accelerated.daemon_mut();
    daemon.start_again(side);
    // It has no chance yet to find the daemon, and that is what is said of it.
    let said = accelerated.daemon().calisto(&format!("explain {pid}"));
    assert!(said.contains("attached to a daemon before this one"), "{said}");
    server.signal(Signal::CONT);
    wait_for("redis at the new daemon", || {
        let said = accelerated.daemon().calisto(&format!("explain {pid}"));
        if said.contains("accelerated: ") { Ok(()) } else { Err(said) }
    });
    let before = accelerated.carried();
    assert_eq!(say(&accelerated, &["GET", "key"]), "kept\n");
    let after = wait_for("the bytes of the new connection", || match accelerated.carried() {
        carried if carried.sent > before.sent => Ok(carried),
        carried => Err(format!("{carried:?}")),
    });
    assert!(after.received > before.received, "{after:?}");
    assert_eq!(accelerated.fallbacks(), []);
    server.stop();
    accelerated.nothing_is_left();
}

/// A client that counts what it says and hears.
struct Client {
    stream: BufReader<TcpStream>,
    carried: Carried,
}

/// What redis-server answers (its protocol, RESP2).
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Status(String),
    Error(String),
    Integer(i64),
    Nothing,
    Text(Vec<u8>),
    List(Vec<Self>),
}

fn text(text: &str) -> Reply {
    Reply::Text(text.as_bytes().to_vec())
}

fn ok() -> Reply {
    Reply::Status("OK".to_owned())
}

impl Client {
    fn connect(from: &Side, to: SocketAddr) -> Self {
        let stream = from.enter(|| TcpStream::connect_timeout(&to, TIMEOUT));
        let stream = stream.expect("the namespace is there").expect("redis-server listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("no zero");
        stream.set_nodelay(true).expect("a TCP socket can be told");
        Self { stream: BufReader::new(stream), carried: Carried { received: 0, sent: 0 } }
    }

    fn send(&mut self, words: &[&[u8]]) {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend(format!("${}\r\n", word.len()).bytes());
            bytes.extend(*word);
            bytes.extend(b"\r\n");
        }
        self.carried.received += bytes.len() as u64;
        self.stream.get_mut().write_all(&bytes).expect("it is connected");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let len = self.stream.read_line(&mut line).expect("redis-server answers");
        self.carried.sent += len as u64;
        line.trim_end().to_owned()
    }

    fn reply(&mut self) -> Reply {
        let line = self.line();
        let (kind, rest) = line.split_at(1);
        let number = || rest.parse::<i64>().expect("a number");
        match kind {
            "+" => Reply::Status(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Integer(number()),
            "$" | "*" if number() < 0 => Reply::Nothing,
            "$" => {
                let mut bytes = vec![0; number() as usize + 2];
                self.stream.read_exact(&mut bytes).expect("redis-server answers");
                self.carried.sent += bytes.len() as u64;
                bytes.truncate(bytes.len() - 2);
                Reply::Text(bytes)
            }
            "*" => Reply::List((0..number()).map(|_| self.reply()).collect()),
            other => panic!("{other:?} begins no reply: {line}"),
        }
    }

    fn ask(&mut self, words: &str) -> Reply {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        self.send(&words);
        self.reply()
    }

    /// A field of `INFO`.
    fn info(&mut self, field: &str) -> String {
        let Reply::Text(text) = self.ask("INFO") else { panic!("INFO is a text") };
        let text = String::from_utf8(text).expect("it is a text");
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
        line.unwrap_or_else(|| panic!("{field} is not in {text}")).to_owned()
    }
}

fn sum(clients: &[&Client]) -> Carried {
    let received = clients.iter().map(|client| client.carried.received).sum();
    Carried { received, sent: clients.iter().map(|client| client.carried.sent).sum() }
}

#[test]
fn redis_server_speaks_its_protocol_to_many_clients_over_both_families() {
    install();
    let accelerated = Accelerated::start();
    let server = server(&accelerated);
    let there = accelerated.there();
    let here: [SocketAddr; 2] =
        [(accelerated.here().ipv4(), PORT).into(), (accelerated.here().ipv6(), PORT).into()];
    let mut clients: Vec<Client> =
        (0..20).map(|number| Client::connect(there, here[number % 2])).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ask("PING"), Reply::Status("PONG".to_owned()));
        assert_eq!(client.ask(&format!("SET key{number} {number}")), ok());
        assert_eq!(client.ask(&format!("INCRBY key{number} 5")), Reply::Integer(number as i64 + 5));
        assert_eq!(client.ask("INCR all"), Reply::Integer(number as i64 + 1));
        assert!(matches!(client.ask("LPUSH all x"), Reply::Error(_)), "it is a number");
    }
    let [client, other, ..] = &mut clients[..] else { panic!("there are many") };
    assert_eq!(other.ask("GET key0"), text("5"));
    assert_eq!(
        other.ask("MGET key1 none key2"),
        Reply::List(vec![text("6"), Reply::Nothing, text("7"),])
    );
    // Larger than any ring, and pipelined: a thousand requests before the first answer is read.
    let large: Vec<u8> = (0..5 << 20).map(|at: u32| (at % 251) as u8).collect();
    client.send(&[b"SET", b"large", &large]);
    assert_eq!(client.reply(), ok());
    other.send(&[b"GET", b"large"]);
    assert!(other.reply() == Reply::Text(large), "every byte came back");
    for number in 0..1000 {
        client.send(&[b"RPUSH", b"list", format!("{number}").as_bytes()]);
    }
    for number in 0..1000 {
        assert_eq!(client.reply(), Reply::Integer(number + 1));
    }
    assert_eq!(other.ask("LINDEX list 999"), text("999"));
    accelerated.carried_exactly(sum(&clients.iter().collect::<Vec<_>>()));
    drop(clients);
    assert!(server.stop().status.success());
    accelerated.nothing_is_left();
}

#[test]
fn keys_of_redis_server_expire() {
    install();
    let accelerated = Accelerated::start();
    let _server = server(&accelerated);
    let here = (accelerated.here().ipv4(), PORT).into();
    let mut client = Client::connect(accelerated.there(), here);
    assert_eq!(client.ask("SET soon 1 PX 100"), ok());
    assert_eq!(client.ask("SET late 1 EX 1000"), ok());
    wait_for("the end of a key", || match client.ask("GET soon") {
        Reply::Nothing => Ok(()),
        other => Err(format!("{other:?}")),
    });
    assert_eq!(client.ask("TTL soon"), Reply::Integer(-2));
    // However long the machine has taken since.
    let left = client.ask("TTL late");
    assert!(matches!(left, Reply::Integer(900..=1000)), "{left:?}");
    assert_eq!(client.ask("GET late"), text("1"));
    // A client that waits is told when its time is over, while nobody says anything.
    assert_eq!(client.ask("BLPOP nothing 0.2"), Reply::Nothing);
    accelerated.carried_exactly(sum(&[&client]));
}

#[test]
fn who_subscribes_to_redis_server_hears_what_others_publish() {
    install();
    let accelerated = Accelerated::start();
    let _server = server(&accelerated);
    let here: SocketAddr = (accelerated.here().ipv4(), PORT).into();
    let mut hearers: Vec<Client> =
        (0..5).map(|_| Client::connect(accelerated.there(), here)).collect();
    for hearer in &mut hearers {
        let said = hearer.ask("SUBSCRIBE news");
        assert_eq!(said, Reply::List(vec![text("subscribe"), text("news"), Reply::Integer(1)]));
    }
    let mut speaker = Client::connect(accelerated.there(), here);
    for number in 0..100 {
        assert_eq!(speaker.ask(&format!("PUBLISH news {number}")), Reply::Integer(5));
    }
    for hearer in &mut hearers {
        for number in 0..100 {
            let heard = vec![text("message"), text("news"), text(&number.to_string())];
            assert_eq!(hearer.reply(), Reply::List(heard));
        }
    }
    let all: Vec<&Client> = hearers.iter().chain([&speaker]).collect();
    accelerated.carried_exactly(sum(&all));
}

#[test]
fn a_forked_child_of_redis_server_saves_while_its_parent_serves_and_a_new_one_loads_it() {
    install();
    let accelerated = Accelerated::start();
    let first = server(&accelerated);
    let here: SocketAddr = (accelerated.here().ipv4(), PORT).into();
    let mut client = Client::connect(accelerated.there(), here);
    for number in 0..2000 {
        client.send(&[b"SET", format!("key{number}").as_bytes(), &[b'x'; 1000]]);
    }
    for _ in 0..2000 {
        assert_eq!(client.reply(), ok());
    }
    for round in 1..=3 {
        let started = client.ask("BGSAVE");
        assert_eq!(started, Reply::Status("Background saving started".to_owned()));
        wait_for("the end of the child", || {
            // The connection goes on while the child closes its copies.
            assert_eq!(
                client.ask("INCR during"),
                Reply::Integer({
                    let Reply::Text(now) = client.ask("GET during") else { panic!("it is there") };
                    String::from_utf8_lossy(&now).parse().expect("a number")
                })
            );
            match client.info("rdb_bgsave_in_progress").as_str() {
                "0" => Ok(()),
                other => Err(other.to_owned()),
            }
        });
        assert_eq!(client.info("rdb_last_bgsave_status"), "ok", "save {round}");
    }
    let carried = client.carried;
    accelerated.carried_exactly(carried);
    first.kill();
    let mut bytes = Vec::new();
    let _ = client.stream.get_mut().read_to_end(&mut bytes);
    let second = server(&accelerated);
    let mut client = Client::connect(accelerated.there(), here);
    assert_eq!(client.ask("DBSIZE"), Reply::Integer(2001));
    assert_eq!(client.ask("STRLEN key1999"), Reply::Integer(1000));
    let again = client.carried;
    accelerated.carried_exactly(Carried {
        received: carried.received + again.received,
        sent: carried.sent + again.sent,
    });
    drop(client);
    assert!(second.stop().status.success());
    accelerated.nothing_is_left();
}

#[test]
fn redis_cli_talks_to_a_redis_server_on_linux() {
    install();
    let accelerated = Accelerated::start();
    let folder = accelerated.daemon().folder();
    let words = words(folder);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut server = accelerated.run_there(&words);
    server.wait_until_it_says("Ready to accept connections");
    let there = accelerated.there().ipv4();
    let host = there.to_string();
    let cli = |words: &str| {
        let all: Vec<&str> =
            ["redis-cli", "-h", &host].into_iter().chain(words.split(' ')).collect();
        accelerated.run(&all).succeed()
    };
    assert_eq!(cli("PING"), "PONG\n");
    assert_eq!(cli("SET a 1"), "OK\n");
    assert_eq!(cli("-r 50 INCR a").lines().last(), Some("51"));
    assert!(cli("--scan").contains('a'));
    // What the server counts without what it was asked from there.
    let mut client = Client::connect(accelerated.there(), (there, PORT).into());
    // An answer is not yet among what was sent when it is made; a request has been received.
    let sent = client.info("total_net_output_bytes");
    let received = client.info("total_net_input_bytes");
    let number = |text: &str| text.parse::<u64>().expect("a number");
    accelerated.carried_exactly(Carried {
        received: number(&sent),
        sent: number(&received) - client.carried.received,
    });
    drop(server);
    accelerated.nothing_is_left();
}

#[test]
fn redis_cli_of_linux_talks_to_redis_server() {
    install();
    let accelerated = Accelerated::start();
    let _server = server(&accelerated);
    let host = accelerated.here().ipv4().to_string();
    let cli = |words: &str| {
        let all: Vec<&str> =
            ["redis-cli", "-h", &host].into_iter().chain(words.split(' ')).collect();
        accelerated.run_there(&all).succeed()
    };
    assert_eq!(cli("SET a 1 EX 1000"), "OK\n");
    assert_eq!(cli("-r 50 INCR a").lines().last(), Some("51"));
    let left = cli("TTL a");
    assert!(left.trim().parse().is_ok_and(|left| (900..=1000).contains(&left)), "{left}");
    assert_eq!(cli("BGSAVE"), "Background saving started\n");
    accelerated.all_was_accelerated();
    let carried = accelerated.carried();
    assert!(carried.received > 0 && carried.sent > 0, "{carried:?}");
}

/// What the daemon says of its cores, and of itself among those who have some.
fn own_cores(accelerated: &Accelerated) -> (CoresStatus, CoreApp) {
    let ReplyBody::Cores(cores) = accelerated.daemon().ask(Command::Cores) else {
        panic!("no cores")
    };
    let own = cores.apps.iter().find(|app| app.app == 0).expect("its workers run on them").clone();
    (cores, own)
}

#[test]
fn workers_that_serve_sockets_hold_cores_while_there_is_work_by_how_busy_they_are() {
    install();
    let workers = "count = 2\narrangement = \"threads\"";
    let accelerated = Accelerated::with_workers(workers, "[cores]\nset = [0, 1]\n");
    let server = server(&accelerated);
    let until = |what, is_so: fn(&CoreApp) -> bool| {
        wait_for(what, || {
            let (_, own) = own_cores(&accelerated);
            if is_so(&own) { Ok(own) } else { Err(format!("{own:?}")) }
        })
    };
    let before = until("no core held", |own| own.held == 0);
    let host = accelerated.here().ipv4().to_string();
    let words = ["redis-benchmark", "-h", &host, "-q", "-t", "get,set", "-c", "50", "-n", "100000"];
    let load = accelerated.run_there(&words);
    until("a core held", |own| own.held > 0);
    load.succeed();
    let after = until("no core held", |own| own.held == 0);
    assert!(after.grants > before.grants, "{before:?} {after:?}");
    assert_eq!(own_cores(&accelerated).0.policy, "utilisation");
    accelerated.all_was_accelerated();
    server.stop();
}
