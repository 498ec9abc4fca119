//! A slice's thread: read a batch, let the functions decide, write it, take a few changes, wait.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{Nanos, PortId};
use calisto_nf::{FibChange, Verdict, Verdicts};
use calisto_slice::{Slice, SliceError};
use port::Port;
use shm::{Batch, Consumer, Producer};
use sys::clock;
use sys::eventfd::EventFd;

use crate::board::{Board, Group, Label, Written};
use crate::hook::Takes;
use crate::stage::Stage;
use crate::swap::Swapped;
use crate::walk::walk;

/// Table entries that are written between two batches at most: a few microseconds.
const ENTRIES_A_TURN: u32 = 4096;
/// Writes of one batch before what is left of it is dropped: a port without room is overloaded.
const WRITES_MAX: u32 = 16;
/// The longest sleep; whoever wants something rings the waker.
const SLEEP_MAX: Nanos = Nanos::from_millis(100);

/// One thread's part of a chain.
pub(crate) struct Worker<P: Port> {
    pub(crate) slice: Slice<P>,
    pub(crate) stages: Vec<Stage>,
    pub(crate) changes: Consumer<FibChange>,
    /// What to take from now on.
    pub(crate) takes: Consumer<Takes>,
    /// Other functions, from now on.
    pub(crate) swapped: Swapped,
    /// Neighbours that packets wait for; one that finds no room is wanted again by the next packet.
    pub(crate) wanted: Producer<(PortId, IpAddr)>,
    /// Tells the control thread that some are.
    pub(crate) doorbell: Arc<EventFd>,
    pub(crate) board: Arc<Board>,
    /// Packets that no function decided about.
    pub(crate) undecided: u64,
}

impl<P: Port> Worker<P> {
    /// Goes on until told to stop, and closes the slice.
    pub(crate) fn run(mut self, stop: &AtomicBool) -> Result<(), SliceError> {
        self.slice.pin()?;
        let mut batch = Batch::new();
        let mut verdicts = Verdicts::new();
        while !stop.load(Ordering::Relaxed) {
            self.take_takes()?;
            self.take_functions()?;
            if !self.turn(&mut batch, &mut verdicts, clock::now()) {
                self.slice.wait(SLEEP_MAX);
            }
        }
        self.slice.close();
        Ok(())
    }

    /// One batch, and what is to be done beside it; whether there was anything.
    pub(crate) fn turn(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos) -> bool {
        let has_changed = self.take_changes();
        let has_released = self.release(batch, verdicts, now);
        let read = self.slice.read_multi(batch, now);
        if read > 0 {
            self.process_from(0, batch, verdicts, now);
        }
        let Self { slice, stages, board, undecided, .. } = self;
        board.answer(|written| write_figures(slice, stages, *undecided, written));
        read > 0 || has_changed || has_released
    }

    /// Puts other functions in force, if some have come, and sends back those that were.
    #[inline]
    fn take_functions(&mut self) -> Result<(), SliceError> {
        while let Some(mut swap) = self.swapped.taken.pop() {
            // What was sent before them comes before them.
            self.take_takes()?;
            swap.exchange(&mut self.stages);
            // Nothing is sent before what was sent last has come back.
            let _ = self.swapped.back.push(swap);
            self.doorbell.ring();
        }
        Ok(())
    }

    /// Takes other packets from now on, if it was told to. Without its filter it would take what is
    /// the kernel's, so it ends rather.
    #[inline]
    fn take_takes(&mut self) -> Result<(), SliceError> {
        while let Some(Takes { filter, hook, macs: _ }) = self.takes.pop() {
            self.slice.attach_hook(filter.as_ref(), hook.as_ref())?;
        }
        Ok(())
    }

    /// Lets packets go on that waited for a neighbour; whether there were any. `batch` is empty,
    /// before and after.
    fn release(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos) -> bool {
        let Some(from) = self.stages.iter().position(|stage| stage.is_due(now)) else {
            return false;
        };
        let Self { stages, slice, .. } = self;
        stages[from].release(batch, now, &mut || slice.take());
        let has_released = !batch.is_empty();
        if has_released {
            self.process_from(from, batch, verdicts, now);
        }
        has_released
    }

    /// Takes the batch through the stages from this one on, and writes what is to leave.
    fn process_from(
        &mut self,
        from: usize,
        batch: &mut Batch,
        verdicts: &mut Verdicts,
        now: Nanos,
    ) {
        walk(&mut self.stages, from, batch, verdicts, now, |_, _, _, _, _| {});
        self.carry_out(batch, verdicts);
        self.write(batch, now);
        self.write_copies(batch, now);
        self.pass_wanted_on();
    }

    /// Writes what functions have copied, once the packets themselves have left: in one attempt, as
    /// the next packets wait for that. `batch` is empty, before and after.
    #[inline]
    fn write_copies(&mut self, batch: &mut Batch, now: Nanos) {
        let Self { stages, slice, .. } = self;
        for stage in stages {
            let Some(PortId(to)) = stage.copies_to() else { continue };
            let port = slice.ports().get(usize::from(to));
            let most = port.map_or(0, |port| port.capabilities().frame_bytes_max as usize);
            stage.release_copies(batch, most, &mut || slice.take());
            slice.write_multi(batch, now);
            if !batch.is_empty() {
                stage.lose_copies(batch.len());
                slice.give_back(batch);
            }
        }
    }

    /// Writes the verdicts where the slice reads them.
    #[inline]
    fn carry_out(&mut self, batch: &mut Batch, verdicts: &Verdicts) {
        for (frame, verdict) in batch.iter_mut().zip(verdicts.of(usize::MAX)) {
            let meta = frame.meta_mut();
            match *verdict {
                Verdict::Out(port) => (meta.port, meta.transmit) = (port, true),
                Verdict::Drop => meta.transmit = false,
                Verdict::Next => {
                    meta.transmit = false;
                    self.undecided += 1;
                }
            }
        }
    }

    #[inline]
    fn write(&mut self, batch: &mut Batch, now: Nanos) {
        for _ in 0..WRITES_MAX {
            self.slice.write_multi(batch, now);
            if batch.is_empty() {
                return;
            }
        }
        self.slice.give_back(batch);
    }

    /// Takes what the control thread has sent, as far as the time between two batches reaches.
    fn take_changes(&mut self) -> bool {
        let mut entries = 0;
        while entries < ENTRIES_A_TURN {
            let Some(change) = self.changes.pop() else { break };
            entries += u32::from(change.entries()).max(1);
            for stage in &mut self.stages {
                stage.apply(&change);
            }
        }
        entries > 0
    }

    fn pass_wanted_on(&mut self) {
        let Self { stages, wanted, doorbell, .. } = self;
        for stage in stages {
            stage.take_wanted(|port, address| {
                let _ = wanted.stage((port, address));
            });
        }
        if wanted.publish() {
            doorbell.ring();
        }
    }
}

#[cold]
fn write_figures<P: Port>(
    slice: &Slice<P>,
    stages: &[Stage],
    undecided: u64,
    written: &mut Written,
) {
    written.groups.clear();
    written.hooks = slice.hooks().to_vec();
    let turned = |(name, value, help): (&'static str, u64, &'static str)| {
        (Label::from(name), Label::from(help), value)
    };
    let mut counters: Vec<_> = slice.counters().each().into_iter().map(turned).collect();
    let help = "Packets that no function decided about, dropped.";
    counters.push(("undecided".into(), help.into(), undecided));
    let name = slice.name().to_owned();
    written.groups.push(Group { of: "slice", name, fault: None, counters });
    for port in slice.ports() {
        written.groups.push(Group {
            of: "port",
            name: port.capabilities().name.clone(),
            fault: port.fault(),
            counters: port.counters().each().into_iter().map(turned).collect(),
        });
    }
    for stage in stages {
        let mut counters = Vec::new();
        stage.counters(&mut |name, help, value| counters.push((name, help, value)));

        let name = stage.name().to_owned();
        written.groups.push(Group { of: "function", name, fault: None, counters });
    }
}

#[cfg(test)]
mod tests;
