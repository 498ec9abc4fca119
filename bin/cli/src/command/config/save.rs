//! `calisto config save`: what was changed while the daemon ran, in its file.

use std::path::PathBuf;

use admin::{Command, LogLevel, ReplyBody, SteerStatus};
use clap::Args;
use config::{Config, NewValue};
use serde::Serialize;

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::findings;
use crate::output;
use crate::target::Admin;

/// Write into a configuration file what was changed while the daemon ran, so that the next start
/// begins with it: how many workers there are, the policies of steering and cores, pins, and what
/// is logged.
///
/// Comments, order, and all else in the file stay as they are; a key that has its default is not
/// added. The file is the daemon's own, as a rule: what was given by `--set` when it was started
/// still counts before its file.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto workers 4 && calisto config save /etc/calisto/calisto.toml\n  \
    calisto config save -n /etc/calisto/calisto.toml      what would change\n  \
    calisto config save -j /etc/calisto/calisto.toml      the keys, for a script")]
pub(crate) struct Save {
    /// The file.
    file: PathBuf,
    /// Change nothing: say what would.
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    admin: Admin,
}

/// What was done.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Saved {
    file: String,
    /// Keys that have another value now.
    changed: Vec<String>,
    /// What could not be kept, and why.
    left_out: Vec<String>,
    written: bool,
}

/// What is in force.
#[derive(Debug, Default)]
struct InForce {
    values: Vec<(String, NewValue)>,
    left_out: Vec<String>,
}

impl Save {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let file = self.file.display().to_string();
        let old = sys::regular_file::read_text(&self.file, config::FILE_BYTES_MAX)
            .map_err(|error| Failure::new(format!("cannot read {file}: {error}")))?;
        let wrong = |error| Failure::new(format!("{file}: {error}"));
        let before = Config::parse(&old).map_err(wrong)?;
        let InForce { values, left_out } = ask(&Daemon::at(&self.admin.socket), &before)?;
        let new = config::rewrite(&old, &values).map_err(wrong)?;
        let after = Config::parse(&new).map_err(wrong)?;
        refuse_wrong(&file, &after)?;
        let written = new != old && !self.dry_run;
        if written {
            sys::whole_file::write(&self.file, &new)
                .map_err(|error| Failure::new(format!("cannot write {file}: {error}")))?;
        }
        let changed = before.changes(&after);
        let saved = Saved { file, changed, left_out, written };
        if json { output::json(&saved) } else { output::text(&said(&saved)) }
    }
}

impl InForce {
    fn keep(&mut self, key: &str, value: NewValue) {
        self.values.push((key.to_owned(), value));
    }
}

fn ask(daemon: &Daemon, before: &Config) -> Result<InForce, Failure> {
    let mut found = InForce::default();
    let workers;
    match daemon.ask(Command::Status)? {
        ReplyBody::Status(status) if status.workers_wanted > 0 => {
            // Not those that it has to do with when no more could be started.
            workers = match status.workers_asked {
                0 => status.workers_wanted,
                asked => asked,
            };
            found.keep("workers.count", NewValue::Number(workers.into()));
        }
        ReplyBody::Status(_) => {
            return Err(Failure::new(
                "this daemon is of an older version, which does not say how many workers it wants: \
                 start it anew with this one",
            ));
        }
        other => return Err(daemon.unexpected(&other)),
    }
    match daemon.ask(Command::SteerShow)? {
        ReplyBody::Steer(steer) => {
            // What the file has of them would be lost.
            if steer.pins_pending > 0 {
                return Err(Failure::new(format!(
                    "{} pins of the configuration are still to be set or let go, while groups move or \
                     workers come: save it when `calisto steer show` says that all are settled",
                    steer.pins_pending
                )));
            }
            found.keep("steer.policy", NewValue::Text(steer.policy.clone()));
            let (pins, left_out) = pins(&steer, before.steer.seed.is_some(), workers);
            found.keep("steer.pins", NewValue::Texts(pins));
            found.left_out = left_out;
        }
        other => return Err(daemon.unexpected(&other)),
    }
    match daemon.ask(Command::Cores)? {
        // Without cores to give out there is no policy.
        ReplyBody::Cores(cores)
            if !cores.policy.is_empty() && cores.policy != before.cores_policy() =>
        {
            found.keep("cores.policy", NewValue::Text(cores.policy));
        }
        ReplyBody::Cores(_) => {}
        other => return Err(daemon.unexpected(&other)),
    }
    match daemon.ask(Command::Log { target: None, level: None })? {
        ReplyBody::Log { levels, .. } => found.values.extend(level_values(&levels, before)),
        other => return Err(daemon.unexpected(&other)),
    }
    Ok(found)
}

/// What the daemon would refuse on any machine.
fn refuse_wrong(file: &str, after: &Config) -> Result<(), Failure> {
    match findings::wrong(&daemon::check(after, None)) {
        None => Ok(()),
        Some(wrong) => Err(Failure::new(format!(
            "{file} is left as it is, because no daemon would start with what is in force: {wrong}"
        ))),
    }
}

/// Pins as the configuration of a daemon with this many workers has them, and those that it cannot
/// have.
fn pins(steer: &SteerStatus, has_seed: bool, workers: u16) -> (Vec<String>, Vec<String>) {
    // A pinned flow has a group of its own, behind those of the hash.
    let is_group = |(group, _): &&(u32, u16)| *group < steer.groups;
    let groups = steer.pins.iter().filter(is_group);
    let groups = groups.map(|(group, worker)| (format!("group {group} = {worker}"), *worker));
    let flows = steer.pinned.iter();
    let flows = flows.map(|(flow, worker)| (format!("{flow} = {worker}"), *worker));
    // A pin outlives its worker, and holds again with the next of that number.
    let starts_with = |(_, worker): &(String, u16)| *worker < workers;
    let (groups, late): (Vec<_>, Vec<_>) = groups.partition(starts_with);
    let (flows, later): (Vec<_>, Vec<_>) = flows.partition(starts_with);
    let why = "there is no such worker at a start with `workers.count`";
    let mut left_out: Vec<String> =
        late.iter().chain(&later).map(|(pin, _)| format!("{pin}: {why} = {workers}")).collect();
    let groups: Vec<String> = groups.into_iter().map(|(pin, _)| pin).collect();
    let mut kept: Vec<String> = flows.into_iter().map(|(pin, _)| pin).collect();
    if has_seed {
        kept.extend(groups);
    } else {
        let why = "groups have other flows after each start while `steer.seed` is not set";
        left_out.extend(groups.iter().map(|pin| format!("{pin}: {why}")));
    }
    let unnamed = (steer.pinned_flows as usize).saturating_sub(steer.pinned.len());
    if unnamed > 0 {
        left_out.push(format!("{unnamed} pinned flows: they are on their way back, or too many"));
    }
    if kept.len() > config::PINS_MAX {
        let rest = kept.split_off(config::PINS_MAX).len();
        left_out.push(format!("{rest} pins: a file holds {}", config::PINS_MAX));
    }
    (kept, left_out)
}

/// Levels that are others than those of the file.
fn level_values(levels: &[LogLevel], before: &Config) -> Vec<(String, NewValue)> {
    let of_file = |target: &str| {
        let targets = before.log.targets();
        let known = targets.iter().find(|(name, _)| *name == target)?;
        Some(known.1.unwrap_or(before.log.level).name())
    };
    let is_other = |level: &&LogLevel| of_file(&level.target).is_some_and(|was| was != level.level);
    let value =
        |level: &LogLevel| (format!("log.{}", level.target), NewValue::Text(level.level.clone()));
    levels.iter().filter(is_other).map(value).collect()
}

fn said(saved: &Saved) -> String {
    let Saved { file, changed, left_out, written } = saved;
    let first = match (changed.is_empty(), written) {
        (true, _) => format!("{file} says what is in force: it stays as it is\n"),
        (false, true) => format!("written into {file}: {}\n", changed.join(", ")),
        (false, false) => format!("would be written into {file}: {}\n", changed.join(", ")),
    };
    let rest = left_out.iter().map(|what| format!("not kept: {what}\n"));
    [first].into_iter().chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steer() -> SteerStatus {
        let flow = "udp 10.0.0.1:5000 -> 10.0.0.2:7".to_owned();
        SteerStatus {
            policy: "sticky".to_owned(),
            policies: Vec::new(),
            groups: 128,
            unowned: 0,
            epoch: 1,
            settled: true,
            held: 0,
            owned: Vec::new(),
            pins: vec![(7, 1), (128, 0)],
            pinned_flows: 1,
            pinned: vec![(flow, 0)],
            pins_pending: 0,
        }
    }

    #[test]
    fn pins_of_flows_are_kept_and_those_of_groups_where_they_mean_the_same_again() {
        let flow = "udp 10.0.0.1:5000 -> 10.0.0.2:7 = 0";
        let (kept, left_out) = pins(&steer(), true, 2);
        assert_eq!((kept, left_out), (vec![flow.into(), "group 7 = 1".into()], Vec::new()));
        let (kept, left_out) = pins(&SteerStatus { pinned_flows: 3, ..steer() }, false, 2);
        assert_eq!(kept, [flow]);
        assert!(left_out[0].starts_with("group 7 = 1: ") && left_out[1].starts_with("2 pinned"));
    }

    #[test]
    fn pins_to_workers_that_have_gone_are_left_out_because_no_daemon_starts_with_them() {
        let (kept, left_out) = pins(&steer(), true, 1);
        assert_eq!(kept, ["udp 10.0.0.1:5000 -> 10.0.0.2:7 = 0"]);
        assert!(left_out.len() == 1 && left_out[0].starts_with("group 7 = 1: "), "{left_out:?}");
    }

    #[test]
    fn what_the_daemon_would_refuse_is_not_written() {
        let text = "ports = ['xdp:eth1']\nlisten = ['udp:10.0.0.2:7']\n[workers]\ncount = 2\n";
        let config = Config::parse(text).expect("all of it is allowed");
        assert_eq!(refuse_wrong("x.toml", &config), Ok(()));
        let pinned = format!("{text}[steer]\npins = ['udp 10.0.0.1:5000 -> 10.0.0.2:7 = 3']\n");
        let config = Config::parse(&pinned).expect("it can be read");
        let refused = refuse_wrong("x.toml", &config).expect_err("no worker 3").to_string();
        assert!(refused.contains("steer.pins: there is no worker 3"), "{refused}");
    }

    #[test]
    fn levels_that_the_file_has_are_not_said_again() {
        let before = Config::parse("[log]\nlevel = 'warn'\nports = 'debug'\n").expect("levels");
        let level = |target: &str, level: &str| LogLevel {
            target: target.to_owned(),
            level: level.to_owned(),
        };
        let live = [level("ports", "debug"), level("apps", "warn"), level("sockets", "off")];
        let values = level_values(&live, &before);
        assert_eq!(values, [("log.sockets".to_owned(), NewValue::Text("off".to_owned()))]);
    }

    #[test]
    fn what_was_done_and_what_was_not_is_said() {
        let saved = Saved {
            file: "x.toml".to_owned(),
            changed: vec!["steer.policy".to_owned()],
            left_out: vec!["group 7 = 1: why".to_owned()],
            written: true,
        };
        assert_eq!(said(&saved), "written into x.toml: steer.policy\nnot kept: group 7 = 1: why\n");
        let none = Saved { changed: Vec::new(), left_out: Vec::new(), ..saved };
        assert_eq!(said(&none), "x.toml says what is in force: it stays as it is\n");
    }
}
