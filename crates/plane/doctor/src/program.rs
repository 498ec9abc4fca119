//! Whether the sockets of a program that starts here can be served by a daemon.

use std::fs;
use std::path::PathBuf;

use crate::{Finding, firewall};

const SUBJECT: &str = "network namespace";

/// The network namespaces of this process and of a daemon, as `/proc/PID/ns/net` names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NamespaceFacts {
    own: Option<PathBuf>,
    /// `None`: only root and the daemon's user may look.
    daemon: Option<PathBuf>,
}

/// What keeps the sockets of a program that starts here with the kernel: `Missing` when it does,
/// `Note` when it could not be seen. `daemon` is the daemon's process, where that is known.
/// Filters are looked at where the daemon looks at them: in the namespace that both have.
pub fn look_for_program(daemon: Option<u32>) -> Vec<Finding> {
    let facts = NamespaceFacts {
        own: fs::read_link("/proc/self/ns/net").ok(),
        daemon: daemon.and_then(|pid| fs::read_link(format!("/proc/{pid}/ns/net")).ok()),
    };
    let namespace = judge(&facts);
    if namespace.level == crate::Level::Missing {
        return vec![namespace];
    }
    vec![namespace, firewall::judge_for_program(&firewall::gather())]
}

/// What that means.
fn judge(facts: &NamespaceFacts) -> Finding {
    match (&facts.own, &facts.daemon) {
        (Some(own), Some(daemon)) if own == daemon => Finding::fine(SUBJECT, "is the daemon's"),
        (Some(own), Some(daemon)) => {
            let what = format!("is {}, and the daemon's is {}", own.display(), daemon.display());
            Finding::missing(SUBJECT, what)
                .cost("sockets of another network namespace are left to the kernel")
                .mend("start the program where the daemon is, or a daemon where the program is: ip netns exec")
        }
        _ => Finding::note(SUBJECT, "of the daemon can be seen by root only")
            .cost("if it is another, sockets are left to the kernel")
            .mend("run this as root"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    #[test]
    fn another_namespace_than_the_daemons_keeps_sockets_with_the_kernel() {
        let level = |own: Option<&str>, daemon: Option<&str>| {
            judge(&NamespaceFacts { own: own.map(Into::into), daemon: daemon.map(Into::into) })
                .level
        };
        assert_eq!(level(Some("net:[1]"), Some("net:[1]")), Level::Fine);
        assert_eq!(level(Some("net:[1]"), Some("net:[2]")), Level::Missing);
        assert_eq!(level(Some("net:[1]"), None), Level::Note);
        assert_eq!(level(None, Some("net:[1]")), Level::Note);
    }

    #[test]
    fn a_daemon_that_is_this_process_has_our_namespace_and_one_that_is_nowhere_is_unknown() {
        let first = |daemon| look_for_program(daemon).swap_remove(0).level;
        assert_eq!(first(Some(std::process::id())), Level::Fine);
        assert_eq!(first(None), Level::Note);
    }
}
