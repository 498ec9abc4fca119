//! The programs that are attacked, what an honest client asks them, and what an attacker does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use testbed::{Exchange, ScratchDir, Side};

use crate::error::{Error, OrNeeds};
use crate::running::Running;
use crate::sockets::accelerated::Profile;
use crate::sockets::programs::{Compiled, PLAIN_SERVER, find};
use crate::sockets::tested_stack::TestedStack;

/// Bytes of an answer that no window of an attacker takes at once.
const LONG: usize = 1 << 20;

/// Of an answer to an honest client, where a file is asked for.
const SHORT: usize = 612;

/// An answer is whole when nothing has come for this long.
const QUIET: Duration = Duration::from_millis(300);

/// Which program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Redis,
    Nginx,
    /// In front of an nginx.
    Haproxy,
    /// Accepts, receives, sends and closes.
    Plain,
}

/// A program that serves.
pub(super) struct Served {
    // Ended in this order.
    running: Vec<Running>,
    _folder: ScratchDir,
    _compiled: Option<Compiled>,
    pub(super) address: SocketAddr,
    /// What an honest client asks.
    pub(super) exchange: Exchange,
    /// A request for a long answer, and one for a short one.
    pub(super) long: Vec<u8>,
    pub(super) short: Vec<u8>,
}

impl Program {
    pub(super) const ALL: [Self; 4] = [Self::Redis, Self::Nginx, Self::Haproxy, Self::Plain];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis-server",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Plain => "a plain server",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Redis => 7001,
            Self::Nginx => 7003,
            Self::Haproxy => 7004,
            Self::Plain => 7005,
        }
    }

    /// Starts it on the server's CPU.
    pub(super) fn start(self, stack: &TestedStack) -> Result<Served, Error> {
        let folder = ScratchDir::new("abuse").or_needs("folder for a server")?;
        let address = stack.address(self.port());
        let (long, short): (&[u8], &[u8]) = match self {
            Self::Redis => (b"GET long\r\n", b"PING\r\n"),
            Self::Nginx | Self::Haproxy => (
                b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n",
                b"GET /short HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            Self::Plain => (b"L\n", b"S\n"),
        };
        let mut compiled = None;
        let running = match self {
            Self::Redis => vec![redis(stack, address)?],
            Self::Nginx => vec![nginx(stack, &folder)?],
            Self::Haproxy => {
                let behind = nginx(stack, &folder)?;
                vec![haproxy(stack, &folder, address)?, behind]
            }
            Self::Plain => {
                let program = compiled.insert(Compiled::new(PLAIN_SERVER)?);
                let words = [address.ip().to_string(), address.port().to_string()];
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                vec![stack.serve(Profile::Latency, program.path(), &words, address.port())?]
            }
        };
        let answer_bytes = answer_bytes(stack.client(), address, short)?;
        let exchange =
            Exchange { request: short.to_vec(), answer_bytes, keeps: self != Self::Plain };
        let (long, short) = (long.to_vec(), short.to_vec());
        let (_folder, _compiled) = (folder, compiled);
        Ok(Served { running, _folder, _compiled, address, exchange, long, short })
    }
}

impl Served {
    /// An error if one of its processes has ended.
    pub(super) fn unless_ended(&mut self) -> Result<(), Error> {
        self.running.iter_mut().try_for_each(Running::unless_ended)
    }
}

fn redis(stack: &TestedStack, address: SocketAddr) -> Result<Running, Error> {
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let words = ["--bind", &ip, "--port", &port, "--protected-mode", "no", "--save", ""];
    let redis = find("redis-server", "redis-server")?;
    let running = stack.serve(Profile::Latency, &redis, &words, address.port())?;
    let mut set = format!("*3\r\n$3\r\nSET\r\n$4\r\nlong\r\n${LONG}\r\n").into_bytes();
    set.resize(set.len() + LONG, b'.');
    set.extend(b"\r\n");
    let answer = answer_bytes(stack.client(), address, &set)?;
    // +OK\r\n
    if answer == 5 { Ok(running) } else { Err("it does not take a value").or_needs("redis-server") }
}

fn nginx(stack: &TestedStack, folder: &ScratchDir) -> Result<Running, Error> {
    let port = Program::Nginx.port();
    let root = folder.path().display().to_string();
    let config = format!(
        "daemon off;\nuser root;\nworker_processes 1;\nworker_rlimit_nofile 65536;\npid {root}/pid;\n\
         events {{ worker_connections 32768; }}\nhttp {{ access_log off; sendfile on;\n\
         keepalive_timeout 600; keepalive_requests 100000000;\n\
         server {{ listen 0.0.0.0:{port} backlog=4096; root {root}; }} }}\n"
    );
    for (name, text) in [
        ("long", vec![b'.'; LONG]),
        ("short", vec![b'.'; SHORT]),
        ("nginx.conf", config.into_bytes()),
    ] {
        std::fs::write(folder.path().join(name), text).or_needs("file for nginx")?;
    }
    let config = folder.path().join("nginx.conf").display().to_string();
    let words = ["-p", &root, "-c", &config, "-e", "stderr"];
    stack.serve(Profile::Latency, &find("nginx", "nginx-light")?, &words, port)
}

fn haproxy(
    stack: &TestedStack,
    folder: &ScratchDir,
    address: SocketAddr,
) -> Result<Running, Error> {
    let behind = stack.address(Program::Nginx.port());
    let config = format!(
        "global\n  maxconn 4096\n  nbthread 1\ndefaults\n  mode http\n  timeout connect 10s\n  \
         timeout client 60s\n  timeout server 60s\nfrontend in\n  bind {address}\n  \
         default_backend behind\nbackend behind\n  server one {behind}\n"
    );
    let path = folder.path().join("haproxy.cfg");
    std::fs::write(&path, config).or_needs("configuration of haproxy")?;
    let path = path.display().to_string();
    let haproxy = find("haproxy", "haproxy")?;
    stack.serve(Profile::Latency, &haproxy, &["-db", "-f", &path], address.port())
}

/// Bytes of the answer to a request: all that comes until nothing comes any more.
fn answer_bytes(side: &Side, server: SocketAddr, request: &[u8]) -> Result<usize, Error> {
    let ask = || {
        let mut stream = TcpStream::connect(server)?;
        stream.write_all(request)?;
        // The first byte may take longer than the others.
        stream.set_read_timeout(Some(10 * QUIET))?;
        let mut chunk = [0; 1 << 14];
        let mut bytes = 0;
        loop {
            match stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => bytes += read,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && bytes > 0 => break,
                Err(error) => return Err(error),
            }
            stream.set_read_timeout(Some(QUIET))?;
        }
        Ok(bytes)
    };
    side.enter(ask).or_needs("thread in a namespace")?.or_needs("answer of a server")
}
