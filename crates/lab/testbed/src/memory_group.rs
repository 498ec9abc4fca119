//! A control group with little memory, for a daemon.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A control group of this process's hierarchy, removed when this drops: whoever is in it must
/// have ended by then.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
    parent: PathBuf,
    is_old: bool,
}

impl MemoryGroup {
    /// A group that may have that many bytes in memory.
    ///
    /// # Errors
    /// We are not root, or no memory controller can be used.
    pub fn new(bytes: u64) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("calisto-{}-{number}", std::process::id());
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let path_of = |controller: &str| {
            let mut fields = groups.lines().map(|line| line.splitn(3, ':').skip(1));
            fields.find_map(|mut of| (of.next()? == controller).then(|| of.next())?)
        };
        let place = |mount: &str, path: &str| Path::new(mount).join(path.trim_start_matches('/'));
        let (parent, is_old) = match path_of("memory") {
            Some(path) => (place("/sys/fs/cgroup/memory", path), true),
            None => (place("/sys/fs/cgroup", path_of("").unwrap_or("/")), false),
        };
        let folder = parent.join(name);
        fs::create_dir(&folder)?;
        let group = Self { folder, parent, is_old };
        let limit = if is_old { "memory.limit_in_bytes" } else { "memory.max" };
        fs::write(group.folder.join(limit), bytes.to_string())?;
        Ok(group)
    }

    /// Runs `starts` in the group: the processes that it starts stay there, this thread does not.
    ///
    /// # Errors
    /// The kernel does not move this thread there and back.
    pub fn start_in<T>(&self, starts: impl FnOnce() -> T) -> io::Result<T> {
        // The older hierarchy moves single threads, the newer one processes only.
        let who = if self.is_old { "tasks" } else { "cgroup.procs" };
        fs::write(self.folder.join(who), "0")?;
        let started = starts();
        fs::write(self.parent.join(who), "0")?;
        Ok(started)
    }

    /// Processes of the group that the kernel has killed for want of memory.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn killed(&self) -> io::Result<u64> {
        let file = if self.is_old { "memory.oom_control" } else { "memory.events" };
        let text = fs::read_to_string(self.folder.join(file))?;
        let killed = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        let number = killed.and_then(|number| number.trim().parse().ok());
        number.ok_or_else(|| io::Error::other(format!("{file} has no number of kills")))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The kernel may take a moment to let go of who was in it.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
