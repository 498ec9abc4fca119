//! Measuring in turns where some may not be there: an absent one is named, and the others go on.

use crate::cases::{Plan, in_turns};
use crate::error::Error;
use crate::report::Report;

/// What one gave by round, or why it gives nothing.
pub(super) type Given<T> = Result<Vec<T>, String>;

/// Measures `count` things in turns; one that needs what is not here is not tried again.
pub(super) fn in_turns_if_there<T>(
    plan: &Plan,
    report: &Report<'_>,
    what: &str,
    count: usize,
    mut measure: impl FnMut(usize) -> Result<T, Error>,
) -> Result<Vec<Given<T>>, Error> {
    let mut absent: Vec<Option<String>> = vec![None; count];
    let samples = in_turns(plan, report, what, count, |which| {
        if absent[which].is_some() {
            return Ok(None);
        }
        match measure(which) {
            Ok(sample) => Ok(Some(sample)),
            Err(error @ Error::Needs { .. }) => {
                absent[which] = Some(error.to_string());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    })?;
    let given = absent.into_iter().zip(samples).map(|(absent, samples)| match absent {
        None => Ok(samples.into_iter().flatten().collect()),
        Some(why) => Err(why),
    });
    Ok(given.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::OrNeeds;
    use crate::report::Form;

    #[test]
    fn an_absent_one_is_asked_once_and_named_and_the_others_go_on() {
        let plan = Plan::new(3, true);
        let mut out = Vec::new();
        let report = Report::new("slice", Form::Json, &mut out);
        let mut asked = [0; 2];
        let given = in_turns_if_there(&plan, &report, "a test", 2, |which| {
            asked[which] += 1;
            if which == 0 { Err("none").or_needs("program") } else { Ok(7) }
        });
        let given = given.expect("that is no error");
        assert_eq!(given, [Err("no program: none".to_owned()), Ok(vec![7; 3])]);
        assert_eq!(asked, [1, 3]);
    }

    #[test]
    fn ctrl_c_ends_it() {
        let plan = Plan::new(1, true);
        let mut out = Vec::new();
        let report = Report::new("slice", Form::Json, &mut out);
        let given =
            in_turns_if_there::<()>(&plan, &report, "a test", 1, |_| Err(Error::Interrupted));
        assert!(matches!(given, Err(Error::Interrupted)));
    }
}
