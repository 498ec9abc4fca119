//! Rules of routing (`ip rule`, VRFs), which the router does not follow: refused aloud.

use sys::route::{Rule, rules};

use crate::error::ChainError;
use crate::file::Rules;

/// The rules that the kernel has and the router does not follow.
pub(super) struct Unfollowed {
    choice: Rules,
    rules: Vec<Rule>,
    /// Whether there are others since somebody asked.
    has_changed: bool,
}

impl Unfollowed {
    /// Looks at the rules for the first time.
    ///
    /// # Errors
    /// There are some, and the chain is not to begin then.
    pub(super) fn look(choice: Rules) -> Result<Self, ChainError> {
        let mut unfollowed = Self { choice, rules: Vec::new(), has_changed: false };
        unfollowed.look_again()?;
        match (unfollowed.sentence(), choice) {
            (Some(said), Rules::Refuse) => Err(ChainError::Function {
                kind: "router",
                why: format!(
                    "{said}: delete them, or write `rules = \"ignore\"` to forward by table main \
                     all the same"
                ),
            }),
            _ => Ok(unfollowed),
        }
    }

    /// Rules may have changed. A chain that runs goes on: it says so.
    pub(super) fn look_again(&mut self) -> Result<(), ChainError> {
        let rules = rules()?;
        self.has_changed |= rules != self.rules;
        self.rules = rules;
        Ok(())
    }

    /// What to tell an operator, if it has changed since the last call.
    pub(super) fn take_sentence(&mut self) -> Option<String> {
        let has_changed = std::mem::take(&mut self.has_changed);
        let advice =
            if self.choice == Rules::Refuse { ": what is forwarded differs from it" } else { "" };
        self.sentence().filter(|_| has_changed).map(|said| format!("{said}{advice}"))
    }

    pub(super) fn count(&self) -> usize {
        self.rules.len()
    }

    fn sentence(&self) -> Option<String> {
        let first = self.rules.first()?;
        let more = match self.rules.len() {
            1 => String::new(),
            several => format!(" and {} more", several - 1),
        };
        Some(format!("the kernel has {first}{more}, which the router does not follow"))
    }
}
