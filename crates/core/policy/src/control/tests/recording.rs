//! A recording of any history, begun at any moment, gives the same answers when it is run again.

use std::io::Cursor;

use super::*;
use crate::record::{Ending, Recorder, ReplayReport, Snapshot, Writer, replay};

impl Shell {
    fn record(&mut self, buffers: usize, events: usize) -> Snapshot {
        self.answers.clear();
        let recorder = Box::new(Recorder::new(self.live.len(), buffers, events));
        let begun = self.control.start_recording(recorder, &self.live, &self.shadow);
        begun.expect("every policy here can be recorded")
    }

    /// Ends the recording and returns its lines.
    fn written(&mut self, snapshot: &Snapshot) -> String {
        let recorder = self.control.stop_recording().expect("it was begun");
        let lost = recorder.lost();
        let mut writer = Writer::begin(Vec::new(), snapshot).expect("memory takes all");
        for buffer in recorder.into_rest() {
            writer.write(&buffer).expect("memory takes all");
        }
        let bytes = writer.end(lost).expect("memory takes all");
        String::from_utf8(bytes).expect("JSON is UTF-8")
    }
}

/// A history of which the last part is recorded.
fn recorded(policy: usize, before: Vec<Event>, after: Vec<Event>) -> (Shell, String) {
    let mut shell = Shell::new(policy);
    before.into_iter().for_each(|event| shell.handle(event));
    let snapshot = shell.record(2, 1 << 16);
    after.into_iter().for_each(|event| shell.handle(event));
    let text = shell.written(&snapshot);
    (shell, text)
}

fn run(text: &str) -> ReplayReport {
    replay(Cursor::new(text)).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The plans and placements of the recording, in the words of [`Shell::answers`].
fn answers(text: &str) -> Vec<String> {
    let mut answers = Vec::new();
    for line in text.lines().skip(1) {
        let line: serde_json::Value = serde_json::from_str(line).expect("it is JSON");
        if let Some(place) = line.get("place") {
            let group = place["group"].as_u64().expect("a number") as u32;
            let number = |value: &serde_json::Value| {
                WorkerId(value.as_u64().expect("a worker's number") as u16)
            };
            let placed = match &place["placed"] {
                serde_json::Value::String(_) => None,
                placed => Some(match placed.get("now") {
                    Some(worker) => Placement::Now(number(worker)),
                    None => Placement::Move(Move {
                        group: FlowGroup(group),
                        from: number(&placed["move"][0]),
                        to: number(&placed["move"][1]),
                    }),
                }),
            };
            answers.push(format!("{group} {placed:?}"));
        }
        if let Some(plan) = line.get("tick").and_then(|tick| tick.get("plan")) {
            let plan: Plan = serde_json::from_value(plan.clone()).expect("a plan");
            answers.push(serde_json::to_string(&plan).expect("plain data"));
        }
    }
    answers
}

fn history(most: usize) -> impl Strategy<Value = Vec<Event>> {
    proptest::collection::vec(event(), 0..most)
}

proptest! {
    #[test]
    fn from_any_moment_on_a_recording_gives_the_same_answers_again(
        policy in 0..steer::NAMES.len(),
        before in history(200),
        after in history(300),
    ) {
        let ticks = |events: &[Event]| {
            let is = |event: &&Event| matches!(event, Event::Tick | Event::Load(_) | Event::Age);
            events.iter().filter(is).count() as u64
        };
        let expected = ticks(&after);
        let (shell, text) = recorded(policy, before, after);
        prop_assert_eq!(&answers(&text), &shell.answers, "it says what happened");
        let report = run(&text);
        prop_assert!(report.is_same(), "{report}\n{text}");
        prop_assert_eq!(report.counts.ticks, expected);
        let placements = shell.answers.iter().filter(|answer| !answer.starts_with('{')).count();
        prop_assert_eq!(report.counts.placements, placements as u64);
        prop_assert_eq!(report.counts.plans, (shell.answers.len() - placements) as u64);
    }

    #[test]
    fn a_loop_that_is_recorded_answers_like_one_that_is_not(
        policy in 0..steer::NAMES.len(),
        events in history(200),
    ) {
        let (mut alone, mut watched) = (Shell::new(policy), Shell::new(policy));
        watched.record(2, 1 << 16);
        for event in events {
            alone.handle(event.clone());
            watched.handle(event);
        }
        prop_assert_eq!(alone.live, watched.live);
        prop_assert_eq!(alone.answers, watched.answers);
    }

    #[test]
    fn an_answer_that_was_changed_is_found(
        policy in 0..steer::NAMES.len(),
        after in history(120),
        pick in any::<prop::sample::Index>(),
    ) {
        let (_, text) = recorded(policy, Vec::new(), after);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let placed: Vec<usize> =
            (0..lines.len()).filter(|&at| lines[at].contains("\"now\":")).filter(|&at| {
                lines[at].starts_with("{\"place\"") && lines[at].contains("\"placed\":{\"now\":")
            }).collect();
        prop_assume!(!placed.is_empty());
        let at = placed[pick.index(placed.len())];
        let (head, worker) = lines[at].rsplit_once(':').expect("it has one");
        let worker: u16 = worker.trim_end_matches('}').parse().expect("a number");
        lines[at] = format!("{head}:{}}}}}}}", worker + 1);
        let difference = run(&(lines.join("\n") + "\n")).difference.expect("one answer is wrong");
        prop_assert_eq!(difference.line, at as u64 + 1);
        prop_assert_eq!(difference.got, format!("Now({worker})"));
    }

    #[test]
    fn a_recording_with_one_damaged_line_is_a_report_or_a_sentence_never_a_panic(
        policy in 0..steer::NAMES.len(),
        before in history(60),
        after in history(120),
        line in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        digits in any::<bool>(),
    ) {
        let (_, text) = recorded(policy, before, after);
        let mut lines: Vec<Vec<u8>> =
            text.lines().map(|line| line.as_bytes().to_vec()).collect();
        // The snapshot half of the time: there are the bounds that a replay relies on.
        let at = if digits { 0 } else { line.index(lines.len()) };
        let line = &mut lines[at];
        for (place, byte) in changes {
            let at = place.index(line.len());
            // A digit for a digit is the change that JSON does not notice.
            line[at] = if line[at].is_ascii_digit() { b'0' + byte % 10 } else if digits { line[at] } else { byte };
        }
        let mut bytes = lines.join(&b'\n');
        bytes.push(b'\n');
        let _ = replay(Cursor::new(bytes));
    }

    #[test]
    fn lines_in_any_order_are_a_report_or_a_sentence_never_a_panic(
        policy in 0..steer::NAMES.len(),
        after in history(120),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 0..60),
    ) {
        let (_, text) = recorded(policy, Vec::new(), after);
        let lines: Vec<&str> = text.lines().collect();
        let mut mixed = vec![lines[0]];
        mixed.extend(order.iter().map(|at| lines[at.index(lines.len())]));
        let _ = replay(Cursor::new(mixed.join("\n") + "\n"));
    }

    #[test]
    fn any_bytes_are_a_sentence(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let error = replay(Cursor::new(bytes)).expect_err("noise").to_string();
        prop_assert!(error.contains("line 1 of the recording is damaged"), "{error}");
    }

    #[test]
    fn buffers_of_any_size_taken_at_any_time_give_one_recording(
        policy in 0..steer::NAMES.len(),
        before in history(60),
        after in proptest::collection::vec((event(), 0..3_u8), 0..200),
        (buffers, events) in (2..4_usize, 1..400_usize),
    ) {
        let mut shell = Shell::new(policy);
        before.into_iter().for_each(|event| shell.handle(event));
        let snapshot = shell.record(buffers, events);
        let mut writer = Writer::begin(Vec::new(), &snapshot).expect("memory takes all");
        for (event, then) in after {
            shell.handle(event);
            let recorder = shell.control.recorder().expect("it was begun");
            if then == 1 {
                recorder.flush();
            }
            if then > 0 {
                while let Some(buffer) = recorder.take_full() {
                    writer.write(&buffer).expect("memory takes all");
                    recorder.give_back(buffer);
                }
            }
        }
        let recorder = shell.control.stop_recording().expect("it was begun");
        let lost = recorder.lost();
        for buffer in recorder.into_rest() {
            writer.write(&buffer).expect("memory takes all");
        }
        let text = writer.end(lost).expect("memory takes all");
        let text = String::from_utf8(text).expect("JSON is UTF-8");
        let report = run(&text);
        prop_assert!(report.difference.is_none(), "{report}\n{text}");
        let ending = if lost == 0 { Ending::Complete } else { Ending::Lost(lost) };
        prop_assert_eq!(report.ending, ending);
        // What was not lost is the beginning of what happened.
        let written = answers(&text);
        prop_assert_eq!(&written[..], &shell.answers[..written.len()]);
        prop_assert!(lost > 0 || written.len() == shell.answers.len());
    }

    #[test]
    fn a_recording_cut_anywhere_counts_up_to_there(
        after in history(120),
        cut in any::<prop::sample::Index>(),
    ) {
        let (_, text) = recorded(4, Vec::new(), after);
        let first = text.find('\n').expect("a snapshot") + 1;
        let at = first + cut.index(text.len() - first);
        let report = run(&text[..at]);
        prop_assert_eq!(report.ending, Ending::CutOff);
        prop_assert!(report.difference.is_none());
    }
}

#[test]
fn a_full_recorder_says_what_it_lost_and_the_replay_ends_there() {
    let mut shell = Shell::new(4);
    let snapshot = shell.record(2, 10);
    (0..GROUPS).for_each(|group| shell.handle(Event::Packet(group)));
    let text = shell.written(&snapshot);
    assert!(text.ends_with("{\"end\":{\"lost\":236}}\n"), "{text}");
    let report = run(&text);
    assert_eq!((report.counts.placements, report.ending), (20, Ending::Lost(236)));
    assert!(!report.is_same());
    assert!(report.table().contains("236 events after that found no room"), "{}", report.table());
}

#[test]
fn a_write_that_was_not_noted_is_found_where_it_shows() {
    let mut shell = Shell::new(4);
    let snapshot = shell.record(2, 100);
    shell.handle(Event::Packet(7));
    shell.live.set(FlowGroup(7), Entry::UNOWNED);
    shell.control.owned = vec![0; 2];
    shell.handle(Event::Packet(7));
    let text = shell.written(&snapshot);
    let difference = run(&text).difference.expect("the table was changed in secret");
    assert_eq!(difference.line, 3);
    assert_eq!(difference.expected, "unowned");
}

#[test]
fn ticks_at_rest_take_one_line_however_many_they_are() {
    let mut shell = Shell::named("sticky", 4);
    let snapshot = shell.record(2, 100);
    (0..20_000).for_each(|_| shell.tick(None));
    let text = shell.written(&snapshot);
    assert_eq!(text.lines().count(), 3, "{text}");
    assert_eq!(run(&text).counts.ticks, 20_000);
}

#[test]
fn a_policy_that_keeps_its_memory_to_itself_is_not_recorded() {
    struct Secretive;
    impl Steer for Secretive {
        fn name(&self) -> &'static str {
            "secretive"
        }
        fn place(&mut self, _: FlowGroup, workers: &Workers, _: Nanos) -> WorkerId {
            workers.active()[0]
        }
        fn wants_rewrite(&self, _: crate::steer::Change) -> bool {
            false
        }
    }
    let mut shell = Shell::new(4);
    let snapshot = shell.record(2, 100);
    shell.handle(Event::Packet(7));
    shell.control.set_policy(Box::new(Secretive));
    shell.handle(Event::Packet(8));
    let text = shell.written(&snapshot);
    assert_eq!(run(&text).ending, Ending::Lost(2));
    let recorder = Box::new(Recorder::new(shell.live.len(), 2, 100));
    let Shell { control, live, shadow, .. } = &mut shell;
    let refused = control.start_recording(recorder, live, shadow).expect_err("it has no save");
    assert!(refused.to_string().contains("secretive cannot be recorded"), "{refused}");
}

#[test]
fn a_recording_of_another_version_is_refused_with_both_versions() {
    let (_, text) = recorded(0, Vec::new(), Vec::new());
    let other = text.replace("\"calisto_recording\":1", "\"calisto_recording\":9");
    let error = replay(Cursor::new(other)).expect_err("version 9").to_string();
    assert!(error.contains("version 9") && error.contains("reads 1"), "{error}");
}

#[test]
fn each_impossible_snapshot_is_refused_with_what_is_wrong() {
    let mut shell = Shell::named("balanced", 2);
    shell.control.pin(FlowGroup(3), WorkerId(1), &shell.live).expect("it is there");
    let snapshot = shell.record(2, 100);
    let text = shell.written(&snapshot);
    for (right, wrong, sentence) in [
        ("\"groups\":256", "\"groups\":255", "255 flow groups are not possible"),
        ("\"groups\":256", "\"groups\":512", "fewer entries than groups"),
        ("\"homes\":[", "\"homes\":[1,0,", "tables of different sizes"),
        ("\"live\":[", "\"live\":[4000000,0,", "at most 2097152 groups"),
        ("\"live\":[", "\"live\":[1,70000,", "an entry has 16 bits"),
        ("\"live\":[", "\"live\":[1,", "pairs of a count and an entry"),
        ("\"publishing\":false", "\"publishing\":true", "the one before it is missing"),
        ("{\"id\":1,", "{\"id\":2,", "not one for each id"),
        ("\"active\":[0,1]", "\"active\":[0,9]", "an active worker has no sample"),
        ("\"pins\":[[3,1]]", "\"pins\":[[3,1],[3,0]]", "ascending order"),
        ("\"pins\":[[3,1]]", "\"pins\":[[300,1]]", "a pin names a group"),
        ("\"passes\":0", "\"passes\":64", "the figures of balanced are not possible"),
        ("\"leaving_shared\"", "\"leaving\"", "unknown field"),
    ] {
        assert!(text.contains(right), "{right} is not in {text}");
        let damaged = text.replacen(right, wrong, 1);
        let error = replay(Cursor::new(damaged)).expect_err(wrong).to_string();
        assert!(error.contains("line 1") && error.contains(sentence), "{wrong}: {error}");
    }
}

/// Replays what the world does after it was prepared; how many plans asked for something.
fn replayed(mut shell: Shell, after: impl FnOnce(&mut Shell)) -> u64 {
    let snapshot = shell.record(2, 1 << 16);
    after(&mut shell);
    let text = shell.written(&snapshot);
    let report = run(&text);
    assert!(report.is_same(), "{report}\n{text}");
    report.counts.plans
}

fn ticks(shell: &mut Shell) {
    for _ in 0..20 {
        shell.handle(Event::Tick);
        shell.handle(Event::EndMove { abort: false });
    }
}

#[test]
fn a_lease_in_force_is_part_of_the_snapshot() {
    let mut shell = Shell::named("balanced", 4);
    shell.control.lease(Nanos::FAR_FUTURE);
    assert_eq!(replayed(shell, |shell| assert_eq!(shell.lopsided(20), 0)), 0);
}

#[test]
fn which_pins_come_next_is_part_of_the_snapshot() {
    let mut shell = Shell::named("sticky", 4);
    for group in (0..40).map(FlowGroup) {
        let from = shell.live.entry(group).owner().expect("every group was touched");
        let to = WorkerId((from.0 + 1) % 4);
        shell.control.pin(group, to, &shell.live).expect("it is there");
    }
    shell.handle(Event::Tick);
    assert!(replayed(shell, ticks) > 0);
}

#[test]
fn who_has_died_is_part_of_the_snapshot() {
    let mut shell = Shell::named("calisto", 4);
    shell.handle(Event::Age);
    shell.handle(Event::Death(3));
    let placed = replayed(shell, |shell| {
        for group in 0..GROUPS {
            shell.handle(Event::Packet(group));
        }
    });
    assert_eq!(placed, 0);
}

#[test]
fn what_was_aborted_and_what_waits_is_part_of_the_snapshot() {
    let mut shell = Shell::named("sticky", 4);
    shell.handle(Event::Propose(0, 1));
    shell.handle(Event::Tick);
    shell.handle(Event::EndMove { abort: true });
    while !shell.moves.is_empty() {
        shell.handle(Event::EndMove { abort: false });
    }
    assert!(shell.control.lease_state().queued > 0);
    // Nothing for 20 ms after the abort, and then the rest.
    assert!(replayed(shell, |shell| (0..3).for_each(|_| ticks(shell))) > 0);
}

#[test]
fn a_table_that_is_being_published_is_part_of_the_snapshot() {
    // A loaded table: if it cannot be published whole, it is tried again.
    let mut shell = Shell::new(1);
    (0..GROUPS).for_each(|group| shell.handle(Event::Packet(group)));
    shell.handle(Event::Import(1));
    while !shell.published {
        shell.handle(Event::Tick);
    }
    let tables = replayed(shell, |shell| {
        shell.handle(Event::EndEpoch { keeps: 0 });
        (0..3).for_each(|_| ticks(shell));
    });
    assert_eq!(tables, 1);
    // And one that every worker has to pass before it is obeyed.
    let mut shell = Shell::named("shared", 4);
    shell.control.set_policy(Shell::policy(4, shell.live.len()));
    assert_eq!(replayed(shell, ticks), 1);
}
