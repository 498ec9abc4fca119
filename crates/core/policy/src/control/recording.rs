//! Records the loop, and restores it from a snapshot.

use base::WorkerId;

use super::{Control, Proposal};
use crate::plan::Plan;
use crate::record::{Recorder, Snapshot, Unrecordable, What};
use crate::rewrite::Source;
use crate::sample::{CoreSample, LoadSample};
use crate::steer::Workers;
use crate::table::OwnerTable;

impl Control {
    /// Notes everything from now on in `recorder`, after the returned snapshot of what is
    /// remembered now. A rewrite under way begins anew, so that it need not be written half done. A
    /// recording that is under way is dropped. Copies the tables once: 24 us at the default of
    /// 65,536 groups, 0.2 to 0.6 ms at a million.
    ///
    /// # Errors
    /// The policy in force cannot be recorded.
    pub fn start_recording(
        &mut self,
        mut recorder: Box<Recorder>,
        live: &OwnerTable,
        shadow: &OwnerTable,
    ) -> Result<Snapshot, Unrecordable> {
        let policy = self.steer.save().ok_or(Unrecordable(self.steer.name()))?;
        if self.rewrite.is_some() {
            self.want(Source::Policy);
        }
        let mut snapshot = recorder.take_room();
        snapshot.live.clear();
        snapshot.live.extend_from_slice(live.entries());
        snapshot.homes.clear();
        snapshot.homes.extend_from_slice(&self.homes);
        snapshot.shadow.clear();
        if self.publishing {
            snapshot.shadow.extend_from_slice(shadow.entries());
        }
        self.recorder = Some(recorder);
        Ok(Snapshot {
            calisto_recording: crate::record::VERSION,
            config: self.config,
            policy: Some(policy),
            groups: live.groups(),
            active: self.workers.active().to_vec(),
            samples: self.workers.samples().collect(),
            gone: self.gone.clone(),
            pins: self.pins.iter().map(|&(group, worker)| (group.0, worker.0)).collect(),
            pin_cursor: self.pin_cursor as u32,
            wanted: self.wanted.as_ref().map(Into::into),
            retry_at: self.retry_at,
            moves_in_flight: self.moves_in_flight as u32,
            publishing: self.publishing,
            published: self.published.as_ref().map(Into::into),
            leaving_shared: self.leaving_shared,
            lease_until: self.outside.until.map(|until| until.0),
            proposals: self.outside.queue.iter().copied().collect(),
            ..snapshot
        })
    }

    /// The recorder in use, to take full buffers from and give empty ones to.
    pub fn recorder(&mut self) -> Option<&mut Recorder> {
        self.recorder.as_deref_mut()
    }

    /// Ends the recording; what is left in the recorder is for the writer.
    pub fn stop_recording(&mut self) -> Option<Box<Recorder>> {
        self.recorder.take()
    }

    /// The loop as the snapshot has it, with its tables, but for the counts of [`Control::owned`]:
    /// no decision hangs on them. What is impossible in it comes back as a sentence.
    pub(crate) fn restore(snapshot: Snapshot) -> Result<(Self, OwnerTable, OwnerTable), String> {
        snapshot.check()?;
        let virtual_groups = snapshot.live.len() - snapshot.groups as usize;
        let mut live = OwnerTable::new(snapshot.groups, virtual_groups as u32)
            .map_err(|error| error.to_string())?;
        let mut shadow = live.clone();
        for (table, entries) in [(&mut live, &snapshot.live), (&mut shadow, &snapshot.shadow)] {
            for (group, &entry) in (0..).map(base::FlowGroup).zip(entries) {
                table.set(group, entry);
            }
        }
        let workers = Workers::restore(&snapshot.active, &snapshot.samples);
        let steer = snapshot.policy.clone().ok_or("the policy is missing")?.restore(live.len())?;
        let mut control = Self::new(snapshot.config, steer, 0);
        control.workers = workers;
        control.pins = snapshot.pins();
        control.pin_cursor = snapshot.pin_cursor as usize;
        control.homes = snapshot.homes;
        control.wanted = snapshot.wanted.map(Into::into);
        control.retry_at = snapshot.retry_at;
        control.moves_in_flight = snapshot.moves_in_flight as usize;
        control.publishing = snapshot.publishing;
        control.published = snapshot.published.map(Into::into);
        control.leaving_shared = snapshot.leaving_shared;
        control.gone = snapshot.gone;
        control.outside.until = snapshot.lease_until.map(base::Nanos);
        control.outside.queue = snapshot.proposals.into_iter().collect::<Vec<Proposal>>().into();
        Ok((control, live, shadow))
    }

    #[inline]
    pub(super) fn note(&mut self, what: impl FnOnce() -> What) {
        if let Some(recorder) = &mut self.recorder {
            recorder.note(what());
        }
    }

    /// Names a worker that kept its groups, once for each time that another one was seen between.
    pub(super) fn note_kept(&mut self, worker: WorkerId, last: &mut Option<WorkerId>) {
        if *last != Some(worker) {
            *last = Some(worker);
            self.note(|| What::Named(worker));
        }
    }

    /// Whether a tick without load can change nothing but the workers' figures, at any time.
    pub(crate) fn rests(&self) -> bool {
        if self.workers.active().is_empty() {
            return self.outside.is_empty();
        }
        let settled = self.rewrite.is_none() && self.wanted.is_none();
        let alone = self.outside.is_empty() && !self.outside.has_lease();
        self.publishing || (settled && alone && self.pins.is_empty())
    }

    /// One turn, noted: what is new of its input, and its plan.
    pub(super) fn recorded_turn(
        &mut self,
        core: &CoreSample,
        load: Option<&LoadSample>,
        live: &mut OwnerTable,
        shadow: &mut OwnerTable,
        plan: &mut Plan,
    ) {
        let mut rests = self.rests() && load.is_none();
        for &sample in &core.workers {
            let known = (self.workers.queued(sample.id), self.workers.delay(sample.id));
            let there = sample.id.index() < self.workers.limit();
            if there && known != (sample.queued, sample.delay) {
                self.note(|| What::Sampled(sample));
                rests = false;
            }
        }
        if let Some(load) = load {
            self.note(|| What::Load0 { now: load.now, first: load.first });
            for run in load.groups.chunk_by(|one, next| one == next) {
                self.note(|| What::Loads { count: run.len() as u32, load: run[0] });
            }
        }
        self.turn(core, load, live, shadow, plan);
        if rests {
            if let Some(recorder) = &mut self.recorder {
                recorder.push_idle(core.now);
            }
            return;
        }
        for &asked in &plan.moves {
            self.note(|| What::Asked(asked));
        }
        let (publish, fence) = (plan.publish, plan.fence);
        self.note(|| What::Tick { now: core.now, publish, fence });
    }
}
