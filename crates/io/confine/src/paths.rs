//! Paths: landlock(7).

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::io::Errno;
use sys::SysError;

use crate::rights::{Confined, Rights};

/// The newest rules that this code knows; an older kernel enforces those that it knows.
const NEWEST: ABI = ABI::V6;

pub(super) fn restrict(rights: &Rights<'_>) -> Result<Confined, SysError> {
    let reads = AccessFs::ReadFile | AccessFs::ReadDir;
    let replaces = AccessFs::MakeSock | AccessFs::RemoveFile;
    let restricted = (|| {
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))?;
        if !rights.reaches_out {
            rules =
                rules.handle_access(AccessNet::from_all(NEWEST))?.scope(Scope::from_all(NEWEST))?;
        }
        let rules = rules
            .create()?
            .add_rules(path_beneath_rules(rights.reads, reads))?
            .add_rules(path_beneath_rules(rights.replaces, replaces))?;
        rules.restrict_self()
    })();
    match restricted {
        Ok(status) if status.ruleset == RulesetStatus::FullyEnforced => Ok(Confined::Whole),
        Ok(_) => Ok(Confined::WithoutPaths),
        Err(error) => Err(SysError::new(
            "give up paths by landlock(7)".to_owned(),
            Errno::PERM,
            format!("{error}: report this"),
        )),
    }
}
