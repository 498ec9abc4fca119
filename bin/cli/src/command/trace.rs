//! `calisto trace`: where the time of requests goes.

mod stages;

use std::io::{self, BufRead, IsTerminal, Read};
use std::time::{Duration, Instant};

use admin::{Command, LINE_BYTES_MAX, Reply, ReplyBody, TracedRequest};
use clap::Args;
use serde::Serialize;

use self::stages::Stages;
use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::output;
use crate::table::grouped;
use crate::target::Admin;

/// Of the JSON; a reader that knows another one should not guess.
const SCHEMA_VERSION: u32 = 1;

/// Samples that are kept, at most: the trace ends with them.
const SAMPLES_MAX: usize = 500_000;

/// Show where the time of requests goes: on the way to the program, in it, and back.
///
/// One in N requests to programs under `calisto run` is sampled, from the moment when its
/// last packet was taken from a port until the first segments of its answer were given to a port:
///
///   dispatch     from the port to the worker that serves the connection
///   receive      in that worker, until the program was told
///   wake-up      until the program began to read
///   application  until its first answer was written
///   notice       until the worker saw that
///   transmit     in the worker, until the answer was given to the port
///
/// A request is what comes to a connection of which everything was read; what the program writes
/// next is its answer. Not seen: how long a packet waited in the NIC, connections between two
/// programs of this host, and programs that use UDP or another clock than the host's. While nobody
/// traces, a call that reads or writes looks at one word more.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:\n  \
    calisto trace --app redis-server\n  \
    calisto trace --app nginx --one-in 1 --seconds 2\n  \
    calisto trace -j | jq '.stages[] | {stage, p99_us}'"
)]
pub(crate) struct Trace {
    /// A program, by name or number; without it, all of them.
    #[arg(long, value_name = "APP")]
    app: Option<String>,
    /// One in this many requests is sampled.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    one_in: u32,
    /// For how long; Ctrl-C ends it earlier.
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    #[command(flatten)]
    admin: Admin,
}

/// What was found, for `-j`.
#[derive(Serialize)]
struct Found<'a> {
    schema_version: u32,
    seconds: f64,
    one_in: u32,
    programs: u32,
    #[serde(flatten)]
    losses: Losses,
    #[serde(flatten)]
    stages: &'a Stages,
}

/// Samples that came to nothing.
#[derive(Clone, Copy, Default, Serialize)]
struct Losses {
    lost: u64,
    unanswered: u64,
    strange: u64,
}

impl Trace {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        // Ctrl-C ends the trace, not the program: what was found is still told.
        sys::signal::install_stop_handler().map_err(Failure::new)?;
        let daemon = Daemon::at(&self.admin.socket).about(self.app.as_deref());
        let begun = Instant::now();
        let (mut answer, mut lines) = daemon.open(Command::Trace { one_in: self.one_in })?;
        let (mut samples, mut most) = (Vec::new(), 0);
        let end = begun + Duration::from_secs(u64::from(self.seconds));
        let is_watched = io::stderr().is_terminal();
        let losses = loop {
            let ReplyBody::Traced { programs, requests, lost, unanswered, strange } = answer else {
                return Err(daemon.unexpected(&answer));
            };
            most = most.max(programs);
            samples.extend(requests);
            if is_watched && self.seconds > 2 {
                let second = begun.elapsed().as_secs().min(u64::from(self.seconds));
                let count = grouped(samples.len() as u64);
                eprint!("\rtracing: {second} of {} s, {count} requests ", self.seconds);
            }
            let is_over = Instant::now() >= end || samples.len() >= SAMPLES_MAX;
            if is_over || sys::signal::stop_requested() {
                break Losses { lost, unanswered, strange };
            }
            let Some(next) = next_line(&mut lines)? else {
                if is_watched {
                    eprintln!();
                }
                return Err(Failure::new("the daemon has ended, and the trace with it"));
            };
            answer = next;
        };
        if is_watched && self.seconds > 2 {
            eprintln!();
        }
        let seconds = begun.elapsed().as_secs_f64();
        samples.truncate(SAMPLES_MAX);
        self.report(&samples, most, losses, seconds, json)
    }

    fn report(
        &self,
        samples: &[TracedRequest],
        programs: u32,
        losses: Losses,
        seconds: f64,
        json: bool,
    ) -> Result<(), Failure> {
        let stages = Stages::of(samples);
        if json {
            let (schema_version, one_in) = (SCHEMA_VERSION, self.one_in);
            let stages = &stages;
            output::json(&Found { schema_version, seconds, one_in, programs, losses, stages })?;
        } else {
            output::text(&self.text(&stages, programs, losses, seconds))?;
        }
        match samples.is_empty() {
            false => Ok(()),
            true => Err(Failure::new(self.why_nothing(programs, losses))),
        }
    }

    fn text(&self, stages: &Stages, programs: u32, losses: Losses, seconds: f64) -> String {
        let count = grouped(stages.requests);
        let whose = match (&self.app, programs) {
            (Some(app), 1) => app.clone(),
            (Some(app), many) => format!("{app} ({many} of that name)"),
            (None, 1) => "the only program".to_owned(),
            (None, many) => format!("{many} programs"),
        };
        let every = match self.one_in {
            1 => "every request".to_owned(),
            many => format!("one of {} requests", grouped(u64::from(many))),
        };
        let mut text = format!("{count} samples in {seconds:.1} s: {every} of {whose}\n");
        if stages.requests > 0 {
            text += "\n";
            text += &stages.render();
        }
        for (count, what) in [
            (losses.lost, "found no room on their way here: ask for one of more requests"),
            (losses.unanswered, "were not answered, or not before the end: they are the slowest"),
            (losses.strange, "had moments that cannot be: a program with another clock"),
        ] {
            if count > 0 {
                text += &format!("{} further samples {what}\n", grouped(count));
            }
        }
        text
    }

    fn why_nothing(&self, programs: u32, losses: Losses) -> String {
        if programs == 0 {
            return "no program with sockets was there: start one with `calisto run -- PROGRAM`"
                .to_owned();
        }
        if losses.unanswered + losses.strange > 0 {
            return "no request was answered".to_owned();
        }
        format!(
            "no request was sampled: fewer than {} came over the wire (`--one-in 1` samples each), \
             or both ends are programs of this host",
            grouped(u64::from(self.one_in))
        )
    }
}

/// The next answer on the connection; none: the daemon has ended.
fn next_line(lines: &mut impl BufRead) -> Result<Option<ReplyBody>, Failure> {
    let mut line = String::new();
    let read = loop {
        match lines.by_ref().take(LINE_BYTES_MAX as u64).read_line(&mut line) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read,
        }
    };
    let read =
        read.map_err(|error| Failure::new(format!("the daemon does not answer: {error}")))?;
    if read == 0 {
        return Ok(None);
    }
    let reply: Reply = admin::decode(&line)
        .map_err(|error| Failure::new(format!("cannot parse the daemon's answer: {error}")))?;
    match reply.body {
        ReplyBody::Error { message } => Err(Failure::new(message)),
        body => Ok(Some(body)),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;
    use crate::command::Command as Commands;

    fn parse(line: &str) -> Result<Trace, clap::Error> {
        let words = ["calisto", "trace"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words)?.command {
            Commands::Trace(trace) => Ok(trace),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_can_be_asked_for_is_what_the_daemon_takes() {
        let trace = parse("--app redis-server --one-in 7 --seconds 2").expect("all");
        assert_eq!((trace.app.as_deref(), trace.one_in), (Some("redis-server"), 7));
        for one_in in [1, 1_000_000] {
            let request = admin::Request::new(Command::Trace { one_in });
            assert_eq!(request.check(), Ok(()));
        }
        for line in ["--one-in 0", "--one-in 1000001", "--seconds 0", "--seconds 3601"] {
            assert_eq!(parse(line).expect_err(line).exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn who_finds_nothing_is_told_why() {
        let trace = parse("--one-in 500").expect("all");
        let none = trace.why_nothing(0, Losses::default());
        assert!(none.contains("calisto run"), "{none}");
        let few = trace.why_nothing(1, Losses::default());
        assert!(few.contains("fewer than 500") && few.contains("--one-in 1"), "{few}");
        let silent = trace.why_nothing(1, Losses { unanswered: 3, ..Losses::default() });
        assert!(silent.contains("answered"), "{silent}");
    }
}
