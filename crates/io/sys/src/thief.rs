//! What a hijacked thread tries: for tests that confined threads fail at it. Each function tries
//! one thing on `victim`, a process of the test's own, and says what the kernel answered; what
//! succeeds is undone as far as it can be.

use rustix::io::Errno;

type Tried = Result<(), Errno>;

/// A system call whose arguments are plain numbers, or point to memory that outlives the call.
fn call(number: libc::c_long, arguments: [usize; 5]) -> Result<libc::c_long, Errno> {
    let [a, b, c, d, e] = arguments;
    // SAFETY: every caller below passes what its call takes, and pointers only to its own live
    // variables, with their right lengths.
    match unsafe { libc::syscall(number, a, b, c, d, e, 0_usize) } {
        -1 => Err(Errno::from_raw_os_error(crate::thief::last())),
        result => Ok(result),
    }
}

fn last() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)
}

/// Becomes the tracer of the process, by ptrace(2).
pub fn attach(victim: u32) -> Tried {
    call(libc::SYS_ptrace, [libc::PTRACE_SEIZE as usize, victim as usize, 0, 0, 0]).map(drop)
}

/// Reads a byte of the process's memory, by process_vm_readv(2). The kernel checks the right
/// before it looks at the address.
pub fn read_memory(victim: u32) -> Tried {
    let mut byte = 0_u8;
    let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(4096), iov_len: 1 };
    let arguments = [victim as usize, (&raw const local).addr(), 1, (&raw const remote).addr(), 1];
    match call(libc::SYS_process_vm_readv, arguments) {
        // It was let in: nothing is mapped there.
        Err(Errno::FAULT) => Ok(()),
        other => other.map(drop),
    }
}

/// Copies the process's standard input to itself, by pidfd_getfd(2).
pub fn take_descriptor(victim: u32) -> Tried {
    let pidfd = call(libc::SYS_pidfd_open, [victim as usize, 0, 0, 0, 0])?;
    let taken = call(libc::SYS_pidfd_getfd, [pidfd as usize, 0, 0, 0, 0]);
    let _ = call(libc::SYS_close, [pidfd as usize, 0, 0, 0, 0]);
    call(libc::SYS_close, [taken? as usize, 0, 0, 0, 0]).map(drop)
}

/// Loads the smallest socket filter that the kernel takes, by bpf(2).
pub fn load_bpf_program() -> Tried {
    const PROG_LOAD: usize = 5;
    const SOCKET_FILTER: u32 = 1;
    // linux/bpf.h: struct bpf_insn. `r0 = 0; exit`.
    let instructions: [u64; 2] = [0x00b7, 0x0095];
    let licence = c"Apache-2.0";
    // The head of union bpf_attr for BPF_PROG_LOAD; the kernel takes the rest as zero.
    #[repr(C)]
    struct Load {
        kind: u32,
        count: u32,
        instructions: usize,
        licence: usize,
    }
    let load = Load {
        kind: SOCKET_FILTER,
        count: 2,
        instructions: instructions.as_ptr().addr(),
        licence: licence.as_ptr().addr(),
    };
    let arguments = [PROG_LOAD, (&raw const load).addr(), size_of::<Load>(), 0, 0];
    let program = call(libc::SYS_bpf, arguments)?;
    call(libc::SYS_close, [program as usize, 0, 0, 0, 0]).map(drop)
}

/// Sends SIGCONT, which harms nobody, by kill(2).
pub fn signal(victim: u32) -> Tried {
    call(libc::SYS_kill, [victim as usize, libc::SIGCONT as usize, 0, 0, 0]).map(drop)
}

/// Sends a signal to the first thread of the process, by tgkill(2).
pub fn signal_thread(victim: u32, signal: i32) -> Tried {
    let victim = victim as usize;
    call(libc::SYS_tgkill, [victim, victim, signal as usize, 0, 0]).map(drop)
}

/// Limits the memory that the process may lock to what it may lock already, by prlimit(2).
pub fn limit(victim: u32) -> Tried {
    let mut present = [0_u64; 2];
    let resource = libc::RLIMIT_MEMLOCK as usize;
    let address = present.as_mut_ptr().addr();
    call(libc::SYS_prlimit64, [victim as usize, resource, 0, address, 0])?;
    call(libc::SYS_prlimit64, [victim as usize, resource, address, 0, 0]).map(drop)
}

/// Makes the process the one that is signalled when our standard input has news, by fcntl(2).
pub fn own_descriptor(victim: u32) -> Tried {
    let set_owner = |pid: u32| {
        call(libc::SYS_fcntl, [0, libc::F_SETOWN as usize, pid as usize, 0, 0]).map(drop)
    };
    set_owner(victim)?;
    set_owner(0)
}

/// Maps memory that can be written and executed.
pub fn executable_memory() -> Tried {
    let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let mapped = call(libc::SYS_mmap, [0, 4096, rights as usize, kind as usize, usize::MAX])?;
    call(libc::SYS_munmap, [mapped as usize, 4096, 0, 0, 0]).map(drop)
}

/// Asks for another copy of this process, by clone3(2) with arguments that the kernel refuses only
/// after it has let the caller in: no process is made.
pub fn fork() -> Tried {
    match call(libc::SYS_clone3, [0, 0, 0, 0, 0]) {
        Err(Errno::INVAL) => {}
        Err(refused) => return Err(refused),
        Ok(_) => return Ok(()),
    }
    // CLONE_SIGHAND without CLONE_VM is refused as nonsense by whoever is let in.
    match call(libc::SYS_clone, [libc::CLONE_SIGHAND as usize, 0, 0, 0, 0]) {
        Err(Errno::INVAL) => Ok(()),
        other => other.map(drop),
    }
}

/// Enters a network namespace of its own.
pub fn unshare() -> Tried {
    call(libc::SYS_unshare, [libc::CLONE_NEWNET as usize, 0, 0, 0, 0]).map(drop)
}

/// Detaches a mount that is not there: who may mount hears that, and nobody else.
pub fn mount() -> Tried {
    let path = c"/calisto-no-such-mount";
    match call(libc::SYS_umount2, [path.as_ptr().addr(), 0, 0, 0, 0]) {
        Err(Errno::NOENT | Errno::INVAL) => Ok(()),
        other => other.map(drop),
    }
}
