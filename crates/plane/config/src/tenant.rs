//! `[[tenant]]`: what the sockets of a user's programs may do on the data plane.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::tcp::Congestion;

/// `[[tenant]]`: one user's part of the data plane. The first whose `uid` fits counts; a user of
/// none has the defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Whom it is about: a number, or `"*"` for everybody else.
    pub uid: TenantUser,
    /// Own addresses and ports that it may listen on, as `"10.0.0.0/8:1-1023"`, with `*` for any
    /// address or port; empty: none. Default: every port for root, those from 1024 on for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<Vec<Reach>>,
    /// Foreign addresses and ports that it may talk to. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<Vec<Reach>>,
    /// What becomes of the rest. Default: refuse.
    #[serde(default)]
    pub denied: Denied,
    /// Megabits that its programs may send in a second, together, headers and the first packets of
    /// connections included; 0: any number. Default: 0.
    #[serde(default)]
    pub rate_mbit: u32,
    /// Kibibytes that may leave at once after a pause. Default: 256.
    #[serde(default = "burst")]
    pub burst_kib: u32,
    /// Its programs at once; 0: none may attach. Default: 64.
    #[serde(default = "apps")]
    pub apps: u32,
    /// Sockets of all its programs together; a connection within this host counts twice for who
    /// opened it. Default: 65 536.
    #[serde(default = "connections")]
    pub connections: u32,
    /// Mebibytes of the rings of all its programs' sockets. Default: 1024.
    #[serde(default = "memory")]
    pub memory_mib: u32,
    /// Congestion controls that it may choose from. Default: cubic and reno.
    #[serde(default = "congestion")]
    pub congestion: Vec<Congestion>,
    /// The one that a connection has unless it chooses. Default: the first of `congestion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_congestion: Option<Congestion>,
}

impl Tenant {
    /// What a user has for whom there is no `[[tenant]]`.
    pub fn default_of(uid: u32) -> Self {
        Self {
            uid: TenantUser::Uid(uid),
            listen: None,
            connect: None,
            denied: Denied::default(),
            rate_mbit: 0,
            burst_kib: burst(),
            apps: apps(),
            connections: connections(),
            memory_mib: memory(),
            congestion: congestion(),
            default_congestion: None,
        }
    }

    /// Whether user `uid`, whose rule this is, may listen there.
    pub fn may_listen(&self, uid: u32, address: SocketAddr) -> bool {
        match &self.listen {
            Some(all) => all.iter().any(|reach| reach.covers(address)),
            None => uid == 0 || address.port() >= FIRST_UNPRIVILEGED,
        }
    }

    /// Whether it may talk to that address.
    pub fn may_connect(&self, address: SocketAddr) -> bool {
        self.connect.as_ref().is_none_or(|all| all.iter().any(|reach| reach.covers(address)))
    }

    /// The congestion control of a connection that has not chosen.
    pub fn congestion(&self) -> Congestion {
        self.default_congestion.or(self.congestion.first().copied()).unwrap_or(Congestion::Cubic)
    }
}

/// Ports below are for root, as Linux has it (`ip_unprivileged_port_start`).
const FIRST_UNPRIVILEGED: u16 = 1024;

const fn burst() -> u32 {
    256
}

const fn apps() -> u32 {
    64
}

const fn connections() -> u32 {
    65_536
}

const fn memory() -> u32 {
    1024
}

fn congestion() -> Vec<Congestion> {
    vec![Congestion::Cubic, Congestion::Reno]
}

/// Whom a `[[tenant]]` is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TenantUser {
    /// Everybody whom no other is about.
    Anyone,
    /// A user.
    Uid(u32),
}

impl TenantUser {
    /// Whether it is about that user.
    pub fn fits(self, uid: u32) -> bool {
        match self {
            Self::Anyone => true,
            Self::Uid(number) => number == uid,
        }
    }
}

impl fmt::Display for TenantUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anyone => f.write_str("\"*\""),
            Self::Uid(uid) => uid.fmt(f),
        }
    }
}

impl Serialize for TenantUser {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Anyone => serializer.serialize_str("*"),
            Self::Uid(uid) => serializer.serialize_u32(*uid),
        }
    }
}

impl<'de> Deserialize<'de> for TenantUser {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u32),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(uid) => Ok(Self::Uid(uid)),
            Written::Text(text) if text == "*" => Ok(Self::Anyone),
            Written::Text(_) => Err(serde::de::Error::custom("a uid is a number or \"*\"")),
        }
    }
}

/// What becomes of a socket that its tenant may not have on the data plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Denied {
    /// The program gets an error: EACCES.
    #[default]
    Refuse,
    /// The kernel's stack does it, by the kernel's rules.
    Kernel,
}

/// Addresses and ports: `10.0.0.0/8:1-1023`, `[fd00::/8]:443`, `*:80`, `*:*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Absent: any address.
    network: Option<(IpAddr, u8)>,
    /// The first and the last; from 0: any port.
    ports: (u16, u16),
}

impl Reach {
    /// Whether it has this address and port. An IPv4 address in IPv6's clothes is the IPv4 address.
    pub fn covers(&self, address: SocketAddr) -> bool {
        let is_within = |network: IpAddr, prefix: u8| match (network, address.ip().to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(ip)) => {
                leading(u128::from(network.to_bits() ^ ip.to_bits()) << 96, prefix)
            }
            (IpAddr::V6(network), IpAddr::V6(ip)) => {
                leading(network.to_bits() ^ ip.to_bits(), prefix)
            }
            _ => false,
        };
        (self.ports.0..=self.ports.1).contains(&address.port())
            && self.network.is_none_or(|(network, prefix)| is_within(network, prefix))
    }
}

/// Whether the first `prefix` bits are zero.
fn leading(difference: u128, prefix: u8) -> bool {
    difference.leading_zeros() >= u32::from(prefix)
}

impl FromStr for Reach {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            "write ADDRESS/BITS:PORT-PORT, such as 10.0.0.0/8:1-1023 or [fd00::/8]:443, \
                        with * for any address or port"
                .to_owned()
        };
        let (network, ports) = text.rsplit_once(':').ok_or_else(wrong)?;
        let bare = network.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
        // An IPv6 address without brackets would swallow its ports.
        if bare.is_none() && network.contains(':') {
            return Err(wrong());
        }
        let network = match bare.unwrap_or(network) {
            "*" if bare.is_none() => None,
            network => Some(parse_network(network, bare.is_some()).ok_or_else(wrong)?),
        };
        Ok(Self { network, ports: parse_ports(ports).ok_or_else(wrong)? })
    }
}

fn parse_network(text: &str, in_brackets: bool) -> Option<(IpAddr, u8)> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(number(prefix)?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let bits = if address.is_ipv6() { 128 } else { 32 };
    let prefix = prefix.unwrap_or(bits);
    (prefix <= bits && address.is_ipv6() == in_brackets)
        .then(|| (address, u8::try_from(prefix).unwrap_or(u8::MAX)))
}

fn parse_ports(text: &str) -> Option<(u16, u16)> {
    if text == "*" {
        return Some((0, u16::MAX));
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (1 <= first && first <= last).then_some((first, last))
}

/// Digits alone: `parse` would take a sign too.
fn number(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.network {
            None => f.write_str("*")?,
            Some((IpAddr::V4(network), prefix)) => write!(f, "{network}/{prefix}")?,
            Some((IpAddr::V6(network), prefix)) => write!(f, "[{network}/{prefix}]")?,
        }
        match self.ports {
            (0, _) => f.write_str(":*"),
            (first, last) if first == last => write!(f, ":{first}"),
            (first, last) => write!(f, ":{first}-{last}"),
        }
    }
}

impl Serialize for Reach {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Reach {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn covers(reach: &str, address: &str) -> bool {
        let reach: Reach = reach.parse().expect(reach);
        reach.covers(address.parse().expect(address))
    }

    #[test]
    fn a_reach_covers_its_network_and_its_ports_and_nothing_else() {
        for (reach, address, is_covered) in [
            ("10.0.0.0/8:1-1023", "10.255.0.1:1023", true),
            ("10.0.0.0/8:1-1023", "11.0.0.0:80", false),
            ("10.0.0.0/8:1-1023", "10.0.0.1:1024", false),
            ("10.0.0.1:80", "10.0.0.1:80", true),
            ("10.0.0.1:80", "10.0.0.2:80", false),
            ("10.0.0.1:80", "[::ffff:10.0.0.1]:80", true),
            ("0.0.0.0/0:*", "1.2.3.4:1", true),
            ("0.0.0.0/0:*", "[::1]:1", false),
            ("[fd00::/8]:443", "[fdff::1]:443", true),
            ("[fd00::/8]:443", "[fe00::1]:443", false),
            ("[::1]:*", "[::1]:9", true),
            ("[::/0]:*", "1.2.3.4:9", false),
            ("*:443", "[2001:db8::1]:443", true),
            ("*:*", "255.255.255.255:0", true),
        ] {
            assert_eq!(covers(reach, address), is_covered, "{reach} {address}");
        }
    }

    #[test]
    fn what_is_no_reach_is_refused() {
        for text in [
            "",
            ":",
            "*",
            "10.0.0.1",
            "10.0.0.0/33:80",
            "10.0.0.0/8:0",
            "10.0.0.0/8:9-8",
            "fd00::1:80",
            "[10.0.0.1]:80",
            "10.0.0.1:+80",
            "10.0.0.1/:80",
            "[*]:80",
            "[fd00::/129]:1",
            "host:80",
            "*:1-70000",
            "*:-1",
        ] {
            let refused = text.parse::<Reach>().expect_err(text);
            assert!(refused.contains("10.0.0.0/8:1-1023"), "{refused}");
        }
    }

    #[test]
    fn without_a_rule_root_may_do_everything_and_others_what_linux_allows() {
        let low: SocketAddr = "10.0.0.1:80".parse().expect("an address");
        let high: SocketAddr = "10.0.0.1:1024".parse().expect("an address");
        let (root, other) = (Tenant::default_of(0), Tenant::default_of(1000));
        assert!(root.may_listen(0, low) && root.may_listen(0, high));
        assert!(!other.may_listen(1000, low) && other.may_listen(1000, high));
        assert!(other.may_connect(low));
        let none = Tenant { listen: Some(Vec::new()), connect: Some(Vec::new()), ..root };
        assert!(!none.may_listen(0, high) && !none.may_connect(high));
    }

    proptest! {
        #[test]
        fn a_reach_is_written_as_it_is_read(
            ip in any::<Option<IpAddr>>(), prefix in 0..=32_u8, first in any::<u16>(), more in any::<u16>(),
        ) {
            let last = if first == 0 { u16::MAX } else { first.saturating_add(more) };
            let reach = Reach { network: ip.map(|ip| (ip, prefix)), ports: (first, last) };
            prop_assert_eq!(reach.to_string().parse(), Ok(reach));
        }

        #[test]
        fn no_text_panics(text in "[0-9a-f:./*\\[\\]-]{0,24}") {
            if let Ok(reach) = text.parse::<Reach>() {
                prop_assert_eq!(reach.to_string().parse(), Ok(reach));
            }
        }
    }
}
