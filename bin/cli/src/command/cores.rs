//! `calisto cores`: who holds which core, and which policy gives them out.

use std::fmt::Write;

use admin::{Command, CoreApp, CoreRow, CoresStatus, Counter, ReplyBody};
use base::printable;
use clap::{Args, Subcommand};

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::output;
use crate::table::{Cell, Table, grouped};
use crate::target::Admin;

/// Show the cores that the daemon gives out: who holds them, who may have them, how often they
/// change hands.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  calisto cores\n  calisto cores -j\n  \
    calisto cores set utilisation\n  \
    calisto top                                           the same, live")]
pub(crate) struct Cores {
    #[command(flatten)]
    admin: Admin,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Let another policy decide from now on who gets cores; nobody loses a core by the change.
    #[command(after_help = set_help())]
    Set {
        /// Its name.
        policy: String,
    },
}

/// Letters of a name that is shown, at most: one that is longer is not made for reading.
const NAME_CHARS_MAX: usize = 64;

fn set_help() -> String {
    let mut help = "Example:\n  calisto cores set queue_delay\n\nPolicies:".to_owned();
    for (name, sentence) in policy::cores::NAMES {
        let _ = write!(help, "\n  {name:<12} {sentence}");
    }
    help
}

impl Cores {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let daemon = Daemon::at(&self.admin.socket);
        match &self.action {
            Some(Action::Set { policy }) => {
                policy::cores::by_name(policy).map_err(Failure::usage)?;
                daemon.tell(Command::CoresSet { policy: policy.clone() })?;
                output::done(&format!("{policy} gives out the cores from now on"), json)
            }
            None => match daemon.ask(Command::Cores)? {
                body @ ReplyBody::Cores(_) if json => output::json(&body),
                ReplyBody::Cores(cores) => output::text(&render(&cores)),
                other => Err(daemon.unexpected(&other)),
            },
        }
    }
}

fn render(status: &CoresStatus) -> String {
    if !status.enabled {
        return "no cores are given out: start the daemon with `calisto up --cores LIST`, or name some \
             in `cores.set` of its configuration\n"
            .to_owned();
    }
    let mut text = format!(
        "policy {}, a tick every {} us, which takes {} us\n\
         a core that is not given back within {} us is taken\n\
         {} ticks, {} grants, {} parks, {} revokes, {} takes\n\n{}\n{}",
        name(&status.policy),
        micros(status.interval_ns),
        micros(status.tick_cost_ns),
        grouped(status.yield_bound_us),
        grouped(status.ticks),
        grouped(status.grants),
        grouped(status.parks),
        grouped(status.revokes),
        grouped(status.takes),
        cores(&status.cores, &status.apps),
        apps(&status.apps),
    );
    let counters: Vec<&Counter> =
        status.counters.iter().filter(|counter| counter.value > 0).collect();
    if !counters.is_empty() {
        let mut table = Table::new(["counter", "value", "what it counts"]);
        for Counter { name, help, value } in counters {
            table.row([
                self::name(name).as_str().into(),
                (*value).into(),
                printable(help, 200).as_str().into(),
            ]);
        }
        let _ = write!(text, "\n{}", table.render());
    }
    text
}

fn cores(cores: &[CoreRow], apps: &[CoreApp]) -> String {
    let called = |number: u32| {
        let known = apps.iter().find(|app| app.app == number);
        known.map_or_else(|| number.to_string(), |app| name(&app.name))
    };
    let mut table = Table::new(["core", "state", "held by", "worker", "next", "for (ms)"]);
    for row in cores {
        let CoreRow { core, state, app, app_name, worker, next_app, since_ms } = row;
        let holder = app_name.as_deref().map(name).or_else(|| app.map(called));
        table.row([
            Cell::Number(core.to_string()),
            name(state).as_str().into(),
            holder.unwrap_or_else(|| "-".to_owned()).as_str().into(),
            Cell::maybe(*worker),
            next_app.map_or_else(|| "-".to_owned(), called).as_str().into(),
            Cell::decimal(*since_ms, 3, ""),
        ]);
    }
    table.render()
}

fn apps(apps: &[CoreApp]) -> String {
    let mut table = Table::new([
        "app",
        "class",
        "cores",
        "guaranteed",
        "burst",
        "parked",
        "waits (us)",
        "may wait",
        "asked",
        "grants",
        "parks",
        "revokes",
        "takes",
    ]);
    for app in apps {
        table.row([
            name(&app.name).as_str().into(),
            name(&app.class).as_str().into(),
            app.held.into(),
            app.guaranteed.into(),
            app.burst.into(),
            app.parked.into(),
            Cell::decimal(app.oldest_us, 1, ""),
            app.queue_delay_us.into(),
            app.asked.into(),
            app.grants.into(),
            app.parks.into(),
            app.revokes.into(),
            app.takes.into(),
        ]);
    }
    table.render()
}

/// Nanoseconds as microseconds.
fn micros(nanos: u64) -> String {
    format!("{:.2}", nanos as f64 / 1e3)
}

/// A name of the daemon's or of an application, fit to be shown.
fn name(text: &str) -> String {
    printable(text, NAME_CHARS_MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two applications on two cores, one of which is on its way from one to the other.
    pub(in crate::command) fn status() -> CoresStatus {
        let app = |app, name: &str, class: &str, held| CoreApp {
            app,
            name: name.to_owned(),
            class: class.to_owned(),
            guaranteed: 1,
            burst: 3,
            held,
            parked: 2,
            queue_delay_us: 10,
            oldest_us: 14.5,
            grants: 4100,
            parks: 4000,
            revokes: 99,
            takes: 1,
            asked: 4200,
        };
        let core = |core, state: &str, app: u32, worker| CoreRow {
            core,
            state: state.to_owned(),
            app: Some(app),
            app_name: Some(if app == 3 { "web" } else { "matrix" }.to_owned()),
            worker: Some(worker),
            next_app: None,
            since_ms: 12.5,
        };
        CoresStatus {
            enabled: true,
            policy: "queue_delay".to_owned(),
            interval_ns: 5000,
            tick_cost_ns: 310,
            yield_bound_us: 100,
            cores: vec![
                core(1, "held", 3, 0),
                CoreRow { next_app: Some(3), ..core(2, "leaving", 4, 1) },
                CoreRow {
                    app: None,
                    app_name: None,
                    worker: None,
                    state: "idle".to_owned(),
                    ..core(3, "", 4, 1)
                },
            ],
            apps: vec![app(3, "web", "latency", 1), app(4, "matrix", "batch", 1)],
            grants: 8200,
            parks: 8000,
            revokes: 198,
            takes: 2,
            ticks: 2_000_000,
            counters: vec![Counter {
                name: "ran_while_parked".to_owned(),
                help: "What it is.".to_owned(),
                value: 1,
            }],
        }
    }

    #[test]
    fn who_holds_a_core_and_who_is_next_have_their_columns() {
        let text = render(&status());
        for line in [
            "policy queue_delay, a tick every 5.00 us, which takes 0.31 us",
            "2,000,000 ticks, 8,200 grants, 8,000 parks, 198 revokes, 2 takes",
            "   1  held     web           0  -       12.500",
            "   2  leaving  matrix        1  web     12.500",
            "   3  idle     -             -  -       12.500",
            "ran_while_parked      1  What it is.",
        ] {
            assert!(text.lines().any(|given| given == line), "{line}\nis not in\n{text}");
        }
    }

    #[test]
    fn a_daemon_without_cores_to_give_says_where_they_are_named() {
        let text = render(&CoresStatus::default());
        assert!(text.contains("`cores.set`"), "{text}");
    }

    #[test]
    fn a_name_cannot_act_on_the_terminal() {
        let mut hostile = status();
        hostile.apps[0].name = "\u{1b}[2J".to_owned();
        hostile.cores[0].app_name = Some("\u{202e}x".to_owned());
        let text = render(&hostile);
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    }

    #[test]
    fn the_help_of_set_lists_every_policy() {
        for (name, _) in policy::cores::NAMES {
            assert!(set_help().contains(name), "{name}");
        }
    }
}
