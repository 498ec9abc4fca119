//! Real trees, stopped and continued by whatever this machine lets us use.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::*;
use crate::other_thread::{OtherThread, ThreadState};
use crate::pidfd::PidFd;

fn until(what: &str, mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A shell that runs `cat` once it is told to go on, and ends when its input closes.
fn family() -> Child {
    Command::new("sh")
        .args(["-c", "exec 3<&0; read go; cat <&3 & cat; wait"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("a shell is everywhere")
}

fn end(mut family: Child) {
    drop(family.stdin.take());
    family.wait().expect("it is our child");
}

/// Freezers by every group that we may make.
fn groups(root: u32) -> Vec<Freezer> {
    [Kind::V2, Kind::V1]
        .into_iter()
        .filter_map(|kind| Group::make(kind, &format!("calisto-test-{kind:?}-{root}")))
        .map(|group| Freezer { means: Means::Group(group), root })
        .collect()
}

#[test]
fn a_group_stops_its_processes_and_their_children_and_leaves_nothing_behind() {
    let mut family = family();
    for freezer in groups(family.id()) {
        let path = freezer.group().expect("it is a group").to_owned();
        fs::write(path.join(PROCS), family.id().to_string()).expect("our child may enter");
        assert!(!freezer.is_frozen());
        freezer.freeze().expect("the group is there");
        until("it stands still", || freezer.is_frozen());
        freezer.thaw().expect("the group is there");
        until("it goes on", || !freezer.is_frozen());
        freezer.freeze().expect("the group is there");
        drop(freezer);
        assert!(!path.exists(), "{} is left", path.display());
    }
    // After all of them it still runs.
    let input = family.stdin.as_mut().expect("it was piped");
    input.write_all(b"go\n").expect("the shell reads");
    until("two cats run", || process_tree::each_process(family.id(), |_| ()).visited == 2);
    end(family);
}

#[test]
fn signals_stop_every_process_of_the_tree_and_dropping_lets_it_go_on() {
    let mut outer = Command::new("sh")
        .args(["-c", "exec 3<&0; cat <&3 & sh -c 'cat <&3 & cat; wait'; wait"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell is everywhere");
    // All wait for input. Who was stopped between vfork and exec would keep its parent in the
    // kernel, where that cannot be stopped.
    until("four wait", || {
        let mut all_wait = true;
        let extent = process_tree::each_thread(outer.id(), |thread| {
            all_wait &= thread.state() == Ok(ThreadState::Sleeping);
        });
        extent.visited == 4 && all_wait
    });
    let freezer = Freezer::by_signals(outer.id());
    assert_eq!((freezer.name(), freezer.group()), ("signals", None));
    assert!(freezer.entrance().expect("there is none").is_none());
    assert!(!freezer.is_frozen());
    freezer.freeze().expect("the tree is small");
    until("all stand still", || freezer.is_frozen());
    let root = PidFd::open(outer.id()).expect("it runs");
    let root = OtherThread::find(&root, outer.id()).expect("it runs");
    assert_ne!(root.state(), Ok(ThreadState::Stopped), "the root is not below itself");
    drop(freezer);
    drop(outer.stdin.take());
    // They read the end of their input only if they run.
    until("they end", || outer.try_wait().expect("it is our child").is_some());
}

#[test]
fn a_freezer_that_shares_a_group_that_has_gone_says_so() {
    let gone = Freezer::shared(Some(Path::new("/sys/fs/cgroup/calisto-no-such-group")), 1);
    assert_eq!(gone.freeze(), Err(NotFrozen));
    assert!(gone.entrance().is_err() && !gone.is_frozen());
}

#[test]
fn a_group_is_made_where_we_are_and_nowhere_else() {
    let mounts = "\
        25 21 0:22 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs ro,mode=755\n\
        26 25 0:23 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw,nsdelegate\n\
        30 25 0:27 / /sys/fs/cgroup/cpu rw shared:14 - cgroup cgroup rw,cpu\n\
        31 25 0:28 / /sys/fs/cgroup/freezer rw shared:15 - cgroup cgroup rw,freezer\n";
    let groups = "9:name=systemd:/\n6:cpu,freezer:/jobs\n0::/user.slice/a\n";
    let path = |path| Some(Path::new(path));
    assert_eq!(mount_point(mounts, Kind::V2), path("/sys/fs/cgroup/unified"));
    assert_eq!(mount_point(mounts, Kind::V1), path("/sys/fs/cgroup/freezer"));
    assert_eq!(place(groups, Kind::V2), Some("/user.slice/a"));
    assert_eq!(place(groups, Kind::V1), Some("/jobs"));
    for kind in [Kind::V2, Kind::V1] {
        assert_eq!((mount_point("", kind), place("", kind)), (None, None));
        assert_eq!((mount_point("1 2 - cgroup2", kind), place("nonsense", kind)), (None, None));
    }
}
