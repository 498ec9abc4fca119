//! The scheduling class of a thread: SCHED_OTHER, or SCHED_IDLE for work that anything may
//! displace.
//!
//! A SCHED_IDLE thread runs when nobody else wants its CPU and is preempted at once by whoever
//! wakes there. Children and new threads inherit the class.

use crate::SysError;

/// Makes the calling thread SCHED_IDLE (true) or SCHED_OTHER (false). Its nice value stays.
///
/// # Errors
/// Leaving SCHED_IDLE needs what the nice value needs (RLIMIT_NICE, or CAP_SYS_NICE).
pub fn set_idle(idle: bool) -> Result<(), SysError> {
    set_idle_of(0, idle)
}

/// Whether the calling thread is SCHED_IDLE.
pub fn is_idle() -> bool {
    // SAFETY: takes a plain number; 0 is the calling thread.
    unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) == i64::from(libc::SCHED_IDLE) }
}

/// The same for thread `tid`, 0 being the caller. Whose thread that is, the caller has made sure.
pub(crate) fn set_idle_of(tid: u32, idle: bool) -> Result<(), SysError> {
    let policy = if idle { libc::SCHED_IDLE } else { libc::SCHED_OTHER };
    // Both classes have no priority but 0.
    let none = libc::sched_param { sched_priority: 0 };
    // Not by the C library: musl answers ENOSYS without asking the kernel.
    // SAFETY: the kernel reads one `sched_param`, which outlives the call.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, tid, policy, &raw const none) };
    if result == 0 {
        return Ok(());
    }
    let doing = if idle { "make a thread SCHED_IDLE" } else { "make a thread SCHED_OTHER" };
    Err(SysError::last(doing, "run as the thread's user, with CAP_SYS_NICE to raise it again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_and_what_it_starts_are_idle_until_it_says_otherwise() {
        std::thread::spawn(|| {
            assert!(!is_idle());
            set_idle(true).expect("anybody may step back");
            assert!(is_idle());
            let inherited = std::thread::spawn(is_idle).join().expect("it only looks");
            assert!(inherited);
            // Root, or a generous RLIMIT_NICE; for anyone else the refusal says what is missing.
            match set_idle(false) {
                Ok(()) => assert!(!is_idle()),
                Err(error) => assert!(error.to_string().contains("CAP_SYS_NICE"), "{error}"),
            }
        })
        .join()
        .expect("no assertion failed");
    }
}
