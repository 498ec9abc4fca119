//! `calisto stats`: every counter of every thread.

use admin::{Command, ReplyBody, ThreadCounters};
use clap::Args;

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;
use crate::target::Admin;

/// Show what every thread has counted; counters that are still zero only with --all.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto stats --help-text\n      what moved, and what each counter means\n  \
    calisto stats --all -j\n      everything, for a script")]
pub(crate) struct Stats {
    /// Say what each counter means.
    #[arg(long)]
    help_text: bool,
    /// Counters that are zero as well.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    admin: Admin,
}

impl Stats {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let daemon = Daemon::at(&self.admin.socket);
        match daemon.ask(Command::Stats)? {
            ReplyBody::Stats { threads } => {
                let threads = self.wanted(threads);
                match json {
                    true => output::json(&ReplyBody::Stats { threads }),
                    false => output::text(&self.render(&threads)),
                }
            }
            other => Err(daemon.unexpected(&other)),
        }
    }

    /// Without counters that are zero, unless they were asked for.
    fn wanted(&self, mut threads: Vec<ThreadCounters>) -> Vec<ThreadCounters> {
        let of = threads.iter_mut().map(|thread| &mut thread.counters);
        of.for_each(|counters| counters.retain(|counter| self.all || counter.value > 0));
        threads
    }

    fn render(&self, threads: &[ThreadCounters]) -> String {
        let mut table = match self.help_text {
            true => Table::new(["thread", "counter", "value", "what it counts"]),
            false => Table::new(["thread", "counter", "value", ""]),
        };
        for ThreadCounters { thread, counters } in threads {
            for counter in counters {
                let help = if self.help_text { counter.help.as_str() } else { "" };
                table.row([
                    thread.as_str().into(),
                    counter.name.as_str().into(),
                    counter.value.into(),
                    help.into(),
                ]);
            }
        }
        table.render()
    }
}

#[cfg(test)]
mod tests {
    use admin::Counter;

    use super::*;
    use crate::target::default_socket;

    fn stats(help_text: bool, all: bool) -> String {
        let counter = |name: &str, value| Counter {
            name: name.to_owned(),
            help: format!("{name}, explained."),
            value,
        };
        let threads = [ThreadCounters {
            thread: "dispatcher".to_owned(),
            counters: vec![counter("received", 1234), counter("malformed", 0)],
        }];
        let admin = Admin { socket: default_socket() };
        let stats = Stats { help_text, all, admin };
        stats.render(&stats.wanted(threads.into()))
    }

    #[test]
    fn zeros_and_explanations_are_shown_when_asked_for() {
        assert_eq!(
            stats(false, false),
            "thread      counter   value\ndispatcher  received  1,234\n"
        );
        let all = stats(true, true);
        assert!(all.contains("malformed      0  malformed, explained.\n"), "{all}");
    }
}
