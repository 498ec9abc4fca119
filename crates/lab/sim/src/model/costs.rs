//! What each thing costs, as measured, with its range and its source.

use crate::Range;

/// What the parts of the data plane take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// The dispatcher, for each packet: parse, verify, hash, one look at the owner table, a ring.
    pub dispatch: Range,
    /// A look into an exact table of flows, for each packet.
    pub flow_lookup: Range,
    /// A first packet's insertion into it.
    pub flow_insert: Range,
    /// A line of log for each packet that such a table has no room for.
    pub flow_log: Range,
    /// A worker, for each packet, besides what the application does.
    pub packet: Range,
    /// A flow's state is in another core's cache.
    pub cold: Range,
    /// From the grant of an idle core to the worker's first instruction.
    pub wake: Range,
    /// The same on a core that another worker has just left.
    pub switch: Range,
    /// A packet taken from another worker's ring.
    pub steal: Range,
    /// From a worker that is told to give its core back to the core being free.
    pub revoke: Range,
    /// The dispatcher's look at the load of 4096 groups; of fewer, in proportion.
    pub look: Range,
    /// A control tick, for each worker that holds a core: the dispatcher does nothing else
    /// meanwhile.
    pub tick: Range,
    /// What a client sees besides: wire, NIC, its own stack. The default is an echo's whole round
    /// trip, the dispatcher's and the worker's part of it included: some 0.6 us of it count twice.
    pub outside: Range,
}

/// A cost with its name and where its default comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedCost {
    /// The field's name.
    pub name: &'static str,
    /// Its value.
    pub range: Range,
    /// What measured the default; figures are those of docs/figures.
    pub source: &'static str,
}

impl Default for Costs {
    /// What this project's benchmarks found on two virtual CPUs: medians with the ranges of their
    /// rounds.
    fn default() -> Self {
        Self {
            dispatch: Range::nanos(37, 41, 47),
            flow_lookup: Range::nanos(60, 73, 110),
            flow_insert: Range::nanos(30, 53, 80),
            flow_log: Range::nanos(190, 2_000, 10_000),
            packet: Range::nanos(75, 570, 900),
            cold: Range::nanos(120, 500, 1_260),
            wake: Range::nanos(33_600, 37_600, 42_000),
            switch: Range::nanos(3_200, 3_200, 3_200),
            steal: Range::nanos(120, 252, 394),
            revoke: Range::nanos(12_100, 17_200, 24_700),
            look: Range::nanos(10_000, 20_000, 30_000),
            tick: Range::nanos(19, 20, 22),
            outside: Range::nanos(5_700, 5_900, 6_900),
        }
    }
}

impl Costs {
    /// Nothing costs anything: what is left is queues, which theory knows.
    pub const FREE: Self = Self {
        dispatch: Range::FREE,
        flow_lookup: Range::FREE,
        flow_insert: Range::FREE,
        flow_log: Range::FREE,
        packet: Range::FREE,
        cold: Range::FREE,
        wake: Range::FREE,
        switch: Range::FREE,
        steal: Range::FREE,
        revoke: Range::FREE,
        look: Range::FREE,
        tick: Range::FREE,
        outside: Range::FREE,
    };

    /// All of them, for a table of parameters.
    pub fn named(&self) -> Vec<NamedCost> {
        let mut copy = *self;
        let entries = copy.entries();
        entries.map(|(name, range, source)| NamedCost { name, range: *range, source }).to_vec()
    }

    /// Sets the cost of that name; false when there is none.
    pub fn set(&mut self, name: &str, range: Range) -> bool {
        let found = self.entries().into_iter().find(|(known, ..)| *known == name);
        found.map(|(_, field, _)| *field = range).is_some()
    }

    fn entries(&mut self) -> [(&'static str, &mut Range, &'static str); 13] {
        // Every field by name, so that a new one cannot be forgotten here.
        let Self {
            dispatch,
            flow_lookup,
            flow_insert,
            flow_log,
            packet,
            cold,
            wake,
            switch,
            steal,
            revoke,
            look,
            tick,
            outside,
        } = self;
        [
            ("dispatch", dispatch, "bench steer, rate: 24.3 Mpps (21.3 to 27.0) to the ring"),
            ("flow_lookup", flow_lookup, "bench steer, cost: rte_hash, later packets 73 ns"),
            ("flow_insert", flow_insert, "bench steer, cost: rte_hash, first packets 53 ns"),
            ("flow_log", flow_log, "assumed: from a bare system call to a line on a terminal"),
            (
                "packet",
                packet,
                "assumed: bench tcp, rpc, counts 1,220 to 1,711 instructions, at 1.2 to 0.7 a cycle; \
                 its 191 cycles for a request of a batch are the low end",
            ),
            ("cold", cold, "a line from core to core: 60, 126, 197 ns; 2, 4, 6.4 lines a flow"),
            ("wake", wake, "bench cores, grant: 37.6 us (33.6 to 42.0) to a halted CPU"),
            ("switch", switch, "futex switch on one CPU: 3.2 us"),
            ("steal", steal, "two lines from core to core: the ring's indexes and the packet"),
            ("revoke", revoke, "bench cores, reclaim: 20.4 us (15.3 to 27.9), less a switch"),
            ("look", look, "assumed within what was measured: 10 to 30 us for 4096 groups"),
            ("tick", tick, "bench cores, tick: 1.2 us for 64 workers, 5.4 us for 256"),
            (
                "outside",
                outside,
                "bench steer, echo: all of its 5.9 us; dispatch and packet count twice",
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cost_is_listed_with_a_source_and_can_be_set_by_its_name() {
        let mut costs = Costs::default();
        for NamedCost { name, range, source } in costs.named() {
            assert!(range.low <= range.median && range.median <= range.high, "{name} {range:?}");
            assert!(!source.is_empty(), "{name}");
            assert!(costs.set(name, Range::FREE), "{name}");
        }
        assert_eq!(costs, Costs::FREE);
        assert!(!costs.set("banana", Range::FREE));
    }
}
