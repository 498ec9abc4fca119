//! The configuration, read again while the daemon runs: all of it holds from then on, or nothing.
//!
//! A thread of its own reads the file, because no other may open one any more, and holds it against
//! what is in force. What can be wrong is found before anything is changed; what only a restart can
//! change is named, and then nothing is changed either. `calisto reload` and SIGHUP are the same.

use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::thread::Builder;

use admin::ReplyBody;
use config::Config;
use datapath::Listener;
use policy::steer::{self, SteerConfig};

use crate::admin_socket::error;
use crate::apps::Rules;
use crate::ask::Asks;
use crate::changes::{AttachChange, LoopChange, Wish};
use crate::confinement::{self, Role};
use crate::failure::Failure;
use crate::{log, payers, pins};

/// Keys that can change while the daemon runs. A tenant's limits of memory, connections and rate
/// hold for programs that attach from then on, its rules for whatever is asked for from then on.
const LIVE: [&str; 11] = [
    "apps.allow",
    "apps.max",
    "cores.policy",
    "listen",
    "sockets.descriptors",
    "sockets.drain_ms",
    "sockets.ignore_firewall",
    "steer.pins",
    "steer.policy",
    "tenant",
    "workers.count",
];

/// Where the configuration is read from.
#[derive(Clone, Debug)]
pub struct Source {
    path: PathBuf,
    settings: Vec<String>,
}

impl Source {
    /// A file, and settings (`key=value`) that replace those of it.
    pub fn new(path: PathBuf, settings: Vec<String>) -> Self {
        let path = std::path::absolute(&path).unwrap_or(path);
        Self { path, settings }
    }

    /// Reads it.
    ///
    /// # Errors
    /// The file cannot be read, or something in it or in the settings is wrong.
    pub fn read(&self) -> Result<Config, Failure> {
        let text = sys::regular_file::read_text(&self.path, config::FILE_BYTES_MAX)
            .map_err(|error| Failure::File(self.path.clone(), error))?;
        let mut config = Config::parse(&text)?;
        config.set_all(self.settings.iter().map(String::as_str))?;
        config.check_complete()?;
        Ok(config)
    }

    /// The folder of the file: editors put another file in its place.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        self.path.parent().map(PathBuf::from)
    }
}

/// Starts the thread. It ends with the daemon.
///
/// # Errors
/// There can be no further thread.
pub(crate) fn start(
    source: Source,
    config: Config,
    wishes: Receiver<Wish>,
    asks: Asks,
) -> std::io::Result<()> {
    Builder::new().name("reload".to_owned()).spawn(move || {
        if !confinement::is_entered(Role::Reload) {
            return;
        }
        let mut reader = Reader { source, config };
        for wish in wishes {
            let outcome = reader.reload(&asks);
            let path = reader.source.path.display();
            match &outcome {
                Ok(changed) if changed.is_empty() => {
                    tracing::info!(target: log::CONFIG, %path, "read again: nothing has changed");
                }
                Ok(changed) => {
                    let changed = changed.join(", ");
                    tracing::info!(target: log::CONFIG, %path, changed, "read again");
                }
                Err(why) => {
                    tracing::warn!(target: log::CONFIG, %path, "read again; it changes nothing: {why}");
                }
            }
            let body = match outcome {
                Ok(changed) => ReplyBody::Reloaded { changed },
                Err(why) => error(&why),
            };
            // One that has gone needs no answer.
            if let Some(asker) = wish {
                let _ = asker.try_send(body);
            }
        }
    })?;
    Ok(())
}

struct Reader {
    source: Source,
    /// What is in force.
    config: Config,
}

impl Reader {
    /// Keys that have changed; or why nothing has, who pays for whom included.
    fn reload(&mut self, asks: &Asks) -> Result<Vec<String>, String> {
        let new = self.source.read().map_err(|failure| failure.to_string())?;
        let persons = payers::read();
        let changed = self.change(new, asks)?;
        payers::hold(persons);
        Ok(changed)
    }

    fn change(&mut self, new: Config, asks: &Asks) -> Result<Vec<String>, String> {
        let changed = self.config.changes(&new);
        if changed.is_empty() {
            return Ok(changed);
        }
        let listeners = prepare(&self.config, &new, &changed)?;
        let rules =
            Rules::parse(&new.apps.allow, sys::users::uid_of).map_err(|error| error.to_string())?;
        let before = parsed(&self.config.listen)?;
        let after = listeners.clone().unwrap_or_else(|| before.clone());
        let missing = |of: &[Listener], from: &[Listener]| -> Vec<Listener> {
            of.iter().filter(|one| !from.contains(one)).copied().collect()
        };
        let (come, go) = (missing(&after, &before), missing(&before, &after));
        let pins = pins::steps(&pins::of(&self.config)?, &pins::of(&new)?);
        asks.claim(come.clone())?;
        let applied = asks.apply(LoopChange { config: new.clone(), listeners, pins });
        if let Err(why) = applied {
            asks.unclaim(come);
            return Err(why);
        }
        asks.change_attach_server(AttachChange { config: new.clone(), rules, go });
        // What `calisto log` has changed stays unless the file changes that.
        if changed.iter().any(|key| is_log_level(key)) {
            log::set_all(&new.log);
        }
        self.config = new;
        Ok(changed)
    }
}

/// Whether a key is about how urgent an event has to be: every one of `[log]` but the format.
fn is_log_level(key: &str) -> bool {
    key.starts_with("log.") && key != "log.format"
}

fn parsed(listen: &[String]) -> Result<Vec<Listener>, String> {
    let each = listen.iter().map(|text| text.parse::<Listener>());
    each.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// Looks whether everything that has changed can: what is listened on from now on, if that has.
fn prepare(
    old: &Config,
    new: &Config,
    changed: &[String],
) -> Result<Option<Vec<Listener>>, String> {
    let listens_anew = changed.iter().any(|key| key == "listen");
    let mut fixed: Vec<&str> = changed.iter().map(String::as_str).collect();
    fixed.retain(|key| !LIVE.contains(key) && !is_log_level(key));
    // The number of applications can change, and not whether there are any: that is a thread.
    if (old.apps.max == 0) != (new.apps.max == 0) {
        fixed.push("apps.max");
    }
    let (before, after) = (parsed(&old.listen)?, parsed(&new.listen)?);
    let of_tcp = |all: &[Listener]| -> Vec<Listener> {
        let is_tcp = |one: &&Listener| one.protocol == wire::Protocol::Tcp;
        all.iter().filter(is_tcp).copied().collect()
    };
    let is_other_job = old.job() != new.job() || of_tcp(&before) != of_tcp(&after);
    if listens_anew && (is_other_job || old.apps.max == 0) {
        fixed.push("listen");
    }
    if !fixed.is_empty() {
        return Err(format!(
            "{} can only change with a restart, so that nothing was changed: restart the daemon, or \
             take that back",
            fixed.join(", ")
        ));
    }
    crate::setup::check_job(new.job(), &after).map_err(|failure| failure.to_string())?;
    pins::of(new)?;
    let unknown = |error: &dyn std::fmt::Display| error.to_string();
    steer::by_name(&new.steer.policy, SteerConfig { groups: 0, seed: 0 })
        .map_err(|error| unknown(&error))?;
    crate::cores::control(new).map_err(|error| unknown(&error)).map(drop).or_else(|why| {
        // Without cores to give out there is no policy to be wrong.
        if new.cores.set.is_empty() { Ok(()) } else { Err(why) }
    })?;
    Ok(listens_anew.then_some(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(&format!("ports = ['xdp:eth1']\n{text}")).expect("all of it is allowed")
    }

    fn prepared(old: &str, new: &str) -> Result<Option<Vec<Listener>>, String> {
        let (old, new) = (config(old), config(new));
        prepare(&old, &new, &old.changes(&new))
    }

    #[test]
    fn what_only_a_restart_can_change_is_named_and_nothing_else_counts_then() {
        let why = prepared("", "[frames]\ncount = 8192\n[steer]\npolicy = 'modulo'\n")
            .expect_err("frames are made at the start");
        assert!(why.starts_with("frames.count can only change with a restart"), "{why}");
        let levels = prepared("", "[log]\nlevel = 'debug'\nports = 'off'\n");
        assert_eq!(levels, Ok(None));
        let why = prepared("", "[log]\nformat = 'json'\n").expect_err("the writer has begun");
        assert!(why.starts_with("log.format can only change"), "{why}");
        let why = prepared("", "[apps]\nmax = 0\n[workers]\njob = 'echo'").expect_err("no thread");
        assert!(why.contains("workers.job") && why.contains("apps.max"), "{why}");
        let echo = "[workers]\njob = 'tcp-echo'\n";
        let tcp = format!("listen = ['tcp:10.0.0.2:8']\n{echo}");
        let why = prepared(&format!("listen = ['tcp:10.0.0.2:7']\n{echo}"), &tcp);
        assert!(why.expect_err("engines listen from the start").starts_with("listen can only"));
    }

    #[test]
    fn everything_that_can_be_wrong_is_found_before_anything_is_changed() {
        assert_eq!(prepared("", "[[tenant]]\nuid = 7\napps = 1\n"), Ok(None));
        let why = prepared("", "[steer]\npolicy = 'modula'\n").expect_err("there is none");
        assert!(why.contains("modulo"), "{why}");
        let job = "[workers]\njob = 'echo'\n";
        let listeners = prepared(
            &format!("listen = ['udp:10.0.0.2:7']\n{job}"),
            &format!("listen = ['udp:10.0.0.2:7', 'udp:10.0.0.2:8']\n{job}"),
        );
        assert_eq!(listeners.map(|all| all.map(|all| all.len())), Ok(Some(2)));
    }
}
