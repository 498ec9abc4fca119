//! A daemon with little memory, and connections whose bytes nobody reads.

use std::time::Duration;

use whole::{Accelerated, MemoryGroup, Program, project, wait_for, wait_within};

const PYTHON: &str = "/usr/bin/python3";

/// Bytes of memory of the whole daemon.
const MEMORY_BYTES: u64 = 64 << 20;

/// Mebibytes of it for rings.
const RINGS_MIB: u64 = 20;

const CONNECTIONS: u32 = 1500;

fn script(name: &str) -> String {
    project().join("tests/programs").join(name).display().to_string()
}

/// Starts a server that never reads, and a client that fills its connections.
fn filled(
    accelerated: &Accelerated,
    connections: u32,
    further: &[&str],
) -> (Program, Program, u64) {
    let hoarder = script("hoarder.py");
    let mut hoarder = accelerated.run(&[&[PYTHON, hoarder.as_str(), "7000"], further].concat());
    hoarder.wait_until_it_says("listening");
    let host = accelerated.here().ipv4().to_string();
    let count = connections.to_string();
    let mut filler = accelerated.run_there(&[PYTHON, &script("filler.py"), &host, "7000", &count]);
    filler.wait_until_it_says("bytes");
    let said = filler.so_far();
    let bytes = said.split_whitespace().rev().nth(1).and_then(|number| number.parse().ok());
    (hoarder, filler, bytes.expect("a number of bytes"))
}

#[test]
fn connections_that_nobody_reads_do_not_get_a_daemon_killed_for_want_of_memory() {
    let group =
        MemoryGroup::new(MEMORY_BYTES).expect("this test needs root and a memory controller");
    // `ip netns exec` hides the control groups, so the daemon cannot find its limit here.
    let start = || Accelerated::with(&format!("[sockets]\nmemory_mib = {RINGS_MIB}\n"));
    let killed = || group.killed().expect("the kernel counts them");
    let accelerated = group.start_in(start).expect("this thread may be moved");
    let limit = accelerated.daemon().counter("ring_memory_limit_bytes");
    assert_eq!(limit, RINGS_MIB << 20);
    let (hoarder, filler, bytes) = filled(&accelerated, CONNECTIONS, &[]);
    assert_eq!(killed(), 0);
    assert!(bytes > limit / 4, "{bytes} of {limit} are nothing");
    assert!(accelerated.daemon().counter("ring_memory_bytes") <= limit);
    assert!(accelerated.daemon().counter("ring_memory_refused") > 0);
    accelerated.others_are_served();
    // Those that are idle longest are reset; both ends hear so, and the operator.
    let mut hoarder = hoarder;
    hoarder.wait_until_it_says("ended");
    assert!(hoarder.so_far().contains("Connection reset by peer"), "{}", hoarder.so_far());
    wait_for("evictions", || match accelerated.daemon().counter("ring_memory_evicted") {
        0 => Err("none is counted".to_owned()),
        _ => Ok(()),
    });
    let (_, status, _) = accelerated.daemon().try_calisto("status");
    assert!(status.contains("SHORT: rings of programs take"), "{status}");
    assert!(!status.contains("since the start 0 connections"), "{status}");
    let explained = accelerated.daemon().calisto(&format!("explain {}", hoarder.pid()));
    assert!(explained.contains("until the daemon reset it"), "{explained}");
    assert_eq!(killed(), 0);
    filler.kill();
    hoarder.kill();
    // What they had goes back, and the next program has it.
    wait_for("memory", || {
        let bytes = accelerated.daemon().counter("ring_memory_bytes");
        if bytes < limit / 4 { Ok(()) } else { Err(format!("{bytes} of {limit} are taken")) }
    });
    let (hoarder, filler, again) = filled(&accelerated, CONNECTIONS, &[]);
    assert!(again > bytes / 2, "{again} bytes after {bytes}");
    assert_eq!(killed(), 0);
    filler.kill();
    hoarder.kill();
    accelerated.nothing_is_left();
}

#[test]
fn a_crowd_that_has_gone_leaves_no_memory_behind_though_there_is_enough() {
    let accelerated = Accelerated::with("");
    let taken = || accelerated.daemon().counter("ring_memory_bytes");
    let (hoarder, filler, _) = filled(&accelerated, 600, &["close"]);
    let crowd = taken();
    assert!(crowd > 30 << 20, "{crowd} bytes for 600 full rings");
    filler.kill();
    wait_within(Duration::from_secs(120), "memory that nobody needs", || match taken() {
        bytes if bytes <= crowd / 2 => Ok(()),
        bytes => Err(format!("{bytes} of {crowd} are taken")),
    });
    assert!(accelerated.daemon().counter("ring_memory_discarded_bytes") >= crowd / 2);
    accelerated.others_are_served();
    hoarder.kill();
    accelerated.nothing_is_left();
}
