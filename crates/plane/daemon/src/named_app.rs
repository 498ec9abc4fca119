//! Which application an operator means. There are two kinds, and each counts from 1.

use admin::AppStatus;

/// What stands before a name or number where both kinds have one. No name has a colon in it.
const IN_PACKET_MODE: &str = "packet:";
const BY_SOCKETS: &str = "sockets:";

/// The application that is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedApp {
    /// Number of one that is given packets.
    InPacketMode(u32),
    /// Number of a program whose sockets are served.
    BySockets(u32),
}

impl NamedApp {
    fn of(app: &AppStatus) -> Self {
        match app.served {
            Some(_) => Self::BySockets(app.id),
            None => Self::InPacketMode(app.id),
        }
    }

    /// As an operator can write it: it means no other.
    fn unique(self) -> String {
        match self {
            Self::InPacketMode(number) => format!("{IN_PACKET_MODE}{number}"),
            Self::BySockets(number) => format!("{BY_SOCKETS}{number}"),
        }
    }

    /// Looks for `text` among `apps`: a name or a number, with or without the kind before it. One
    /// kind's number is meant before a name that looks like it.
    ///
    /// # Errors
    /// There is none, or there are several, which are named.
    pub(crate) fn find(apps: &[AppStatus], text: &str) -> Result<Self, String> {
        let (is_served, word) = match text.strip_prefix(IN_PACKET_MODE) {
            Some(word) => (Some(false), word),
            None => match text.strip_prefix(BY_SOCKETS) {
                Some(word) => (Some(true), word),
                None => (None, text),
            },
        };
        let of_kind = |app: &&AppStatus| {
            app.state != "gone" && is_served.is_none_or(|is_it| is_it == app.served.is_some())
        };
        let is_number = |app: &&AppStatus| app.id.to_string() == word;
        let candidates = || apps.iter().filter(of_kind);
        let numbered = candidates().find(is_number).filter(|_| is_served.is_some());
        let meant: Vec<&AppStatus> = match numbered {
            Some(app) => vec![app],
            None => candidates().filter(|app| app.name == word || is_number(app)).collect(),
        };
        let shown = base::printable(text, 40);
        match meant[..] {
            [] => Err(format!("no application \"{shown}\" is attached: see `calisto apps`")),
            [app] => Ok(Self::of(app)),
            _ => Err(format!(
                "{} applications are meant by \"{shown}\": write one of {}",
                meant.len(),
                list(&meant)
            )),
        }
    }
}

/// Candidates named in one message, at most.
const NAMED_MAX: usize = 8;

fn list(meant: &[&AppStatus]) -> String {
    let name = |app: &&AppStatus| {
        let unique = NamedApp::of(app).unique();
        format!("{unique} ({}, process {})", base::printable(&app.name, 40), app.pid)
    };
    let named: Vec<String> = meant.iter().take(NAMED_MAX).map(name).collect();
    let rest = meant.len().saturating_sub(NAMED_MAX);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    named.join(", ") + &more
}

#[cfg(test)]
mod tests {
    use admin::{AppLimits, ServedSockets};

    use super::*;

    fn app(name: &str, id: u32, is_served: bool) -> AppStatus {
        let served = ServedSockets { sockets: 1, pids: vec![7], profile: "latency".to_owned() };
        AppStatus {
            name: name.to_owned(),
            id,
            pid: 100 + id,
            uid: 1000,
            state: "attached".to_owned(),
            reason: None,
            listen: Vec::new(),
            workers: Vec::new(),
            region_bytes: 0,
            frames: 0,
            frames_with_app: 0,
            limits: AppLimits::default(),
            served: is_served.then_some(served),
            counters: Vec::new(),
        }
    }

    #[test]
    fn a_number_that_both_kinds_have_is_refused_with_a_way_to_name_each() {
        let apps = [app("dns", 1, false), app("redis", 1, true), app("web", 2, true)];
        let refused = NamedApp::find(&apps, "1").expect_err("two are meant");
        let said = "2 applications are meant by \"1\": write one of packet:1 (dns, process 101), \
                    sockets:1 (redis, process 101)";
        assert_eq!(refused, said);
        for (text, meant) in [
            ("packet:1", NamedApp::InPacketMode(1)),
            ("sockets:1", NamedApp::BySockets(1)),
            ("sockets:redis", NamedApp::BySockets(1)),
            ("dns", NamedApp::InPacketMode(1)),
            ("2", NamedApp::BySockets(2)),
        ] {
            assert_eq!(NamedApp::find(&apps, text), Ok(meant), "{text}");
        }
    }

    #[test]
    fn a_name_that_looks_like_anothers_number_keeps_nobody_from_being_named() {
        let apps = [app("3", 9, true), app("web", 3, true), app("web", 4, true)];
        let refused = NamedApp::find(&apps, "3").expect_err("two are meant");
        assert!(refused.contains("sockets:9 (3, ") && refused.contains("sockets:3 (web, "));
        assert_eq!(NamedApp::find(&apps, "sockets:3"), Ok(NamedApp::BySockets(3)));
        assert_eq!(NamedApp::find(&apps, "sockets:9"), Ok(NamedApp::BySockets(9)));
        assert!(NamedApp::find(&apps, "sockets:web").is_err(), "two are called so");
    }

    #[test]
    fn who_is_gone_or_of_the_other_kind_is_not_meant() {
        let gone = AppStatus { state: "gone".to_owned(), ..app("dns", 1, false) };
        let apps = [app("redis", 1, true), gone];
        assert_eq!(NamedApp::find(&apps, "1"), Ok(NamedApp::BySockets(1)));
        for text in ["dns", "packet:1", "packet:redis", "2", "", "sockets:"] {
            let refused = NamedApp::find(&apps, text).expect_err(text);
            assert!(refused.contains("is attached: see `calisto apps`"), "{refused}");
        }
    }

    #[test]
    fn many_of_one_name_are_not_all_named() {
        let apps: Vec<AppStatus> = (1..=20).map(|id| app("web", id, true)).collect();
        let refused = NamedApp::find(&apps, "web").expect_err("twenty are meant");
        assert!(refused.starts_with("20 applications") && refused.ends_with("and 12 more"));
    }
}
