//! The table of all keys, and what each may hold.

use std::fmt;

/// What a key may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// Its section; empty for the keys above the first section.
    pub(crate) section: &'static str,
    /// Its name there.
    pub(crate) key: &'static str,
    /// Its values.
    pub(crate) kind: Kind,
}

impl Rule {
    /// `section.key`, the name of the key on a command line.
    pub(crate) fn path(&self) -> String {
        join(self.section, self.key)
    }
}

/// A kind of value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// `true` or `false`.
    Flag,
    /// A whole number from the first to the second.
    Range(i64, i64),
    /// A power of two from the first to the second.
    PowerOfTwo(i64, i64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// Some text of 1 to this many bytes.
    Text(usize),
    /// At most this many texts.
    Texts(usize),
    /// At most this many numbers of CPUs.
    Cpus(usize),
    /// One or more of these words.
    Words(&'static [&'static str]),
    /// At most this many addresses with ports.
    Reaches(usize),
    /// The number of a user, or `"*"`.
    User,
}

/// Pins that a configuration can hold.
pub const PINS_MAX: usize = 1024;

/// The largest CPU number: the kernel's `cpu_set_t` has 1024 bits.
pub(crate) const CPU_MAX: i64 = 1023;

/// Bytes of one text of an array: as much as any address, path or interface name takes.
pub(crate) const TEXT_BYTES_MAX: usize = 255;

/// `sun_path` of unix(7) has 108 bytes, the closing zero among them.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Every key, in the order in which a configuration is written.
pub(crate) const RULES: &[Rule] = &[
    // A PortId indexes ports; more than 64 of them is a mistake in a generated file.
    rule("", "ports", Kind::Texts(64)),
    // As many as the data path serves.
    rule("", "listen", Kind::Texts(64)),
    rule("", "admin_socket", Kind::Text(SOCKET_PATH_BYTES_MAX)),
    rule("", "trust_link", Kind::Flag),
    rule("", "confine", Kind::Flag),
    rule("workers", "count", Kind::Range(1, WORKERS_MAX)),
    rule("workers", "max", Kind::Range(1, WORKERS_MAX)),
    rule("workers", "job", Kind::Word(JOBS)),
    rule("workers", "state_bytes", Kind::Range(0, 65_536)),
    rule("workers", "state_flows", Kind::Range(1, 1 << 24)),
    rule("workers", "arrangement", Kind::Word(&["fused", "threads"])),
    rule("workers", "cpus", Kind::Cpus(1024)),
    rule("workers", "dispatcher_cpu", Kind::Range(0, CPU_MAX)),
    rule("steer", "policy", Kind::Text(64)),
    rule("steer", "pins", Kind::Texts(PINS_MAX)),
    rule("steer", "groups", Kind::PowerOfTwo(128, 1 << 20)),
    rule("steer", "overrides", Kind::Range(0, 65_536)),
    // TOML's integers end here.
    rule("steer", "seed", Kind::Range(0, i64::MAX)),
    rule("steer", "tick_us", Kind::Range(1, 1_000_000)),
    rule("steer", "load_interval_us", Kind::Range(100, 10_000_000)),
    rule("steer", "idle_timeout_ms", Kind::Range(1, 86_400_000)),
    rule("handover", "hold_packets", Kind::Range(1, FRAMES_MAX)),
    rule("handover", "deadline_ms", Kind::Range(1, 60_000)),
    rule("frames", "count", Kind::Range(64, FRAMES_MAX)),
    // The chunk sizes that an aligned AF_XDP memory area may have: at least 2048, at most a page.
    rule("frames", "bytes", Kind::PowerOfTwo(2048, 4096)),
    rule("wait", "spin_us", Kind::Range(-1, 1_000_000)),
    rule("wait", "idle", Kind::Word(&["sleep", "yield", "spin"])),
    rule("apps", "socket", Kind::Text(SOCKET_PATH_BYTES_MAX)),
    rule("apps", "max", Kind::Range(0, 1024)),
    rule("apps", "allow", Kind::Texts(64)),
    rule("apps", "frames", Kind::Range(16, 1 << 15)),
    rule("apps", "groups", Kind::PowerOfTwo(128, 1 << 20)),
    rule("apps", "stall_ms", Kind::Range(100, 86_400_000)),
    rule("cores", "set", Kind::Cpus(1024)),
    rule("cores", "policy", Kind::Text(64)),
    rule("cores", "interval_us", Kind::Range(1, 10_000)),
    rule("cores", "yield_bound_us", Kind::Range(10, 1_000_000)),
    rule("cores", "rest_ms", Kind::Range(0, 60_000)),
    rule("cores", "guaranteed", Kind::Range(0, WORKERS_MAX)),
    rule("cores", "queue_delay_us", Kind::Range(0, 1_000_000)),
    rule("tcp", "flows", Kind::Range(16, 1 << 24)),
    rule("tcp", "backlog", Kind::Range(0, 1 << 24)),
    rule("tcp", "congestion", Kind::Word(CONGESTION)),
    rule("tcp", "pacing", Kind::Flag),
    rule("tcp", "no_delay", Kind::Flag),
    rule("tcp", "timestamps", Kind::Flag),
    rule("tcp", "sack", Kind::Flag),
    rule("tcp", "window_scaling", Kind::Flag),
    rule("tcp", "mtu_probing", Kind::Flag),
    rule("tcp", "initial_window", Kind::Range(1, 1000)),
    rule("tcp", "rto_min_ms", Kind::Range(1, 60_000)),
    // RFC 9293 section 3.8.6.3 allows half a second.
    rule("tcp", "ack_delay_ms", Kind::Range(0, 500)),
    rule("tcp", "time_wait_ms", Kind::Range(0, 3_600_000)),
    rule("tcp", "ring_kib", Kind::PowerOfTwo(1, 1 << 20)),
    rule("tcp", "ring_max_kib", Kind::PowerOfTwo(1, 1 << 20)),
    rule("tcp", "memory_mib", Kind::Range(1, 1 << 20)),
    rule("sockets", "ignore_firewall", Kind::Flag),
    rule("sockets", "drain_ms", Kind::Range(0, 3_600_000)),
    rule("sockets", "memory_mib", Kind::Range(0, 1 << 20)),
    rule("sockets", "descriptors", Kind::Range(0, 1 << 30)),
    rule("sockets", "guardian", Kind::Flag),
    rule("sockets", "hang_ms", Kind::Range(0, 3_600_000)),
    rule("log", "format", Kind::Word(&["text", "json", "journald"])),
    rule("log", "level", Kind::Word(LOG_LEVELS)),
    rule("log", "daemon", Kind::Word(LOG_LEVELS)),
    rule("log", "admin", Kind::Word(LOG_LEVELS)),
    rule("log", "config", Kind::Word(LOG_LEVELS)),
    rule("log", "ports", Kind::Word(LOG_LEVELS)),
    rule("log", "workers", Kind::Word(LOG_LEVELS)),
    rule("log", "apps", Kind::Word(LOG_LEVELS)),
    rule("log", "sockets", Kind::Word(LOG_LEVELS)),
    rule(TENANT, "uid", Kind::User),
    rule(TENANT, "listen", Kind::Reaches(64)),
    rule(TENANT, "connect", Kind::Reaches(64)),
    rule(TENANT, "denied", Kind::Word(&["refuse", "kernel"])),
    rule(TENANT, "rate_mbit", Kind::Range(0, 1_000_000)),
    rule(TENANT, "burst_kib", Kind::Range(64, 1 << 20)),
    rule(TENANT, "apps", Kind::Range(0, 1024)),
    rule(TENANT, "connections", Kind::Range(1, 1 << 20)),
    rule(TENANT, "memory_mib", Kind::Range(1, 1 << 20)),
    rule(TENANT, "congestion", Kind::Words(CONGESTION)),
    rule(TENANT, "default_congestion", Kind::Word(CONGESTION)),
];

/// The section that there may be several of.
pub(crate) const TENANT: &str = "tenant";

/// How often there may be that section.
pub(crate) const TENANTS_MAX: usize = 256;

/// What the daemon's own workers can do.
const JOBS: &[&str] =
    &["echo", "sink", "synthetic", "tcp-echo", "tcp-discard", "tcp-chargen", "sockets", "auto"];

/// How urgent an event has to be to be written.
const LOG_LEVELS: &[&str] = &["off", "error", "warn", "info", "debug"];

/// Congestion controls.
const CONGESTION: &[&str] = &["cubic", "reno", "dctcp", "timely"];

/// Each worker costs a ring in each direction, made when it comes.
const WORKERS_MAX: i64 = 1024;

/// A frame is found by a 32-bit offset: half of what that can reach, in frames of 4096 bytes.
const FRAMES_MAX: i64 = 1 << 19;

const fn rule(section: &'static str, key: &'static str, kind: Kind) -> Rule {
    Rule { section, key, kind }
}

/// The rule of a key.
pub(crate) fn find(section: &str, key: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.section == section && rule.key == key)
}

/// Whether there is a section of that name.
pub(crate) fn is_section(name: &str) -> bool {
    !name.is_empty() && RULES.iter().any(|rule| rule.section == name)
}

/// `section.key`, or `key` alone above the first section.
pub(crate) fn join(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Flag => write!(f, "true or false"),
            Self::Range(min, max) => write!(f, "a whole number from {min} to {max}"),
            Self::PowerOfTwo(min, max) => write!(f, "a power of two from {min} to {max}"),
            Self::Word(words) => {
                write!(f, "one of ")?;
                for (index, word) in words.iter().enumerate() {
                    write!(f, "{}\"{word}\"", if index == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            Self::Text(max) => write!(f, "a text of 1 to {max} bytes in quotes"),
            Self::Texts(max) => write!(
                f,
                "an array of at most {max} texts of 1 to {TEXT_BYTES_MAX} bytes in quotes"
            ),
            Self::Cpus(max) => {
                write!(f, "an array of at most {max} CPU numbers from 0 to {CPU_MAX}")
            }
            Self::Words(words) => {
                write!(f, "an array of one or more of \"{}\", each once", words.join("\", \""))
            }
            Self::Reaches(max) => write!(
                f,
                "an array of at most {max} texts such as \"10.0.0.0/8:1-1023\", \"[fd00::/8]:443\" or \
                 \"*:80\""
            ),
            Self::User => f.write_str("a user's number or \"*\""),
        }
    }
}
