//! Our own forwarders: a loop on a thread of this process, in the inner namespace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use base::PortId;
use calisto_nf::Function;
use calisto_slice::{Slice, SliceSpec};
use port::{AnyPort, Opener, Port, PortSpec};
use shm::{Batch, FramePool, PoolConfig};

use super::carry::Carrier;
use super::wires::{IN, OUT};
use crate::error::{Error, OrNeeds};

/// Frames of a packet socket's loop: two batches would do, the kernel keeps none of them.
const FRAMES: u32 = 1024;
/// Bytes of each: a full Ethernet frame and room before it.
const FRAME_BYTES: u32 = 2048;

/// Turns between two looks at the flag that ends a loop.
const TURNS: u32 = 256;

/// Tells a loop to end.
#[derive(Clone, Default)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Whether it has been told.
    pub(super) fn is_asked(&self) -> bool {
        // Nothing else is passed on by it.
        self.0.load(Ordering::Relaxed)
    }
}

/// A thread that forwards; ended when dropped.
pub(super) struct InProcess {
    stop: Stop,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl InProcess {
    /// Runs `work` on `cpu` in the namespace of that name, until it is told to stop.
    pub(super) fn start(
        namespace: &str,
        cpu: usize,
        work: impl FnOnce(&Stop) -> Result<(), Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let stop = Stop::default();
        let (told, namespace) = (stop.clone(), namespace.to_owned());
        let thread = thread::Builder::new().name("forwarder".to_owned()).spawn(move || {
            sys::netns::enter(&namespace).or_needs("thread in a namespace")?;
            sys::thread::pin(cpu).or_needs("place on that CPU")?;
            work(&told)
        });
        Ok(Self { stop, thread: Some(thread.or_needs("thread that forwards")?) })
    }

    /// An error if it has ended: why.
    pub(super) fn unless_ended(&mut self) -> Result<(), Error> {
        let ended = self.thread.take_if(|thread| thread.is_finished());
        match (ended.map(join), &self.thread) {
            (Some(Err(error)), _) => Err(error),
            (None, Some(_)) => Ok(()),
            _ => Err("it has ended before it was told").or_needs("thread that forwards"),
        }
    }
}

/// A panic of it goes on here.
fn join(thread: JoinHandle<Result<(), Error>>) -> Result<(), Error> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.stop.0.store(true, Ordering::Relaxed);
        // What it says at its end is of no figure any more; a panic has been printed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Forwards by `function` on a slice of the default kind.
pub(super) fn slice_of(stop: &Stop, function: impl Function + 'static) -> Result<(), Error> {
    let port = |name: &str| format!("xdp:{name}").parse::<PortSpec>().or_needs("name of a port");
    let spec = SliceSpec::new("bench", vec![port(IN)?, port(OUT)?]);
    let mut slice = Slice::open(&spec).or_needs("slice")?;
    let mut carrier = Carrier::new(vec![Box::new(function)]);
    while !stop.is_asked() {
        for _ in 0..TURNS {
            carrier.turn(&mut slice, sys::clock::now());
        }
    }
    slice.close();
    Ok(())
}

/// Forwards between two packet sockets with TPACKET_V3 rings.
pub(super) fn packet_rings(stop: &Stop) -> Result<(), Error> {
    let config = PoolConfig { frames: FRAMES, chunk_bytes: FRAME_BYTES, numa_node: None };
    let mut pool = FramePool::new(config).or_needs("pool of frames")?;
    let mut opener = Opener::new(&pool);
    let mut open = |name: &str, id: u16| -> Result<AnyPort, Error> {
        let spec: PortSpec = format!("af_packet:{name}").parse().or_needs("name of a port")?;
        opener.open(&spec, PortId(id), &mut pool).or_needs("packet socket")
    };
    let mut ports = [open(IN, 0)?, open(OUT, 1)?];
    let mut batch = Batch::new();
    while !stop.is_asked() {
        for _ in 0..TURNS {
            let now = sys::clock::now();
            for (from, to) in [(0, 1), (1, 0)] {
                if ports[from].rx(&mut pool, &mut batch, now) > 0 {
                    ports[to].tx(&mut pool, &mut batch, now);
                    // What does not fit is dropped, as a wire would.
                    batch.drain(..).for_each(|frame| pool.give(frame));
                }
            }
        }
    }
    ports.iter_mut().for_each(|port| port.close(&mut pool));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(work: impl FnOnce(&Stop) -> Result<(), Error> + Send + 'static) -> InProcess {
        let stop = Stop::default();
        let told = stop.clone();
        InProcess { stop, thread: Some(thread::spawn(move || work(&told))) }
    }

    #[test]
    fn a_loop_that_fails_says_why_and_one_that_ends_by_itself_is_told_of() {
        for (result, says) in
            [(Err("none").or_needs("port"), "no port: none"), (Ok(()), "it has ended")]
        {
            let mut loops = here(|_| result);
            let told = loop {
                match loops.unless_ended() {
                    Err(error) => break error.to_string(),
                    Ok(()) => thread::yield_now(),
                }
            };
            assert!(told.contains(says), "{told}");
        }
    }

    #[test]
    fn a_dropped_loop_has_ended() {
        let ended = Arc::new(AtomicBool::new(false));
        let note = Arc::clone(&ended);
        let mut loops = here(move |stop| {
            while !stop.is_asked() {
                thread::yield_now();
            }
            note.store(true, Ordering::Relaxed);
            Ok(())
        });
        assert!(loops.unless_ended().is_ok());
        drop(loops);
        assert!(ended.load(Ordering::Relaxed));
    }
}
