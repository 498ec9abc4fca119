//! Hands that do nothing, and hands that move threads of this process as the daemon's do.

use datapath::cores::{CoreSlot, Hands, Strayed};
use sys::clock::tsc;
use sys::other_thread::{OtherThread, Unchanged};

/// Nobody is moved.
pub(super) struct IdleHands;

impl Hands for IdleHands {
    fn place(&mut self, _: CoreSlot, _: u32, _: u16) -> Result<(), Strayed> {
        Ok(())
    }

    fn evict(&mut self, _: CoreSlot, _: u32) -> Result<(), Strayed> {
        Ok(())
    }

    fn nudge(&mut self, _: CoreSlot, _: u32) -> Result<(), Strayed> {
        Ok(())
    }

    fn release(&mut self, _: CoreSlot) {}
}

/// Proves a thread once and pins it when its core changes.
#[derive(Default)]
pub(super) struct PinningHands {
    placed: Vec<(CoreSlot, OtherThread, Option<u16>)>,
    /// When a thread was to be placed last, by the time-stamp counter: the core is decided on and
    /// written into the worker's core grant.
    pub(super) decided_at: u64,
}

impl PinningHands {
    fn thread(&mut self, slot: CoreSlot, tid: u32) -> Result<usize, Strayed> {
        let known =
            |(of, thread, _): &(CoreSlot, OtherThread, _)| *of == slot && thread.tid() == tid;
        if let Some(at) = self.placed.iter().position(known) {
            return Ok(at);
        }
        let thread = OtherThread::of_ours(tid).map_err(|_| Strayed)?;
        self.placed.retain(|(of, ..)| *of != slot);
        self.placed.push((slot, thread, None));
        Ok(self.placed.len() - 1)
    }
}

fn heed(changed: Result<(), Unchanged>) -> Result<(), Strayed> {
    match changed {
        Err(Unchanged::Gone) => Err(Strayed),
        // The thread stays where it is, and what is measured shows it.
        Ok(()) | Err(Unchanged::Refused(_)) => Ok(()),
    }
}

impl Hands for PinningHands {
    fn place(&mut self, slot: CoreSlot, thread: u32, core: u16) -> Result<(), Strayed> {
        self.decided_at = tsc();
        let at = self.thread(slot, thread)?;
        let (_, thread, on) = &mut self.placed[at];
        if *on == Some(core) {
            return Ok(());
        }
        *on = Some(core);
        heed(thread.pin(usize::from(core)))
    }

    fn evict(&mut self, _: CoreSlot, _: u32) -> Result<(), Strayed> {
        // Everybody here parks in time.
        Ok(())
    }

    fn nudge(&mut self, slot: CoreSlot, thread: u32) -> Result<(), Strayed> {
        let at = self.thread(slot, thread)?;
        heed(self.placed[at].1.nudge())
    }

    fn release(&mut self, slot: CoreSlot) {
        self.placed.retain(|(of, ..)| *of != slot);
    }
}
