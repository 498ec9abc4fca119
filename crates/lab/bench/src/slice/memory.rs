//! A slice of two wires in memory: what a function costs where nothing else does.
//!
//! The generator shares the thread and the pool of the slice, and is not measured: it writes
//! packets into frames, puts them on the first wire, and takes what comes out of either.

use base::{BURST, Nanos};
use calisto_nf::Function;
use calisto_slice::Slice;
use port::Port;
use port::memory::{MemoryPort, wire};
use shm::{Batch, FramePool, PoolConfig};
use sys::clock::{TscRate, now, tsc};
use sys::cpu_set::CpuSet;

use super::carry::Carrier;
use crate::error::{Error, OrNeeds};

/// A turn of 64 packets takes 30 us at most; in one this long the CPU was somebody else's.
const TURN_MAX: Nanos = Nanos::from_micros(200);

/// Frames of the pool, and bytes of each: what is under way is one batch.
const FRAMES: u32 = 256;
const FRAME_BYTES: u32 = 2048;

/// Turns between two looks at the clock that ends it all.
const TURNS: u32 = 64;

/// Functions to measure, in order, and packets that they forward.
pub(super) struct Subject {
    pub(super) functions: Vec<Box<dyn Function>>,
    /// They come one after the other, again and again, from the first port.
    pub(super) packets: Vec<Vec<u8>>,
}

/// A name, and how to make a subject on the thread that is to run it.
pub(super) struct Work<'a> {
    pub(super) name: String,
    pub(super) make: Box<dyn Fn() -> Result<Subject, Error> + Sync + 'a>,
}

/// Ticks of the time-stamp counter in the slice's turns, and the packets that they were spent on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    pub(super) packets: u64,
    pub(super) ticks: u64,
    pub(super) turns: u64,
    /// Turns that somebody else had a part in, and what they took.
    pub(super) turns_left_out: u64,
    pub(super) ticks_left_out: u64,
}

impl Spent {
    /// Ticks of a packet.
    pub(super) fn cycles(self) -> f64 {
        self.ticks as f64 / self.packets.max(1) as f64
    }

    /// Packets of a second, whoever else had the CPU: as those see it who only look at the clock.
    pub(super) fn by_the_clock(self, rate: TscRate) -> f64 {
        let ticks = (self.ticks + self.ticks_left_out).max(1);
        self.packets as f64 * rate.ticks_per_second() / ticks as f64
    }

    /// Millions of packets a second.
    pub(super) fn mpps(self, rate: TscRate) -> f64 {
        self.packets as f64 * rate.ticks_per_second() / self.ticks.max(1) as f64 / 1e6
    }
}

/// The slice and the other ends of its wires.
struct Loop {
    slice: Slice<MemoryPort>,
    far: [MemoryPort; 2],
    outgoing: Batch,
    packets: Vec<Vec<u8>>,
    next: usize,
}

impl Loop {
    fn new(packets: Vec<Vec<u8>>) -> Result<Self, Error> {
        let config = PoolConfig { frames: FRAMES, chunk_bytes: FRAME_BYTES, numa_node: None };
        let pool = FramePool::new(config).or_needs("pool of frames")?;
        let ((far_left, left), (far_right, right)) = (wire(BURST), wire(BURST));
        let slice = Slice::over(vec![left, right], pool, CpuSet::new()).or_needs("slice")?;
        if packets.is_empty() {
            return Err("there is none").or_needs("packet to forward");
        }
        let far = [far_left, far_right];
        Ok(Self { slice, far, outgoing: Batch::new(), packets, next: 0 })
    }

    /// A full batch onto the first wire; how many.
    #[inline]
    fn offer(&mut self, now: Nanos) -> usize {
        let Self { slice, far: [left, _], outgoing, packets, next } = self;
        let pool = slice.pool();
        while let (false, Some(mut frame)) = (outgoing.is_full(), pool.take()) {
            let filled = frame.fill(&packets[*next]);
            debug_assert!(filled, "a packet is shorter than a chunk");
            *next = if *next + 1 == packets.len() { 0 } else { *next + 1 };
            outgoing.push(frame);
        }
        let sent = left.tx(pool, outgoing, now);
        outgoing.drain(..).for_each(|frame| pool.give(frame));
        sent
    }

    /// What came out of either wire.
    #[inline]
    fn collect(&mut self, now: Nanos) -> usize {
        let Self { slice, far, outgoing, .. } = self;
        let pool = slice.pool();
        let mut count = 0;
        for port in far {
            count += port.rx(pool, outgoing, now);
            outgoing.drain(..).for_each(|frame| pool.give(frame));
        }
        count
    }
}

/// Runs full batches through `work` for `length`, on the calling thread. Every packet must come
/// out.
pub(super) fn run(work: &Work<'_>, length: Nanos, rate: TscRate) -> Result<Spent, Error> {
    run_after(work, length, rate, &|| ())
}

/// The same, once `ready` has returned: it is called when all is made, or cannot be.
pub(super) fn run_after(
    work: &Work<'_>,
    length: Nanos,
    rate: TscRate,
    ready: &dyn Fn(),
) -> Result<Spent, Error> {
    let made = (work.make)();
    ready();
    let Subject { functions, packets } = made?;
    let mut around = Loop::new(packets)?;
    let mut carrier = Carrier::new(functions);
    let turn_max = (TURN_MAX.as_secs_f64() * rate.ticks_per_second()) as u64;
    let mut spent = Spent::default();
    // Every packet has been through once, and every table been looked at, before the clock starts.
    let mut warm = around.packets.len().div_ceil(BURST);
    let end = now() + length;
    while now() < end || warm > 0 {
        for _ in 0..TURNS {
            let time = now();
            let offered = around.offer(time);
            let start = tsc();
            let read = carrier.turn(&mut around.slice, time);
            let ticks = tsc().wrapping_sub(start);
            let came = around.collect(time);
            if (read, came) != (offered, offered) {
                let why = format!("of {offered} packets {came} came out");
                return Err(why).or_needs("function that forwards");
            }
            if warm > 0 {
                warm -= 1;
            } else if ticks > turn_max {
                spent.turns_left_out += 1;
                spent.ticks_left_out += ticks;
            } else {
                spent.turns += 1;
                spent.ticks += ticks;
                spent.packets += read as u64;
            }
        }
    }
    Ok(spent)
}
