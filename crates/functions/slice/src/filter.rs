//! Which packets a slice takes, where that is decided, and what is finished there already.

use port::hook::Hook;
use port::{Filter, Judge, Port};
use shm::{Batch, FramePool};

use crate::{Slice, SliceCounters, SliceError};

/// The filter of a slice, and which ports leave it to the slice to apply it.
#[derive(Debug, Default)]
pub(crate) struct Filtering {
    filter: Option<Filter>,
    /// By port.
    judges: Vec<Judge>,
    /// By port: why its packets do not go through the hook; empty: there is none.
    hooks: Vec<Result<(), String>>,
}

impl<P: Port> Slice<P> {
    /// From now on the slice takes only what `filter` wants; what it does not want is the kernel's.
    /// May be called while traffic runs: what came before it may still be read.
    ///
    /// A port that cannot judge (one in memory, a TAP; or a program with loops) hands everything
    /// up, and the slice drops what is not wanted: see [`Slice::judges`].
    ///
    /// # Errors
    /// The kernel refuses, and no port has a filter any more.
    pub fn attach_filter(&mut self, filter: &Filter) -> Result<(), SliceError> {
        let attached = self.set_filter(Some(filter));
        if attached.is_err() {
            let _ = self.set_filter(None);
        }
        attached
    }

    /// From now on the slice takes only what `filter` wants, or every packet without one, and
    /// `hook` finishes in the kernel what it can of that. Each queue changes with one packet, so
    /// none goes by a filter of before and a hook of after. [`Self::hooks`] says which ports have
    /// no hook, and why; what those receive is all the slice's.
    ///
    /// # Errors
    /// As [`Self::attach_filter`].
    pub fn attach_hook(
        &mut self,
        filter: Option<&Filter>,
        hook: Option<&Hook>,
    ) -> Result<(), SliceError> {
        let attached = self.set_both(filter, hook);
        if attached.is_err() {
            let _ = self.set_filter(None);
        }
        attached
    }

    /// What became of the hook, for each port; nothing: there is none.
    pub fn hooks(&self) -> &[Result<(), String>] {
        &self.filtering.hooks
    }

    /// From now on the slice takes every packet of its queues.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn detach_filter(&mut self) -> Result<(), SliceError> {
        self.set_filter(None)
    }

    /// What the slice takes; `None`: everything.
    pub fn filter(&self) -> Option<&Filter> {
        self.filtering.filter.as_ref()
    }

    /// Who applies the filter, for each port.
    pub fn judges(&self) -> &[Judge] {
        &self.filtering.judges
    }

    fn set_filter(&mut self, filter: Option<&Filter>) -> Result<(), SliceError> {
        self.set_both(filter, None)
    }

    fn set_both(&mut self, filter: Option<&Filter>, hook: Option<&Hook>) -> Result<(), SliceError> {
        self.filtering = Filtering::default();
        let mut judges = Vec::with_capacity(self.ports.len());
        let mut hooks = Vec::new();
        for port in &mut self.ports {
            if let Some(hook) = hook {
                hooks.push(port.set_hook(filter, hook));
            }
            if let Some(Ok(())) = hooks.last() {
                judges.push(Judge::Kernel);
                continue;
            }
            let judge = port
                .set_filter(filter)
                .map_err(|error| SliceError::port(&self.name, &port.capabilities().name, error))?;
            judges.push(judge);
        }
        self.filtering = Filtering { filter: filter.cloned(), judges, hooks };
        Ok(())
    }
}

impl Filtering {
    /// Drops what is not wanted of the packets from `first` on, which came from port `port`, unless
    /// that has looked already.
    #[inline]
    pub(crate) fn judge(
        &self,
        port: usize,
        batch: &mut Batch,
        first: usize,
        pool: &mut FramePool,
        counters: &mut SliceCounters,
    ) {
        if let (Some(filter), Some(Judge::Reader { .. })) = (&self.filter, self.judges.get(port)) {
            drop_unwanted(filter, batch, first, pool, counters);
        }
    }
}

fn drop_unwanted(
    filter: &Filter,
    batch: &mut Batch,
    first: usize,
    pool: &mut FramePool,
    counters: &mut SliceCounters,
) {
    let came: Batch = batch.drain(first..).collect();
    counters.judged_here += came.len() as u64;
    for frame in came {
        if filter.matches(frame.bytes()) {
            batch.push(frame);
        } else {
            counters.unwanted += 1;
            pool.give(frame);
        }
    }
}
