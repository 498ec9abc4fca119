//! Whether the interfaces of our ports are still there.
//!
//! A port does not survive its interface: the kernel takes program and sockets with it, and one of
//! the same name that comes later is another. So it is said, and counted; the daemon has to be
//! started anew. Programs are served on the other ports, and by the kernel.

use std::collections::BTreeSet;

use crate::attach_server_counters::{AttachServerCounters, AttachServerEvent};

/// An interface of a port.
#[derive(Clone, Debug)]
struct Interface {
    number: u32,
    name: String,
    was_said: Said,
}

/// What was said of it last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    Gone,
    /// Another has its name.
    Replaced,
}

/// The interfaces of all ports.
#[derive(Debug)]
pub(super) struct Interfaces {
    all: Vec<Interface>,
    number_of: fn(&str) -> Option<u32>,
}

impl Interfaces {
    /// `names` with the numbers that they had when their ports were opened.
    pub(super) fn new(names: impl IntoIterator<Item = (u32, String)>) -> Self {
        // Several ports may be queues of one.
        let names: BTreeSet<(u32, String)> = names.into_iter().collect();
        let new = |(number, name)| Interface { number, name, was_said: Said::Nothing };
        Self { all: names.into_iter().map(new).collect(), number_of: sys::interface::index_of }
    }

    /// Links have changed: what is to be said about ours, each once.
    pub(super) fn look(&mut self, counters: &AttachServerCounters) -> Vec<String> {
        let mut sentences = Vec::new();
        for interface in &mut self.all {
            let Interface { number, name, was_said } = interface;
            let is = match (self.number_of)(name) {
                Some(now) if now == *number => Said::Nothing,
                Some(_) => Said::Replaced,
                None => Said::Gone,
            };
            if is == *was_said {
                continue;
            }
            if *was_said == Said::Nothing {
                counters.count(AttachServerEvent::InterfacesGone);
            }
            *was_said = is;
            sentences.push(match is {
                Said::Nothing => format!("the interface {name} of a port is there again"),
                Said::Gone => format!(
                    "the interface {name} of a port is gone: nothing comes or leaves there any more, \
                     and the kernel serves what would; start the daemon anew when it is back"
                ),
                Said::Replaced => format!(
                    "there is another interface {name} now, which is the kernel's: start the daemon \
                     anew to have it served"
                ),
            });
        }
        sentences
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Zero: there is none of that name.
    static NUMBER: AtomicU32 = AtomicU32::new(0);

    #[test]
    fn an_interface_that_goes_and_another_that_comes_are_said_once_each() {
        let counters = AttachServerCounters::default();
        let mut interfaces = Interfaces::new([(7, "eth7".to_owned())]);
        interfaces.number_of =
            |_| Some(NUMBER.load(Ordering::Relaxed)).filter(|number| *number > 0);
        let mut look = |number| {
            NUMBER.store(number, Ordering::Relaxed);
            let said = interfaces.look(&counters);
            assert_eq!(interfaces.look(&counters), [""; 0], "once");
            said.into_iter().next().unwrap_or_default()
        };
        assert_eq!(look(7), "");
        assert!(look(0).contains("eth7 of a port is gone"));
        assert!(look(9).contains("another interface eth7"));
        assert!(look(7).contains("there again"));
        let gone = counters.each().find(|(name, ..)| name == "attach_interfaces_gone");
        assert_eq!(gone.map(|(.., count)| count), Some(1));
    }
}
