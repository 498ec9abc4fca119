//! The players of one side, Linux or Calisto, and how a script is played by them in step.

use std::process::Command;
use std::time::{Duration, Instant};

use whole::{Accelerated, Trap};

use crate::player::Player;
use crate::script::{PLAYERS, Script, Step, Who};

/// What is written for a call from which no answer came.
pub(crate) const GONE: &str = "no answer";

/// Whose sockets the players have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Linux,
    Calisto,
}

/// How long is waited for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// After each call that another end may hear of.
    pub(crate) settle: Duration,
    /// Until a call counts as one that waits.
    pub(crate) wait: Duration,
    /// For a call that must not wait, and for an outcome that may still come.
    pub(crate) come: Duration,
}

impl Pace {
    /// For many scripts, of which those that differ are played again.
    pub(crate) const FAST: Self = Self {
        settle: Duration::from_micros(1500),
        wait: Duration::from_millis(30),
        come: Duration::from_millis(400),
    };
    /// For one that is played often while it is made shorter.
    pub(crate) const CALM: Self = Self {
        settle: Duration::from_millis(6),
        wait: Duration::from_millis(60),
        come: Duration::from_millis(500),
    };
    /// For one that must be right.
    pub(crate) const CAREFUL: Self = Self {
        settle: Duration::from_millis(25),
        wait: Duration::from_millis(150),
        come: Duration::from_millis(1000),
    };
}

/// Three processes.
pub(crate) struct Stage<'bed> {
    bed: &'bed Accelerated,
    program: &'bed Trap,
    side: Side,
    number: u32,
    players: Option<[Player; 3]>,
}

/// Players that are started for one script, at most, until one answers.
const RESETS: u32 = 4;

impl<'bed> Stage<'bed> {
    /// None of its processes is started before it is needed; `number` is no other stage's.
    pub(crate) fn new(
        bed: &'bed Accelerated,
        program: &'bed Trap,
        side: Side,
        number: u32,
    ) -> Self {
        Self { bed, program, side, number, players: None }
    }

    /// Plays a script on the four ports from `port` on; what came of each call. What Linux made of
    /// it says how long to wait for the same.
    pub(crate) fn play(
        &mut self,
        script: &Script,
        port: u16,
        linux: Option<&[String]>,
        pace: Pace,
    ) -> Vec<String> {
        let mut outcomes = Vec::new();
        // A machine that stands still for a while is no difference.
        let is_reset = (0..RESETS).any(|at| {
            if at > 0 {
                self.players = None;
            }
            self.reset(port)
        });
        assert!(is_reset, "a new player answers");
        for (at, step) in script.0.iter().enumerate() {
            let meant = linux.and_then(|linux| linux.get(at)).map(String::as_str);
            outcomes.push(self.settled(step, meant, pace));
            if outcomes.last().is_some_and(|outcome| outcome == GONE) {
                self.players = None;
                break;
            }
        }
        outcomes
    }

    fn reset(&mut self, port: u16) -> bool {
        let call = format!("reset {port}");
        let all = PLAYERS.map(|who| self.call(who, Pace::CAREFUL.come, &call));
        all.iter().all(|answer| answer == "0")
    }

    /// The outcome of a call, repeated where that harms nothing until it is what is meant.
    fn settled(&mut self, step: &Step, meant: Option<&str>, pace: Pace) -> String {
        let timeout = match meant {
            Some(meant) if !waits(meant) => pace.come,
            _ => pace.wait,
        };
        let began = Instant::now();
        loop {
            let outcome = self.call(step.who, timeout, &step.call);
            let is_right = meant.is_none_or(|meant| meant == outcome);
            if is_right || began.elapsed() > pace.come || !may_be_repeated(step, &outcome, meant) {
                if is_heard_of(step) {
                    std::thread::sleep(pace.settle);
                }
                return outcome;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn call(&mut self, who: Who, timeout: Duration, call: &str) -> String {
        if self.players.is_none() {
            self.players = Some(PLAYERS.map(|who| self.start(who)));
        }
        let players = self.players.as_mut().expect("they were just started");
        players[who as usize].play(timeout, call).unwrap_or_else(|| GONE.to_owned())
    }

    fn start(&self, who: Who) -> Player {
        let (here, there) = (self.bed.here(), self.bed.there());
        let program = self.program.path();
        let mut command = match (who, self.side) {
            (Who::There, _) => there.command(program),
            (_, Side::Linux) => here.command(program),
            (_, Side::Calisto) => self.bed.command(program),
        };
        let folder = self.bed.daemon().folder().join(format!("stage-{}", self.number));
        std::fs::create_dir_all(&folder).expect("the folder of the daemon is ours");
        self.tell(&mut command, who, &folder.display().to_string());
        Player::spawn(&mut command)
    }

    fn tell(&self, command: &mut Command, who: Who, folder: &str) {
        let (here, there) = (self.bed.here(), self.bed.there());
        command.args([who.word(), folder]);
        command.args([here.ipv4().to_string(), there.ipv4().to_string()]);
        command.args([here.ipv6().to_string(), there.ipv6().to_string()]);
    }
}

/// Whether an outcome took all the timeout there was.
fn waits(outcome: &str) -> bool {
    outcome == "waits" || outcome.ends_with("then EAGAIN")
}

/// Whether another end, or another thread, may notice.
fn is_heard_of(step: &Step) -> bool {
    const QUIET: [&str; 16] = [
        "getsockname",
        "getpeername",
        "poll",
        "select",
        "wait",
        "get",
        "fionread",
        "atmark",
        "flags",
        "nonblock",
        "fionbio",
        "epoll",
        "socket",
        "join",
        "give",
        "take",
    ];
    !QUIET.contains(&step.verb())
}

/// Whether a call that had this outcome has changed nothing, so that it can be made again.
fn may_be_repeated(step: &Step, outcome: &str, meant: Option<&str>) -> bool {
    let looks = ["getsockname", "getpeername", "poll", "select", "fionread", "atmark"];
    match step.verb() {
        // An edge that Linux does not tell of is not to be lost.
        "wait" => meant != Some("0"),
        "get" => outcome == "0 0",
        verb if looks.contains(&verb) => true,
        _ if step.words().last().is_some_and(|flags| flags.contains("peek")) => true,
        _ => ["EAGAIN", "EINPROGRESS", "EALREADY"].contains(&outcome),
    }
}
