//! `apps.allow` and `[[tenant]]`: whether the rules can be read, and each has a user.

use config::{Config, TenantUser};

use super::finding::Finding;
use super::machine::Machine;
use crate::apps::Rules;

pub(super) fn check(config: &Config, machine: Option<&Machine>) -> Vec<Finding> {
    let mut found = Vec::new();
    // On another machine a name may have any number.
    let uid_of = |name: &str| match machine {
        Some(machine) => machine.users.get(name).copied(),
        None => Some(u32::MAX),
    };
    for (at, text) in config.apps.allow.iter().enumerate() {
        if let Err(error) = Rules::parse(std::slice::from_ref(text), uid_of) {
            found.push(Finding::wrong("apps.allow", Some(at), error));
        }
    }
    found.extend(tenants(config, machine));
    found
}

fn tenants(config: &Config, machine: Option<&Machine>) -> Vec<Finding> {
    let mut found = Vec::new();
    let users = || config.tenants.iter().map(|tenant| tenant.uid).enumerate();
    let anyone = users().find(|(_, user)| *user == TenantUser::Anyone).map(|(at, _)| at);
    for (at, user) in users() {
        let TenantUser::Uid(uid) = user else { continue };
        if anyone.is_some_and(|anyone| anyone < at) {
            let says = format!(
                "the `[[tenant]]` of user {uid} stands behind the one of \"*\", which counts for \
                 everybody: move it before that one"
            );
            found.push(Finding::doubtful("tenant.uid", Some(at), says));
        }
        let is_known = |machine: &Machine| machine.users.values().any(|number| *number == uid);
        if machine.is_some_and(|machine| !is_known(machine)) {
            let says = format!("no user of /etc/passwd has the number {uid}: is it the right one?");
            found.push(Finding::doubtful("tenant.uid", Some(at), says));
        }
    }
    found
}
