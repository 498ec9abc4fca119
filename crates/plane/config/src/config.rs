//! The settings as one tree of plain values.

use serde::{Deserialize, Serialize};

use crate::document;
use crate::edit;
use crate::error::ConfigError;
use crate::log::Log;
use crate::sockets::Sockets;
use crate::tcp::Tcp;
use crate::tenant::Tenant;
use crate::wait::Wait;
use crate::workers::{Job, Workers};

/// Every setting of the daemon.
///
/// Made by [`Config::parse`] or [`Config::default`]; both, and [`Config::set`], leave only values
/// that are in range. What the strings of `ports`, `listen` and `steer.policy` mean is decided by
/// the crates that own those words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Ports that carry the traffic, such as `"xdp:eth1"`. Default: none.
    pub ports: Vec<String>,
    /// What is served, such as `"udp:10.77.0.2:7"`. Default: nothing.
    pub listen: Vec<String>,
    /// Where the daemon listens for `calisto status` and its siblings. Default:
    /// `/run/calisto/admin.sock`.
    pub admin_socket: String,
    /// Received checksums are not verified, because the link cannot damage packets (a veth
    /// whose peer leaves checksums to hardware that is not there). Default: false.
    pub trust_link: bool,
    /// Each thread gives up the capabilities, system calls and paths that its work does not need,
    /// once everything is open. Turn it off to debug the daemon or to trace it. Default: true.
    pub confine: bool,
    /// `[workers]`
    pub workers: Workers,
    /// `[steer]`
    pub steer: Steer,
    /// `[handover]`
    pub handover: Handover,
    /// `[frames]`
    pub frames: Frames,
    /// `[wait]`
    pub wait: Wait,
    /// `[apps]`
    pub apps: Apps,
    /// `[cores]`
    pub cores: Cores,
    /// `[tcp]`
    pub tcp: Tcp,
    /// `[sockets]`
    pub sockets: Sockets,
    /// `[log]`
    pub log: Log,
    /// Each `[[tenant]]`, in their order. Default: none.
    #[serde(rename = "tenant", skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<Tenant>,
}

/// Bytes of a configuration file, at most.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

impl Config {
    /// The configuration that a TOML text describes; what it does not mention has its default.
    ///
    /// # Errors
    /// The first thing in the text that is no TOML, no known key, or out of range.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        Self::examine(text).map_err(|mut wrong| wrong.swap_remove(0))
    }

    /// The same, with everything that is wrong and not only the first of it.
    ///
    /// # Errors
    /// Each thing, in the order of the text; at least one.
    pub fn examine(text: &str) -> Result<Self, Vec<ConfigError>> {
        document::examine(text)
    }

    /// Changes one key: `steer.policy=modulo`, `workers.cpus=1,2`, `ports=xdp:eth1`.
    ///
    /// The value is TOML, except that a text needs no quotes, and an array of numbers or of one
    /// text no brackets. Nothing changes when it is refused.
    ///
    /// # Errors
    /// There is no such key, or it may not hold that value.
    pub fn set(&mut self, assignment: &str) -> Result<(), ConfigError> {
        self.set_all([assignment])
    }

    /// Changes several keys at once, so that what must hold between them is asked only of the
    /// result: `workers.count=100` needs `workers.max=100`, in whatever order. All or nothing.
    ///
    /// # Errors
    /// As [`Self::set`].
    pub fn set_all<'a>(
        &mut self,
        assignments: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), ConfigError> {
        let table = toml::Table::try_from(&*self)
            .expect("a tree of named plain values can be written as TOML");
        let changed: Self = edit::set_all(table, assignments)?
            .try_into()
            .expect("every value in it has been checked against its rule");
        document::relations(&changed).map_err(|(key, says)| ConfigError::at(None, key, says))?;
        *self = changed;
        Ok(())
    }

    /// The whole configuration as TOML: what [`Config::parse`] reads back to an equal value.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a tree of named plain values can be written as TOML")
    }

    /// The keys that have another value in `other`, in alphabetical order; `tenant` for all of
    /// `[[tenant]]`.
    pub fn changes(&self, other: &Self) -> Vec<String> {
        let [old, new] = [self, other].map(|config| {
            toml::Table::try_from(config).expect("a tree of named plain values can be written")
        });
        let mut changes = Vec::new();
        let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            match (old.get(name), new.get(name)) {
                (Some(toml::Value::Table(old)), Some(toml::Value::Table(new))) => {
                    let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
                    keys.sort_unstable();
                    keys.dedup();
                    let changed = keys.into_iter().filter(|key| old.get(*key) != new.get(*key));
                    changes.extend(changed.map(|key| format!("{name}.{key}")));
                }
                (old, new) if old != new => changes.push(name.clone()),
                _ => {}
            }
        }
        changes
    }

    /// Where applications attach.
    pub fn apps_socket(&self) -> std::path::PathBuf {
        let beside = std::path::Path::new(&self.admin_socket).with_file_name("apps.sock");
        self.apps.socket.as_ref().map_or(beside, Into::into)
    }

    /// What the workers do, now that it is known what else is asked for.
    pub fn job(&self) -> Job {
        match self.workers.job {
            Job::Auto if self.can_serve_sockets() => Job::Sockets,
            Job::Auto => Job::Echo,
            job => job,
        }
    }

    /// Whether workers may serve sockets: nothing else takes their packets, only what was asked for
    /// comes in (a port of another kind sees the kernel's connections too), a connection has one
    /// worker, and somebody may attach.
    fn can_serve_sockets(&self) -> bool {
        self.listen.is_empty()
            && self.ports.iter().all(|port| port.starts_with("xdp:"))
            && self.steer.policy != "shared"
            && self.apps.max > 0
    }

    /// Who gets a core, now that it is known what the workers do.
    pub fn cores_policy(&self) -> &str {
        // Connections last: cores that came and went with every burst would move them about.
        let default = if self.job() == Job::Sockets { "utilisation" } else { "packing" };
        self.cores.policy.as_deref().unwrap_or(default)
    }

    /// What a user's programs may do with their sockets.
    pub fn tenant(&self, uid: u32) -> Tenant {
        let tenant = self.tenants.iter().find(|tenant| tenant.uid.fits(uid));
        tenant.cloned().unwrap_or_else(|| Tenant::default_of(uid))
    }

    /// Whether a daemon can run on it: the settings that have no default are there.
    ///
    /// # Errors
    /// The setting that is missing.
    pub fn check_complete(&self) -> Result<(), ConfigError> {
        if self.ports.is_empty() {
            return Err(ConfigError::missing("ports", r#"ports = ["xdp:eth1"]"#));
        }
        if self.workers.job == Job::Sockets && !self.can_serve_sockets() {
            let says = "`workers.job` is \"sockets\", so every port must be an xdp port, `listen` empty, \
                        `steer.policy` not \"shared\", and `apps.max` not 0: programs say themselves what \
                        they listen on";
            return Err(ConfigError::at(None, "workers.job", says.to_owned()));
        }
        if self.listen.is_empty() && self.apps.max == 0 {
            let example = r#"listen = ["udp:10.0.0.2:7"]"#;
            return Err(ConfigError::missing("listen", example));
        }
        Ok(())
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            listen: Vec::new(),
            admin_socket: "/run/calisto/admin.sock".to_owned(),
            trust_link: false,
            confine: true,
            workers: Workers::default(),
            steer: Steer::default(),
            handover: Handover::default(),
            frames: Frames::default(),
            wait: Wait::default(),
            apps: Apps::default(),
            cores: Cores::default(),
            tcp: Tcp::default(),
            sockets: Sockets::default(),
            log: Log::default(),
            tenants: Vec::new(),
        }
    }
}

/// `[steer]`: which worker gets which flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Steer {
    /// The policy at the start. Default: sticky.
    pub policy: String,
    /// What stays with one worker, whatever the policy says, a text each: a flow, or a group of
    /// flows if `steer.seed` is set, and the worker, as in `"udp 10.0.0.1:5000 -> 10.0.0.2:7 = 2"`
    /// and `"group 7 = 1"`. `calisto config save` writes those that `calisto steer pin` has made.
    /// Default: nothing.
    pub pins: Vec<String>,
    /// Flow groups, a power of two. Default: 65 536.
    pub groups: u32,
    /// Flows that can be pinned one by one, at most. Default: 1024.
    pub overrides: u32,
    /// Seeds the key of the flow hash; absent: random, so that nobody outside can choose flows
    /// that collide. Default: absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Microseconds between two control ticks. Default: 50.
    pub tick_us: u32,
    /// Microseconds between two samples of the groups' load. Default: 1000.
    pub load_interval_us: u32,
    /// A group silent for this many milliseconds may be placed anew. Default: 10 000.
    pub idle_timeout_ms: u32,
}

impl Default for Steer {
    fn default() -> Self {
        Self {
            policy: "sticky".to_owned(),
            pins: Vec::new(),
            groups: 65_536,
            overrides: 1024,
            seed: None,
            tick_us: 50,
            load_interval_us: 1000,
            idle_timeout_ms: 10_000,
        }
    }
}

/// `[handover]`: what moving a group may cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Handover {
    /// Packets held by all hand-overs together, at most. Default: 2048.
    pub hold_packets: u32,
    /// Milliseconds after which an unanswered hand-over is taken back. Default: 20.
    pub deadline_ms: u32,
}

impl Default for Handover {
    fn default() -> Self {
        Self { hold_packets: 2048, deadline_ms: 20 }
    }
}

/// `[frames]`: the buffers of packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frames {
    /// How many there are. Default: 4096.
    pub count: u32,
    /// Bytes of each. Default: 4096.
    pub bytes: u32,
}

impl Default for Frames {
    fn default() -> Self {
        Self { count: 4096, bytes: 4096 }
    }
}

/// `[apps]`: programs that attach and serve packets themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Apps {
    /// Where they attach; absent: `apps.sock` beside the admin socket. Default: absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// Applications at once, at most; 0: none may attach. Default: 64.
    pub max: u16,
    /// Who may attach and with what, one rule a text; the first whose user fits counts: `USER
    /// [listen=PATTERN,...] [apps=N] [workers=N] [memory_mib=N] [packets_per_s=N] [wakes_per_s=N]
    /// [cores=N] [guaranteed=N]`, with USER `uid:1000`, `user:www-data` or `*`. Default: root may
    /// do everything.
    pub allow: Vec<String>,
    /// Packets that an application can have at once, unless it asks for another number.
    /// Default: 512.
    pub frames: u32,
    /// Flow groups of each application's owner table, a power of two. Default: 4096.
    pub groups: u32,
    /// An application that leaves a packet in its ring for this many milliseconds is detached.
    /// Default: 10 000.
    pub stall_ms: u32,
}

impl Default for Apps {
    fn default() -> Self {
        Self {
            socket: None,
            max: 64,
            allow: vec!["uid:0".to_owned()],
            frames: 512,
            groups: 4096,
            stall_ms: 10_000,
        }
    }
}

/// `[cores]`: CPUs that are granted to workers and taken back as load moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cores {
    /// The CPUs; empty: none is managed, and workers run where Linux lets them. Default: empty.
    pub set: Vec<u16>,
    /// Who gets a core: packing, queue_delay, utilisation or static_set. Default: utilisation where
    /// the workers serve sockets, packing elsewhere.
    pub policy: Option<String>,
    /// Microseconds between two looks, 1 to 10 000; more when a look takes more than a tenth of it.
    /// Default: 5.
    pub interval_us: u32,
    /// A worker that was asked for its core and has not parked after this many microseconds is
    /// moved off it. Default: 100.
    pub yield_bound_us: u32,
    /// The groups of a worker that has been parked for this many milliseconds move to others that
    /// run. Default: 10.
    pub rest_ms: u32,
    /// Cores that the daemon's own workers get whenever they have work. Default: 0.
    pub guaranteed: u16,
    /// The daemon's own workers get another core when something waits for more than this many
    /// microseconds; 0: what the policy takes for long. Default: 0.
    pub queue_delay_us: u32,
}

impl Default for Cores {
    fn default() -> Self {
        Self {
            set: Vec::new(),
            policy: None,
            interval_us: 5,
            yield_bound_us: 100,
            rest_ms: 10,
            guaranteed: 0,
            queue_delay_us: 0,
        }
    }
}
