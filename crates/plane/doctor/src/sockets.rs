//! What sockets of programs that run on the data plane need of the kernel beside it.

use crate::Finding;
use crate::text::read;

/// What was found in our network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SocketFacts {
    /// Whether the kernel tells when the last copy of a socket is closed; `None`: it could not be
    /// tried.
    pub ends_are_told: Option<bool>,
    /// The first and the last port that a program gets which asks for none.
    pub ports: Option<(u16, u16)>,
}

/// As many ports as the kernel comes with, 32768 to 60999.
const PORTS: u32 = 28_232;

pub(crate) fn gather() -> SocketFacts {
    SocketFacts {
        ends_are_told: sys::socket_end::SocketEnds::works().ok(),
        ports: read("/proc/sys/net/ipv4/ip_local_port_range").and_then(|text| range(&text)),
    }
}

/// Reads "32768\t60999".
fn range(text: &str) -> Option<(u16, u16)> {
    let mut words = text.split_whitespace();
    let (first, last) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (first <= last).then_some((first, last))
}

/// What that means.
pub(crate) fn judge(facts: &SocketFacts) -> Vec<Finding> {
    vec![ends(facts.ends_are_told), ports(facts.ports)]
}

fn ends(are_told: Option<bool>) -> Finding {
    let subject = "socket ends";
    let cost = "a socket that a program of `calisto run` leaves to its end, or shares with other \
                processes, keeps its connection until all of them have ended";
    let mend = "modprobe inet_diag tcp_diag udp_diag, or a kernel with CONFIG_INET_DIAG";
    match are_told {
        Some(true) => Finding::fine(subject, "are told by the kernel (SOCK_DIAG)"),
        Some(false) => Finding::worse(subject, "are not told by the kernel").cost(cost).mend(mend),
        None => Finding::worse(subject, "cannot be asked for: there is no SOCK_DIAG")
            .cost(cost)
            .mend(mend),
    }
}

fn ports(range: Option<(u16, u16)>) -> Finding {
    let subject = "net.ipv4.ip_local_port_range";
    let Some((first, last)) = range else {
        return Finding::note(subject, "cannot be read here");
    };
    let count = u32::from(last - first) + 1;
    let what = format!("{first} to {last}: {count} ports");
    if count >= PORTS {
        return Finding::fine(subject, what);
    }
    Finding::note(subject, what)
        .cost("a client has no more connections from one address of ours")
        .mend(format!("sysctl -w {subject}=\"32768 60999\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    #[test]
    fn a_kernel_that_does_not_tell_of_ends_costs_something_and_can_be_mended() {
        for are_told in [Some(false), None] {
            let finding = ends(are_told);
            assert_eq!(finding.level, Level::Worse);
            assert!(finding.mend.is_some_and(|mend| mend.contains("inet_diag")));
        }
        assert_eq!(ends(Some(true)).level, Level::Fine);
    }

    #[test]
    fn fewer_ports_than_the_kernel_comes_with_are_noted_with_their_number() {
        assert_eq!(ports(Some((32_768, 60_999))).level, Level::Fine);
        assert_eq!(ports(Some((1024, 65_535))).level, Level::Fine);
        let few = ports(Some((40_000, 40_999)));
        assert_eq!((few.level, few.what.as_str()), (Level::Note, "40000 to 40999: 1000 ports"));
        assert_eq!(ports(None).level, Level::Note);
    }

    #[test]
    fn a_range_is_two_ports_in_their_order() {
        assert_eq!(range("32768\t60999\n"), Some((32_768, 60_999)));
        for text in ["", "1", "2 1", "1 70000", "a b"] {
            assert_eq!(range(text), None, "{text:?}");
        }
    }
}
