//! What came of a script on both sides, held against each other.

use std::fmt;

use crate::differences::{Rule, rule_of};
use crate::script::{Script, Step};

/// The outcomes of a script, call by call.
#[derive(Clone, Debug)]
pub(crate) struct Played {
    pub(crate) script: Script,
    pub(crate) linux: Vec<String>,
    pub(crate) calisto: Vec<String>,
}

/// The first call whose outcomes differ without a documented reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Its index in the script.
    pub(crate) at: usize,
    /// Which calls have differed in this way: the call's name, and both outcomes.
    pub(crate) sign: [String; 3],
}

/// What a comparison comes to.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    Same,
    /// From here on they may differ, for this reason.
    Documented(&'static Rule),
    Differs(Difference),
}

impl Played {
    pub(crate) fn verdict(&self) -> Verdict {
        let Self { script, linux, calisto } = self;
        for (at, step) in script.0.iter().enumerate() {
            let (Some(linux), Some(calisto)) = (linux.get(at), calisto.get(at)) else { break };
            if linux == calisto {
                continue;
            }
            return match rule_of(self, at) {
                Some(rule) => Verdict::Documented(rule),
                None => Verdict::Differs(difference(at, step, linux, calisto)),
            };
        }
        Verdict::Same
    }

    pub(crate) fn difference(&self) -> Option<Difference> {
        match self.verdict() {
            Verdict::Differs(difference) => Some(difference),
            Verdict::Same | Verdict::Documented(_) => None,
        }
    }
}

fn difference(at: usize, step: &Step, linux: &str, calisto: &str) -> Difference {
    // Names differ from script to script.
    let plain = |outcome: &str| {
        let named = |word: &str| match word.split_once(':') {
            Some((_, what)) => format!("{{a}}:{what}"),
            None if word.starts_with(['"', '#']) => "{text}".to_owned(),
            None => word.to_owned(),
        };
        outcome.split(' ').map(named).collect::<Vec<_>>().join(" ")
    };
    Difference { at, sign: [step.verb().to_owned(), plain(linux), plain(calisto)] }
}

impl fmt::Display for Played {
    /// The script, with the outcome of each call, or both where they differ.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.script.0.iter().enumerate() {
            let of = |side: &[String]| side.get(at).cloned().unwrap_or_default();
            let (linux, calisto) = (of(&self.linux), of(&self.calisto));
            let line = step.to_string();
            match linux == calisto {
                true => writeln!(f, "    {line:44} {linux}")?,
                false => writeln!(f, "  ! {line:44} Linux: {linux}   Calisto: {calisto}")?,
            }
        }
        Ok(())
    }
}
