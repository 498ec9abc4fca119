//! What either server counts of TCP: our engines by the admin socket, Linux by /proc.

use admin::{Command, ReplyBody};
use cli::daemon::Daemon;
use cli::failure::Failure;
use testbed::Side;

/// Counts of one server, since its start or between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Segments that came in.
    pub(super) received: u64,
    /// Of those, how many our engines did on the fast path. Linux does not tell.
    pub(super) fast: Option<u64>,
    /// Segments that went out.
    pub(super) transmitted: u64,
    /// Segments that went out again.
    pub(super) again: u64,
}

impl Counts {
    /// What the engines of the daemon have counted.
    pub(super) fn of_daemon(daemon: &Daemon) -> Result<Self, Failure> {
        let threads = match daemon.ask(Command::Stats)? {
            ReplyBody::Stats { threads } => threads,
            other => return Err(daemon.unexpected(&other)),
        };
        let sum = |name: &str| {
            let all = threads.iter().flat_map(|thread| &thread.counters);
            all.filter(|counter| counter.name == name).map(|counter| counter.value).sum()
        };
        Ok(Self {
            received: sum("tcp_received"),
            fast: Some(sum("tcp_fast")),
            transmitted: sum("tcp_transmitted"),
            again: sum("tcp_retransmitted"),
        })
    }

    /// What the kernel of `side` has counted.
    pub(super) fn of_linux(side: &Side) -> Result<Self, Failure> {
        // /proc/net shows the namespace of the thread that looks.
        let read = || std::fs::read_to_string("/proc/thread-self/net/snmp");
        let text = side.enter(read).map_err(Failure::new)?;
        let text = text.map_err(|error| {
            Failure::new(format!("cannot read what Linux counts of TCP: {error}"))
        })?;
        of_snmp(&text).ok_or_else(|| Failure::new("Linux does not say what it counts of TCP"))
    }

    /// What came since `before`.
    pub(super) fn since(self, before: Self) -> Self {
        let fast = self.fast.zip(before.fast);
        Self {
            received: self.received.saturating_sub(before.received),
            fast: fast.map(|(now, then)| now.saturating_sub(then)),
            transmitted: self.transmitted.saturating_sub(before.transmitted),
            again: self.again.saturating_sub(before.again),
        }
    }

    /// Both together.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            received: self.received + other.received,
            fast: self
                .fast
                .or(other.fast)
                .map(|_| self.fast.unwrap_or_default() + other.fast.unwrap_or_default()),
            transmitted: self.transmitted + other.transmitted,
            again: self.again + other.again,
        }
    }
}

/// The lines of TCP in the text of /proc/net/snmp: names, then values.
fn of_snmp(text: &str) -> Option<Counts> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |wanted: &str| {
        let mut fields = names.split(' ').zip(values.split(' '));
        fields.find(|(name, _)| *name == wanted)?.1.parse().ok()
    };
    let again = value("RetransSegs")?;
    Some(Counts {
        received: value("InSegs")?,
        fast: None,
        // Without those that go out again.
        transmitted: value("OutSegs")? + again,
        again,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counts_are_found_by_their_names() {
        let text = "Ip: Forwarding\nIp: 1\nTcp: RtoMin MaxConn InSegs OutSegs RetransSegs\n\
                    Tcp: 200 -1 70 60 5\nUdp: InDatagrams\nUdp: 9\n";
        let counts = of_snmp(text).expect("it is whole");
        assert_eq!(counts, Counts { received: 70, fast: None, transmitted: 65, again: 5 });
        for text in ["", "Tcp: InSegs\n", "Tcp: InSegs OutSegs\nTcp: 1 2\n"] {
            assert_eq!(of_snmp(text), None, "{text}");
        }
    }

    #[test]
    fn counts_are_taken_between_two_looks_and_summed_over_rounds() {
        let before = Counts { received: 10, fast: Some(9), transmitted: 5, again: 1 };
        let after = Counts { received: 30, fast: Some(28), transmitted: 15, again: 1 };
        let round = after.since(before);
        assert_eq!(round, Counts { received: 20, fast: Some(19), transmitted: 10, again: 0 });
        assert_eq!(Counts::default().plus(round), round);
        assert_eq!(round.plus(round).fast, Some(38));
    }
}
