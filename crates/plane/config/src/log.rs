//! `[log]`: what the daemon logs, and in which format.

use serde::{Deserialize, Serialize};

/// `[log]`: what the daemon writes about what happens, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Log {
    /// How it is written: `text` to standard output (from `warn` on to standard error), `json` to
    /// standard output, an object a line, or `journald` by the protocol of systemd's journal.
    /// Default: text.
    pub format: LogFormat,
    /// What is written: this and everything more urgent. Default: info.
    pub level: LogLevel,
    /// The same of one target: the daemon's life, its signals and its confinement. Default: as
    /// `log.level`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daemon: Option<LogLevel>,
    /// Of another: operators and what they ask for. Default: as `log.level`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin: Option<LogLevel>,
    /// The configuration that is read again. Default: as `log.level`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<LogLevel>,
    /// Ports and their interfaces. Default: as `log.level`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<LogLevel>,
    /// Workers, dispatcher, and the cores that they get. Default: as `log.level`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<LogLevel>,
    /// Programs that come, go, or are refused. Default: as `log.level`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apps: Option<LogLevel>,
    /// Sockets of programs, and what stands in their way. Default: as `log.level`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sockets: Option<LogLevel>,
}

impl Log {
    /// Each target that has a level of its own to set, with that level, if it is set.
    pub const fn targets(&self) -> [(&'static str, Option<LogLevel>); 7] {
        [
            ("daemon", self.daemon),
            ("admin", self.admin),
            ("config", self.config),
            ("ports", self.ports),
            ("workers", self.workers),
            ("apps", self.apps),
            ("sockets", self.sockets),
        ]
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            level: LogLevel::Info,
            daemon: None,
            admin: None,
            config: None,
            ports: None,
            workers: None,
            apps: None,
            sockets: None,
        }
    }
}

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// An object a line.
    Json,
    /// Datagrams to systemd's journal.
    Journald,
}

impl LogFormat {
    /// The word that stands for it in a configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Journald => "journald",
        }
    }
}

/// How urgent an event has to be; each has those before it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Nothing is written.
    Off,
    /// The daemon ends, or serves nobody.
    Error,
    /// Something is not as it should be.
    Warn,
    /// Something that an operator may want to know.
    Info,
    /// What was asked for and done.
    Debug,
}

impl LogLevel {
    /// All, the least talkative first.
    pub const ALL: [Self; 5] = [Self::Off, Self::Error, Self::Warn, Self::Info, Self::Debug];

    /// The word that stands for it in a configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    /// The level of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    #[test]
    fn every_target_is_a_key_and_every_level_a_value_of_it() {
        for (name, level) in Config::default().log.targets() {
            assert_eq!(level, None, "{name}");
            for level in super::LogLevel::ALL {
                let config = Config::parse(&format!("[log]\n{name} = {:?}\n", level.name()));
                let targets = config.expect("a key and a value").log.targets();
                let set = targets.iter().find(|(of, _)| *of == name).expect("it is listed");
                assert_eq!(set.1, Some(level), "{name}");
            }
        }
        let wrong = Config::parse("[log]\nsocketz = \"loud\"\n").expect_err("no such key");
        assert!(wrong.to_string().contains("sockets"), "{wrong}");
    }
}
