//! `calisto reload`: has the daemon read its configuration again.

use admin::{Command, ReplyBody};
use clap::Args;

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::output;
use crate::target::Admin;

/// Have the daemon read its configuration file again, as SIGHUP does: all that has changed holds
/// from then on, or nothing.
///
/// What only a restart can change is named, and then nothing is changed. No connection is touched.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto reload\n  \
    calisto reload -j")]
pub(crate) struct Reload {
    #[command(flatten)]
    admin: Admin,
}

impl Reload {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let daemon = Daemon::at(&self.admin.socket);
        match daemon.ask(Command::Reload)? {
            body @ ReplyBody::Reloaded { .. } if json => output::json(&body),
            ReplyBody::Reloaded { changed } => output::text(&said(&changed)),
            other => Err(daemon.unexpected(&other)),
        }
    }
}

fn said(changed: &[String]) -> String {
    match changed {
        [] => "nothing has changed\n".to_owned(),
        changed => format!("changed: {}\n", changed.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_changed_is_said() {
        assert_eq!(said(&[]), "nothing has changed\n");
        let changed = ["listen", "steer.policy"].map(str::to_owned);
        assert_eq!(said(&changed), "changed: listen, steer.policy\n");
    }
}
