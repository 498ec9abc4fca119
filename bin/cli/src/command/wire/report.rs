//! What the wire has done: a table for people, an object for scripts.

use port::faulty::LineCounters;
use port::{AnyPort, Port, PortCounters, PortSpec};
use serde_json::{Map, Value, json};

use super::bridge::Bridge;
use crate::table::{Cell, Table};

/// What the wire has done.
pub(super) struct Report {
    pub(super) ends: [String; 2],
    pub(super) seconds: f64,
    pub(super) lines: [LineCounters; 2],
    pub(super) ports: [PortCounters; 2],
    pub(super) completed: [u64; 2],
}

impl Report {
    pub(super) fn of(ends: [&PortSpec; 2], bridge: &Bridge<AnyPort>, seconds: f64) -> Self {
        Self {
            ends: ends.map(ToString::to_string),
            seconds,
            lines: bridge.lines().map(Clone::clone),
            ports: bridge.ports().map(Port::counters),
            completed: bridge.checksums_completed(),
        }
    }

    /// Packets too long for us or for the far link, in each direction.
    fn oversize(&self) -> [u64; 2] {
        let [a, b] = &self.ports;
        [a.rx_oversize + b.tx_oversize, b.rx_oversize + a.tx_oversize]
    }

    /// What happened to packets apart from the line: name, help, and for each direction a value.
    fn others(&self) -> [(&'static str, [u64; 2]); 4] {
        let [a, b] = &self.ports;
        let sent = |port: &PortCounters| port.tx_refused + port.tx_errors;
        let missed = |port: &PortCounters| {
            port.rx_no_frame + port.rx_ring_full + port.rx_fill_empty + port.rx_kernel_dropped
        };
        [
            ("checksums_completed", self.completed),
            ("oversize_dropped", self.oversize()),
            ("not_received", [missed(a), missed(b)]),
            ("not_sent", [sent(b), sent(a)]),
        ]
    }

    pub(super) fn json(&self) -> Value {
        let way = |way: usize| {
            let line = self.lines[way].each();
            let effects = line.iter().map(|&(name, value, _)| (name, value));
            let others = self.others().map(|(name, values)| (name, values[way]));
            let all = effects.chain(others);
            Value::Object(
                all.map(|(name, value)| (name.to_owned(), value.into())).collect::<Map<_, _>>(),
            )
        };
        let [a, b] = &self.ends;
        json!({
            "a": a, "b": b, "seconds": self.seconds, "a_to_b": way(0), "b_to_a": way(1),
        })
    }

    pub(super) fn text(&self) -> String {
        let [a, b] = &self.ends;
        let mut table = Table::new(["packets", "A -> B", "B -> A", "what it counts"]);
        let [ab, ba] = [self.lines[0].each(), self.lines[1].each()];
        for (&(name, there, help), (_, back, _)) in ab.iter().zip(ba) {
            table.row([name.into(), there.into(), back.into(), help.into()]);
        }
        for (name, [there, back]) in self.others() {
            let help = match name {
                "checksums_completed" => "Packets whose checksum their sender had left open.",
                "oversize_dropped" => "Packets too long for a frame or for the far link.",
                "not_received" => "Packets that arrived and that we were too slow for.",
                _ => "Packets that the far port could not send.",
            };
            table.row([name.into(), there.into(), back.into(), Cell::from(help)]);
        }
        let mut text = format!("A = {a}, B = {b}, {:.1} s\n\n{}", self.seconds, table.render());
        for (end, _) in self.ends.iter().zip(self.oversize()).filter(|(_, dropped)| *dropped > 0) {
            text += &format!(
                "\n{end}: what sends here makes packets that no link carries; on its interface: \
                 ethtool -K INTERFACE tso off gso off gro off\n"
            );
        }
        text
    }
}
