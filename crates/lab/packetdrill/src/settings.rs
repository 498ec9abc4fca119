//! The settings that a script's commands make: sysctls, routes, queues.

use std::num::NonZeroU32;

use base::Nanos;
use tcp::{Algorithm, Config, FlowOptions};

/// What commands have set so far, with the values that scripts take for granted.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    pub(crate) flow: FlowOptions,
    /// Bytes of a send buffer before anybody sets it.
    pub(crate) send_buffer: u32,
    /// Bytes not yet sent above which nobody is told to write.
    pub(crate) not_sent_low: u32,
    /// How far a time may be off.
    pub(crate) tolerance: Nanos,
    /// Timestamps are compared.
    pub(crate) has_stamps: bool,
    /// The addresses are IPv6.
    pub(crate) is_v6: bool,
    /// Frames are compared one by one, not merged.
    pub(crate) strict_segments: bool,
    /// Payload of the segments that a longer packet of the script is cut into: it stands for
    /// several that a network card has put together.
    pub(crate) injected_max: Option<NonZeroU32>,
}

impl Default for Settings {
    fn default() -> Self {
        let config = Config {
            flows_max: 64,
            sent_max: 1 << 16,
            ranges_max: 1 << 12,
            syn_retries: 5,
            slow_start_after_idle: false,
            ..Config::default()
        };
        let flow = FlowOptions {
            receive_ring_log2: 20,
            receive_limit_log2: 24,
            send_ring_log2: 23,
            ..FlowOptions::default()
        };
        Self {
            config,
            flow,
            send_buffer: 262_144,
            not_sent_low: u32::MAX,
            tolerance: Nanos::from_millis(4),
            has_stamps: false,
            is_v6: false,
            strict_segments: false,
            injected_max: None,
        }
    }
}

impl Settings {
    /// Takes an option of the script in.
    pub(crate) fn option(&mut self, name: &str, value: &str) {
        match (name, value.parse()) {
            ("tolerance_usecs", Ok(us)) => {
                self.tolerance = self.tolerance.max(Nanos::from_micros(us));
            }
            ("tcp_ts_tick_usecs", Ok(us)) => self.has_stamps = us > 0,
            ("strict_segments", _) => self.strict_segments = true,
            ("mss", Ok(bytes)) => {
                self.injected_max = u32::try_from(bytes).ok().and_then(NonZeroU32::new);
            }
            ("ip_version", _) => self.is_v6 = value == "ipv6",
            _ => {}
        }
    }

    /// Reads a shell command for the settings it makes. What it does beside that has no meaning
    /// here: there is no kernel.
    pub(crate) fn command(&mut self, command: &str) {
        let without_comments: Vec<&str> =
            command.lines().map(|line| line.split('#').next().unwrap_or("")).collect();
        let text = without_comments.join(" ");
        let mut rest = text.as_str();
        while let Some(at) = rest.find("tcp_") {
            rest = &rest[at + 4..];
            let Some((name, value)) = rest.split_once('=') else { break };
            if !name.chars().all(|letter| letter.is_alphanumeric() || letter == '_') {
                continue;
            }
            let value = match value.strip_prefix('"') {
                Some(quoted) => quoted.split('"').next().unwrap_or(""),
                None => value.split_whitespace().next().unwrap_or(""),
            };
            self.sysctl(name, value);
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        for pair in words.windows(2) {
            let number = pair[1].parse::<u16>();
            match (pair[0], number) {
                ("lock", Ok(mtu)) => self.config.path_mtu = mtu,
                ("initcwnd", Ok(segments)) => self.config.initial_window = segments.into(),
                _ => {}
            }
        }
        if words.windows(2).any(|pair| pair == ["root", "fq"]) {
            self.flow.pacing = true;
        }
    }

    fn sysctl(&mut self, name: &str, value: &str) {
        let numbers: Vec<u64> =
            value.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let first = numbers.first().copied();
        let small = first.and_then(|number| u8::try_from(number).ok());
        match (name, first, small) {
            ("timestamps", _, Some(number)) => self.config.timestamps = number != 0,
            ("sack", _, Some(number)) => self.config.sack = number != 0,
            ("window_scaling", _, Some(number)) => self.config.window_scaling = number != 0,
            ("ecn", _, Some(number)) => self.flow.ecn = number == 1,
            ("slow_start_after_idle", _, Some(number)) => {
                self.config.slow_start_after_idle = number != 0;
            }
            ("syn_retries", _, Some(number)) => self.config.syn_retries = number,
            ("synack_retries", _, Some(number)) => self.config.syn_ack_retries = number,
            ("retries2", _, Some(number)) => self.config.retries = number,
            ("early_retrans", _, Some(number)) => self.config.tail_probe = number >= 3,
            ("fin_timeout", Some(seconds), _) => self.config.time_wait = Nanos::from_secs(seconds),
            ("notsent_lowat", Some(bytes), _) => {
                self.not_sent_low = u32::try_from(bytes).unwrap_or(u32::MAX);
            }
            ("wmem", _, _) => {
                if let Some(bytes) = numbers.get(1).and_then(|bytes| u32::try_from(*bytes).ok()) {
                    self.send_buffer = bytes;
                }
            }
            ("mtu_probing", _, Some(number)) => self.config.mtu_probing = number == 2,
            ("base_mss", Some(mss), _) => {
                // With the headers of IP and TCP.
                let headers = if self.is_v6 { 60 } else { 40 };
                let mtu = u16::try_from(mss.saturating_add(headers));
                self.config.mtu_floor = mtu.unwrap_or(u16::MAX);
            }
            ("congestion_control", _, _) => {
                if let Some(algorithm) = algorithm(value) {
                    self.flow.congestion = algorithm;
                }
            }
            _ => {}
        }
    }
}

/// The congestion control of that name.
pub(crate) fn algorithm(name: &str) -> Option<Algorithm> {
    match name {
        "cubic" => Some(Algorithm::Cubic),
        "reno" => Some(Algorithm::NewReno),
        "dctcp" => Some(Algorithm::Dctcp),
        _ => None,
    }
}
