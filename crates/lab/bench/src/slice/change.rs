//! How soon packets take a new route, while they flow: a control thread changes it, a data thread
//! routes.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use base::Nanos;
use calisto_nf::router::RouterSettings;
use calisto_nf::{FibChange, Function, Prefix, Rib, Router, Verdict, Verdicts};
use shm::{Batch, Consumer, FramePool, PoolConfig, Producer, ring};
use sys::clock::now;

use super::functions::{gateway, whole_table};
use super::table::Route;
use super::works::{MACS, packet};
use crate::error::{Error, OrNeeds, unless_interrupted};
use crate::place::{Cpus, on_cpu};

/// A network that is a whole /8, of which a real table has thousands of longer prefixes: a change
/// writes what lies between them.
pub(super) const SHORT: Watched = Watched { network: Ipv4Addr::new(10, 0, 0, 0), bits: 8 };
/// One of a single entry.
pub(super) const LONG: Watched = Watched { network: Ipv4Addr::new(172, 16, 5, 0), bits: 24 };

/// Entries that changes may write between two batches: what one of them writes at most.
const ENTRIES_A_BATCH: u16 = FibChange::ENTRIES_MAX;

/// Steps on their way to a thread, at most: as in `calisto nf`.
const STEPS: usize = 1 << 15;

/// A change that is not seen after that is lost.
const TIMEOUT: Nanos = Nanos::from_secs(2);

/// A prefix whose route is changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    network: Ipv4Addr,
    bits: u8,
}

/// Both sides of a router.
pub(super) struct Routed {
    rib: Rib,
    router: Router,
}

/// A router over all `routes`.
pub(super) fn router(routes: &[Route]) -> Result<Routed, Error> {
    let rib = whole_table(routes, MACS)?;
    let router = Router::new(rib.fib(1), &RouterSettings::default());
    Ok(Routed { rib, router })
}

/// What the two threads tell each other.
#[derive(Default)]
struct Shared {
    /// The last octet of the link address that is looked for.
    wanted: AtomicU64,
    /// When a packet left for it.
    seen_at: AtomicU64,
    is_over: AtomicBool,
}

/// How long a change took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// Until the control side had made its steps.
    pub(super) made: Nanos,
    /// Until the first packet left by it.
    pub(super) seen: Nanos,
}

/// Changes the route of a prefix `count` times; how long each took. Also gives the router back.
pub(super) fn times(
    cpus: Cpus,
    routed: Routed,
    watched: Watched,
    count: usize,
) -> Result<(Vec<Change>, Routed), Error> {
    let Routed { mut rib, mut router } = routed;
    let Watched { network, bits } = watched;
    let prefix = Prefix::new(network.into(), bits).or_needs("prefix")?;
    let (mut sender, mut receiver) = ring(STEPS);
    let shared = Shared::default();
    let packet = packet(64, network.to_bits() | 1)?;
    let mut pool = FramePool::new(PoolConfig::default()).or_needs("pool of frames")?;
    // The route is there, and so is a packet that takes it, before the first change is timed.
    let mut steps = Vec::new();
    let (first, mac) = gateway(3);
    rib.set(prefix, first, &mut steps).or_needs("room in the tables")?;
    steps.drain(..).for_each(|step| router.apply(&step));
    shared.wanted.store(mac[5].into(), Ordering::Relaxed);
    thread::scope(|scope| {
        let (router, pool, packet, shared) = (&mut router, &mut pool, &packet, &shared);
        let data = || route(router, pool, packet, &mut receiver, shared);
        let data = scope.spawn(move || on_cpu(cpus.server, data));
        let control = on_cpu(cpus.client, || {
            seen(shared, now())?;
            let mut times = Vec::with_capacity(count);
            for turn in 0..count {
                unless_interrupted()?;
                let (to, mac) = gateway(2 + (turn % 2) as u16);
                // It looks for the new one from now on, and that can only be seen after the change.
                shared.seen_at.store(0, Ordering::Relaxed);
                shared.wanted.store(mac[5].into(), Ordering::Release);
                let began = now();
                rib.set(prefix, to, &mut steps).or_needs("room in the tables")?;
                let made = now().since(began);
                send(&mut sender, &mut steps, began)?;
                times.push(Change { made, seen: seen(shared, began)?.since(began) });
            }
            Ok(times)
        });
        shared.is_over.store(true, Ordering::Relaxed);
        let ended = data.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ended.and(control)
    })
    .map(|times| (times, Routed { rib, router }))
}

/// Hands steps out, as the control thread of `calisto nf` does.
fn send(
    sender: &mut Producer<FibChange>,
    steps: &mut Vec<FibChange>,
    began: Nanos,
) -> Result<(), Error> {
    for mut step in steps.drain(..) {
        while let Err(back) = sender.stage(step) {
            step = back;
            sender.publish();
            if now().since(began) > TIMEOUT {
                return Err(format!("none for {TIMEOUT}")).or_needs("thread that takes steps");
            }
            std::hint::spin_loop();
        }
    }
    sender.publish();
    Ok(())
}

/// Waits until a packet was seen.
fn seen(shared: &Shared, began: Nanos) -> Result<Nanos, Error> {
    loop {
        match shared.seen_at.load(Ordering::Acquire) {
            0 if now().since(began) > TIMEOUT => {
                return Err(format!("not in {TIMEOUT}")).or_needs("change that is seen");
            }
            0 => std::hint::spin_loop(),
            seen => return Ok(Nanos(seen)),
        }
    }
}

/// Routes full batches of `packet`, taking changes between them, until it is over.
fn route(
    router: &mut Router,
    pool: &mut FramePool,
    packet: &[u8],
    changes: &mut Consumer<FibChange>,
    shared: &Shared,
) -> Result<(), Error> {
    let mut batch = Batch::new();
    let mut verdicts = Verdicts::new();
    while let (false, Some(frame)) = (batch.is_full(), pool.take()) {
        batch.push(frame);
    }
    let mut lost = 0;
    while !shared.is_over.load(Ordering::Relaxed) {
        let mut entries = 0;
        while entries < ENTRIES_A_BATCH
            && let Some(change) = changes.pop()
        {
            entries += change.entries();
            router.apply(&change);
        }
        for frame in &mut batch {
            let filled = frame.fill(packet);
            debug_assert!(filled, "a packet is shorter than a chunk");
        }
        verdicts.reset();
        router.process(&mut batch, &mut verdicts, now());
        let out = |verdict: &&Verdict| matches!(verdict, Verdict::Out(_));
        lost += batch.len() - verdicts.of(batch.len()).iter().filter(out).count();
        let wanted = shared.wanted.load(Ordering::Acquire);
        let goes_there = batch.first().is_some_and(|frame| u64::from(frame.bytes()[5]) == wanted);
        if goes_there && shared.seen_at.load(Ordering::Relaxed) == 0 {
            shared.seen_at.store(now().0, Ordering::Release);
        }
    }
    batch.drain(..).for_each(|frame| pool.give(frame));
    // A packet that is lost while routes change would have stopped the traffic.
    if lost > 0 { Err(format!("{lost} were lost")).or_needs("packets that go on") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_is_seen_and_no_packet_is_lost() {
        let cpus = Cpus::choose();
        if !cpus.are_two() {
            return;
        }
        let mut routed = router(&[]).expect("it is small");
        for watched in [SHORT, LONG] {
            let (times, back) = times(cpus, routed, watched, 6).expect("both threads run");
            assert_eq!(times.len(), 6);
            assert!(times.iter().all(|change| change.made <= change.seen), "{times:?}");
            routed = back;
        }
    }
}
