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

/// What that means.
pub(crate) fn judge(facts: &FirewallFacts) -> Vec<Finding> {
    let subject = "packet filter";
    let mut found = Vec::new();
    if let Some(rules @ 1..) = facts.rules {
        found.push(format!("{rules} rules of nftables"));
    }
    if !facts.old_tables.is_empty() {
        found.push(format!("iptables-legacy tables {}", facts.old_tables.join(", ")));
    }
    vec![if !found.is_empty() {
        Finding::note(subject, found.join(", "))
            .cost("packets that a port takes pass by all of them, also by those that would drop them")
            .mend("look whether one was meant for what is served: nft list ruleset (iptables-legacy -S)")
    } else if facts.rules.is_none() {
        Finding::note(subject, "rules can be counted by root only")
            .cost("packets that a port takes pass by all of them")
            .mend("sudo nft list ruleset")
    } else {
        Finding::fine(subject, "has no rules that packets could pass by")
    }]
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
    fn no_rules_and_no_right_to_see_them_differ() {
        let none = FirewallFacts { rules: Some(0), ..FirewallFacts::default() };
        assert_eq!(judge(&none)[0].level, Level::Fine);
        assert_eq!(judge(&FirewallFacts::default())[0].level, Level::Note);
    }
}
