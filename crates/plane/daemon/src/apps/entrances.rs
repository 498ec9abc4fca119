//! Where programs connect: the attach socket and the join listener beside it.

use std::os::fd::{AsFd, BorrowedFd};

use attach::{AttachListener, JoinListener, Peer};
use sys::SysError;

use crate::apps::client::Origin;

/// Both entrances. They take turns, so that whoever stands before one in a loop keeps nobody out of
/// the other.
pub(super) struct Entrances {
    pub(super) main: AttachListener,
    /// Of processes whose application is in already; absent when the workers serve no sockets.
    pub(super) side: Option<JoinListener>,
    is_sides_turn: bool,
}

impl Entrances {
    /// One entrance.
    pub(super) fn new(main: AttachListener) -> Self {
        Self { main, side: None, is_sides_turn: false }
    }

    /// The next who wants to come in, and where; none: nobody waits at either.
    ///
    /// # Errors
    /// The kernel refuses a connection: descriptors are short.
    pub(super) fn next(&mut self) -> Result<Option<(Peer, Origin)>, SysError> {
        self.is_sides_turn = !self.is_sides_turn && self.side.is_some();
        for is_side in [self.is_sides_turn, !self.is_sides_turn] {
            let (came, origin) = match (is_side, &self.side) {
                (false, _) => (self.main.accept()?, Origin::CommandQueue),
                (true, Some(side)) => (side.accept()?, Origin::Side),
                (true, None) => continue,
            };
            if let Some(peer) = came {
                return Ok(Some((peer, origin)));
            }
        }
        Ok(None)
    }

    /// What is to be waited for.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [self.main.as_fd()].into_iter().chain(self.side.as_ref().map(JoinListener::as_fd))
    }
}

#[cfg(test)]
mod tests {
    use attach::Link;

    use super::*;

    #[test]
    fn whoever_crowds_before_one_entrance_keeps_nobody_out_of_the_other() {
        let folder = std::env::temp_dir().join(format!("calisto-entrances-{}", std::process::id()));
        let path = folder.join("apps.sock");
        let mut entrances =
            Entrances::new(AttachListener::bind(&path, 0o600).expect("nobody is there"));
        let own = rustix::process::geteuid().as_raw();
        let crowd: Vec<_> = (0..8).map(|_| Link::connect(&path).expect("it listens")).collect();
        assert!(entrances.next().expect("descriptors are left").is_some());
        let side = entrances.side.insert(JoinListener::open().expect("names are free"));
        let name = side.name().to_owned();
        let aside: Vec<_> =
            (0..3).map(|_| Link::connect_aside(&name, own).expect("it listens")).collect();
        let mut next = || entrances.next().expect("descriptors are left").map(|(_, origin)| origin);
        let first: Vec<_> = (0..6).map_while(|_| next()).collect();
        let of_side = first.iter().filter(|origin| matches!(origin, Origin::Side)).count();
        assert_eq!((first.len(), of_side), (6, 3), "every other one");
        assert_eq!(std::iter::from_fn(next).count(), 4, "then the rest of the crowd");
        drop((crowd, aside, entrances));
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }
}
