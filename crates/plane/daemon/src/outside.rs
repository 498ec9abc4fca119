//! An outside controller in the loop: what it sees, what it asks for, and what is written down.

use std::collections::VecDeque;

use admin::{GroupMove, GroupPlace, LoadSlice, Sample, WorkerLoad};
use base::{FlowGroup, Nanos, WorkerId};
use datapath::counters::WorkerEvent;
use datapath::{AttachmentId, Steering};
use policy::record::{Event, Recorder, Snapshot};
use policy::{Move, Place};

use crate::admin_clients::ClientId;
use crate::event_loop::EventLoop;

/// Slices of the groups' load that wait for their watchers, at most, for each application.
const SLICES_MAX: usize = 64;

/// Whoever asks for load is thought to watch for this long after it asked last.
const WATCHED_FOR: Nanos = Nanos::from_secs(5);

/// What outside controllers have of the loop.
#[derive(Default)]
pub(crate) struct Outside {
    watched: Vec<Watched>,
    /// Who holds the lease of which table.
    leases: Vec<(AttachmentId, ClientId)>,
}

/// The load of an application's groups while somebody watches it.
struct Watched {
    app: AttachmentId,
    until: Nanos,
    /// The slices with their numbers, oldest first.
    slices: VecDeque<(u64, LoadSlice)>,
    /// The number of the newest slice that was looked at.
    newest: u64,
}

/// A proposal as it came.
pub(crate) struct Proposal {
    pub(crate) moves: Vec<GroupMove>,
    pub(crate) place: Vec<GroupPlace>,
    pub(crate) lease_ms: Option<u32>,
}

impl EventLoop {
    /// Keeps the load samples that somebody watches. Once a turn; nothing while nobody does.
    #[inline]
    pub(crate) fn note_load(&mut self, now: Nanos) {
        if self.outside.watched.is_empty() {
            return;
        }
        self.outside.watched.retain(|watched| now < watched.until);
        for watched in &mut self.outside.watched {
            let Some(steering) = self.dispatcher.steering_of(watched.app) else { continue };
            let (_, load, number) = steering.samples();
            if number == watched.newest {
                continue;
            }
            watched.newest = number;
            if watched.slices.len() == SLICES_MAX {
                watched.slices.pop_front();
            }
            let table = steering.table();
            let groups = load.groups.iter().zip(load.first.0..).map(|(group, at)| {
                let idle = (group.idle != Nanos::FAR_FUTURE).then_some(group.idle.0);
                let owner = table.entry(FlowGroup(at)).owner().map(|worker| worker.0);
                (group.packets, idle, owner)
            });
            watched.slices.push_back((number, LoadSlice::new(load.first.0, groups)));
        }
    }

    /// One look at a loop. `since`: the number of the newest slice that the asker has, if it wants
    /// load at all; the number of the newest that it gets comes back.
    pub(crate) fn sample(
        &mut self,
        app: Option<&str>,
        since: Option<u64>,
        now: Nanos,
    ) -> Result<(Sample, u64), String> {
        let app = self.app_named(app)?;
        let steering = self.dispatcher.steering_of(app).ok_or("it has just gone")?;
        let mut sample = look(steering, now);
        let newest = steering.samples().2;
        let Some(since) = since else { return Ok((sample, 0)) };
        let watched = &mut self.outside.watched;
        let at = watched.iter().position(|watched| watched.app == app).unwrap_or_else(|| {
            watched.push(Watched { app, until: now, slices: VecDeque::new(), newest });
            watched.len() - 1
        });
        let watched = &mut watched[at];
        watched.until = now + WATCHED_FOR;
        let new = watched.slices.iter().filter(|(number, _)| *number > since);
        sample.load = new.map(|(_, slice)| slice.clone()).collect();
        // The first sample begins the watch: nothing was skipped before it.
        let there = if since == 0 { 0 } else { watched.newest.saturating_sub(since) };
        sample.slices_skipped = there.saturating_sub(sample.load.len() as u64) as u32;
        Ok((sample, watched.newest))
    }

    /// An outside controller asks for something; all of it is accepted or none.
    pub(crate) fn propose(
        &mut self,
        app: Option<&str>,
        proposal: &Proposal,
        client: ClientId,
        now: Nanos,
    ) -> Result<(), String> {
        let app = self.app_named(app)?;
        let held = self.outside.leases.iter().find(|(held, _)| *held == app);
        let steering = self.dispatcher.steering_of_mut(app).ok_or("it has just gone")?;
        let (control, live) = steering.control_mut();
        let leased = control.lease_state().until.is_some_and(|until| now < until);
        if leased && held.is_some_and(|(_, holder)| *holder != client) {
            return Err("another controller has the lease: wait until it ends".to_owned());
        }
        let moves: Vec<Move> = proposal.moves.iter().map(move_of).collect();
        let places: Vec<Place> = proposal.place.iter().map(place_of).collect();
        control.propose(&moves, &places, live).map_err(|refused| refused.to_string())?;
        match proposal.lease_ms {
            None => return Ok(()),
            Some(0) => control.lease_ended(),
            Some(lease_ms) => control.lease(now + Nanos::from_millis(u64::from(lease_ms))),
        }
        self.outside.leases.retain(|(held, _)| *held != app);
        if proposal.lease_ms != Some(0) {
            self.outside.leases.push((app, client));
        }
        Ok(())
    }

    /// A client of the admin socket is gone: the local policy goes on where it had a lease.
    pub(crate) fn client_gone(&mut self, client: ClientId) {
        let all = std::mem::take(&mut self.outside.leases);
        for (app, holder) in all {
            if holder != client {
                self.outside.leases.push((app, holder));
            } else if let Some(steering) = self.dispatcher.steering_of_mut(app) {
                steering.control_mut().0.lease_ended();
            }
        }
    }

    /// Groups of a table, virtual ones included: how much room a recording of it needs.
    pub(crate) fn table_len(&self, app: Option<&str>) -> Result<usize, String> {
        let app = self.app_named(app)?;
        Ok(self.dispatcher.steering_of(app).ok_or("it has just gone")?.table().len())
    }

    pub(crate) fn begin_recording(
        &mut self,
        app: Option<&str>,
        recorder: Box<Recorder>,
    ) -> Result<Snapshot, String> {
        let app = self.app_named(app)?;
        let steering = self.dispatcher.steering_of_mut(app).ok_or("it has just gone")?;
        let (control, live, shadow) = steering.control_and_tables();
        if control.recorder().is_some() {
            return Err("it is being recorded already: wait until that ends".to_owned());
        }
        control.start_recording(recorder, live, shadow).map_err(|policy| policy.to_string())
    }

    /// What was recorded since; `empty` are buffers that were taken before.
    pub(crate) fn take_recorded(
        &mut self,
        app: Option<&str>,
        empty: Vec<Vec<Event>>,
    ) -> Result<(Vec<Vec<Event>>, u64), String> {
        let app = self.app_named(app)?;
        let steering = self.dispatcher.steering_of_mut(app).ok_or("it has just gone")?;
        let recorder = steering.control_mut().0.recorder().ok_or("the recording has ended")?;
        empty.into_iter().for_each(|buffer| recorder.give_back(buffer));
        recorder.flush();
        let full = std::iter::from_fn(|| recorder.take_full()).collect();
        Ok((full, recorder.lost()))
    }

    pub(crate) fn end_recording(&mut self, app: Option<&str>) -> Option<Box<Recorder>> {
        let app = self.app_named(app).ok()?;
        self.dispatcher.steering_of_mut(app)?.control_mut().0.stop_recording()
    }
}

fn look(steering: &Steering, now: Nanos) -> Sample {
    let control = steering.control();
    let lease = control.lease_state();
    let (core, ..) = steering.samples();
    let left = lease.until.filter(|until| now < *until).map(|until| until.since(now));
    Sample {
        now_ns: now.0,
        policy: control.policy().to_owned(),
        groups: steering.table().groups(),
        epoch: steering.epoch().0,
        settled: steering.is_settled(),
        lease_left_ms: left.map(|left| (left.0 / 1_000_000) as u32),
        proposals: lease.queued as u32,
        proposals_stale: lease.stale,
        workers: core
            .workers
            .iter()
            .map(|worker| WorkerLoad {
                id: worker.id.0,
                queued: worker.queued,
                delay_ns: worker.delay.0,
                groups: control.owned(worker.id),
                packets: steering
                    .worker_counters(worker.id)
                    .map_or(0, |counters| counters.get(WorkerEvent::Packets)),
            })
            .collect(),
        load: Vec::new(),
        slices_skipped: 0,
    }
}

fn move_of(asked: &GroupMove) -> Move {
    let GroupMove { group, from, to } = *asked;
    Move { group: FlowGroup(group), from: WorkerId(from), to: WorkerId(to) }
}

fn place_of(asked: &GroupPlace) -> Place {
    Place { group: FlowGroup(asked.group), worker: WorkerId(asked.worker) }
}
