//! All processes and threads below one process, while they come and go.
//!
//! Nobody can stop a tree from growing while it is read, so it is read again until a pass finds
//! nothing new. What a pass did to every thread that it found, later children inherit; so when a
//! pass finds nobody new, nobody is left out. Orphans stay in the tree if its root adopts them.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::Pid;

use crate::SysError;
use crate::other_thread::OtherThread;
use crate::pidfd::PidFd;

/// Threads that one walk looks at, at most: a tree that grows faster than it is read must not keep
/// us.
pub const THREADS_MAX: usize = 1 << 16;

/// Passes of one walk, at most.
const PASSES_MAX: usize = 32;

/// How far a walk came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Processes or threads that were visited.
    pub visited: usize,
    /// Whether the last pass found nobody new: false when the tree is too large or grows too fast.
    pub whole: bool,
}

/// From now on orphans below the calling process become its children, not those of init.
///
/// # Errors
/// Never in practice: a process may always.
pub fn adopt_orphans() -> Result<(), SysError> {
    let us = Pid::from_raw(1).expect("1 is not 0, and only that counts");
    rustix::process::set_child_subreaper(Some(us))
        .map_err(|errno| SysError::new("adopt orphans", errno, ""))
}

/// Visits each process below `root`, parents first, without `root` itself.
pub fn each_process(root: u32, mut visit: impl FnMut(&PidFd)) -> Extent {
    walk(root, |process, tid| {
        if tid == process.pid() {
            visit(process);
        }
    })
}

/// Visits each thread of each process below `root`, without those of `root` itself. A thread costs
/// some 20 us.
pub fn each_thread(root: u32, mut visit: impl FnMut(&OtherThread)) -> Extent {
    walk(root, |process, tid| {
        // One that has ended meanwhile needs nothing any more.
        if let Ok(thread) = OtherThread::find(process, tid) {
            visit(&thread);
        }
    })
}

fn walk(root: u32, mut visit: impl FnMut(&PidFd, u32)) -> Extent {
    let mut seen = BTreeSet::new();
    for _ in 0..PASSES_MAX {
        let Some(below) = below(root) else { break };
        let parents: BTreeSet<u32> =
            below.iter().map(|process| process.pid).chain([root]).collect();
        let before = seen.len();
        for Listed { pid, tids } in &below {
            let mut new = tids.iter().filter(|&&tid| !seen.contains(&(*pid, tid))).peekable();
            if new.peek().is_none() {
                continue;
            }
            // The number may be another process's by now: whoever it is has to be one of the tree.
            let Ok(process) = PidFd::open(*pid) else { continue };
            let related = parent_of(*pid).is_some_and(|parent| parents.contains(&parent));
            if !related || process.is_dead() {
                continue;
            }
            for &tid in new {
                visit(&process, tid);
            }
            seen.extend(tids.iter().map(|&tid| (*pid, tid)));
        }
        // The children of one that ended while we read may have been adopted behind our back.
        let settled = below.iter().all(|process| !process.tids.is_empty());
        if settled && seen.len() == before {
            return Extent { visited: seen.len(), whole: true };
        }
    }
    Extent { visited: seen.len(), whole: false }
}

/// A process as one pass found it; without threads if it ended in between.
struct Listed {
    pid: u32,
    tids: Vec<u32>,
}

/// The processes below `root`, parents first. None: more threads than [`THREADS_MAX`].
fn below(root: u32) -> Option<Vec<Listed>> {
    let mut all = vec![Listed { pid: root, tids: Vec::new() }];
    let mut known = BTreeSet::from([root]);
    let (mut index, mut threads) = (0, 0);
    while let Some(listed) = all.get_mut(index) {
        let pid = listed.pid;
        listed.tids = tids_of(pid);
        threads += listed.tids.len();
        if threads > THREADS_MAX {
            return None;
        }
        let children = children_of(pid, &listed.tids);
        // A child that changes its parent while we read may show up twice.
        let new = children.into_iter().filter(|&child| known.insert(child));
        all.extend(new.map(|pid| Listed { pid, tids: Vec::new() }));
        index += 1;
    }
    all.remove(0);
    Some(all)
}

/// The threads that `pid` has now.
fn tids_of(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The processes that threads `tids` of `pid` started or adopted.
fn children_of(pid: u32, tids: &[u32]) -> Vec<u32> {
    let list = |tid: &u32| fs::read_to_string(format!("/proc/{pid}/task/{tid}/children"));
    let mut children = Vec::new();
    for tid in tids {
        match list(tid) {
            Ok(text) => {
                children.extend(
                    text.split_ascii_whitespace().filter_map(|text| text.parse::<u32>().ok()),
                );
            }
            // The thread has ended, or the kernel has no such file (CONFIG_PROC_CHILDREN).
            Err(_) if PidFd::open(pid).is_ok() => return children_by_search(pid),
            Err(_) => {}
        }
    }
    children
}

/// The same by asking every process of the machine for its parent.
fn children_by_search(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|&number| parent_of(number) == Some(pid)).collect()
}

/// The parent of a process, proc_pid_stat(5): field 4.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything, brackets too.
    let end_of_name = stat.iter().rposition(|&byte| byte == b')')?;
    let fields = str::from_utf8(stat.get(end_of_name + 1..)?).ok()?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::cpu_set::CpuSet;

    /// A shell that runs `script` and ends when its input closes.
    fn shell(script: &str) -> Child {
        Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .spawn()
            .expect("a shell is everywhere")
    }

    fn processes_of(root: u32) -> Vec<u32> {
        let mut pids = Vec::new();
        each_process(root, |process| pids.push(process.pid()));
        pids
    }

    fn until(what: &str, mut there: impl FnMut() -> bool) {
        let start = Instant::now();
        while !there() {
            assert!(start.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn every_process_below_is_visited_and_none_beside() {
        let mut stranger = shell("cat");
        let mut child = shell("exec 3<&0; cat <&3 & (cat <&3 & cat <&3; :) & cat; wait");
        let root = child.id();
        until("four cats and a shell run", || processes_of(root).len() == 5);
        let pids = processes_of(root);
        assert!(!pids.contains(&root) && !pids.contains(&stranger.id()), "{pids:?}");
        assert!(processes_of(std::process::id()).contains(&root));
        let extent = each_thread(root, |thread| {
            thread.set_affinity(&CpuSet::allowed()).expect("these are ours");
        });
        assert_eq!(extent, Extent { visited: pids.len(), whole: true });
        for family in [&mut child, &mut stranger] {
            drop(family.stdin.take());
            family.wait().expect("it is our child");
        }
        assert_eq!(each_process(root, |_| ()), Extent { visited: 0, whole: true });
    }

    #[test]
    fn threads_and_the_children_of_threads_are_visited() {
        let (tid, wait) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
        let thread = std::thread::spawn(move || {
            let mut child = shell("cat");
            tid.0.send((crate::thread::tid(), child.id())).expect("the test waits for it");
            // Ends when the test drops its end.
            assert!(wait.1.recv().is_err());
            drop(child.stdin.take());
            child.wait().expect("it is our child");
        });
        let (_, child) = tid.1.recv().expect("it has started");
        assert!(processes_of(std::process::id()).contains(&child));
        drop(wait.0);
        thread.join().expect("no assertion failed");
    }

    #[test]
    fn a_tree_that_grows_while_it_is_walked_is_walked_to_its_end() {
        let mut child = shell("exec 3<&0; for i in 1 2 3 4 5 6 7 8; do cat <&3 & done; cat; wait");
        let mut visited = 0;
        until("all have started", || {
            let extent = each_process(child.id(), |_| visited += 1);
            assert!(extent.whole);
            extent.visited == 9
        });
        drop(child.stdin.take());
        child.wait().expect("it is our child");
    }

    #[test]
    fn children_are_found_without_the_kernels_list_of_them() {
        let mut child = shell("cat");
        assert!(children_by_search(std::process::id()).contains(&child.id()));
        assert_eq!(parent_of(child.id()), Some(std::process::id()));
        drop(child.stdin.take());
        child.wait().expect("it is our child");
        assert!(!children_by_search(std::process::id()).contains(&child.id()));
    }
}
