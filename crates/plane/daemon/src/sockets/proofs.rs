//! By what a further process shows that it belongs to an application.
//!
//! There are two secrets, because there are two ways. A *forked child* shows the token. That never
//! leaves the memory of the application's processes, so whoever knows it has mapped the region
//! already, and nothing would be gained by asking for rights that it may have dropped meanwhile: a
//! server that binds as root, gives its rights up and forks its workers then goes on with all that
//! it has, as it would in the kernel. A *new program*, which a process has become by exec, has lost
//! that memory; it shows the ticket, which came in its environment. Environments get about:
//! `env={}` does not stop the library of the program before, and `setpriv` or a server that starts
//! a helper as another user changes who it is in between. So the ticket counts only with the
//! application's own user and group, as the kernel tells them of the connection, and with a process
//! of that number whose real and effective ones do not differ.
//!
//! What must always hold: over exec, no region is given to another user or group than the one that
//! it was made for.

use attach::{FallbackReason, PeerCredentials, Streaming};
use base::AppId;
use sys::SysError;

use super::fallbacks::Fallback;
use crate::log;

/// The secrets of one application, and whose it is.
#[derive(Debug)]
pub(super) struct Proofs {
    token: Secret,
    ticket: Secret,
    /// The token that its processes had from the daemon before.
    before: Option<Secret>,
    uid: u32,
    gid: u32,
}

/// Why a process is not let into an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denial {
    /// It knows neither secret.
    Unknown,
    /// It has the ticket, and is another user's or group's.
    OtherCredentials,
}

impl Denial {
    /// A sentence for the program.
    pub(super) const fn sentence(self) -> &'static str {
        match self {
            Self::Unknown => "there is no such application, or this is not its token",
            Self::OtherCredentials => {
                "the application is another user's or group's: a program that is started with \
                 other rights has an application of its own"
            }
        }
    }

    /// Logs one that somebody should know of, and says what is to be counted for it: no socket has
    /// come yet, so it stands for all that the program was started with.
    pub(super) fn note(self, app: AppId, app_name: &str, who: PeerCredentials) -> Option<Fallback> {
        let reason = match self {
            Self::Unknown => return None,
            Self::OtherCredentials => FallbackReason::OtherCredentials,
        };
        let PeerCredentials { pid, uid, gid } = who;
        tracing::info!(
            target: log::SOCKETS,
            pid,
            uid,
            gid,
            app = app.0,
            app_name,
            "refused: a process does not go on as an application of another user or group"
        );
        let app_name = app_name.to_owned();
        Some(Fallback { app, app_name, uid, pid, cookie: 0, inode: 0, reason, count: 1 })
    }
}

/// Which users and groups a process has: real and effective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ids {
    users: [u32; 2],
    groups: [u32; 2],
}

impl Ids {
    /// Those of a process, of proc_pid_status(5); none where that is not to be seen, because the
    /// process is gone or of a PID namespace beside ours.
    pub(super) fn of_process(pid: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
    }

    fn parse(status: &str) -> Option<Self> {
        let line = |name: &str| {
            let mut words = status.lines().find_map(|line| line.strip_prefix(name))?.split('\t');
            // The first word is what stands before the first tab: nothing.
            words.next()?;
            Some([words.next()?.parse().ok()?, words.next()?.parse().ok()?])
        };
        Some(Self { users: line("Uid:")?, groups: line("Gid:")? })
    }
}

impl Proofs {
    /// New ones, for an application that `who` brings.
    ///
    /// # Errors
    /// The kernel has no random numbers.
    pub(super) fn new(who: PeerCredentials) -> Result<Self, SysError> {
        let PeerCredentials { pid: _, uid, gid } = who;
        Ok(Self { token: Secret::new()?, ticket: Secret::new()?, before: None, uid, gid })
    }

    /// The processes of the application had this token from the daemon before.
    pub(super) fn set_before(&mut self, token: &str) {
        self.before = Secret::read(token);
    }

    /// Whether a process that shows its token of the daemon before belongs to the application: all
    /// that knew it were forked from one. One that has other rights by now has an application of
    /// its own.
    pub(super) fn was_one_with(&self, token: &str, who: PeerCredentials, ids: Option<Ids>) -> bool {
        self.before.as_ref().is_some_and(|before| before.is(token)) && self.is_same(who, ids)
    }

    /// Whether `who`, which shows `secret`, is let in. `ids` are those of its process now, where
    /// they can be known.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check(
        &self,
        secret: &str,
        who: PeerCredentials,
        ids: Option<Ids>,
    ) -> Result<(), Denial> {
        // Both are compared, so that the time tells nothing.
        let (is_token, is_ticket) = (self.token.is(secret), self.ticket.is(secret));
        match (is_token, is_ticket) {
            (true, _) => Ok(()),
            (_, true) if self.is_same(who, ids) => Ok(()),
            (_, true) => Err(Denial::OtherCredentials),
            _ => Err(Denial::Unknown),
        }
    }

    /// Whether `who` is the application's user and group, and has no rights beside, as far as
    /// `ids`, those that its process has now, can be known.
    pub(super) fn is_same(&self, who: PeerCredentials, ids: Option<Ids>) -> bool {
        let [uid, gid] = [who.uid, who.gid];
        let own = Ids { users: [uid; 2], groups: [gid; 2] };
        (uid, gid) == (self.uid, self.gid) && ids.is_none_or(|ids| ids == own)
    }

    /// Writes both into what a member is told.
    pub(super) fn tell(&self, streaming: &mut Streaming) {
        streaming.token = self.token.text();
        streaming.ticket = self.ticket.text();
    }
}

/// 128 bits that nobody can guess.
#[derive(Debug)]
struct Secret([u8; 16]);

impl Secret {
    fn new() -> Result<Self, SysError> {
        sys::random::bytes().map(Self)
    }

    /// Hexadecimal digits; nothing if they are none, or not as many as a secret has.
    fn read(text: &str) -> Option<Self> {
        if text.len() != 32 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(|number| Self(number.to_be_bytes()))
    }

    fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether `text` is it; takes the same time whatever is wrong.
    fn is(&self, text: &str) -> bool {
        let own = self.text();
        let difference =
            own.bytes().zip(text.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
        own.len() == text.len() && difference == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: PeerCredentials = PeerCredentials { pid: 7, uid: 1000, gid: 100 };

    fn told(proofs: &Proofs) -> (String, String) {
        (proofs.token.text(), proofs.ticket.text())
    }

    #[test]
    fn a_ticket_counts_with_the_user_and_the_group_that_it_was_made_for() {
        let proofs = Proofs::new(OWNER).expect("the kernel has random numbers");
        let (_, ticket) = told(&proofs);
        assert_eq!(proofs.check(&ticket, OWNER, None), Ok(()));
        for (uid, gid) in [(0, 100), (1001, 100), (1000, 0), (65534, 65534)] {
            let other = PeerCredentials { uid, gid, ..OWNER };
            assert_eq!(proofs.check(&ticket, other, None), Err(Denial::OtherCredentials));
        }
    }

    #[test]
    fn a_ticket_counts_for_no_process_whose_real_and_effective_rights_differ() {
        let proofs = Proofs::new(OWNER).expect("the kernel has random numbers");
        let (_, ticket) = told(&proofs);
        let ids = |status: &str| Ids::parse(status).expect("two lines");
        let plain = ids("Name:\ta\nUid:\t1000\t1000\t1000\t1000\nGid:\t100\t100\t100\t100\n");
        assert_eq!(proofs.check(&ticket, OWNER, Some(plain)), Ok(()));
        for status in [
            "Uid:\t0\t1000\t0\t1000\nGid:\t100\t100\t100\t100\n",
            "Uid:\t1000\t1000\t1000\t1000\nGid:\t0\t100\t100\t100\n",
        ] {
            let denied = proofs.check(&ticket, OWNER, Some(ids(status)));
            assert_eq!(denied, Err(Denial::OtherCredentials), "{status}");
        }
        assert_eq!(Ids::parse("Uid:\t1\nGid:\t1\t1\n"), None);
        let own = Ids::of_process(std::process::id()).expect("it is to be seen");
        assert_eq!(own.users[0], own.users[1]);
    }

    #[test]
    fn a_forked_child_shows_what_only_memory_has_whatever_rights_it_has_by_then() {
        let proofs = Proofs::new(OWNER).expect("the kernel has random numbers");
        let (token, ticket) = told(&proofs);
        assert_ne!(token, ticket);
        let dropped = PeerCredentials { uid: 65534, gid: 65534, ..OWNER };
        assert_eq!(proofs.check(&token, dropped, None), Ok(()));
        assert_eq!(proofs.check(&"0".repeat(32), OWNER, None), Err(Denial::Unknown));
        assert_eq!(proofs.check("", OWNER, None), Err(Denial::Unknown));
    }

    #[test]
    fn processes_that_had_one_token_before_are_one_application_again_unless_their_rights_differ() {
        let old = Proofs::new(OWNER).expect("the kernel has random numbers");
        let (token, _) = told(&old);
        let mut proofs = Proofs::new(OWNER).expect("the kernel has random numbers");
        assert!(!proofs.was_one_with(&token, OWNER, None), "it has not said so");
        proofs.set_before(&token);
        assert!(proofs.was_one_with(&token, OWNER, None));
        assert_ne!(proofs.check(&token, OWNER, None), Ok(()), "it opens nothing else");
        let dropped = PeerCredentials { uid: 65534, ..OWNER };
        assert!(!proofs.was_one_with(&token, dropped, None));
        assert!(!proofs.was_one_with(&"0".repeat(32), OWNER, None));
        for nonsense in ["", "0", &"g".repeat(32), &"0".repeat(33)] {
            proofs.set_before(nonsense);
            assert!(!proofs.was_one_with(nonsense, OWNER, None), "{nonsense}");
        }
    }
}
