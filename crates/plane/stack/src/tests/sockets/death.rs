//! A worker can die at any moment, and its records leave a whole stream of each connection to
//! whoever goes on: each moment of a turn is looked at, against peers that go on.
//!
//! Each schedule is a seed. A failure prints it; `DEATH_SEED=n` runs that one alone, and
//! `DEATH_SEEDS=a..b` those.

use std::cell::RefCell;
use std::rc::Rc;

use datapath::testing::Lots;
use tcp::{NoRepair, Repair, State};

use super::*;
use crate::served::records::watch;
use crate::{Heritage, Inherited, NoHeritage};

/// Schedules of one run of the tests; `script/soak` runs others, for as long as is wanted.
const SCHEDULES: std::ops::Range<u64> = 0..300;

const CONNECTIONS_MAX: usize = 6;

/// What a death at some moment would leave of a connection.
struct Left {
    key: wire::FlowKey,
    inherited: Result<Inherited, NoHeritage>,
}

/// One connection, and how far both ends are.
struct Talk {
    flow: tcp::FlowId,
    /// As the data path names it.
    key: wire::FlowKey,
    slot: Option<SlotId>,
    /// By the peer, and by the program.
    written: [usize; 2],
    /// By the program.
    read: usize,
    may_write: [bool; 2],
    /// By the program, which had read all: what it has written still comes to its peer.
    is_closed: bool,
}

/// The byte at a place of the stream that a side of a connection writes.
fn byte(key: &wire::FlowKey, side: usize, at: usize) -> u8 {
    let mut word = (at as u64) << 20 | u64::from(key.source().port()) << 1 | side as u64;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (word ^ (word >> 27)) as u8
}

fn stream(key: &wire::FlowKey, side: usize, places: std::ops::Range<usize>) -> Vec<u8> {
    places.map(|at| byte(key, side, at)).collect()
}

struct Play {
    lots: Lots,
    bench: Bench,
    app: App,
    talks: Vec<Talk>,
    /// What was seen at each moment of the last turn.
    moments: Rc<RefCell<Vec<Vec<Left>>>>,
    checked: u64,
}

impl Play {
    fn new(seed: u64) -> Self {
        let mut lots = Lots::new(seed);
        let (mut bench, app) = bench(1 + lots.below(2) as usize, None);
        bench.turns(2);
        let moments = Rc::<RefCell<Vec<Vec<Left>>>>::default();
        let (seen, memory) = (Rc::clone(&moments), app.memory.clone());
        let records = app.streams.records.as_ref().expect("it has records").table().clone();
        watch::set(Some(Box::new(move || {
            let left = (0..records.slots()).map(SlotId).filter_map(|slot| {
                let heritage = Heritage::read(records.get(slot)?)?;
                if heritage.is_orphan() {
                    let inherited = heritage.inherit_orphan(&memory, heritage.at());
                    return Some(Left { key: heritage.key(), inherited });
                }
                let words = memory.slot(slot)?;
                let inherited = heritage.inherit(&memory, words, heritage.at());
                Some(Left { key: heritage.key(), inherited })
            });
            seen.borrow_mut().push(left.collect());
        })));
        Self { lots, bench, app, talks: Vec::new(), moments, checked: 0 }
    }

    fn act(&mut self) {
        match self.lots.below(16) {
            0..5 => self.peer(),
            5..10 => self.program(),
            10 => self.workers(),
            11 => self.bench.lose_said(),
            12 => {
                let millis = u64::from(self.lots.below(700));
                self.bench.pass_time(base::Nanos::from_millis(millis));
            }
            _ => {}
        }
        if self.lots.below(3) > 0 {
            self.turn();
        }
    }

    fn peer(&mut self) {
        let Self { lots, bench, talks, .. } = self;
        let count = talks.len();
        let at = lots.below(count.max(1) as u32) as usize;
        match (lots.below(12), talks.get_mut(at)) {
            (0..3, _) if count < CONNECTIONS_MAX => {
                let flow = bench.connect();
                let key = bench.engine.key(flow).expect("it lives").reversed();
                let (slot, written, read, may_write) = (None, [0, 0], 0, [true, true]);
                let is_closed = false;
                talks.push(Talk { flow, key, slot, written, read, may_write, is_closed });
            }
            (3..8, Some(talk)) if talk.may_write[0] && talk.slot.is_some() => {
                let from = talk.written[0];
                let bytes = stream(&talk.key, 0, from..from + lots.below(6000) as usize);
                talk.written[0] += bench.write(talk.flow, &bytes);
            }
            (8, Some(talk)) if talk.slot.is_some() && lots.below(4) == 0 => {
                talk.may_write[0] = false;
                let _ = bench.engine.shutdown(talk.flow);
            }
            (9.., Some(talk)) if bench.engine.state(talk.flow).is_some() => {
                _ = bench.read(talk.flow);
            }
            _ => {}
        }
    }

    fn program(&mut self) {
        let Self { lots, app, talks, .. } = self;
        app.accept();
        for slot in app.accepted.drain(..) {
            let remote = app.memory.slot(slot).and_then(|words| words.remote.get());
            let talk = talks.iter_mut().find(|talk| Some(talk.key.source()) == remote);
            talk.expect("somebody has opened it").slot = Some(slot);
        }
        let at = lots.below(talks.len().max(1) as u32) as usize;
        let Some(talk) = talks.get_mut(at) else { return };
        let Some(slot) = talk.slot.filter(|_| !talk.is_closed) else { return };
        match lots.below(8) {
            0..3 if talk.may_write[1] => {
                let from = talk.written[1];
                let bytes = stream(&talk.key, 1, from..from + lots.below(9000) as usize);
                talk.written[1] += app.write(slot, &bytes);
            }
            3..6 => {
                let read = app.read(slot, lots.below(9000) as usize);
                let places = talk.read..talk.read + read.len();
                assert!(read == stream(&talk.key, 0, places), "what the peer has written");
                talk.read += read.len();
            }
            6 if lots.below(8) == 0 => {
                talk.may_write[1] = false;
                app.ask(slot, Asks::SHUT_WRITE);
            }
            7 if lots.below(16) == 0 && talk.read == talk.written[0] => {
                talk.may_write = [false, false];
                talk.is_closed = true;
                app.ask(slot, Asks::CLOSE);
            }
            _ => {}
        }
    }

    fn workers(&mut self) {
        let Self { lots, bench, .. } = self;
        if lots.below(2) == 0 && bench.workers.len() < 3 {
            bench.spawn();
        } else if bench.workers.len() > 1 {
            let at = lots.below(bench.workers.len() as u32) as usize;
            let id = bench.workers[at].0;
            bench.dispatcher.steering_mut().remove_worker(id);
        }
    }

    /// Peers say what they have to say, the workers have their turns, and peers hear what came of
    /// it: not before each moment in between was looked at.
    fn turn(&mut self) {
        self.bench.say();
        self.moments.borrow_mut().clear();
        self.bench.turn_of_data_path();
        for left in self.moments.take() {
            self.check(&left);
        }
        self.bench.hear();
    }

    fn check(&mut self, left: &[Left]) {
        for talk in &self.talks {
            let Some(slot) = talk.slot else { continue };
            let state = self.app.words(slot).state();
            let peer = self.bench.engine.repair(talk.flow, self.bench.now);
            // Both have said and heard their last.
            let is_done = talk.may_write == [false, false];
            let is_heard = peer.as_ref().is_ok_and(|peer| peer.has_peer_closed);
            let is_over = peer.is_err()
                || match talk.is_closed {
                    // Without a socket it lives until its peer has all of it.
                    true => is_heard,
                    false => state.has(SlotState::BROKEN | SlotState::FINISHED) || is_done,
                };
            let mut own = left.iter().filter(|left| left.key == talk.key);
            let inherited = match own.next().map(|left| &left.inherited) {
                Some(Ok(inherited)) => inherited,
                Some(Err(NoHeritage::NoRepair(NoRepair::Gone))) | None if is_over => continue,
                Some(Err(error)) => panic!("{}: {error:?} in the middle of it", talk.key),
                None => panic!("{} has no record", talk.key),
            };
            assert!(own.next().is_none(), "{} has one record", talk.key);
            check_bytes(talk, inherited);
            if let Ok(peer) = peer {
                let state = self.bench.engine.state(talk.flow);
                check_pair(talk, &inherited.repair, &peer, state);
            }
            self.checked += 1;
        }
    }
}

/// Every byte that is not known to be at the other end is there.
fn check_bytes(talk: &Talk, inherited: &Inherited) {
    let Inherited { unread, queued, .. } = inherited;
    let places = talk.read..talk.read + unread.len();
    assert!(*unread == stream(&talk.key, 0, places), "{}: unread is what follows", talk.key);
    let places = talk.written[1] - queued.len()..talk.written[1];
    assert!(*queued == stream(&talk.key, 1, places), "{}: queued is the end of it", talk.key);
}

/// Whatever the peer knows is true of what is left.
fn check_pair(talk: &Talk, own: &Repair, peer: &Repair, state: Option<State>) {
    let key = talk.key;
    let taken = own.receive_first + own.unread.bytes;
    assert!(!taken.is_before(peer.send_first), "{key}: what was acknowledged is there");
    assert!(!taken.is_after(peer.send_first + peer.sent_bytes), "{key}: it was sent");
    let heard = peer.receive_first + peer.unread.bytes;
    assert!(!heard.is_before(own.send_first), "{key}: what counts as acknowledged has come");
    assert!(!heard.is_after(own.send_first + own.sent_bytes), "{key}: what has come was sent");
    let allowed = own.send_first + own.window.snd_wnd;
    let promised = peer.window.rcv_wup + peer.window.rcv_wnd;
    assert!(!allowed.is_after(promised), "{key}: no more than the peer takes");
    // As `tcp_repair_set_window` of Linux checks it.
    assert!(own.window.snd_wnd_max >= own.window.snd_wnd, "{key}");
    assert!(!own.window.snd_wl1.is_after(taken + own.window.rcv_wnd), "{key}");
    assert!(!own.window.rcv_wup.is_after(taken), "{key}");
    // Who was told that its end has come does not say it again.
    if matches!(state, Some(State::FinWait2 | State::TimeWait)) {
        assert!(own.has_peer_closed, "{key}: the peer's end is known");
    }
}

/// One schedule; how often something was left, and how many flows moved.
fn run(seed: u64) -> [u64; 2] {
    let mut play = Play::new(seed);
    for _ in 0..100 + play.lots.below(150) {
        play.act();
    }
    watch::set(None);
    [play.checked, play.bench.count("attached")]
}

#[test]
fn a_death_at_any_moment_of_a_turn_leaves_a_whole_stream_of_each_connection() {
    let seeds = match (std::env::var("DEATH_SEED"), std::env::var("DEATH_SEEDS")) {
        (Ok(seed), _) => {
            run(seed.parse().expect("DEATH_SEED is a number"));
            return;
        }
        (_, Ok(range)) => {
            let (from, to) = range.split_once("..").expect("DEATH_SEEDS is FROM..TO");
            let number = |text: &str| text.parse().expect("DEATH_SEEDS is FROM..TO, two numbers");
            number(from)..number(to)
        }
        _ => SCHEDULES,
    };
    let mut met = [0; 2];
    for seed in seeds {
        let Ok(one) = std::panic::catch_unwind(|| run(seed)) else {
            panic!("schedule {seed} fails: DEATH_SEED={seed} runs it alone");
        };
        met.iter_mut().zip(one).for_each(|(all, one)| *all += one);
    }
    let [checked, moved] = met;
    println!("{checked} times a connection was left, {moved} flows moved");
    assert!(checked > 10_000 && moved > 100, "{met:?}");
}
