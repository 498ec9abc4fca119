//! Memory of an idle accelerated socket: the daemon's, the program's, and the kernel's.
//!
//! The kernel's part has the client's sockets in it, because both ends are on this machine. Those
//! are measured apart, against a service inside the daemon, for which the kernel has nothing at the
//! server's end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use testbed::Service;

use super::accelerated::Profile;
use super::client::connected;
use super::dialogue::ECHO_BYTES;
use super::echo::{self, PORT};
use super::programs::{Compiled, EPOLL_ECHO};
use super::tested_stack::TestedStack;

use crate::cases::Plan;
use crate::error::{Error, OrNeeds, unless_interrupted};
use crate::figure::{Figure, Target};
use crate::place::on_cpu;
use crate::report::Report;
use crate::tcp::harness::serve;

/// Caches of the kernel in which a socket has something of its own.
const CACHES: [&str; 8] = [
    "TCP",
    "TCPv6",
    "sock_inode_cache",
    "request_sock_TCP",
    "tcp_bind_bucket",
    "tcp_bind2_bucket",
    "eventpoll_epi",
    "eventpoll_pwq",
];

/// Each socket has one of each of these, too; what other files have of them would only be noise.
const EACH: [&str; 2] = ["filp", "dentry"];

/// Rounds: each opens and closes all connections.
const ROUNDS_MAX: u32 = 5;

/// An answer takes no longer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes a connection.
#[derive(Clone, Copy, Debug)]
struct Bytes {
    /// Of daemon and program: what they share counts once.
    user: f64,
    /// Of both ends.
    kernel: f64,
}

/// What connections are when they are looked at.
const STATES: [&str; 2] = ["that has been opened", "that has answered a request"];

pub(super) fn run(
    plan: &Plan,
    report: &mut Report<'_>,
    tested_stack: &TestedStack,
    connections: usize,
) -> Result<(), Error> {
    let name = format!("memory of an idle accelerated socket, of {connections}");
    let Some(daemon) = tested_stack.daemon() else {
        return report.figure(Figure::missing(name, "there is no daemon in a rehearsal"));
    };
    let program = Compiled::new(EPOLL_ECHO)?;
    let service = serve(plan.cpus, Service::Echo, PORT..PORT + 1, "memory_mib = 8192")?;
    let service_at = service.address(PORT);
    let (mut both, mut client) = (Vec::new(), Vec::new());
    for round in 0..plan.rounds.min(ROUNDS_MAX) {
        unless_interrupted()?;
        report.progress(format_args!("memory, round {}", round + 1));
        let server = echo::start(tested_stack, Profile::Latency, &program, false)?;
        let processes = [daemon, server.pid()];
        both.push(tested_stack.witnessed(|| {
            let connect =
                || connected(tested_stack.client(), tested_stack.address(PORT), connections);
            grown(&processes, connections, || on_cpu(plan.cpus.client, connect))
        })?);
        drop(server);
        let connect = || connected(service.bed.client(), service_at, connections);
        client.push(grown(&[service.pid()], connections, || on_cpu(plan.cpus.client, connect))?);
    }
    for (at, state) in STATES.into_iter().enumerate() {
        let parts = both.iter().zip(&client);
        let kernel: Vec<f64> =
            parts.map(|(both, client)| both[at].kernel - client[at].kernel).collect();
        let user: Vec<f64> = both.iter().map(|bytes| bytes[at].user).collect();
        let whole: Vec<f64> =
            user.iter().zip(&kernel).map(|(user, kernel)| user + kernel).collect();
        let figure = Figure::new(format!("{name}, {state}"), "bytes", &whole);
        report.figure(figure.target(Target::AtMost(8192.0)))?;
        report.figure(Figure::new("of it, daemon and program", "bytes", &user))?;
        report.figure(Figure::new("of it, the kernel", "bytes", &kernel))?;
    }
    let client: Vec<f64> = client.iter().map(|bytes| bytes[0].kernel).collect();
    report.figure(Figure::new("a socket of Linux's client, left out above", "bytes", &client))
}

/// What grows by `connect`, and what has grown when each of them has been asked once.
fn grown(
    processes: &[u32],
    connections: usize,
    connect: impl FnOnce() -> Result<Vec<TcpStream>, Error>,
) -> Result<[Bytes; 2], Error> {
    let look = || Ok::<_, Error>((user_bytes(processes)?, kernel_bytes()?));
    // What was closed before is freed late.
    let before = settled(&look)?;
    let streams = connect()?;
    let opened = settled(&look)?;
    for stream in &streams {
        once(stream).or_needs("answer on every connection")?;
    }
    let asked = settled(&look)?;
    for stream in &streams {
        // Closed by a reset: in TIME-WAIT they would keep the client's ports from the next rounds.
        set_socket_linger(stream, Some(Duration::ZERO)).or_needs("reset of a connection")?;
    }
    drop(streams);
    let each = |after: u64, before: u64| (after as f64 - before as f64) / connections as f64;
    Ok([opened, asked]
        .map(|after| Bytes { user: each(after.0, before.0), kernel: each(after.1, before.1) }))
}

/// One request and its answer.
fn once(mut stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(&[0x5a; ECHO_BYTES])?;
    stream.read_exact(&mut [0; ECHO_BYTES])
}

/// The same once the server has taken every connection: when nothing grows any more.
fn settled(look: &dyn Fn() -> Result<(u64, u64), Error>) -> Result<(u64, u64), Error> {
    let mut last = look()?;
    for _ in 0..50 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let now = look()?;
        if now.0 == last.0 && now.1.abs_diff(last.1) < 64 << 10 {
            return Ok(now);
        }
        last = now;
    }
    Ok(last)
}

/// Memory of processes, of which each page counts once however many of them map it.
fn user_bytes(processes: &[u32]) -> Result<u64, Error> {
    let mut total = 0;
    for pid in processes {
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"));
        let text = text.or_needs("look into /proc")?;
        total += pss_in(&text).ok_or("there is no Pss").or_needs("look into /proc")?;
    }
    Ok(total)
}

/// Bytes of proportional set size, of /proc/PID/smaps_rollup.
fn pss_in(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? << 10)
}

fn kernel_bytes() -> Result<u64, Error> {
    let text = std::fs::read_to_string("/proc/slabinfo").or_needs("look into /proc/slabinfo")?;
    Ok(slabs_in(&text))
}

/// Bytes of the objects in use, of /proc/slabinfo: name, objects in use, objects, bytes of one.
fn slabs_in(slabinfo: &str) -> u64 {
    let cache = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let name = words.next()?.to_owned();
        let mut number = || words.next()?.parse::<u64>().ok();
        let (in_use, _all, bytes) = (number()?, number()?, number()?);
        Some((name, in_use, bytes))
    };
    let caches: Vec<(String, u64, u64)> = slabinfo.lines().filter_map(cache).collect();
    let find = |wanted: &str| caches.iter().find(|(name, ..)| name == wanted);
    let own: u64 =
        CACHES.iter().filter_map(|name| find(name)).map(|(_, count, size)| count * size).sum();
    let sockets = find("sock_inode_cache").map_or(0, |&(_, count, _)| count);
    let each: u64 = EACH.iter().filter_map(|name| find(name)).map(|&(_, _, size)| size).sum();
    own + sockets * each
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_in_use_count_and_those_of_other_files_do_not() {
        let text = "slabinfo - version: 2.1\n# name <active_objs> <num_objs> <objsize>\n\
                    TCP 10 12 2000 8 4 : tunables 0 0 0\nsock_inode_cache 3 9 100 1 1 :\n\
                    filp 777 777 7 1 1 :\next4_inode 9 9 900 1 1 :\n";
        assert_eq!(slabs_in(text), 20_321);
        assert_eq!(pss_in("Rss: 9 kB\nPss:      12 kB\nPss_Anon: 3 kB\n"), Some(12_288));
    }
}
