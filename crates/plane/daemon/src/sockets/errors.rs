//! ICMP errors about datagrams go on to the kernel's half of the socket that they are about.
//!
//! They quote what left by us, so that they come to us. The kernel has the other half of the
//! socket, with its port: it knows whether the program wants a queue of errors, keeps it, and
//! learns the path's MTU for what it cuts or refuses itself. It looks at each as if it had come by
//! itself.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use base::Nanos;
use shm::sockets::SlotWords;
use stack::ForKernel;
use sys::SysError;
use sys::local_delivery::LocalDelivery;

/// Errors that the kernel is given in one [`WINDOW`], at most: about as many in a second as Linux
/// sends of its own (`net.ipv4.icmp_msgs_per_sec`).
const IN_WINDOW_MAX: u32 = 100;

/// Those about one user's sockets.
const OF_USER_IN_WINDOW_MAX: u32 = 50;

const WINDOW: Nanos = Nanos::from_millis(100);

/// Gives them on.
#[derive(Debug)]
pub(super) struct Errors {
    delivery: LocalDelivery,
    window_ends: Nanos,
    given: u32,
    of_user: BTreeMap<u32, u32>,
}

impl Errors {
    /// # Errors
    /// This thread has no CAP_NET_RAW.
    pub(super) fn new() -> Result<Self, SysError> {
        let delivery = LocalDelivery::new()?;
        Ok(Self { delivery, window_ends: Nanos::ZERO, given: 0, of_user: BTreeMap::new() })
    }

    /// Gives one to the kernel, and has the program's calls ask that; false: it was not taken.
    pub(super) fn give(&mut self, error: &ForKernel, now: Nanos) -> bool {
        if !self.may_give(error.app.user, now) {
            return false;
        }
        // The slot may be another socket's by now, whose program asks once for nothing then.
        let word = error.app.server.memory().slot(error.slot).map(|words| &words.kernel_error);
        let note = |value| word.iter().for_each(|word| word.store(value, Ordering::Release));
        note(SlotWords::BEING_GIVEN);
        let is_given = self.delivery.give(&error.packet, error.to);
        note(1);
        is_given
    }

    fn may_give(&mut self, user: u32, now: Nanos) -> bool {
        if now >= self.window_ends {
            self.window_ends = now + WINDOW;
            self.given = 0;
            self.of_user.clear();
        }
        let of_user = self.of_user.entry(user).or_default();
        if self.given >= IN_WINDOW_MAX || *of_user >= OF_USER_IN_WINDOW_MAX {
            return false;
        }
        self.given += 1;
        *of_user += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_about_one_users_sockets_leave_room_for_those_about_others() {
        let mut errors = Errors::new().expect("this test runs as root");
        let at = Nanos::from_millis;
        let count = |errors: &mut Errors, user, now| {
            (0..1000).filter(|_| errors.may_give(user, now)).count()
        };
        assert_eq!(count(&mut errors, 1000, at(5)), OF_USER_IN_WINDOW_MAX as usize);
        assert_eq!(count(&mut errors, 1001, at(6)), OF_USER_IN_WINDOW_MAX as usize);
        assert_eq!(count(&mut errors, 1002, at(7)), 0, "there are too many in all");
        assert_eq!(count(&mut errors, 1002, at(105)), OF_USER_IN_WINDOW_MAX as usize);
    }
}
