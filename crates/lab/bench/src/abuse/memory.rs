//! A daemon with little memory, and connections whose bytes nobody reads.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use testbed::{AttackCounts, MemoryGroup};

use super::scene::{play, print};
use super::servers::Program;
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::report::Report;
use crate::sockets::accelerated::Profile;
use crate::sockets::client::connected;
use crate::sockets::programs::{Compiled, PLAIN_SERVER};
use crate::sockets::tested_stack::{Offloads, TestedStack};

/// Of the daemon and everything that it lends.
const MEMORY_BYTES: u64 = 64 << 20;

/// `ip netns exec` hides the control groups, so the daemon cannot find its limit there by itself.
const SECTIONS: &str = "[sockets]\nmemory_mib = 20\n";

const CONNECTIONS: usize = 1500;

const PORT: u16 = 7006;

/// Nobody takes anything any more.
const QUIET: Duration = Duration::from_millis(500);

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let connections = plan.pick(CONNECTIONS, 200);
    report.begin(
        "memory",
        &format!(
            "calistod in a control group of {} MiB, and {connections} connections to a program that \
             reads from none, filled for as long as somebody takes bytes; beside them 8 honest clients \
             of redis-server with 1000 requests a second. Linux has all memory",
            MEMORY_BYTES >> 20
        ),
    )?;
    let group = MemoryGroup::new(MEMORY_BYTES).or_needs("control group with little memory")?;
    let start = || TestedStack::calisto_with(plan, SECTIONS);
    let calisto = group.start_in(start).or_needs("control group with little memory")??;
    let stacks = [calisto, TestedStack::linux(plan.cpus, Offloads::None)?];
    let hoards = Compiled::new(PLAIN_SERVER)?;
    let [ours, linux] = turns_of(plan, report, "redis-server", |which, _| {
        let stack = &stacks[which];
        let mut served = Program::Redis.start(stack)?;
        let address = stack.address(PORT);
        let words = [address.ip().to_string(), PORT.to_string(), "hoard".to_owned()];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let _hoarder = stack.serve(Profile::Latency, hoards.path(), &words, PORT)?;
        play(plan, stack, &mut served, &mut |_, is_over| {
            let mut streams = connected(stack.client(), address, connections)?;
            fill(&mut streams, is_over);
            Ok(AttackCounts { opened: streams.len() as u64, ..AttackCounts::default() })
        })
    })?;
    print(report, "redis-server", &ours, &linux)?;
    let killed = group.killed().or_needs("count of processes without memory")? as f64;
    let killed = Figure::new("processes that the kernel killed for want of memory", "", &[killed]);
    report.figure(killed.target(Target::AtMost(0.0)))
}

/// Sends over each for as long as somebody takes it.
fn fill(streams: &mut [TcpStream], is_over: &AtomicBool) {
    let chunk = [b'x'; 1 << 14];
    let mut moved = Instant::now();
    while moved.elapsed() < QUIET
        && !is_over.load(Ordering::Relaxed)
        && !sys::signal::stop_requested()
    {
        for stream in streams.iter_mut() {
            match stream.write(&chunk) {
                Ok(_) => moved = Instant::now(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Nobody is harmed but the one who does it.
                Err(_) => {}
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
