//! Packet filters: what a port takes never reaches them.

use crate::Finding;
use crate::text::read;

/// The packet filters of our network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FirewallFacts {
    /// Rules of nftables, those of today's iptables command among them, and chains that drop
    /// without one; `None`: only root may count them.
    pub rules: Option<usize>,
    /// Tables of the old iptables that are in use; empty: none, or only root may see them.
    pub old_tables: Vec<String>,
}

pub(crate) fn gather() -> FirewallFacts {
    let files = ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"];
    let names = files.into_iter().filter_map(read).collect::<String>();
    let mut old_tables: Vec<String> = names.lines().map(str::to_owned).collect();
    old_tables.sort();
    old_tables.dedup();
    FirewallFacts {
        rules: sys::nftables::guards().ok().map(|of| of.rules + of.dropping_chains),
        old_tables,
    }
}

const SUBJECT: &str = "packet filter";

/// What that means.
pub(crate) fn judge(facts: &FirewallFacts) -> Vec<Finding> {
    vec![match found(facts) {
        Some(found) => Finding::note(SUBJECT, found)
            .cost("packets that a port takes pass by all of them, also by those that would drop them")
            .mend("look whether one was meant for what is served: nft list ruleset (iptables-legacy -S)"),
        None if facts.rules.is_none() => unseen()
            .cost("packets that a port takes pass by all of them"),
        None => Finding::fine(SUBJECT, "has no rules that packets could pass by"),
    }]
}

/// What it means for the sockets of a program that starts here.
pub(crate) fn judge_for_program(facts: &FirewallFacts) -> Finding {
    match found(facts) {
        Some(found) => Finding::missing(SUBJECT, found)
            .cost(
                "the daemon leaves sockets to the kernel where there are any, unless its \
                 `sockets.ignore_firewall` is true",
            )
            .mend("look whether one was meant for the program: nft list ruleset"),
        None if facts.rules.is_none() => {
            unseen().cost("where there are any, the daemon leaves sockets to the kernel")
        }
        None => Finding::fine(SUBJECT, "has no rules that packets could pass by"),
    }
}

fn unseen() -> Finding {
    Finding::note(SUBJECT, "rules can be counted by root only").mend("sudo nft list ruleset")
}

/// The filters that there are, for people.
fn found(facts: &FirewallFacts) -> Option<String> {
    let mut found = Vec::new();
    if let Some(rules @ 1..) = facts.rules {
        found.push(format!("{rules} rules of nftables"));
    }
    if !facts.old_tables.is_empty() {
        found.push(format!("iptables-legacy tables {}", facts.old_tables.join(", ")));
    }
    (!found.is_empty()).then(|| found.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    #[test]
    fn rules_are_told_because_packets_pass_them_by() {
        let facts = FirewallFacts { rules: Some(12), old_tables: vec!["filter".to_owned()] };
        let finding = &judge(&facts)[0];
        assert_eq!(finding.level, Level::Note);
        assert_eq!(finding.what, "12 rules of nftables, iptables-legacy tables filter");
    }

    #[test]
    fn rules_keep_a_programs_sockets_with_the_kernel_and_unseen_ones_may() {
        let level = |rules, tables: &[&str]| {
            let old_tables = tables.iter().map(|&table| table.to_owned()).collect();
            judge_for_program(&FirewallFacts { rules, old_tables }).level
        };
        assert_eq!(level(Some(1), &[]), Level::Missing);
        assert_eq!(level(None, &["filter"]), Level::Missing);
        assert_eq!(level(None, &[]), Level::Note);
        assert_eq!(level(Some(0), &[]), Level::Fine);
    }

    #[test]
    fn no_rules_and_no_right_to_see_them_differ() {
        let none = FirewallFacts { rules: Some(0), ..FirewallFacts::default() };
        assert_eq!(judge(&none)[0].level, Level::Fine);
        assert_eq!(judge(&FirewallFacts::default())[0].level, Level::Note);
    }
}
