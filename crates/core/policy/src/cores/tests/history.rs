//! What holds whatever happens: random applications, samples, deaths and violations.

use std::collections::BTreeSet;
use std::io::Cursor;

use proptest::prelude::*;

use super::record::{CoresCounts, CoresSnapshot, replay};
use super::*;
use crate::record::{ReplayReport, Writer};

#[derive(Clone, Debug)]
enum Event {
    /// Put and taken of every worker, by the bits of a number, and applications that wait.
    Tick(u64, Vec<u16>),
    Quiet,
    Park(u16),
    Prefer(u16),
    ParkTold,
    Die(u16),
    AddApp(u16, u16, u16, bool, u8),
    RemoveApp(u16),
    Policy(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => (any::<u64>(), proptest::collection::vec(0..6_u16, 0..4))
            .prop_map(|(bits, waiting)| Event::Tick(bits, waiting)),
        2 => Just(Event::Quiet),
        6 => (0..48_u16).prop_map(Event::Park),
        4 => Just(Event::ParkTold),
        4 => (0..48_u16).prop_map(Event::Prefer),
        1 => (0..48_u16).prop_map(Event::Die),
        3 => (0..6_u16, 0..4_u16, 0..8_u16, any::<bool>(), any::<u8>()).prop_map(
            |(id, guaranteed, burst, batch, delay)| Event::AddApp(id, guaranteed, burst, batch, delay)
        ),
        1 => (0..6_u16).prop_map(Event::RemoveApp),
        1 => (0..NAMES.len()).prop_map(Event::Policy),
    ]
}

/// A control whose plans are carried out, and looked at.
struct Shell {
    harness: Harness,
    /// Who holds which core, by the plans alone.
    held: Vec<Hold>,
    told: Vec<Hold>,
    /// Every plan, as text.
    answers: Vec<String>,
}

impl Shell {
    fn new(policy: usize, cores: u16) -> Self {
        let harness = Harness::new(NAMES[policy].0, cores);
        Self { harness, held: Vec::new(), told: Vec::new(), answers: Vec::new() }
    }

    fn sample(&mut self, bits: u64, waiting: Vec<u16>) -> CoresSample {
        self.harness.now += Nanos((bits & 0xf_ffff) * 13);
        let figure =
            |id: WorkerId, shift: u32| (bits.rotate_left(u32::from(id.0) * 7 + shift) & 0x3) as u32;
        let busy = self.held.iter().map(|&Hold { worker, .. }| BusyWorker {
            oldest: Nanos(u64::from(figure(worker, 5)) * 100),
            idle: Nanos(self.harness.now.0 / (1 + u64::from(figure(worker, 9)))),
            tasks: Progress { put: figure(worker, 3), taken: 0 },
            ..busy(worker.0, 3 + figure(worker, 0), figure(worker, 1))
        });
        CoresSample {
            now: self.harness.now,
            cost: Nanos(bits >> 50),
            busy: busy.collect(),
            waiting: waiting.into_iter().map(AppId).collect(),
        }
    }

    fn handle(&mut self, event: &Event) {
        let now = self.harness.now;
        let Harness { control, plan, .. } = &mut self.harness;
        match *event {
            Event::Tick(bits, ref waiting) => {
                let sample = self.sample(bits, waiting.clone());
                self.tick(&sample);
                return;
            }
            Event::Quiet => {
                let sample = CoresSample { now, ..CoresSample::default() };
                self.tick(&sample);
                return;
            }
            Event::Park(worker) => {
                let holds = self.held.iter().any(|hold| hold.worker.0 == worker);
                assert_eq!(control.parked(WorkerId(worker), now, plan), holds);
                self.gone(WorkerId(worker));
            }
            Event::Prefer(worker) => {
                control.prefer(WorkerId(worker));
                return;
            }
            Event::ParkTold => {
                let Some(&Hold { worker, .. }) = self.told.first() else { return };
                assert!(control.parked(worker, now, plan));
                self.gone(worker);
            }
            Event::Die(worker) => {
                control.worker_gone(WorkerId(worker), now, plan);
                self.gone(WorkerId(worker));
            }
            Event::AddApp(id, guaranteed, burst, is_batch, delay) => {
                let class = if is_batch { Class::Batch } else { Class::Latency };
                let queue_delay = Nanos(u64::from(delay & 3) * 100);
                let terms = AppTerms { class, queue_delay, ..terms(id, guaranteed, burst) };
                let workers: Vec<WorkerId> = (0..8).map(|at| WorkerId(8 * id + at)).collect();
                let _ = control.add_app(terms, &workers);
                return;
            }
            Event::RemoveApp(id) => {
                control.remove_app(AppId(id), now, plan);
                let of_app = |hold: &Hold| hold.worker.0 / 8 == id;
                self.held.retain(|hold| !of_app(hold));
                self.told.retain(|hold| !of_app(hold));
            }
            Event::Policy(policy) => {
                control.set_policy(by_name(NAMES[policy].0).expect("listed"));
                return;
            }
        }
        self.carry_out();
    }

    fn tick(&mut self, sample: &CoresSample) {
        let before: Vec<App> = self.harness.control.table().apps().cloned().collect();
        self.harness.control.tick(sample, &mut self.harness.plan);
        let plan = self.harness.plan.clone();
        let mut served = BTreeSet::new();
        for grant in &plan.grants {
            assert!(served.insert(grant.worker.0 / 8), "one core for each application: {plan:?}");
        }
        for told in plan.parks.iter().chain(&plan.revokes) {
            let told_before = self.told.contains(told);
            assert!(self.held.contains(told) && !told_before, "{told:?} {plan:?}");
        }
        assert!(plan.takes.iter().all(|taken| self.told.contains(taken)));
        for waiting in &sample.waiting {
            let Some(before) = before.iter().find(|app| app.terms.id == *waiting) else { continue };
            if before.is_below_guarantee() && !before.parked.is_empty() {
                let after = self.harness.control.table().app(*waiting).expect("it is still there");
                let on_its_way = after.coming > 0;
                // The one exception: all that others have beyond their guarantees is on its way to
                // them, and can be had when it is there.
                let nothing_to_take = self.harness.control.table().apps().all(|app| {
                    app.cores() <= usize::from(app.terms.guaranteed) || app.active.is_empty()
                });
                assert!(
                    after.cores() > before.cores() || on_its_way || nothing_to_take,
                    "{before:?} {after:?} {plan:?}"
                );
            }
        }
        self.carry_out();
    }

    fn gone(&mut self, worker: WorkerId) {
        self.held.retain(|hold| hold.worker != worker);
        self.told.retain(|hold| hold.worker != worker);
    }

    fn carry_out(&mut self) {
        let plan = &self.harness.plan;
        for grant in &plan.grants {
            let free =
                self.held.iter().all(|hold| hold.worker != grant.worker && hold.core != grant.core);
            assert!(free, "{grant:?} of {plan:?} is not free: {:?}", self.held);
            self.held.push(*grant);
        }
        self.told.extend(plan.parks.iter().chain(&plan.revokes));
        self.answers.push(serde_json::to_string(plan).expect("plain data"));
        self.check();
    }

    /// The table says what the plans said.
    fn check(&self) {
        let table = self.harness.control.table();
        let mut held: Vec<Hold> = self.held.clone();
        held.sort_unstable_by_key(|hold| hold.core);
        let cores = table.cores().iter();
        let listed: Vec<Hold> =
            cores.filter_map(|core| Some(Hold { worker: core.holder?, core: core.id })).collect();
        assert_eq!(listed, held);
        for app in table.apps() {
            assert!(app.cores() <= usize::from(app.terms.burst), "{app:?}");
        }
    }

    fn record(&mut self) -> CoresSnapshot {
        self.answers.clear();
        self.harness.control.start_recording(2, 1 << 14)
    }

    fn written(&mut self, snapshot: &CoresSnapshot) -> String {
        let recorder = self.harness.control.stop_recording().expect("it was begun");
        let lost = recorder.lost();
        let mut writer = Writer::begin(Vec::new(), snapshot).expect("memory takes all");
        for buffer in recorder.into_rest() {
            writer.write(&buffer).expect("memory takes all");
        }
        let bytes = writer.end(lost).expect("memory takes all");
        String::from_utf8(bytes).expect("JSON is UTF-8")
    }
}

fn run(text: &str) -> ReplayReport<CoresCounts> {
    replay(Cursor::new(text)).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn cores() -> impl Strategy<Value = u16> {
    proptest::sample::select(&[1, 2, 3, 5, 8, 64, 256][..])
}

fn events(most: usize) -> impl Strategy<Value = Vec<Event>> {
    proptest::collection::vec(event(), 0..most)
}

proptest! {
    #[test]
    fn whatever_happens_cores_workers_guarantees_and_bursts_add_up(
        policy in 0..NAMES.len(), cores in cores(), events in events(400),
    ) {
        let mut shell = Shell::new(policy, cores);
        events.iter().for_each(|event| shell.handle(event));
    }

    #[test]
    fn the_same_samples_give_the_same_plans(
        policy in 0..NAMES.len(), cores in cores(), events in events(300),
    ) {
        let (mut one, mut other) = (Shell::new(policy, cores), Shell::new(policy, cores));
        other.record();
        events.iter().for_each(|event| one.handle(event));
        events.iter().for_each(|event| other.handle(event));
        prop_assert_eq!(one.answers, other.answers);
    }

    #[test]
    fn from_any_moment_on_a_recording_gives_the_same_answers_again(
        policy in 0..NAMES.len(), cores in cores(), before in events(150), after in events(200),
    ) {
        let mut shell = Shell::new(policy, cores);
        before.iter().for_each(|event| shell.handle(event));
        let snapshot = shell.record();
        after.iter().for_each(|event| shell.handle(event));
        let text = shell.written(&snapshot);
        let report = run(&text);
        prop_assert!(report.is_same(), "{report}\n{text}");
        let is_tick = |event: &&Event| matches!(event, Event::Tick(..) | Event::Quiet);
        prop_assert_eq!(report.counts.ticks, after.iter().filter(is_tick).count() as u64);
        let grants = text.matches("\"core\":").count();
        prop_assert!(report.counts.grants as usize <= grants);
    }

    #[test]
    fn a_recording_that_was_tampered_with_is_refused_or_reported_and_harms_nobody(
        policy in 0..NAMES.len(), events in events(80), at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut shell = Shell::new(policy, 3);
        events[..events.len() / 2].iter().for_each(|event| shell.handle(event));
        let snapshot = shell.record();
        events[events.len() / 2..].iter().for_each(|event| shell.handle(event));
        let mut text = shell.written(&snapshot).into_bytes();
        let digits: Vec<usize> = (0..text.len()).filter(|&at| text[at].is_ascii_digit()).collect();
        text[digits[at.index(digits.len())]] = b'0' + byte % 10;
        let _ = replay(Cursor::new(text));
    }
}

#[test]
fn a_changed_answer_is_found_and_its_line_named() {
    let mut shell = Shell::new(0, 2);
    shell.handle(&Event::AddApp(0, 1, 2, false, 0));
    let snapshot = shell.record();
    shell.handle(&Event::Tick(1, vec![0]));
    shell.handle(&Event::Quiet);
    shell.handle(&Event::Quiet);
    let text = shell.written(&snapshot);
    let report = run(&text);
    assert_eq!(
        (report.counts.ticks, report.counts.grants, report.is_same()),
        (3, 1, true),
        "{text}"
    );
    let report = run(&text.replacen("\"core\":0", "\"core\":1", 1));
    assert_eq!(report.difference.expect("another core").line, 2);
    let cut = &text[..text.len() - 3];
    assert!(run(cut).to_string().contains("has no end"));
}
