//! A rule about connections, as it is written and as packets are held against it.

use std::fmt;

use crate::acl::Action;
use crate::selector::{Compiled, Key};
use crate::{Prefix, Selector, SelectorError};

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirewallRule {
    /// What becomes of connections that match.
    pub action: Action,
    /// The zone that they begin in, by its place.
    pub from: Option<usize>,
    /// Protocol and ports, and addresses where there are no groups.
    pub selector: Selector,
    /// Where they come from, if not as the selector says.
    pub sources: Vec<Prefix>,
    /// Where they go to, likewise.
    pub destinations: Vec<Prefix>,
}

#[derive(Debug)]
pub(super) struct CompiledRule {
    pub(super) action: Action,
    from: Option<u8>,
    /// It matches where one of them does.
    pub(super) selectors: Vec<Compiled>,
}

impl CompiledRule {
    pub(super) fn matches(&self, key: &Key, zone: Option<u8>) -> bool {
        (self.from.is_none() || self.from == zone)
            && self.selectors.iter().any(|selector| selector.matches(key))
    }
}

/// Writes out the groups of a rule: each source with each destination of its version.
pub(super) fn compile(rule: &FirewallRule) -> Result<CompiledRule, SelectorError> {
    let either = |group: &[Prefix], own: Option<Prefix>| match group {
        [] => vec![own],
        group => group.iter().copied().map(Some).collect(),
    };
    let sources = either(&rule.sources, rule.selector.source);
    let destinations = either(&rule.destinations, rule.selector.destination);
    let mut selectors = Vec::new();
    let mut refused = Ok(());
    for source in &sources {
        for destination in &destinations {
            let selector = Selector { source: *source, destination: *destination, ..rule.selector };
            match selector.compile() {
                Ok(compiled) => selectors.push(compiled),
                Err(error) => refused = Err(error),
            }
        }
    }
    // Of two groups some pairs may be of two versions; a rule of which nothing is left is wrong.
    if selectors.is_empty() {
        refused?;
    }
    Ok(CompiledRule { action: rule.action, from: rule.from.map(|zone| zone as u8), selectors })
}

impl fmt::Display for FirewallRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.action, self.selector)?;
        for (what, group) in [("sources", &self.sources), ("destinations", &self.destinations)] {
            if let Some(first) = group.first() {
                write!(f, ", {what} {first} and {} more", group.len() - 1)?;
            }
        }
        self.from.map_or(Ok(()), |zone| write!(f, ", from zone {}", zone + 1))
    }
}
