//! What the names of a script stand for.

use std::collections::BTreeMap;

use crate::script::Step;

/// What carries the bytes of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Tcp,
    Udp,
}

/// The sockets of a script, by name.
pub(super) struct Cast {
    protocols: BTreeMap<String, Protocol>,
    /// The name that a duplicate was made of.
    origins: BTreeMap<String, String>,
    /// Names without an origin.
    listeners: Vec<String>,
    subject: Option<String>,
}

impl Cast {
    /// Those of these calls; the last one is made on the subject.
    pub(super) fn of(steps: &[Step]) -> Self {
        let (protocols, origins) = (BTreeMap::new(), BTreeMap::new());
        let mut cast = Self { protocols, origins, listeners: Vec::new(), subject: None };
        let mut passed = None;
        for step in steps {
            let words: Vec<&str> = step.words().collect();
            cast.subject = words.get(1).map(|&word| word.to_owned());
            match words[..] {
                ["socket", name, kind, ..] if kind.starts_with("udp") => {
                    cast.is(name, Some(Protocol::Udp));
                }
                ["socket", name, ..] => cast.is(name, Some(Protocol::Tcp)),
                ["accept", _, name, ..] => cast.is(name, Some(Protocol::Tcp)),
                ["dup" | "dupfd" | "dup2", name, copy, ..] => cast.copy(name, copy),
                ["give", name, ..] => passed = Some(name.to_owned()),
                ["take", name, ..] => {
                    passed.take().iter().for_each(|passed: &String| cast.copy(passed, name));
                }
                ["listen", name, ..] => cast.listeners.push(cast.origin(name).to_owned()),
                _ => {}
            }
        }
        cast
    }

    fn is(&mut self, name: &str, protocol: Option<Protocol>) {
        if let Some(protocol) = protocol {
            self.protocols.insert(name.to_owned(), protocol);
        }
    }

    fn copy(&mut self, name: &str, copy: &str) {
        self.is(copy, self.protocol(name));
        let origin = self.origin(name).to_owned();
        self.origins.insert(copy.to_owned(), origin);
    }

    fn origin<'name>(&'name self, name: &'name str) -> &'name str {
        self.origins.get(name).map_or(name, String::as_str)
    }

    pub(super) fn protocol(&self, name: &str) -> Option<Protocol> {
        self.protocols.get(name).copied()
    }

    /// Whether any socket is of this protocol.
    pub(super) fn has(&self, protocol: Protocol) -> bool {
        self.protocols.values().any(|&one| one == protocol)
    }

    pub(super) fn is_listener(&self, name: &str) -> bool {
        self.listeners.iter().any(|listener| listener == self.origin(name) || listener == name)
    }

    /// Of the socket that the last call is made on.
    pub(super) fn subject_protocol(&self) -> Option<Protocol> {
        self.protocol(self.subject.as_deref()?)
    }
}
