//! A firewall to which each packet begins a connection.

use base::Nanos;
use shm::Batch;
use wire::checksum;

use crate::{Firewall, Function, Verdicts};

/// Bytes before the ports of a UDP packet over IPv4, and before its checksum.
const PORTS: usize = 34;
const SUM: usize = 40;

/// The firewall, and what the next packet is made different by.
pub(super) struct Fresh {
    firewall: Firewall,
    next: u16,
}

impl Fresh {
    /// Over one that permits everything.
    pub(super) const fn new(firewall: Firewall) -> Self {
        Self { firewall, next: 0 }
    }

    /// Connections that it has.
    #[cfg(test)]
    pub(super) fn connections(&self) -> usize {
        self.firewall.connections()
    }
}

impl Function for Fresh {
    fn name(&self) -> &'static str {
        "firewall"
    }

    fn process(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos) {
        for (_, frame, _) in verdicts.undecided(batch) {
            self.next = self.next.wrapping_add(1);
            let Some([p0, p1, .., s0, s1]) = frame.bytes_mut().get_mut(PORTS..SUM + 2) else {
                continue;
            };
            let sum = checksum::update(
                u16::from_be_bytes([*s0, *s1]),
                u16::from_be_bytes([*p0, *p1]),
                self.next,
            );
            ([*p0, *p1], [*s0, *s1]) = (self.next.to_be_bytes(), sum.to_be_bytes());
        }
        self.firewall.process(batch, verdicts, now);
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, &'static str, u64)) {
        self.firewall.counters(each);
    }
}
