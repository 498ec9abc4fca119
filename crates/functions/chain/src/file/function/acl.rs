//! `kind = "acl"`.

use calisto_nf::Acl;
use calisto_nf::acl::{AclError, Action, RULES_MAX, Rule};

use super::selector;
use crate::file::FileError;
use crate::file::section::{Section, word};

/// Rules, and what becomes of packets that none matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclPart {
    /// In the order in which they are looked at.
    pub rules: Vec<Rule>,
    /// For IP packets.
    pub default: Action,
    /// For frames that hold no IP packet.
    pub not_ip: Action,
}

const ACTIONS: &[&str] = &["permit", "deny"];

pub(super) fn read(section: &mut Section<'_>) -> Result<AclPart, FileError> {
    let default = section.optional("default", word(ACTIONS))?.map_or(Action::Deny, action);
    let not_ip = section.optional("not_ip", word(ACTIONS))?.map_or(Action::Permit, action);
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
    Ok(AclPart { rules, default, not_ip })
}

fn action(place: usize) -> Action {
    if ACTIONS[place] == "permit" { Action::Permit } else { Action::Deny }
}
