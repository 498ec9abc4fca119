//! Ports that move nothing any more, and those that do again: a line in the log each time.

use base::Nanos;
use datapath::DispatcherPort;
use port::{AnyPort, Fault, Port};

use crate::log;

/// Time between two looks at the ports: soon enough for a person.
const EVERY: Nanos = Nanos::from_millis(100);

/// What was told of each port last.
#[derive(Debug, Default)]
pub(crate) struct PortFaults {
    told: Vec<Option<Fault>>,
    due: Nanos,
}

impl PortFaults {
    /// Tells what has changed since the last look, at most every 100 ms. `names` are the ports as
    /// they were configured, in the order of `ports`.
    #[inline]
    pub(crate) fn note(&mut self, now: Nanos, names: &[String], ports: &[DispatcherPort<AnyPort>]) {
        if now < self.due {
            return;
        }
        self.due = now + EVERY;
        let faults = ports.iter().map(|dispatcher_port| dispatcher_port.port().fault());
        self.changes(names, faults, log::warn);
    }

    fn changes(
        &mut self,
        names: &[String],
        faults: impl ExactSizeIterator<Item = Option<Fault>>,
        mut tell: impl FnMut(String),
    ) {
        self.told.resize(faults.len(), None);
        for ((told, fault), name) in self.told.iter_mut().zip(faults).zip(names) {
            if *told == fault {
                continue;
            }
            *told = fault;
            tell(match fault {
                Some(fault) => format!("port {name} moves nothing: {fault}"),
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
            faults.changes(&names, now.into_iter(), |line| lines.push(line));
            lines
        };
        assert!(told([None, None]).is_empty());
        let lines = told([None, Some(Fault::Vanished)]);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with("port xdp:eth2 moves nothing: the interface was removed"));
        assert!(told([None, Some(Fault::Vanished)]).is_empty());
        assert_eq!(told([None, None]), ["port xdp:eth2 works again"]);
    }
}
