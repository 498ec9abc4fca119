//! Who does what when, as an input says; and what must hold after each step.

use base::{AppId, Nanos};
use stack::{Command, SocketEvent};

use super::data_path::DataPath;
use super::hostile;
use super::peers::Peers;
use super::program::Program;
use crate::hostile_peer::Program as Input;

/// Steps of a schedule that count.
const STEPS_MAX: usize = 96;
/// Connections of a schedule: each takes memory of the engine until its time in TIME-WAIT is over.
const CONNECTIONS_MAX: usize = 24;
const HONEST_PORT: u16 = 7;
const HONEST_APP: AppId = AppId(5);
const HOSTILE_PORT: u16 = 8;
const HOSTILE_APP: AppId = AppId(6);

/// Everybody.
pub(super) struct Schedule<'a> {
    input: Input<'a>,
    now: Nanos,
    data_path: DataPath,
    peers: Peers,
    honest: Program,
    hostile: Option<Program>,
    has_removed: bool,
}

impl<'a> Schedule<'a> {
    pub(super) fn new(input: &'a [u8], with_hostile: bool) -> Self {
        let mut input = Input::new(input);
        let now = Nanos::from_secs(1);
        let data_path = DataPath::new(1 + usize::from(input.byte() % 2), now);
        let commands = &data_path.command_queue;
        let honest = Program::new(commands, HONEST_APP, HONEST_PORT, true);
        let hostile =
            with_hostile.then(|| Program::new(commands, HOSTILE_APP, HOSTILE_PORT, false));
        let peers = Peers::new(now);
        let mut schedule =
            Self { input, now, data_path, peers, honest, hostile, has_removed: false };
        schedule.turn(0, 0);
        schedule
    }

    pub(super) fn run(mut self) {
        for _ in 0..STEPS_MAX {
            if self.input.is_over() {
                break;
            }
            self.step();
            self.check();
        }
        self.finish();
    }

    /// One thing happens.
    fn step(&mut self) {
        let what = self.input.byte();
        let which = usize::from(self.input.byte());
        match what % 32 {
            0..=2 if self.peers.opened < CONNECTIONS_MAX => {
                let is_hostile = self.hostile.is_some() && which % 2 == 1;
                let port = if is_hostile { HOSTILE_PORT } else { HONEST_PORT };
                self.peers.connect(port, self.now);
            }
            3..=5 => self.peers.write(which, usize::from(self.input.half() % 3000)),
            6 => self.peers.abort(which),
            7 => self.peers.shutdown(which),
            8 => self.peers.close(which),
            9 | 10 => self.peers.read(which),
            11..=13 => self.honest.write(which, usize::from(self.input.half() % 9000)),
            14..=16 => self.honest.read(which, usize::from(self.input.half() % 4000)),
            17 => self.honest.close(which, self.input.byte()),
            18 | 19 => _ = self.honest.accept(),
            20 => self.data_path.spawn(self.now),
            21 => self.has_removed |= self.data_path.remove(which),
            // What comes meets only the dispatcher, or one worker's turn.
            22 => self.peers.say(&mut self.data_path, 0, self.now),
            23 => {
                self.now += Nanos::from_micros(u64::from(self.input.byte()));
                self.data_path.step_one(which, self.now);
            }
            24 => self.pass_time(which),
            25 => {
                let lost = self.input.byte();
                self.turn(which as u8, lost);
            }
            29 | 30 => self.hand_over(what, which),
            26..=28 if self.hostile.is_some() => self.hostile_step(what, which),
            _ => self.turn(0, 0),
        }
    }

    /// The hostile program does what an honest one does, or writes what it likes.
    fn hostile_step(&mut self, what: u8, which: usize) {
        let Some(program) = &mut self.hostile else { return };
        match what >> 5 {
            0 => _ = program.accept(),
            // Reading and writing honestly presumes memory that nobody has written into.
            _ => {
                for _ in 0..1 + which % 4 {
                    hostile::write(program, &mut self.input);
                }
            }
        }
    }

    /// A connection of one of both programs goes on elsewhere, as if the daemon came to its end.
    fn hand_over(&mut self, what: u8, which: usize) {
        let commands = self.data_path.command_queue.clone();
        let program = match &mut self.hostile {
            Some(hostile) if what % 32 == 30 => hostile,
            _ => &mut self.honest,
        };
        let Some(_) = program.hand_over(&commands, which) else { return };
        self.turn(0, 0);
        // Its worker may have lost it just now: it goes on as it is, or comes too late.
        self.take_parcels();
    }

    fn take_parcels(&mut self) {
        for parcel in self.data_path.command_queue.take_parcels() {
            match (&mut self.hostile, parcel.app.app) {
                (Some(hostile), HOSTILE_APP) => hostile.take(parcel),
                _ => self.honest.take(parcel),
            }
        }
    }

    /// Time passes, so that timers run out: from a millisecond to a minute.
    fn pass_time(&mut self, which: usize) {
        let steps = [1, 10, 50, 200, 1000, 5000, 20_000, 60_000];
        self.now += Nanos::from_millis(steps[which % steps.len()]);
        self.turn(0, 0);
    }

    /// Everybody's turn, 100 microseconds long; what is lost of what is said either way.
    fn turn(&mut self, lost_in: u8, lost_out: u8) {
        self.peers.say(&mut self.data_path, lost_in, self.now);
        self.now += Nanos::from_micros(100);
        self.data_path.turn(self.now);
        self.peers.hear(&mut self.data_path, lost_out, self.now);
    }

    /// The honest program is never taken for a hostile one; the hostile one is thrown out.
    fn check(&mut self) {
        self.take_parcels();
        let mut is_over = false;
        self.data_path.command_queue.hear(|event| {
            if let SocketEvent::Violation { app } = event {
                assert_ne!(app, HONEST_APP, "an honest program is taken for a hostile one");
                is_over = true;
            }
        });
        if is_over {
            self.data_path.command_queue.command(&Command::Remove { app: HOSTILE_APP });
        }
    }

    /// Everybody goes; what is left is the listener, and its backlog.
    fn finish(mut self) {
        if self.hostile.is_some() {
            self.data_path.command_queue.command(&Command::Remove { app: HOSTILE_APP });
        }
        while !self.peers.connections.is_empty() {
            self.peers.abort(0);
        }
        for _ in 0..6 {
            self.honest.close_all();
            self.honest.sweep();
            self.turn(0, 0);
            self.turn(0, 0);
            self.check();
        }
        // What was lost on the way is sent again, and given up.
        for _ in 0..12 {
            self.now += Nanos::from_secs(30);
            self.turn(0, 0);
            self.honest.close_all();
            self.turn(0, 0);
            self.check();
        }
        // A group whose flows are between two workers when the second one ends waits for a packet.
        if !self.has_removed {
            assert_eq!(self.honest.lent(), (1, 1 << 10), "the honest program's memory is free");
            if let Some(program) = &self.hostile {
                assert_eq!(program.lent(), (1, 1 << 10), "the hostile program's memory is free");
            }
        }
        self.data_path.end(self.now);
    }
}
