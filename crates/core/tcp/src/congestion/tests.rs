//! Windows over virtual time, against the RFCs' formulas.

use proptest::prelude::*;

use super::*;

/// One round trip of `rtt` in which the whole window is acknowledged.
fn round(control: &mut Congestion, window: &mut Window, now: &mut Nanos, rtt: Nanos) {
    *now += rtt;
    control.acknowledged(window, &Report { now: *now, acked: window.segments, round_trip: rtt });
}

#[test]
fn slow_start_doubles_every_round_trip_until_the_threshold() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic, Algorithm::Dctcp] {
        let mut control = Congestion::new(algorithm);
        let mut window = Window { threshold: 60, ..Window::default() };
        let mut now = Nanos::ZERO;
        let rtt = Nanos::from_millis(10);
        round(&mut control, &mut window, &mut now, rtt);
        assert_eq!(window.segments, 20);
        round(&mut control, &mut window, &mut now, rtt);
        assert_eq!(window.segments, 40);
        round(&mut control, &mut window, &mut now, rtt);
        assert!((60..=62).contains(&window.segments), "{algorithm:?}: {}", window.segments);
    }
}

#[test]
fn new_reno_grows_by_one_a_round_trip_and_halves() {
    let mut control = Congestion::new(Algorithm::NewReno);
    let mut window = Window { segments: 20, threshold: 20, count: 0 };
    let mut now = Nanos::ZERO;
    for expected in 21..40 {
        round(&mut control, &mut window, &mut now, Nanos::from_millis(10));
        assert_eq!(window.segments, expected);
    }
    assert_eq!(control.reduce(&window, Cause::Loss), 19);
}

#[test]
fn cubic_falls_to_seven_tenths_and_is_back_at_its_height_after_k() {
    let mut control = Congestion::new(Algorithm::Cubic);
    let mut window = Window { segments: 1000, threshold: 1000, count: 0 };
    let fallen = control.reduce(&window, Cause::Loss);
    assert_eq!(fallen, 700);
    (window.segments, window.threshold) = (fallen, fallen);
    let (mut now, rtt) = (Nanos::ZERO, Nanos::from_millis(100));
    // RFC 9438 figure 2: K is the cube root of (1000 - 700) / 0.4 = 9.086 s.
    while now < Nanos::from_millis(8_500) {
        round(&mut control, &mut window, &mut now, rtt);
    }
    assert!((975..=1002).contains(&window.segments), "{}", window.segments);
    while now < Nanos::from_millis(9_700) {
        round(&mut control, &mut window, &mut now, rtt);
    }
    assert!((995..1010).contains(&window.segments), "{}", window.segments);
    while now < Nanos::from_millis(14_000) {
        round(&mut control, &mut window, &mut now, rtt);
    }
    // 0.4 * 4.9^3 = 47 above.
    assert!((1040..1055).contains(&window.segments), "{}", window.segments);
}

#[test]
fn cubic_on_a_short_path_is_not_slower_than_reno() {
    let mut control = Congestion::new(Algorithm::Cubic);
    let mut window = Window { segments: 20, threshold: 20, count: 0 };
    let fallen = control.reduce(&window, Cause::Loss);
    (window.segments, window.threshold) = (fallen, fallen);
    let mut now = Nanos::ZERO;
    for _ in 0..40 {
        round(&mut control, &mut window, &mut now, Nanos::from_micros(100));
    }
    // 14, then 9/17 a round trip to 20 in 12 of them, then one a round trip.
    assert!((44..=50).contains(&window.segments), "{}", window.segments);
}

#[test]
fn idle_time_does_not_count_on_the_cubic_curve() {
    let run = |idle: Nanos| {
        let mut control = Congestion::new(Algorithm::Cubic);
        let mut window = Window { segments: 100, threshold: 100, count: 0 };
        window.segments = control.reduce(&window, Cause::Loss);
        window.threshold = window.segments;
        let mut now = Nanos::ZERO;
        round(&mut control, &mut window, &mut now, Nanos::from_millis(20));
        now += idle;
        control.idled(idle);
        for _ in 0..50 {
            round(&mut control, &mut window, &mut now, Nanos::from_millis(20));
        }
        window.segments
    };
    assert_eq!(run(Nanos::ZERO), run(Nanos::from_secs(60)));
}

#[test]
fn dctcp_falls_by_half_the_share_of_marked_segments() {
    let mut control = Dctcp::default();
    let mut una = Seq(0);
    // One segment in four is marked, for many round trips.
    for _ in 0..200 {
        for segment in 0..20 {
            una += 1;
            control.observe(1, segment % 4 == 0, una, una + 20);
        }
    }
    let share = control.alpha();
    assert!((200..=300).contains(&share), "{share}/1024 is about a quarter");
    let window = Window { segments: 100, threshold: 100, count: 0 };
    let fallen = control.reduce(&window, Cause::Mark);
    assert!((85..=91).contains(&fallen), "{fallen}");
    assert_eq!(control.reduce(&window, Cause::Loss), 50);
    for _ in 0..400 {
        una += 20;
        control.observe(20, false, una, una + 20);
    }
    assert_eq!(control.alpha(), 0);
}

#[test]
fn what_delivers_nothing_begins_no_window_of_dctcp() {
    let mut control = Dctcp::default();
    control.observe(1, false, Seq(1), Seq(21));
    // The window ends with 21; that its last acknowledgement is repeated does not end it again.
    for _ in 0..10 {
        control.observe(0, true, Seq(21), Seq(41));
    }
    let before = control.alpha();
    control.observe(20, false, Seq(21), Seq(61));
    assert_eq!(control.alpha(), before - (before >> 4), "it ended here");
}

proptest! {
    #[test]
    fn the_cube_root_is_the_largest_that_fits(value: u64) {
        let root = u128::from(cubic::cube_root_for_tests(value));
        prop_assert!(root.pow(3) <= u128::from(value));
        prop_assert!((root + 1).pow(3) > u128::from(value));
    }

    #[test]
    fn no_window_overflows_or_falls_below_two(
        algorithm in prop_oneof![
            Just(Algorithm::NewReno), Just(Algorithm::Cubic), Just(Algorithm::Dctcp)
        ],
        steps in prop::collection::vec((any::<u64>(), any::<u32>(), 0_u8..6), 0..100),
    ) {
        let mut control = Congestion::new(algorithm);
        let mut window = Window::default();
        let mut now = Nanos::ZERO;
        for (time, acked, kind) in steps {
            now += Nanos(time >> 20);
            match kind {
                0 => window.threshold = control.reduce(&window, Cause::Loss),
                1 => window.threshold = control.reduce(&window, Cause::Mark),
                2 => window.segments = window.threshold.min(1 << 22),
                3 => control.observe(acked, time % 2 == 0, Seq(acked), Seq(acked)),
                4 => control.idled(Nanos(time)),
                _ => control.acknowledged(
                    &mut window,
                    &Report { now, acked, round_trip: Nanos(time >> 30) },
                ),
            }
            prop_assert!(window.threshold >= 2);
            prop_assert!((1..=SEGMENTS_MAX).contains(&window.segments));
        }
    }
}

#[test]
fn timely_goes_up_while_round_trips_are_short_and_down_while_they_grow() {
    let mut control = Timely::default();
    let mut window = Window::default();
    let mut now = Nanos::ZERO;
    let mut round = |control: &mut Timely, micros: u64| {
        let round_trip = Nanos::from_micros(micros);
        now += round_trip;
        // Each sample acknowledges the round before.
        let (una, nxt) = (Seq(now.0 as u32), Seq(now.0 as u32));
        control.measured(
            &mut window,
            &Sample {
                now,
                round_trip,
                round_trip_us: (round_trip.0 / 1000).max(1) as u32,
                una,
                nxt,
            },
        );
        control.interval()
    };
    let mut last = round(&mut control, 40);
    for _ in 0..20 {
        let next = round(&mut control, 40);
        assert!(next <= last, "nothing queues: faster");
        last = next;
    }
    for micros in (100..400).step_by(20) {
        let next = round(&mut control, micros);
        assert!(next > last, "the queue grows: slower at {micros} us");
        last = next;
    }
    for micros in (100..400).rev().step_by(20) {
        last = round(&mut control, micros);
    }
    assert!(round(&mut control, 100) < last, "it shrinks: faster");
    let before = control.interval();
    assert!(round(&mut control, 5_000) > before, "far too long a queue: slower");
}

#[test]
fn timely_does_not_take_its_own_slow_pace_for_a_queue() {
    let mut control = Timely::default();
    let mut window = Window::default();
    let mut now = Nanos::ZERO;
    let mut round = |control: &mut Timely, round_trip: Nanos| {
        now += round_trip;
        let round_trip_us = (round_trip.0 / 1000).max(1) as u32;
        let (una, nxt) = (Seq(now.0 as u32), Seq(now.0 as u32));
        control.measured(&mut window, &Sample { now, round_trip, round_trip_us, una, nxt });
    };
    round(&mut control, Nanos::from_micros(40));
    for _ in 0..20 {
        control.reduce(&Window::default(), Cause::Loss);
    }
    let slowest = control.interval();
    for _ in 0..20 {
        // The receiver acknowledges every second segment, so each sample has the time between two
        // in it.
        let round_trip = Nanos::from_micros(40) + control.interval();
        round(&mut control, round_trip);
    }
    assert!(control.interval().0 < slowest.0 / 10, "{slowest} to {}", control.interval());
}

#[test]
fn slow_start_ends_when_round_trips_grow_by_an_eighth() {
    let mut control = Congestion::new(Algorithm::Cubic);
    let mut window = Window { segments: 100, ..Window::default() };
    let mut now = Nanos::from_secs(1);
    let mut next = 0;
    let mut sample = |control: &mut Congestion, window: &mut Window, millis: u64| {
        // Too far apart for a train.
        now += Nanos::from_millis(5);
        next += 1;
        let (una, nxt) = (Seq(next), Seq(next + 20));
        let round_trip = Nanos::from_millis(millis);
        control.measured(
            window,
            &Sample {
                now,
                round_trip,
                round_trip_us: (round_trip.0 / 1000).max(1) as u32,
                una,
                nxt,
            },
        );
    };
    for _ in 0..30 {
        sample(&mut control, &mut window, 100);
    }
    assert!(window.is_in_slow_start(), "steady");
    for _ in 0..45 {
        sample(&mut control, &mut window, 111);
    }
    assert!(window.is_in_slow_start(), "a little longer is no sign");
    for _ in 0..45 {
        sample(&mut control, &mut window, 114);
    }
    assert!(!window.is_in_slow_start());
    assert_eq!(window.threshold, 100);
}

/// Round trips of one flow, whose acknowledgements are too far apart for a train.
struct Path {
    una: Seq,
    now: Nanos,
}

impl Path {
    fn from(first: Seq) -> Self {
        Self { una: first, now: Nanos::from_secs(1) }
    }

    /// `step` numbers more are acknowledged after a round trip of that length; 20 are on their way.
    fn sample(&mut self, round_trip: Nanos, step: u32) -> Sample {
        self.una += step;
        self.now += Nanos::from_millis(5);
        let round_trip_us = (round_trip.0 / 1000) as u32;
        Sample { now: self.now, round_trip, round_trip_us, una: self.una, nxt: self.una + 20 }
    }
}

/// First numbers all around the circle.
fn first_numbers() -> impl Iterator<Item = Seq> {
    (0..8).map(|eighth| Seq(eighth << 29))
}

#[test]
fn slow_start_ends_whatever_number_the_connection_began_with() {
    for first in first_numbers() {
        let mut control = Congestion::new(Algorithm::Cubic);
        let mut window = Window { segments: 100, ..Window::default() };
        let mut path = Path::from(first);
        for millis in [100, 150] {
            for _ in 0..45 {
                let sample = path.sample(Nanos::from_millis(millis), 1);
                control.measured(&mut window, &sample);
            }
        }
        assert!(!window.is_in_slow_start(), "{first:?}: no round has begun");
    }
}

#[test]
fn slow_start_still_ends_after_gigabytes_of_small_windows() {
    let mut control = Congestion::new(Algorithm::Cubic);
    let mut window = Window { segments: 100, ..Window::default() };
    let mut path = Path::from(Seq(7));
    control.measured(&mut window, &path.sample(Nanos::from_millis(100), 1));
    // Requests and answers, three gigabytes of them.
    window.segments = 10;
    for _ in 0..3000 {
        control.measured(&mut window, &path.sample(Nanos::from_millis(100), 1 << 20));
    }
    window.segments = 100;
    for _ in 0..45 {
        control.measured(&mut window, &path.sample(Nanos::from_millis(150), 1));
    }
    assert!(!window.is_in_slow_start());
}

#[test]
fn timely_takes_round_trips_in_after_a_timeout_whatever_the_numbers_are() {
    for first in first_numbers() {
        let mut control = Timely::default();
        let mut window = Window::default();
        let mut path = Path::from(first);
        control.measured(&mut window, &path.sample(Nanos::from_micros(40), 20));
        control.timed_out();
        let slowest = control.interval();
        for _ in 0..20 {
            control.measured(&mut window, &path.sample(Nanos::from_micros(40), 20));
        }
        assert!(control.interval() < slowest, "{first:?}: nothing queues, and it stays slow");
    }
}
