//! Who pays for what a user has.
//!
//! A person with subordinate users (subuid(5)) becomes any of 65,536 at will, and would have as
//! many shares of everything. So whoever counts shares counts those of the person: [`payer_of`].
//! What a user may do, and whose a socket is, is another question, and goes by the user.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use crate::confinement::FOLDER_OF_USERS;
use crate::log;

/// The subordinate users of this host, as they were read last.
static PERSONS: RwLock<Persons> = RwLock::new(Persons { ranges: Vec::new() });

/// More lines of the file are not read.
const RANGES_MAX: usize = 1 << 16;

/// Users of one container in a range of root's, as container managers deal them out: these are one
/// payer, and those of the next container another.
const CONTAINER: u32 = 1 << 16;

/// Whose users are whose.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Persons {
    /// By their first users.
    ranges: Vec<Range>,
}

/// Users from `first` on, which somebody may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    first: u32,
    last: u32,
    /// Whose they are. Root lends them to containers, which are not root: see [`CONTAINER`].
    payer: u32,
}

/// The user that has a share for this one: itself, or whose subordinate it is.
pub(crate) fn payer_of(uid: u32) -> u32 {
    PERSONS.read().unwrap_or_else(PoisonError::into_inner).payer_of(uid)
}

/// Whose users are whose by now. A host without the file has no subordinate users.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read() -> io::Result<Persons> {
    read_in(Path::new(FOLDER_OF_USERS))
}

fn read_in(folder: &Path) -> io::Result<Persons> {
    let text = match std::fs::read_to_string(folder.join("subuid")) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read?,
    };
    Ok(Persons::parse(&text, sys::users::uid_of))
}

/// The same for all that is counted from now on. What is not known changes nothing, and is said.
pub(crate) fn hold(read: io::Result<Persons>) {
    match read {
        Ok(persons) => set(persons),
        Err(error) => tracing::warn!(
            target: log::CONFIG,
            "whose subordinate users are whose stays as it was: {FOLDER_OF_USERS}/subuid cannot be read \
             ({error})"
        ),
    }
}

pub(crate) fn set(persons: Persons) {
    *PERSONS.write().unwrap_or_else(PoisonError::into_inner) = persons;
}

impl Persons {
    /// What the lines of subuid(5) say: `name-or-number:first:count`. Those that say nothing are
    /// left out.
    pub(crate) fn parse(text: &str, uid_of: impl Fn(&str) -> Option<u32>) -> Self {
        let range = |line: &str| {
            let mut fields = line.trim().split(':');
            let (owner, first) = (fields.next()?, fields.next()?.parse::<u32>().ok()?);
            let count: u32 = fields.next()?.parse().ok()?;
            let last = first.saturating_add(count.checked_sub(1)?);
            let payer = owner.parse().ok().or_else(|| uid_of(owner))?;
            Some(Range { first, last, payer })
        };
        let mut ranges: Vec<Range> = text.lines().filter_map(range).take(RANGES_MAX).collect();
        ranges.sort_unstable();
        Self { ranges }
    }

    fn payer_of(&self, uid: u32) -> u32 {
        // The nearest that begins before it: ranges that overlap are a mistake of the file's.
        let after = self.ranges.partition_point(|range| range.first <= uid);
        let before = after.checked_sub(1).map(|at| self.ranges[at]);
        match before.filter(|range| uid != 0 && uid <= range.last) {
            None => uid,
            Some(Range { first, payer: 0, .. }) => first + (uid - first) / CONTAINER * CONTAINER,
            Some(range) => range.payer,
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::sync::{Mutex, MutexGuard};

    use super::*;

    /// Sets whose users are whose, as subuid(5) says it. No other test does as long as what comes
    /// back is kept.
    pub(crate) fn set(text: &str) -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        super::set(Persons::parse(text, |_| None));
        alone
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use confine::{Calls, Rights};

    use super::*;
    use crate::confinement;

    #[test]
    fn a_file_that_another_has_replaced_is_read_again_by_a_thread_that_may_read_its_folder() {
        let folder = std::env::temp_dir().join(format!("calisto-payers-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("there is room");
        let write = |name, text| std::fs::write(folder.join(name), text).expect("there is room");
        write("subuid", "1000:100000:65536\n");
        let (tell, told) = channel();
        let (replace, replaced) = channel::<()>();
        let place = folder.clone();
        let reader = std::thread::spawn(move || {
            let place_text = place.to_str().expect("it is of letters");
            let reads = &confinement::reads_of_reload(place_text);
            let rights = Rights { calls: &[Calls::Files], reads, ..Rights::NOTHING };
            confine::enter(&rights).expect("root may give up rights");
            let before = read_in(&place).map(|persons| persons.payer_of(200_000));
            tell.send(before.ok()).expect("the test waits");
            let _ = replaced.recv();
            let after = read_in(&place).map(|persons| persons.payer_of(200_000));
            (after.ok(), std::fs::read_dir(FOLDER_OF_USERS).is_ok())
        });
        assert_eq!(told.recv(), Ok(Some(200_000)));
        write("subuid+", "1000:100000:65536\n1001:200000:65536\n");
        std::fs::rename(folder.join("subuid+"), folder.join("subuid")).expect("as useradd does");
        drop(replace);
        assert_eq!(reader.join().expect("it does not panic"), (Some(1001), true));
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn a_file_that_cannot_be_read_changes_nothing_and_none_is_a_host_without_such_users() {
        let _alone = testing::set("4100000001:4210000000:65536");
        let folder = std::env::temp_dir().join(format!("calisto-unread-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("subuid")).expect("there is room");
        let read = read_in(&folder);
        assert!(read.is_err(), "it is a folder");
        hold(read);
        assert_eq!(payer_of(4_210_000_007), 4_100_000_001);
        std::fs::remove_dir_all(&folder).expect("it is ours");
        hold(read_in(&folder));
        assert_eq!(payer_of(4_210_000_007), 4_210_000_007);
    }

    #[test]
    fn whoever_is_a_subordinate_is_paid_for_by_whose_it_is_and_others_by_themselves() {
        let text = "ann:100000:65536\n1001:200000:10\nroot:300000:100000\n\
                    nobody-here:400000:10\nann:x:1\nann:500000:0\n0:4294967290:100\n";
        let uid_of =
            |name: &str| [("ann", 1000), ("root", 0)].into_iter().find(|(is, _)| *is == name);
        let persons = Persons::parse(text, |name| uid_of(name).map(|(_, uid)| uid));
        for (uid, payer) in [
            (0, 0),
            (1000, 1000),
            (99_999, 99_999),
            (100_000, 1000),
            (165_535, 1000),
            (165_536, 165_536),
            (200_009, 1001),
            (200_010, 200_010),
            (300_001, 300_000),
            (365_535, 300_000),
            (365_536, 365_536),
            (399_999, 365_536),
            (400_001, 400_001),
            (500_000, 500_000),
            (u32::MAX, 4_294_967_290),
        ] {
            assert_eq!(persons.payer_of(uid), payer, "{uid}");
        }
        // Whatever the file says, root is root.
        assert_eq!(Persons::parse("1000:0:10", |_| None).payer_of(0), 0);
    }
}
