//! All findings together.

use std::fmt::Write;

use serde::Serialize;

use crate::{Finding, Level};

/// What was found on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// In the order in which they are read best: the machine, its interfaces, what was measured.
    pub findings: Vec<Finding>,
}

impl Report {
    /// A line for each finding (level, subject, how it is; what it costs: what mends it), and one
    /// that counts them.
    pub fn table(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            writeln!(text, "{finding}").expect("a String takes everything");
        }
        let count = |level| self.findings.iter().filter(|finding| finding.level == level).count();
        let (fine, note) = (count(Level::Fine), count(Level::Note));
        let (worse, missing) = (count(Level::Worse), count(Level::Missing));
        writeln!(text, "{fine} fine, {note} to know, {worse} worse, {missing} missing")
            .expect("a String takes everything");
        text
    }

    /// Whether some port of some interface can be opened here.
    pub fn exit_ok(&self) -> bool {
        !self.findings.iter().any(|finding| finding.blocks_ports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_it_is_what_it_costs_and_what_mends_it() {
        let findings = vec![
            Finding::fine("kernel", "6.12: all there"),
            Finding::worse("eth1 mtu", "9000")
                .cost("refused")
                .mend("ip link set dev eth1 mtu 3498"),
        ];
        assert_eq!(
            Report { findings }.table(),
            "fine    kernel 6.12: all there\n\
             worse   eth1 mtu 9000; refused: ip link set dev eth1 mtu 3498\n\
             1 fine, 0 to know, 1 worse, 0 missing\n"
        );
    }

    #[test]
    fn only_what_makes_every_port_impossible_is_a_failure() {
        let missing = Finding::missing("rights", "CAP_NET_ADMIN");
        let report = |finding: Finding| Report { findings: vec![finding] };
        assert!(report(missing.clone()).exit_ok());
        assert!(!report(missing.blocks_ports()).exit_ok());
    }
}
