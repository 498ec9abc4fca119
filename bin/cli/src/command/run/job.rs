//! The processes of a job: where they run, whether they run, and what they get back at the end.

use std::path::Path;

use sys::cpu_set::CpuSet;
use sys::freezer::Freezer;
use sys::other_thread::Unchanged;
use sys::process_tree;

/// Everything below one process.
#[derive(Debug)]
pub(crate) struct Job {
    root: u32,
    freezer: Freezer,
    /// Where it could run if it were not for us.
    original: CpuSet,
}

impl Job {
    /// A job without processes yet, which will be below this one.
    pub(crate) fn new() -> Self {
        let root = std::process::id();
        let freezer = Freezer::new(&format!("calisto-run-{root}"), root);
        Self { root, freezer, original: CpuSet::allowed() }
    }

    /// The job of another process that will be below this one; `group` as [`Self::group`] there.
    pub(crate) fn shared(group: Option<&Path>, original: CpuSet) -> Self {
        let root = std::process::id();
        Self { root, freezer: Freezer::shared(group, root), original }
    }

    /// What is below `root` already, in no group.
    #[cfg(test)]
    pub(crate) fn by_signals(root: u32) -> Self {
        Self { root, freezer: Freezer::by_signals(root), original: CpuSet::allowed() }
    }

    /// It is everything below `root` from now on.
    pub(crate) fn below(&mut self, root: u32) {
        self.root = root;
        self.freezer.below(root);
    }

    /// The cgroup that its processes enter, if there is one.
    pub(crate) fn group(&self) -> Option<&Path> {
        self.freezer.group()
    }

    /// What it is stopped by.
    pub(crate) fn freezer(&self) -> &Freezer {
        &self.freezer
    }

    /// Where it could run if it were not for us.
    pub(crate) fn original(&self) -> CpuSet {
        self.original
    }

    /// Lets all of it run on `cpus` only. Why not, if the kernel refused that to some thread.
    pub(crate) fn place(&self, cpus: &CpuSet) -> Result<(), String> {
        let mut refused = Ok(());
        process_tree::each_thread(self.root, |thread| {
            // It may be there already: a pass for threads that were missed changes nothing for the
            // others.
            if thread.affinity() == Ok(*cpus) {
                return;
            }
            if let Err(Unchanged::Refused(error)) = thread.set_affinity(cpus) {
                refused = Err(error.to_string());
            }
        });
        refused
    }

    /// Gives all of it back what it would have had without us, but for its class.
    pub(crate) fn set_free(&self) {
        let original = self.original;
        // Nobody can be told of a refusal by then, and it ends nothing.
        let _ = self.place(&original);
        // A group that has gone freezes nobody.
        let _ = self.freezer.thaw();
    }

    /// Gives what is left of it everything back: its CPUs, its class, its group.
    pub(crate) fn release(self) {
        process_tree::each_thread(self.root, |thread| {
            // As in `set_free`.
            let _ = thread.set_affinity(&self.original);
            let _ = thread.idle_class(false);
        });
        // Dropping the freezer lets it go on.
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn every_thread_is_placed_and_gets_everything_back() {
        let mut family = Command::new("sh")
            .args(["-c", "exec 3<&0; cat <&3 & cat; wait"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("a shell is everywhere");
        let job = Job::by_signals(family.id());
        let began = Instant::now();
        while process_tree::each_process(family.id(), |_| ()).visited < 2 {
            assert!(began.elapsed() < Duration::from_secs(60), "they do not start");
            std::thread::sleep(Duration::from_millis(1));
        }
        let all_on = |cpus: CpuSet| {
            let mut all = true;
            process_tree::each_thread(family.id(), |thread| {
                all &= thread.affinity() == Ok(cpus);
            });
            all
        };
        let one = CpuSet::only(CpuSet::allowed().iter().last().expect("some CPU runs this"));
        job.place(&one).expect("the CPU is allowed");
        assert!(all_on(one));
        let nowhere = job.place(&CpuSet::only(CpuSet::CPU_MAX - 1));
        assert!(nowhere.expect_err("nobody has that many").contains("run on CPU"));
        job.freezer().freeze().expect("the tree is small");
        job.set_free();
        assert!(all_on(CpuSet::allowed()) && !job.freezer().is_frozen());
        job.release();
        drop(family.stdin.take());
        family.wait().expect("it is our child");
    }
}
