//! A recording of a small control loop, made the way the daemon makes one.

use base::{FlowGroup, Nanos, WorkerId};
use policy::record::{Recorder, Writer};
use policy::steer::{self, SteerConfig};
use policy::{
    Control, ControlConfig, CoreSample, Entry, GroupLoad, LoadSample, Move, OwnerTable, Place,
    Placement, Plan, WorkerSample,
};

const GROUPS: u32 = 128;

/// Its lines, each with its end: one of every kind, as far as they can be brought about.
pub fn lines(policy: &str) -> Vec<Vec<u8>> {
    let live = OwnerTable::new(GROUPS, 0).expect("a power of two");
    let shadow = live.clone();
    let steer = steer::by_name(policy, SteerConfig { groups: live.len(), seed: 7 });
    let mut control = Control::new(ControlConfig::default(), steer.expect("a policy"), live.len());
    let workers = [WorkerId(0), WorkerId(1), WorkerId(2)];
    control.set_workers(&workers[..2]);
    let recorder = Box::new(Recorder::new(live.len(), 2, 1 << 12));
    let begun = control.start_recording(recorder, &live, &shadow);
    let snapshot = begun.expect("this policy can be recorded");
    let mut loop_ = Loop { control, live, shadow, now: Nanos::from_millis(1) };
    (0..24).for_each(|group| loop_.place(group));
    loop_.ticks(3);
    let groups = vec![GroupLoad { packets: 900, idle: Nanos(5) }; GROUPS as usize];
    loop_.tick(Some(LoadSample { now: loop_.now, first: FlowGroup(0), groups }));
    let Loop { control, live, .. } = &mut loop_;
    let moves = [Move { group: FlowGroup(0), from: owner(live, 0), to: workers[1] }];
    let places = [Place { group: FlowGroup(100), worker: workers[0] }];
    // What is refused is not recorded; a recording of what was accepted is what is wanted here.
    let _ = control.propose(&moves, &places, live);
    control.lease(Nanos::from_millis(50));
    let _ = control.pin(FlowGroup(5), workers[0], live);
    loop_.ticks(4);
    loop_.control.unpin(FlowGroup(5));
    loop_.control.lease_ended();
    loop_.control.set_workers(&workers);
    loop_.ticks(6);
    let owners = vec![Entry::owned_by(workers[2]); GROUPS as usize];
    loop_.control.load(owners, &loop_.live).expect("the worker is active");
    loop_.ticks(6);
    loop_.control.set_workers(&workers[..2]);
    loop_.control.worker_gone(workers[2]);
    loop_.ticks(6);
    let other = steer::by_name("modulo", SteerConfig { groups: GROUPS as usize, seed: 7 });
    loop_.control.set_policy(other.expect("a policy"));
    loop_.ticks(20);
    let recorder = loop_.control.stop_recording().expect("it was begun");
    let lost = recorder.lost();
    let mut writer = Writer::begin(Vec::new(), &snapshot).expect("memory takes all");
    for buffer in recorder.into_rest() {
        writer.write(&buffer).expect("memory takes all");
    }
    let bytes = writer.end(lost).expect("memory takes all");
    bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

fn owner(live: &OwnerTable, group: u32) -> WorkerId {
    live.entry(FlowGroup(group)).owner().unwrap_or(WorkerId(0))
}

/// The loop with a shell that does at once what plans ask for.
struct Loop {
    control: Control,
    live: OwnerTable,
    shadow: OwnerTable,
    now: Nanos,
}

impl Loop {
    fn place(&mut self, group: u32) {
        let Self { control, live, shadow, now } = self;
        if let Some(Placement::Move(asked)) = control.place(FlowGroup(group), live, shadow, *now) {
            self.carry_out(asked);
        }
    }

    fn carry_out(&mut self, asked: Move) {
        let moving = Entry::owned_by(asked.from).with_moving(true);
        self.control.write(asked.group, moving, &mut self.live);
        if asked.group.0.is_multiple_of(3) {
            self.control.aborted(asked, &mut self.live, self.now);
        } else {
            self.control.moved(asked, &mut self.live);
        }
    }

    fn ticks(&mut self, count: usize) {
        (0..count).for_each(|_| self.tick(None));
    }

    fn tick(&mut self, load: Option<LoadSample>) {
        self.now += Nanos::from_millis(1);
        let active = self.control.workers().active().to_vec();
        let sample = |id: WorkerId| WorkerSample { id, queued: 3, delay: Nanos(u64::from(id.0)) };
        let core = CoreSample { now: self.now, workers: active.into_iter().map(sample).collect() };
        let mut plan = Plan::default();
        let Self { control, live, shadow, .. } = self;
        control.tick(&core, load.as_ref(), live, shadow, &mut plan);
        if plan.publish {
            std::mem::swap(live, shadow);
            control.epoch_finished();
        }
        plan.moves.into_iter().for_each(|asked| self.carry_out(asked));
    }
}
