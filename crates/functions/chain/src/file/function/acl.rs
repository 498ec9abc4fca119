//! `kind = "acl"`.

use calisto_nf::Acl;
use calisto_nf::acl::{AclError, Action, RULES_MAX, Rule};

use port::PortSpec;

use super::selector;
use crate::file::FileError;
use crate::file::section::{Section, Source, word};
use crate::file::slice::SlicePart;

/// Rules, and what becomes of packets that none matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclPart {
    /// In the order in which they are looked at.
    pub rules: Vec<Rule>,
    /// For IP packets.
    pub default: Action,
    /// For frames that hold no IP packet.
    pub not_ip: Action,
    /// Whether they are for what is for this host, too.
    pub guards_host: bool,
}

const ACTIONS: &[&str] = &["permit", "deny"];

pub(super) fn read(section: &mut Section<'_>) -> Result<AclPart, FileError> {
    let default = section.optional("default", word(ACTIONS))?.map_or(Action::Deny, action);
    let not_ip = section.optional("not_ip", word(ACTIONS))?.map_or(Action::Permit, action);
    let host = section.optional("host", word(&["kernel", "judge"]))?;
    let rules = section.sections("rules", 0..=RULES_MAX, |rule| {
        let said = rule.required("action", "action = \"permit\"", word(ACTIONS))?;
        Ok(Rule { action: action(said), selector: selector::read(rule)? })
    })?;
    let (rules, lines): (Vec<Rule>, Vec<usize>) = rules.into_iter().unzip();
    Acl::new(&rules, default, not_ip).map_err(|wrong| match wrong {
        AclError::Rule { index, error } => {
            section.error_at(lines.get(index).copied(), "rules", error.to_string())
        }
        wrong @ AclError::TooMany(_) => section.error("rules", wrong.to_string()),
    })?;
    Ok(AclPart { rules, default, not_ip, guards_host: host == Some(1) })
}

/// Who guards the host has to say what the chain takes.
pub(super) fn agree(
    source: &Source<'_>,
    line: usize,
    slices: &[(SlicePart, usize)],
    has_router: bool,
    acl: &AclPart,
) -> Result<(), FileError> {
    let wrong = |says: &str| Err(source.error(Some(line), "function.host", says.to_owned()));
    match acl.guards_host {
        true if !has_router => {
            wrong("is \"judge\" in a chain without a router: such a chain takes every packet")
        }
        true if slices.iter().any(|(slice, _)| slice.filter.is_some()) => wrong(
            "is \"judge\" where a slice has a `filter`, which says what the chain takes: leave one out",
        ),
        true if slices.iter().flat_map(|(slice, _)| &slice.ports).any(|port| !is_xdp(port)) => {
            wrong(
                "is \"judge\" where a port is no xdp port: the kernel has what the others receive, too",
            )
        }
        _ => Ok(()),
    }
}

const fn is_xdp(port: &PortSpec) -> bool {
    matches!(port, PortSpec::Xdp { .. })
}

fn action(place: usize) -> Action {
    if ACTIONS[place] == "permit" { Action::Permit } else { Action::Deny }
}
