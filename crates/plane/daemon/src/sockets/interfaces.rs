//! Whether the interfaces of our ports are still there, and which link addresses they have.
//!
//! The kernel takes the sockets of a port with its interface, and one of the same name that comes
//! later is another. It is said, and counted. An AF_XDP port goes on with the new one (see
//! `port_reopener.rs`), and everything that knows the old one by its number learns the new one
//! here; for another kind of port the daemon has to be started anew.

use std::collections::BTreeSet;

use crate::attach_server_counters::{AttachServerCounters, AttachServerEvent};

/// The interface of a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PortInterface {
    pub(crate) number: u32,
    pub(crate) name: String,
    /// Its port goes on with another interface of the name.
    pub(crate) comes_back: bool,
    /// Its link address, which packets of ours leave with; none: the port has one of its own.
    pub(crate) mac: Option<[u8; 6]>,
}

/// One that is watched.
#[derive(Clone, Debug)]
struct Interface {
    port: PortInterface,
    was_said: Said,
}

/// An interface that another one has taken the place of, or that has another link address: from and
/// to are the same then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) mac: [u8; 6],
}

/// What was said of it last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    Gone,
    /// Another has its name.
    Replaced,
}

/// Number and link address of an interface.
type Place = (u32, [u8; 6]);

/// The interfaces of all ports.
#[derive(Debug)]
pub(super) struct Interfaces {
    all: Vec<Interface>,
    /// Where the interface is that has a name now.
    find: fn(&str) -> Option<Place>,
}

impl Interfaces {
    /// `ports` as they were when the ports were opened.
    pub(super) fn new(ports: impl IntoIterator<Item = PortInterface>) -> Self {
        // Several ports may be queues of one.
        let ports: BTreeSet<PortInterface> = ports.into_iter().collect();
        let new = |port| Interface { port, was_said: Said::Nothing };
        let find =
            |name: &str| sys::interface::by_name(name).ok().map(|found| (found.index, found.mac));
        Self { all: ports.into_iter().map(new).collect(), find }
    }

    /// Links have changed: what is to be said about ours, each once, and which have another number
    /// or link address now.
    pub(super) fn look(&mut self, counters: &AttachServerCounters) -> (Vec<String>, Vec<Moved>) {
        let (mut sentences, mut moved) = (Vec::new(), Vec::new());
        for interface in &mut self.all {
            let Interface { port, was_said } = interface;
            let PortInterface { number, name, comes_back, mac: own } = port;
            let is = match (self.find)(name) {
                Some((now, mac)) if now == *number => {
                    if own.is_some_and(|own| own != mac) {
                        moved.push(Moved { from: now, to: now, mac });
                        *own = Some(mac);
                    }
                    Said::Nothing
                }
                Some((now, mac)) if *comes_back => {
                    moved.push(Moved { from: *number, to: now, mac });
                    (*number, *own) = (now, own.map(|_| mac));
                    // It may have been gone for so short a time that nobody looked.
                    if *was_said == Said::Nothing {
                        counters.count(AttachServerEvent::InterfacesGone);
                    }
                    Said::Nothing
                }
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
                    "the interface {name} of a port is gone: nothing comes or leaves there until it \
                     is back"
                ),
                Said::Replaced => format!(
                    "there is another interface {name} now, which is the kernel's: start the daemon \
                     anew to have it served"
                ),
            });
        }
        (sentences, moved)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

    use super::*;

    /// Zero: there is none of that name.
    static NUMBER: AtomicU32 = AtomicU32::new(0);

    #[test]
    fn an_interface_that_goes_and_another_that_comes_are_said_once_each() {
        let counters = AttachServerCounters::default();
        let find = |_: &str| {
            let number = NUMBER.load(Ordering::Relaxed);
            (number > 0).then_some((number, [2, 0, 0, 0, 0, number as u8]))
        };
        let mac = Some([2, 0, 0, 0, 0, 7]);
        let port =
            |comes_back| PortInterface { number: 7, name: "eth7".to_owned(), comes_back, mac };
        let mut interfaces = Interfaces::new([port(false)]);
        interfaces.find = find;
        let mut look = |number| {
            NUMBER.store(number, Ordering::Relaxed);
            let (said, moved) = interfaces.look(&counters);
            assert_eq!(moved, []);
            assert_eq!(interfaces.look(&counters).0, [""; 0], "once");
            said.into_iter().next().unwrap_or_default()
        };
        assert_eq!(look(7), "");
        assert!(look(0).contains("eth7 of a port is gone"));
        assert!(look(9).contains("another interface eth7"));
        assert!(look(7).contains("there again"));
        let gone = counters.each().find(|(name, ..)| name == "attach_interfaces_gone");
        assert_eq!(gone.map(|(.., count)| count), Some(1));

        NUMBER.store(7, Ordering::Relaxed);
        let mut following = Interfaces::new([port(true)]);
        following.find = find;
        let mut look = |number| {
            NUMBER.store(number, Ordering::Relaxed);
            following.look(&counters)
        };
        assert_eq!(look(0).0.len(), 1);
        let (said, moved) = look(9);
        assert!(said[0].contains("there again"), "{said:?}");
        assert_eq!(moved, [Moved { from: 7, to: 9, mac: [2, 0, 0, 0, 0, 9] }]);
        assert_eq!(look(9), (Vec::new(), Vec::new()), "once");
    }

    /// The last byte of the address of every interface.
    static LAST: AtomicU8 = AtomicU8::new(1);

    #[test]
    fn a_changed_link_address_is_told_once_unless_the_port_has_one_of_its_own() {
        let counters = AttachServerCounters::default();
        let mac = |last| [2, 0, 0, 0, 0, last];
        let port = |number, own| PortInterface {
            number,
            name: format!("eth{number}"),
            comes_back: false,
            mac: own,
        };
        let tap = port(8, None);
        let mut interfaces = Interfaces::new([port(7, Some(mac(1))), tap]);
        interfaces.find = |name| {
            let number = name.strip_prefix("eth")?.parse().ok()?;
            Some((number, [2, 0, 0, 0, 0, LAST.load(Ordering::Relaxed)]))
        };
        let mut look = |last| {
            LAST.store(last, Ordering::Relaxed);
            interfaces.look(&counters)
        };
        assert_eq!(look(1), (Vec::new(), Vec::new()));
        let moved = |last| vec![Moved { from: 7, to: 7, mac: mac(last) }];
        assert_eq!(look(2), (Vec::new(), moved(2)));
        assert_eq!(look(2), (Vec::new(), Vec::new()));
        assert_eq!(look(1), (Vec::new(), moved(1)), "and back again");
        let gone = counters.each().find(|(name, ..)| name == "attach_interfaces_gone");
        assert_eq!(gone.map(|(.., count)| count), Some(0));
    }
}
