//! The scoreboard against a walk over all records, and what an acknowledgement costs.

use std::cmp::Ordering;

use proptest::prelude::*;

use super::chain::Chain;
use super::*;

/// What a walk over all records makes of them.
#[derive(Clone, Debug)]
struct Walk {
    records: Vec<Sent>,
    board: Scoreboard,
}

impl Walk {
    fn note_delivered(&mut self, segment: &Sent, now: Nanos, rtt: &Rtt) {
        self.board.note_delivered(segment, now, rtt);
    }

    fn acknowledge(&mut self, ack: Seq, now: Nanos, rtt: &Rtt, delivery: &mut Delivery) {
        while let Some(segment) = self.records.first_mut() {
            if segment.end.is_after(ack) {
                segment.start = segment.start.later(ack);
                break;
            }
            let segment = self.records.remove(0);
            delivery.acked += 1;
            if segment.has(SACKED) {
                self.board.sacked -= 1;
            } else {
                delivery.delivered += 1;
                self.note_delivered(&segment, now, rtt);
            }
            self.board.lost -= u32::from(segment.has(LOST));
            self.board.again -= u32::from(segment.has(AGAIN));
            if segment.has(EVER_AGAIN | LOST) {
                delivery.again_at = delivery.again_at.max(Some(segment.at));
            } else if !segment.has(SACKED) {
                delivery.round_trip.get_or_insert(now.since(segment.at));
            }
        }
        self.board.highest = self.board.highest.later(ack);
    }

    fn report(&mut self, blocks: &[(Seq, Seq)], now: Nanos, rtt: &Rtt, delivery: &mut Delivery) {
        let Some(highest) = blocks.iter().map(|(_, end)| *end).reduce(Seq::later) else { return };
        for at in 0..self.records.len() {
            let before = self.records[at];
            let is_covered = blocks
                .iter()
                .any(|(start, end)| !before.start.is_before(*start) && !before.end.is_after(*end));
            if is_covered && !before.has(SACKED) {
                self.records[at].marks = (before.marks | SACKED) & !(LOST | AGAIN | PARDONED);
                self.board.lost -= u32::from(before.has(LOST));
                self.board.again -= u32::from(before.has(AGAIN));
                self.board.sacked += 1;
                delivery.delivered += 1;
                self.note_delivered(&before, now, rtt);
            }
        }
        self.board.highest = self.board.highest.later(highest);
    }

    fn mark_lost(&mut self, at: usize) {
        let segment = &mut self.records[at];
        self.board.again -= u32::from(segment.has(AGAIN));
        self.board.lost += u32::from(!segment.has(LOST));
        segment.marks = (segment.marks | LOST) & !(AGAIN | PARDONED);
    }

    fn detect(&mut self, window: Nanos, now: Nanos) -> (u32, Option<Nanos>) {
        let (mut newly_lost, mut wait) = (0, None);
        for at in 0..self.records.len() {
            let segment = self.records[at];
            if !segment.is_flying() || !is_later(self.board.newest(), segment.key()) {
                continue;
            }
            let due = segment.at + self.board.round_trip + window;
            if due <= now {
                newly_lost += 1;
                self.mark_lost(at);
            } else {
                wait = wait.max(Some(due.since(now)));
            }
        }
        (newly_lost, wait)
    }

    fn mark_longer_lost(&mut self, bytes: u32) {
        for at in 0..self.records.len() {
            let segment = self.records[at];
            if segment.end.since(segment.start) > bytes && !segment.has(SACKED) {
                self.mark_lost(at);
            }
        }
        self.board.sacked = self.board.sacked.min(self.records.len() as u32 - self.board.lost);
    }

    fn mark_all_lost(&mut self) {
        let is_reneging = self.records.first().is_some_and(|segment| segment.has(SACKED));
        if is_reneging {
            self.board.sacked = 0;
        }
        for at in 0..self.records.len() {
            if is_reneging {
                self.records[at].marks &= !SACKED;
            }
            if !self.records[at].has(SACKED) {
                self.mark_lost(at);
            }
        }
    }

    fn clear_lost(&mut self, is_timeout: bool) {
        let flying = self.records.iter().filter(|segment| segment.is_flying()).map(Sent::key);
        let earliest = flying.reduce(|one, other| if is_later(one, other) { other } else { one });
        let mut latest = None;
        for segment in &mut self.records {
            if segment.is_due() {
                let is_in_order = latest.is_none_or(|latest| is_later(segment.key(), latest))
                    && earliest.is_none_or(|earliest| is_later(earliest, segment.key()));
                match is_timeout && is_in_order {
                    true => latest = Some(segment.key()),
                    false => segment.marks |= PARDONED,
                }
            }
            segment.marks &= !(LOST | AGAIN);
        }
        (self.board.lost, self.board.again) = (0, 0);
    }

    fn first_due(&self) -> Option<usize> {
        self.records.iter().position(Sent::is_due)
    }

    fn sent_again(&mut self, at: usize, now: Nanos) {
        let segment = &mut self.records[at];
        if segment.is_due() {
            segment.marks |= AGAIN;
            self.board.again += 1;
        }
        segment.marks = (segment.marks | EVER_AGAIN) & !PARDONED;
        segment.at = now;
    }

    fn split(&mut self, at: usize, end: Seq) {
        let mut rest = self.records[at];
        rest.start = end;
        self.board.sacked += u32::from(rest.has(SACKED));
        self.board.lost += u32::from(rest.has(LOST));
        self.board.again += u32::from(rest.has(AGAIN));
        self.records[at].end = end;
        self.records[at].marks &= !PUSHED;
        self.records.insert(at + 1, rest);
    }
}

/// A flow's records and what is known of them.
struct Bench {
    pool: SentPool,
    sent: List,
    board: Scoreboard,
    now: Nanos,
    next: Seq,
}

impl Bench {
    fn new(records: u32, start: Seq) -> Self {
        let pool = SentPool::new(1, 2 * records);
        Self { pool, sent: List::EMPTY, board: Scoreboard::new(start), now: Nanos(1), next: start }
    }

    fn push(&mut self, bytes: u32) {
        let record = Sent::new(self.next, self.next + bytes, self.now, false);
        assert!(Scoreboard::push(&mut self.pool, &mut self.sent, record));
        self.next += bytes;
    }

    fn indexes(&self) -> Vec<u32> {
        std::iter::successors(self.sent.first(), |at| self.pool.next(*at)).collect()
    }

    fn chain(&self, chain: Chain) -> Vec<u32> {
        let mut at = None;
        std::iter::from_fn(|| {
            at =
                if at.is_none() || at != chain.last() { chain.after(&self.pool, at) } else { None };
            at
        })
        .take(self.sent.len() as usize + 1)
        .collect()
    }

    fn report(&mut self, blocks: &[(Seq, Seq)]) -> Delivery {
        let mut delivery = Delivery::default();
        let (board, pool) = (&mut self.board, &mut self.pool);
        board.report(pool, &self.sent, blocks, self.now, &Rtt::default(), &mut delivery);
        delivery
    }

    fn detect(&mut self, window: Nanos) -> (u32, Option<Nanos>) {
        self.board.detect(&mut self.pool, &self.sent, window, self.now)
    }

    /// Everything that the walk has to agree with.
    fn check(&self, walk: &Walk) {
        let facts = |board: &Scoreboard| {
            let Scoreboard { sacked, lost, again, highest, newest_at, round_trip, .. } = *board;
            (
                sacked,
                lost,
                again,
                highest,
                newest_at,
                board.newest_end,
                round_trip,
                board.reordering,
            )
        };
        assert_eq!(facts(&self.board), facts(&walk.board));
        let facts = |sent: &Sent| (sent.start, sent.end, sent.at, sent.marks & !LINKED);
        let records: Vec<_> = self.pool.iter(&self.sent).map(facts).collect();
        assert_eq!(records, walk.records.iter().map(facts).collect::<Vec<_>>());
        let indexes = self.indexes();
        let all = |is_it: fn(&Sent) -> bool| -> Vec<u32> {
            indexes.iter().copied().filter(|at| is_it(self.pool.get(*at))).collect()
        };
        let Some(first) = self.sent.first().map(|first| self.pool.get(first)) else { return };
        if !first.has(LINKED) {
            assert!(self.sent.len() == 1 && first.marks == 0, "it is alone, and nothing happened");
            return;
        }
        let ways = first.ways;
        assert_eq!(self.chain(ways.due), all(Sent::is_due), "by number");
        let mut flying = all(Sent::is_flying);
        flying.sort_by(|one, other| {
            let [one, other] = [one, other].map(|at| self.pool.get(*at).key());
            if is_later(one, other) { Ordering::Greater } else { Ordering::Less }
        });
        assert_eq!(self.chain(ways.flying), flying, "by time");
        let overtaken =
            flying.iter().rfind(|at| is_later(self.board.newest(), self.pool.get(**at).key()));
        assert_eq!(ways.overtaken(), overtaken.copied());
        for (at, index) in indexes.iter().enumerate() {
            // A record is found by its number, or one before it that it was cut from.
            let start = self.pool.get(*index).start;
            let found = ways.index.find(&self.pool, &self.sent, start).expect("there are some");
            let found = indexes.iter().position(|index| *index == found).expect("it is alive");
            assert!(
                found <= at
                    && indexes[found + 1..=at].iter().all(|at| self.pool.get(*at).level == 0)
            );
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send { count: u32, bytes: u32 },
    Ack { record: usize, bytes: u32 },
    Sack { blocks: Vec<(usize, usize)> },
    Detect { window: u64 },
    Again,
    Probe,
    Cut { is_last: bool },
    TimeOut,
    Undo { is_timeout: bool },
    Narrow { bytes: u32 },
    Move,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1_u32..12, 1_u32..5).prop_map(|(count, bytes)| Step::Send { count, bytes }),
        3 => (0_usize..20, 0_u32..2).prop_map(|(record, bytes)| Step::Ack { record, bytes }),
        8 => prop::collection::vec((0_usize..60, 1_usize..20), 1..4)
            .prop_map(|blocks| Step::Sack { blocks }),
        6 => (0_u64..400).prop_map(|window| Step::Detect { window }),
        6 => Just(Step::Again),
        1 => Just(Step::Probe),
        1 => any::<bool>().prop_map(|is_last| Step::Cut { is_last }),
        1 => Just(Step::TimeOut),
        1 => any::<bool>().prop_map(|is_timeout| Step::Undo { is_timeout }),
        1 => (1_u32..4).prop_map(|bytes| Step::Narrow { bytes }),
        1 => Just(Step::Move),
    ]
}

fn run(bench: &mut Bench, walk: &mut Walk, step: &Step) {
    let rtt = Rtt::default();
    let (now, indexes) = (bench.now, bench.indexes());
    let (mut ours, mut theirs) = (Delivery::default(), Delivery::default());
    match step {
        Step::Send { count, bytes } => {
            for _ in 0..*count {
                walk.records.push(Sent::new(bench.next, bench.next + *bytes, now, false));
                bench.push(*bytes);
            }
        }
        Step::Ack { record, bytes } => {
            let Some(record) = walk.records.get(*record) else { return };
            let ack = record.start + *bytes;
            let pool = &mut bench.pool;
            match bench.board.acknowledge_oldest(pool, &mut bench.sent, ack, now) {
                Some(round_trip) => {
                    (ours.acked, ours.delivered, ours.round_trip) = (1, 1, Some(round_trip));
                }
                None => {
                    let sent = &mut bench.sent;
                    bench.board.acknowledge(pool, sent, ack, now, &rtt, &mut ours);
                }
            }
            walk.acknowledge(ack, now, &rtt, &mut theirs);
        }
        Step::Sack { blocks } => {
            let records = &walk.records;
            let place = |at: usize| records.get(at).map_or(bench.next, |record| record.start);
            let blocks: Vec<(Seq, Seq)> = blocks
                .iter()
                .map(|(at, count)| (place(*at), place(*at + *count)))
                .filter(|(start, end)| start.is_before(*end))
                .collect();
            ours = bench.report(&blocks);
            walk.report(&blocks, now, &rtt, &mut theirs);
        }
        Step::Detect { window } => {
            assert_eq!(bench.detect(Nanos(*window)), walk.detect(Nanos(*window), now));
        }
        Step::Again => {
            let first = Scoreboard::first_due(&bench.pool, &bench.sent);
            assert_eq!(first, walk.first_due().map(|at| indexes[at]));
            if let (Some(index), Some(at)) = (first, walk.first_due()) {
                assert!(Scoreboard::is_due(&bench.pool, &bench.sent, walk.records[at].start));
                bench.board.sent_again(&mut bench.pool, &bench.sent, index, now);
                walk.sent_again(at, now);
            }
        }
        Step::Probe => {
            if let Some(last) = bench.sent.last() {
                bench.board.sent_again(&mut bench.pool, &bench.sent, last, now);
                walk.sent_again(walk.records.len() - 1, now);
            }
        }
        Step::Cut { is_last } => {
            let at = if *is_last { walk.records.len().checked_sub(1) } else { walk.first_due() };
            let Some(at) = at else { return };
            let record = walk.records[at];
            if record.end.since(record.start) > 1 {
                let (pool, cut) = (&mut bench.pool, record.start + 1);
                assert!(bench.board.split(pool, &mut bench.sent, indexes[at], cut));
                walk.split(at, cut);
            }
        }
        Step::TimeOut => {
            bench.board.mark_all_lost(&mut bench.pool, &bench.sent, true);
            walk.mark_all_lost();
        }
        Step::Undo { is_timeout } => {
            bench.board.clear_lost(&mut bench.pool, &bench.sent, *is_timeout);
            walk.clear_lost(*is_timeout);
        }
        Step::Narrow { bytes } => {
            bench.board.mark_longer_lost(&mut bench.pool, &bench.sent, *bytes);
            walk.mark_longer_lost(*bytes);
        }
        Step::Move => {
            let mut records = Vec::new();
            while let Some(record) = bench.pool.pop_front(&mut bench.sent) {
                records.push(record);
            }
            for record in records {
                assert!(bench.pool.push_back(&mut bench.sent, record));
            }
            bench.board.adopt(&mut bench.pool, &bench.sent);
        }
    }
    let facts = |delivery: Delivery| {
        let Delivery { delivered, acked, round_trip, again_at, duplicate, .. } = delivery;
        (delivered, acked, round_trip, again_at, duplicate)
    };
    assert_eq!(facts(ours), facts(theirs));
}

proptest! {
    #[test]
    fn it_comes_to_the_result_of_a_walk_over_all_records(
        start: u32,
        steps in prop::collection::vec((step(), 1_u64..100), 1..80),
    ) {
        let start = Seq(start);
        let mut bench = Bench::new(4000, start);
        let mut walk = Walk { records: Vec::new(), board: Scoreboard::new(start) };
        for (step, pause) in steps {
            bench.now += Nanos(pause);
            // Else the order of what is due is exact only as far as `DUE_STEPS_MAX` reaches.
            if walk.records.len() < 50 || !matches!(step, Step::Send { .. }) {
                run(&mut bench, &mut walk, &step);
            }
            bench.check(&walk);
        }
    }
}

/// A flow with that many segments out, every second of the first hundred of which was reported, one
/// by one, so that all between them count as lost.
fn bench_with(segments: u32) -> Bench {
    let mut bench = Bench::new(segments, Seq(0));
    for _ in 0..segments {
        bench.now += Nanos(1);
        bench.push(36);
    }
    bench.now += Nanos(1000);
    for number in (1..60).step_by(2) {
        bench.report(&[(Seq(36 * number), Seq(36 * number + 36))]);
        bench.detect(Nanos::ZERO);
    }
    bench
}

/// What the next of them cost, in records looked at.
fn cost(bench: &mut Bench, blocks: &[(Seq, Seq)], window: Nanos) -> u32 {
    bench.pool.visits.set(0);
    bench.report(blocks);
    bench.detect(window);
    bench.pool.visits.get()
}

/// A segment's numbers.
fn segment(number: u32) -> (Seq, Seq) {
    (Seq(36 * number), Seq(36 * number + 36))
}

#[test]
fn a_sack_costs_what_it_says_and_not_what_is_out() {
    for number in [61, 70, 90] {
        let [few, many] = [100, 87_000].map(|segments| {
            let mut bench = bench_with(segments);
            cost(&mut bench, &[segment(number), segment(59), segment(57)], Nanos::ZERO)
        });
        assert!(many <= 3 * few, "{many} records for the {number}th of 87,000, {few} of a hundred");
    }
}

#[test]
fn the_same_sack_again_costs_a_few_records_however_much_it_covers() {
    const SEGMENTS: u32 = 87_000;
    let mut bench = bench_with(SEGMENTS);
    let all = (Seq(36 * 61), Seq(36 * SEGMENTS));
    let first = cost(&mut bench, &[all], Nanos::from_secs(1));
    assert!(first > SEGMENTS, "each is marked once");
    let again = cost(&mut bench, &[all], Nanos::from_secs(1));
    assert!(again < 200, "{again}");
}

#[test]
fn sacks_from_the_end_to_the_front_cost_no_more_than_the_other_way_round() {
    const SEGMENTS: u32 = 20_000;
    let mut bench = bench_with(SEGMENTS);
    // The longest wait: nothing counts as lost, so that everything stays where it is.
    let window = Nanos::from_secs(1);
    let costs = (100..SEGMENTS).rev().step_by(2).map(|number| {
        cost(
            &mut bench,
            &[segment(number), segment(number + 1), (Seq(36 * number), Seq(36 * SEGMENTS))],
            window,
        )
    });
    let most = costs.max().expect("there are some");
    assert!(most < 400, "{most}");
}

#[test]
fn after_sixteen_recoveries_without_a_duplicate_late_segments_get_no_more_time_than_at_first() {
    let mut board = Scoreboard { reordering: 5, ..Scoreboard::new(Seq(0)) };
    let quarter = Nanos(1000);
    let wait = |board: &Scoreboard| {
        board.reordering_window(true, Some(Nanos(4 * quarter.0)), Some(Nanos(100_000)))
    };
    assert_eq!(wait(&board), quarter);
    board.grow_patient();
    board.grow_patient();
    assert_eq!(wait(&board), Nanos(3 * quarter.0));
    (0..15).for_each(|_| board.recovered());
    assert_eq!(wait(&board), Nanos(3 * quarter.0));
    // One that was for nothing makes it last longer.
    board.stay_patient();
    board.recovered();
    assert_eq!(wait(&board), Nanos(3 * quarter.0));
    board.recovered();
    assert_eq!(wait(&board), quarter);
}
