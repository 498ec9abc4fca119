//! Why a plan cannot be run.

use std::fmt;

/// A plan that makes no sense, by the field that is at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The field, as it is called in the plan.
    pub field: &'static str,
    /// What it says.
    pub value: String,
    /// What it may say.
    pub allowed: &'static str,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is {}: it must be {}", self.field, self.value, self.allowed)
    }
}

impl std::error::Error for Refused {}

/// Refuses unless `is_fine`.
pub(crate) fn check(
    is_fine: bool,
    field: &'static str,
    value: impl fmt::Display,
    allowed: &'static str,
) -> Result<(), Refused> {
    if is_fine { Ok(()) } else { Err(Refused { field, value: value.to_string(), allowed }) }
}
