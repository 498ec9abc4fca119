//! Who may attach and with what: the rules of `apps.allow`, by user.

use std::fmt;
use std::net::IpAddr;

use datapath::Listener;

/// All rules, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
}

/// What one kind of user may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    user: User,
    /// What it may listen on; empty: everything.
    listen: Vec<Pattern>,
    /// Applications at once.
    pub(crate) apps: u32,
    /// Workers of an application.
    pub(crate) workers: u32,
    /// MiB of an application's memory.
    pub(crate) memory_mib: u32,
    /// Packets that an application may send in a second; 0: any number.
    pub(crate) packets_per_s: u32,
    /// Wake-ups of its workers in a second; 0: any number.
    pub(crate) wakes_per_s: u32,
    /// Cores that an application may have at once.
    pub(crate) cores: u32,
    /// Of these: cores that it may be guaranteed.
    pub(crate) guaranteed: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum User {
    Anyone,
    Uid(u32),
}

/// `udp:10.0.0.2:53`, with `*` for any protocol, address or port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pattern {
    protocol: Option<wire::Protocol>,
    address: Option<IpAddr>,
    port: Option<u16>,
}

/// A rule that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleError(String);

impl Rules {
    /// Reads all rules; `uid_of` finds a user's number.
    pub(crate) fn parse(
        texts: &[String],
        uid_of: impl Fn(&str) -> Option<u32>,
    ) -> Result<Self, RuleError> {
        let rules = texts.iter().map(|text| {
            parse_rule(text, &uid_of).map_err(|why| RuleError(format!("`{text}`: {why}")))
        });
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }

    /// The rule of a user.
    pub(crate) fn of(&self, uid: u32) -> Option<&Rule> {
        self.rules.iter().find(|rule| match rule.user {
            User::Anyone => true,
            User::Uid(number) => number == uid,
        })
    }
}

impl Rule {
    /// Whether it may listen there.
    pub(crate) fn may_listen(&self, listener: &Listener) -> bool {
        self.listen.is_empty() || self.listen.iter().any(|pattern| pattern.covers(listener))
    }
}

impl Pattern {
    /// Every packet for the listener must fit, so a listener on every port needs `*` there.
    fn covers(&self, listener: &Listener) -> bool {
        let address = listener.address;
        self.protocol.is_none_or(|protocol| protocol == listener.protocol)
            && self.address.is_none_or(|only| only == address.ip())
            && self.port.is_none_or(|only| only == address.port() && only != 0)
    }
}

fn parse_rule(text: &str, uid_of: &impl Fn(&str) -> Option<u32>) -> Result<Rule, String> {
    let mut words = text.split_whitespace();
    let user = match words.next() {
        None => return Err("it names no user".to_owned()),
        Some("*") => User::Anyone,
        Some(word) => match word.split_once(':') {
            Some(("uid", number)) => User::Uid(
                number.parse().map_err(|_| format!("\"{number}\" is no number of a user"))?,
            ),
            Some(("user", name)) => {
                User::Uid(uid_of(name).ok_or_else(|| format!("there is no user \"{name}\""))?)
            }
            _ => return Err(format!("\"{word}\" is no user: write uid:1000, user:NAME or *")),
        },
    };
    let mut rule = Rule {
        user,
        listen: Vec::new(),
        apps: 16,
        workers: 64,
        memory_mib: 64,
        packets_per_s: 0,
        wakes_per_s: 50_000,
        cores: 64,
        // Whoever is guaranteed a core can take it from everybody else.
        guaranteed: if user == User::Uid(0) { 64 } else { 0 },
    };
    for word in words {
        let (key, value) =
            word.split_once('=').ok_or_else(|| format!("\"{word}\" is no KEY=VALUE"))?;
        let number = || {
            let number = value.parse::<u32>();
            number.map_err(|_| format!("\"{value}\" is no number for {key}"))
        };
        match key {
            "listen" => {
                let patterns = value.split(',').map(parse_pattern);
                rule.listen = patterns.collect::<Result<_, _>>()?;
            }
            "apps" => rule.apps = number()?,
            "workers" => rule.workers = number()?,
            "memory_mib" => rule.memory_mib = number()?,
            "packets_per_s" => rule.packets_per_s = number()?,
            "wakes_per_s" => rule.wakes_per_s = number()?,
            "cores" => rule.cores = number()?,
            "guaranteed" => rule.guaranteed = number()?,
            _ => {
                return Err(format!(
                    "there is no \"{key}\"; there are listen, apps, workers, memory_mib, \
                     packets_per_s, wakes_per_s, cores and guaranteed"
                ));
            }
        }
    }
    Ok(rule)
}

fn parse_pattern(text: &str) -> Result<Pattern, String> {
    let wrong = || {
        format!("\"{text}\" is no pattern of listeners: write udp:10.0.0.2:53, with * for any part")
    };
    let (protocol, rest) = text.split_once(':').ok_or_else(wrong)?;
    let (address, port) = rest.rsplit_once(':').ok_or_else(wrong)?;
    let address = address.strip_prefix('[').and_then(|v6| v6.strip_suffix(']')).unwrap_or(address);
    Ok(Pattern {
        protocol: any_or(protocol).map_err(|()| wrong())?,
        address: any_or(address).map_err(|()| wrong())?,
        port: any_or(port).map_err(|()| wrong())?,
    })
}

fn any_or<T: std::str::FromStr>(text: &str) -> Result<Option<T>, ()> {
    if text == "*" { Ok(None) } else { text.parse().map(Some).map_err(|_| ()) }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "apps.allow: {}", self.0)
    }
}

impl std::error::Error for RuleError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(texts: &[&str]) -> Result<Rules, RuleError> {
        let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
        Rules::parse(&texts, |name| (name == "www-data").then_some(33))
    }

    fn listener(text: &str) -> Listener {
        text.parse().expect("the test writes a listener")
    }

    #[test]
    fn the_first_rule_whose_user_fits_counts() {
        let rules = rules(&[
            "user:www-data listen=tcp:*:80,tcp:*:443 workers=2",
            "uid:0",
            "* listen=udp:10.0.0.2:* apps=1 packets_per_s=1000",
        ])
        .expect("well formed");
        let web = rules.of(33).expect("it has a rule");
        assert_eq!((web.workers, web.packets_per_s), (2, 0));
        assert!(web.may_listen(&listener("tcp:10.9.9.9:443")));
        assert!(!web.may_listen(&listener("udp:10.9.9.9:443")));
        assert!(rules.of(0).expect("root has one").may_listen(&listener("udp:0.0.0.0:0")));
        let anyone = rules.of(1000).expect("there is one for all others");
        assert_eq!((anyone.apps, anyone.packets_per_s), (1, 1000));
        assert!(anyone.may_listen(&listener("udp:10.0.0.2:5353")));
        assert!(!anyone.may_listen(&listener("udp:0.0.0.0:5353")), "more than it may have");
    }

    #[test]
    fn who_has_no_rule_may_do_nothing() {
        assert_eq!(rules(&["uid:0"]).expect("well formed").of(1000), None);
        assert_eq!(rules(&[]).expect("no rule at all").of(0), None);
    }

    #[test]
    fn a_port_in_a_pattern_is_not_every_port() {
        let rules = rules(&["* listen=udp:*:53,udp:[fd00::2]:7"]).expect("well formed");
        let rule = rules.of(1).expect("anyone");
        assert!(!rule.may_listen(&listener("udp:10.0.0.2:0")));
        assert!(rule.may_listen(&listener("udp:[fd00::2]:7")));
    }

    #[test]
    fn a_rule_that_cannot_be_read_is_quoted_with_what_is_wrong() {
        for (text, part) in [
            ("", "no user"),
            ("root", "uid:1000"),
            ("uid:x", "no number"),
            ("user:nobody-here", "no user"),
            ("* workers", "KEY=VALUE"),
            ("* workers=many", "no number"),
            ("* cpus=2", "memory_mib"),
            ("* listen=udp:53", "no pattern"),
        ] {
            let error = rules(&[text]).expect_err(text).to_string();
            assert!(error.contains(part) && error.contains("apps.allow"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,60}", word in "\\* [a-z_]{0,9}=[0-9a-z:*.,\\[\\]]{0,20}") {
            let _ = rules(&[&text]);
            let _ = rules(&[&word]);
        }
    }
}
