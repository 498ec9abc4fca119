//! Namespaces for the tests of this crate. They need root.

use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;

use base::Nanos;

use crate::interface;
use crate::netns::Netns;

/// Runs `work` in an empty network namespace, on a thread that ends there.
pub(crate) fn in_fresh_namespace<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let inside = || {
        enter_fresh_namespace();
        work()
    };
    std::thread::spawn(inside).join().expect("no assertion failed")
}

/// The same with veth0 inside, and its other end veth0 in a second namespace, both up and with
/// carrier; that one is handed to `work`.
pub(crate) fn in_pair_of_namespaces<T: Send + 'static>(
    work: impl FnOnce(Netns) -> T + Send + 'static,
) -> T {
    in_fresh_namespace(move || {
        let far = Netns::current().expect("/proc is mounted");
        enter_fresh_namespace();
        let there = format!("/proc/{}/fd/{}", std::process::id(), far.as_fd().as_raw_fd());
        ip(&format!("link add veth0 type veth peer name veth0 netns {there}"));
        for netns in [&far, &Netns::current().expect("/proc is mounted")] {
            netns
                .within(|| {
                    ip("link set lo up");
                    ip("link set veth0 up");
                })
                .expect("root may enter");
        }
        // A link that comes up is told of once more when the kernel finds time for it.
        let wait = || interface::wait_until_operational("veth0", Nanos::from_secs(20));
        far.within(wait).expect("root may enter").expect("both ends are up");
        wait().expect("both ends are up");
        work(far)
    })
}

/// Runs `ip` with these words in the calling thread's namespace.
pub(crate) fn ip(words: &str) {
    let output = Command::new("ip").args(words.split(' ')).output().expect("iproute2 is there");
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

fn enter_fresh_namespace() {
    // SAFETY: only this thread moves, into an empty network namespace; descriptors stay shared.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }
        .expect("root makes namespaces");
}
