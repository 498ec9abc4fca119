//! What is asked of programs' descriptors: where they are, and what a socket in their place is to
//! be. Others do it, so that no program keeps the guardian.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use base::SlotId;
use stack::Heritage;
use sys::SysError;

use super::super::held::Member;
use super::super::mapped::Mapped;
use super::super::process::say;
use super::{Candidate, Rescue, USER_SEIZED_WITHIN};
use crate::sockets::aside::Passed;
use crate::sockets::successor;

impl Rescue<'_> {
    /// The descriptors of wanted connections, those first that something happened to last: their
    /// peers wait.
    pub(super) fn find(
        &mut self,
        mapped: &Mapped<'_>,
        wanted: &mut BTreeMap<u64, (SlotId, Heritage)>,
    ) -> Vec<Candidate> {
        let number = mapped.app.number;
        let mut pids: Vec<u32> =
            self.held.members_of(number).map(Member::pid).filter(|pid| *pid != 0).collect();
        pids.sort_unstable();
        pids.dedup();
        let mut found: BTreeMap<u64, Candidate> = BTreeMap::new();
        let (uid, begun) = (mapped.app.uid, Instant::now());
        let until = self.looking.until(uid, begun, self.until, self.users);
        let Self { held, looker, closer, .. } = self;
        let asked = looker.copies(&pids, until, |pid, socket| {
            let cookie = sys::socket::cookie_of(socket.as_fd()).unwrap_or_default();
            // Only of a process that lives after its descriptor was copied is it known whose it is.
            let mut members = held.members_of(number);
            if members.any(|member| member.pid() == pid && member.lives()) {
                if let Some(candidate) = found.get_mut(&cookie) {
                    candidate.holders.push(pid);
                } else if let Some((slot, heritage)) = wanted.remove(&cookie) {
                    let (holders, socket) = (vec![pid], Passed::new(socket));
                    found.insert(cookie, Candidate { slot, cookie, heritage, socket, holders });
                    return;
                }
            }
            closer.close(uid, socket);
        });
        self.looking.spend(uid, begun.elapsed());
        let is_short = !wanted.is_empty() && Instant::now() >= until;
        let short = || is_short.then(|| "its user's time is over".to_owned());
        if let Some(why) = asked.map_or_else(|error| Some(error.to_string()), |()| short()) {
            say(format_args!("the descriptors of application {number} are not all known: {why}"));
        }
        let mut found: Vec<Candidate> = found.into_values().collect();
        found.sort_by_key(|candidate| Reverse(candidate.heritage.at()));
        found
    }

    /// Sockets for them to go on in, as far as their programs let them be asked in their user's
    /// time.
    pub(super) fn with_successors(
        &mut self,
        mapped: &Mapped<'_>,
        batch: Vec<Candidate>,
    ) -> Vec<(Candidate, Option<Result<OwnedFd, SysError>>)> {
        let (uid, begun) = (mapped.app.uid, Instant::now());
        let waited = self.waited.entry(uid).or_default();
        let until = self.until.min(begun + USER_SEIZED_WITHIN.saturating_sub(*waited));
        let old: Vec<Passed> =
            batch.iter().map(|candidate| Passed::clone(&candidate.socket)).collect();
        let made = successor::all_in_place_of(&self.aside, &old, uid, until);
        *waited += successor::kept(begun.elapsed(), batch.len());
        batch.into_iter().zip(made).collect()
    }
}
