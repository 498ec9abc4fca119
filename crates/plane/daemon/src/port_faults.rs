//! Ports that move nothing any more, and those that do again: a line in the log each time.

use std::sync::mpsc::Receiver;

use base::Nanos;
use datapath::DispatcherPort;
use port::{AnyPort, Fault, Port};
use shm::FramePool;

use crate::log;
use crate::port_reopener::Returned;

/// Time between two looks at the ports: soon enough for a person.
const EVERY: Nanos = Nanos::from_millis(100);

/// What was told of each port last, and what comes back.
#[derive(Debug, Default)]
pub(crate) struct PortFaults {
    told: Vec<Option<Fault>>,
    due: Nanos,
    /// Sockets of ports whose interface is there again; absent: nobody looks after them.
    pub(crate) returned: Option<Receiver<Returned>>,
}

impl PortFaults {
    /// Whether it is time for [`Self::note`]: every 100 ms.
    #[inline]
    pub(crate) fn is_due(&mut self, now: Nanos) -> bool {
        let is_due = now >= self.due;
        if is_due {
            self.due = now + EVERY;
        }
        is_due
    }

    /// Goes on with the ports that have come back, and tells what has changed since the last look.
    /// `names` are the ports as they were configured, in the order of `ports`.
    pub(crate) fn note(
        &mut self,
        names: &[String],
        ports: &mut [DispatcherPort<AnyPort>],
        pool: &mut FramePool,
    ) {
        // Closing the old sockets takes the kernel some milliseconds, in which other ports wait:
        // once for each time that an interface comes back.
        for Returned { port: number, sockets } in self.returned.iter().flat_map(Receiver::try_iter)
        {
            let Some(dispatcher_port) = ports.get_mut(number) else { continue };
            let Some(port) = dispatcher_port.port_mut().as_xdp_mut() else { continue };
            if let Err(error) = port.go_on(sockets, pool) {
                let port = names[number].as_str();
                tracing::warn!(target: log::PORTS, port, "it receives nothing: {error}");
            }
        }
        let faults = ports.iter().map(|dispatcher_port| {
            let port = dispatcher_port.port();
            (port.fault(), port.capabilities().name.as_str())
        });
        self.changes(names, faults, |text| tracing::warn!(target: log::PORTS, "{text}"));
    }

    /// `faults` are what is wrong with each port, and its interface.
    fn changes<'a>(
        &mut self,
        names: &[String],
        faults: impl ExactSizeIterator<Item = (Option<Fault>, &'a str)>,
        mut tell: impl FnMut(String),
    ) {
        self.told.resize(faults.len(), None);
        for ((told, (fault, interface)), name) in self.told.iter_mut().zip(faults).zip(names) {
            if *told == fault {
                continue;
            }
            *told = fault;
            tell(match fault {
                Some(fault) => format!("port {name} moves nothing: {}", fault.of(interface)),
                None => format!("port {name} works again"),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_vanishes_is_told_once_and_so_is_its_return() {
        let names = ["xdp:eth1".to_owned(), "xdp:eth2".to_owned()];
        let mut faults = PortFaults::default();
        let mut told = |now: [Option<Fault>; 2]| {
            let mut lines = Vec::new();
            let now = now.into_iter().zip(["eth1", "eth2"]);
            faults.changes(&names, now, |line| lines.push(line));
            lines
        };
        assert!(told([None, None]).is_empty());
        let lines = told([None, Some(Fault::Vanished)]);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with("port xdp:eth2 moves nothing: the interface was removed"));
        assert!(told([None, Some(Fault::Vanished)]).is_empty());
        assert_eq!(told([None, None]), ["port xdp:eth2 works again"]);
        let lines = told([Some(Fault::Down), None]);
        assert!(lines[0].ends_with("`ip link set dev eth1 up`"), "{lines:?}");
    }
}
