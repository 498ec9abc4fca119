//! Stops a tree of processes where it stands, and continues it.
//!
//! A cgroup of our own does it for all at once, and for children as they are born: cgroup v2
//! (`cgroup.freeze`), or the v1 freezer. Who may not make one sends SIGSTOP and SIGCONT to each
//! process of the tree. Whatever was done is undone on drop.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::process_tree;

/// Stops and continues everything below one process.
#[derive(Debug)]
pub struct Freezer {
    means: Means,
    /// The process below which the tree is.
    root: u32,
}

#[derive(Debug)]
enum Means {
    Group(Group),
    Signals,
}

/// A cgroup of ours.
#[derive(Debug)]
struct Group {
    path: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    V2,
    V1,
}

/// The tree could not be stopped, or not wholly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotFrozen;

impl Freezer {
    /// For the tree below process `root`: by a cgroup `name` below our own if we may make one, else
    /// by signals. Nothing is stopped, and nobody is in the group yet ([`Self::entrance`]).
    pub fn new(name: &str, root: u32) -> Self {
        let group = [Kind::V2, Kind::V1].into_iter().find_map(|kind| Group::make(kind, name));
        Self { means: group.map_or(Means::Signals, Means::Group), root }
    }

    /// For the same tree as a freezer in another process, whose [`Self::group`] is `path`.
    pub fn shared(path: Option<&Path>, root: u32) -> Self {
        let means = path.map_or(Means::Signals, |path| {
            let kind = if path.join("cgroup.freeze").exists() { Kind::V2 } else { Kind::V1 };
            Means::Group(Group { path: path.to_owned(), kind })
        });
        Self { means, root }
    }

    /// By signals, whatever else there is.
    pub fn by_signals(root: u32) -> Self {
        Self { means: Means::Signals, root }
    }

    /// The same tree, whose root is another process.
    pub fn below(&mut self, root: u32) {
        self.root = root;
    }

    /// The cgroup's folder, if it is done by one.
    pub fn group(&self) -> Option<&Path> {
        match &self.means {
            Means::Group(group) => Some(&group.path),
            Means::Signals => None,
        }
    }

    /// The file into which a process writes "0" to enter the group; its children are in it then.
    /// None: there is no group, and nothing to enter.
    ///
    /// # Errors
    /// The group has gone.
    pub fn entrance(&self) -> std::io::Result<Option<File>> {
        self.group().map(|group| OpenOptions::new().write(true).open(group.join(PROCS))).transpose()
    }

    /// The means, for people and programs.
    pub fn name(&self) -> &'static str {
        match &self.means {
            Means::Group(Group { kind: Kind::V2, .. }) => "cgroup",
            Means::Group(Group { kind: Kind::V1, .. }) => "cgroup_v1",
            Means::Signals => "signals",
        }
    }

    /// Stops the tree. By a group this returns at once, and each thread stops when it next could
    /// return to its program.
    ///
    /// # Errors
    /// The group has gone, or the tree is larger or faster than a walk.
    pub fn freeze(&self) -> Result<(), NotFrozen> {
        self.set(true)
    }

    /// Lets the tree go on.
    ///
    /// # Errors
    /// As [`Self::freeze`].
    pub fn thaw(&self) -> Result<(), NotFrozen> {
        self.set(false)
    }

    /// Whether every process of the tree stands still.
    pub fn is_frozen(&self) -> bool {
        let Means::Group(Group { path, kind }) = &self.means else {
            let mut all = true;
            let extent = process_tree::each_thread(self.root, |thread| {
                all &= thread.state() == Ok(crate::other_thread::ThreadState::Stopped);
            });
            return all && extent.visited > 0;
        };
        let read = |file: &str| fs::read_to_string(path.join(file)).unwrap_or_default();
        match kind {
            Kind::V2 => read("cgroup.events").lines().any(|line| line == "frozen 1"),
            Kind::V1 => read(STATE).trim() == "FROZEN",
        }
    }

    fn set(&self, frozen: bool) -> Result<(), NotFrozen> {
        match &self.means {
            Means::Group(group) => group.set(frozen),
            Means::Signals => {
                let signal = if frozen { Signal::STOP } else { Signal::CONT };
                let extent = process_tree::each_process(self.root, |process| {
                    // One that has ended needs none.
                    let _ = rustix::process::pidfd_send_signal(process, signal);
                });
                if extent.whole { Ok(()) } else { Err(NotFrozen) }
            }
        }
    }
}

impl Drop for Freezer {
    /// Lets the tree go on, and takes the group away; whoever is in it goes to the group above.
    fn drop(&mut self) {
        // There is nobody to tell; and a group that has gone freezes nobody.
        let _ = self.thaw();
        if let Means::Group(group) = &self.means {
            group.remove();
        }
    }
}

/// The processes of a group.
const PROCS: &str = "cgroup.procs";
/// What a v1 freezer does.
const STATE: &str = "freezer.state";

impl Group {
    /// A new group below the one that we are in. None: there is no such hierarchy, or we may not.
    fn make(kind: Kind, name: &str) -> Option<Self> {
        let path = own_group(kind)?.join(name);
        fs::create_dir(&path).ok()?;
        let group = Self { path, kind };
        // A folder is made in any file system; only a group has its files, and only ours lets us
        // in.
        let usable = [PROCS, group.switch()].iter().all(|file| {
            let path = group.path.join(file);
            OpenOptions::new().write(true).open(path).is_ok()
        });
        if usable {
            return Some(group);
        }
        group.remove();
        None
    }

    /// The file that stops and continues the group.
    fn switch(&self) -> &'static str {
        match self.kind {
            Kind::V2 => "cgroup.freeze",
            Kind::V1 => STATE,
        }
    }

    fn set(&self, frozen: bool) -> Result<(), NotFrozen> {
        let text = match (self.kind, frozen) {
            (Kind::V2, true) => "1",
            (Kind::V2, false) => "0",
            (Kind::V1, true) => "FROZEN",
            (Kind::V1, false) => "THAWED",
        };
        fs::write(self.path.join(self.switch()), text).map_err(|_| NotFrozen)
    }

    /// Moves everybody to the group above and takes the folder away.
    fn remove(&self) {
        /// Processes may be born while we move them; a group of zombies is gone in a moment.
        const TRIES: usize = 50;
        let Some(above) = self.path.parent() else { return };
        for _ in 0..TRIES {
            let procs = fs::read_to_string(self.path.join(PROCS)).unwrap_or_default();
            for pid in procs.lines() {
                // One that has ended meanwhile needs not go.
                let _ = fs::write(above.join(PROCS), pid);
            }
            if fs::remove_dir(&self.path).is_ok() || !self.path.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The group that this process is in: where the hierarchy is mounted, and our place in it.
fn own_group(kind: Kind) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    Some(mount_point(&mounts, kind)?.join(place(&groups, kind)?.trim_start_matches('/')))
}

/// Where the hierarchy is mounted, proc_pid_mountinfo(5): the mount point is field 5; behind " - "
/// stand the file system and its options.
fn mount_point(mountinfo: &str, kind: Kind) -> Option<&Path> {
    mountinfo.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let fits = match (kind, after.next()?) {
            (Kind::V2, "cgroup2") => true,
            (Kind::V1, "cgroup") => after.nth(1)?.split(',').any(|option| option == "freezer"),
            _ => false,
        };
        let point = before.split(' ').nth(4)?;
        fits.then(|| Path::new(point))
    })
}

/// Our place in it, cgroups(7): lines of hierarchy:controllers:path.
fn place(groups: &str, kind: Kind) -> Option<&str> {
    groups.lines().find_map(|line| {
        let (hierarchy, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let fits = match kind {
            Kind::V2 => hierarchy == "0" && controllers.is_empty(),
            Kind::V1 => controllers.split(',').any(|controller| controller == "freezer"),
        };
        fits.then_some(path)
    })
}

#[cfg(test)]
mod tests;
