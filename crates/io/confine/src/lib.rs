//! What a thread may still do: it gives up every capability, system call and path that it has no
//! use for, and cannot have them back.
//!
//! A thread that a stranger's packet or a program's message has taken over then has the rights that
//! its work needs and no others. Three mechanisms of Linux stand behind one another:
//!
//! - capabilities(7), dropped to [`Rights::capabilities`], with `no_new_privs` so that no program
//!   that is executed can bring one back;
//! - seccomp(2): only the system calls of [`Rights::calls`]; any other fails with `EPERM`, and
//!   `clone3`, whose arguments a filter cannot see, with `ENOSYS`, so that glibc uses `clone`;
//! - landlock(7): only the paths of [`Rights::reads`] and [`Rights::replaces`]. It also ends access
//!   to other processes by ptrace(2) and everything behind the same check, such as `/proc/PID/mem`.
//!
//! Rights belong to threads. A thread that is started later begins with those of the thread that
//! starts it and can only give up more. Threads of one process share its memory: who can write
//! there at will can take the rights of all of its threads together, so the union of their rights
//! is the bound that holds against such a thief, and the rights of one thread against less.
#![forbid(unsafe_code)]

mod calls;
mod paths;
mod rights;

use rustix::thread::{CapabilitySet, CapabilitySets};
use sys::SysError;
use sys::capability::Capability;

pub use calls::Calls;
pub use rights::{Confined, Rights};

/// Leaves the calling thread nothing but `rights`, for good.
///
/// # Errors
/// What the kernel refused, with the reason. Some rights may be gone by then.
pub fn enter(rights: &Rights<'_>) -> Result<Confined, SysError> {
    // The order is that of needs: the filter forbids the calls that the first two steps make.
    drop_capabilities(rights.capabilities)?;
    let confined = match rights.traces {
        true => Confined::WithoutPaths,
        false => paths::restrict(rights)?,
    };
    calls::restrict(rights.calls)?;
    Ok(confined)
}

fn drop_capabilities(kept: &[Capability]) -> Result<(), SysError> {
    let doing = || "give up capabilities".to_owned();
    let failed = |errno| SysError::new(doing(), errno, "the kernel refuses it: report this");
    let now = rustix::thread::capabilities(None).map_err(failed)?;
    let bits = kept.iter().fold(0, |bits, &capability| bits | 1 << capability as u8);
    let kept = CapabilitySet::from_bits_retain(bits) & now.permitted;
    let empty = CapabilitySet::empty();
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: empty };
    rustix::thread::set_capabilities(None, sets).map_err(failed)?;
    rustix::thread::set_no_new_privs(true).map_err(failed)
}
