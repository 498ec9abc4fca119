//! Whether a process that was killed can do anything any more.
//!
//! A thread that a program keeps in the kernel cannot be interrupted, not even by SIGKILL (see
//! [`crate::sockets::aside`]). Its process is not dead before the program lets it go, and all that
//! the process has stays open. But none of its threads comes back from the kernel.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Whether each thread of a process is dead, or is to die before it executes anything.
pub(super) fn is_spent(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().all(|thread| is_thread_spent(&thread.path()))
}

fn is_thread_spent(folder: &Path) -> bool {
    // SIGKILL, as a bit.
    const KILL: u64 = 1 << 8;
    let status = match fs::read_to_string(folder.join("status")) {
        Ok(status) => status,
        Err(error) => return error.kind() == ErrorKind::NotFound,
    };
    // proc_pid_status(5).
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let pending = field("SigPnd:").and_then(|bits| u64::from_str_radix(bits, 16).ok());
    match field("State:").and_then(|state| state.chars().next()) {
        Some('Z' | 'X') => true,
        Some('D') => pending.is_some_and(|bits| bits & KILL != 0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::UdpSocket;
    use std::os::fd::OwnedFd;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use sys::held_memory::HeldMemory;

    use super::*;

    /// Of linux/socket.h: more of the datagram comes.
    const MSG_MORE: i32 = 0x8000;

    fn wait_until(mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not come true");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_killed_process_that_somebody_keeps_in_the_kernel_is_spent_though_it_is_not_dead() {
        let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        datagrams.connect(datagrams.local_addr().expect("it is bound")).expect("it is UDP");
        let copy = || OwnedFd::from(datagrams.try_clone().expect("descriptors are left"));
        let memory = HeldMemory::new().expect("root may");
        let held = memory.send(copy(), MSG_MORE);
        let mut child = Command::new("perl");
        child.args(["-e", "$| = 1; print 1; getpeername(STDIN)"]);
        child.stdin(Stdio::from(copy())).stdout(Stdio::piped());
        let mut child = child.spawn().expect("perl is installed");
        let mut out = child.stdout.take().expect("it has one");
        out.read_exact(&mut [0]).expect("it is about to ask");
        let pid = child.id();
        let state = || fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        // For a page it would wait so, too, but not for long.
        let mut looks = 0;
        wait_until(|| {
            looks = if state().contains("State:\tD") { looks + 1 } else { 0 };
            looks == 100
        });
        assert!(!is_spent(pid), "it may go on");
        child.kill().expect("it is ours");
        wait_until(|| is_spent(pid));
        assert!(child.try_wait().is_ok_and(|ended| ended.is_none()), "it is not dead");
        assert!(!is_spent(std::process::id()));
        drop(memory);
        held.join().expect("it does not panic");
        child.wait().expect("it ends now");
    }
}
