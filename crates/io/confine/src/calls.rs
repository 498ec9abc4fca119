//! System calls: seccomp(2).

use std::collections::BTreeMap;

use rustix::io::Errno;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};
use sys::SysError;

/// System calls that are needed together, by the work that needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// What every thread makes: its memory (never executable), time, locks, its end, reading and
    /// writing of descriptors that it has.
    Basic,
    /// Starting threads. No process: `clone` only with `CLONE_THREAD`.
    Threads,
    /// Waiting for many descriptors: epoll(7), eventfd(2), signalfd(2).
    Waiting,
    /// Sending and receiving on sockets that it has, and their options.
    Messages,
    /// New sockets of netlink, TCP, UDP and UNIX, none of packets, none of AF_XDP; and numbers of
    /// interfaces by their names.
    Sockets,
    /// Opening ports anew: sockets of AF_XDP and of packets, links of XDP programs that it has, and
    /// questions to drivers; no program is loaded. Beside [`Self::Sockets`] and
    /// [`Self::Messages`].
    Ports,
    /// Taking connections and descriptors from a listening socket that it has.
    Accepting,
    /// Memory and wakers that are shared with a program: memfd_create(2), socketpair(2) of UNIX,
    /// pidfd_open(2).
    Sharing,
    /// Descriptors of other processes: pidfd_getfd(2).
    Descriptors,
    /// Elements of BPF maps that it has; no map and no program is made.
    MapElements,
    /// Asking which BPF programs are attached to something.
    ProgramQueries,
    /// Opening, looking at and listing files, as far as the paths let it.
    Files,
    /// Removing files and making sockets' files, as far as the paths let it.
    Replacing,
    /// CPUs, priorities and signals of threads in other processes.
    Scheduling,
    /// Ending a process that it has a descriptor of, and no other signal.
    Ending,
}

/// One condition on an argument that must hold.
struct Only {
    /// Number of the argument, from 0.
    argument: u8,
    operation: SeccompCmpOp,
    value: u64,
}

/// An entry of a filter: the call, and what one of its arguments must be.
type Entry = (libc::c_long, Vec<Only>);

const fn any(call: libc::c_long) -> Entry {
    (call, Vec::new())
}

fn only(call: libc::c_long, argument: u8, value: u64) -> Entry {
    (call, vec![Only { argument, operation: SeccompCmpOp::Eq, value }])
}

fn masked(call: libc::c_long, argument: u8, mask: u64, value: u64) -> Entry {
    (call, vec![Only { argument, operation: SeccompCmpOp::MaskedEq(mask), value }])
}

impl Calls {
    fn entries(self) -> Vec<Entry> {
        let entries: &[libc::c_long] = match self {
            Self::Basic => return basic(),
            // Some of them wait for one descriptor and are basic; the rest are for many.
            Self::Waiting => &[
                libc::SYS_epoll_create1,
                libc::SYS_epoll_ctl,
                libc::SYS_epoll_pwait,
                libc::SYS_epoll_pwait2,
                #[cfg(target_arch = "x86_64")]
                libc::SYS_epoll_wait,
                libc::SYS_eventfd2,
                libc::SYS_signalfd4,
            ],
            Self::Threads => {
                let thread = libc::CLONE_THREAD as u64;
                return vec![masked(libc::SYS_clone, 0, thread, thread)];
            }
            Self::Messages => &[
                libc::SYS_sendto,
                libc::SYS_sendmsg,
                libc::SYS_sendmmsg,
                libc::SYS_recvfrom,
                libc::SYS_recvmsg,
                libc::SYS_recvmmsg,
                libc::SYS_getsockopt,
                libc::SYS_setsockopt,
                libc::SYS_getsockname,
                libc::SYS_getpeername,
                libc::SYS_shutdown,
            ],
            Self::Sockets => return sockets(),
            Self::Ports => return ports(),
            Self::Accepting => &[libc::SYS_accept4],
            Self::Sharing => return sharing(),
            Self::Descriptors => &[libc::SYS_pidfd_open, libc::SYS_pidfd_getfd],
            Self::MapElements => {
                const LOOKUP_UPDATE_DELETE_NEXT: [u64; 4] = [1, 2, 3, 4];
                let command = |number| only(libc::SYS_bpf, 0, number);
                return LOOKUP_UPDATE_DELETE_NEXT.map(command).into();
            }
            Self::ProgramQueries => {
                const PROG_QUERY: u64 = 16;
                return vec![only(libc::SYS_bpf, 0, PROG_QUERY)];
            }
            Self::Files => &[
                libc::SYS_openat,
                libc::SYS_newfstatat,
                libc::SYS_statx,
                libc::SYS_getdents64,
                libc::SYS_lseek,
                libc::SYS_pread64,
                libc::SYS_readlinkat,
                #[cfg(target_arch = "x86_64")]
                libc::SYS_open,
                #[cfg(target_arch = "x86_64")]
                libc::SYS_stat,
                #[cfg(target_arch = "x86_64")]
                libc::SYS_readlink,
            ],
            Self::Replacing => &[
                libc::SYS_unlinkat,
                libc::SYS_fchmodat,
                #[cfg(target_arch = "x86_64")]
                libc::SYS_unlink,
                #[cfg(target_arch = "x86_64")]
                libc::SYS_chmod,
            ],
            Self::Scheduling => return scheduling(),
            Self::Ending => {
                return vec![only(libc::SYS_pidfd_send_signal, 1, libc::SIGKILL as u64)];
            }
        };
        entries.iter().copied().map(any).collect()
    }
}

fn basic() -> Vec<Entry> {
    let calls: &[libc::c_long] = &[
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_pwrite64,
        libc::SYS_pwritev,
        libc::SYS_close,
        libc::SYS_fstat,
        libc::SYS_brk,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_madvise,
        libc::SYS_futex,
        libc::SYS_futex_waitv,
        libc::SYS_clock_gettime,
        libc::SYS_clock_nanosleep,
        libc::SYS_nanosleep,
        libc::SYS_gettimeofday,
        libc::SYS_sched_yield,
        libc::SYS_sched_getaffinity,
        libc::SYS_getpid,
        libc::SYS_gettid,
        libc::SYS_getcpu,
        libc::SYS_getrandom,
        libc::SYS_membarrier,
        libc::SYS_ppoll,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        libc::SYS_restart_syscall,
        libc::SYS_rseq,
        libc::SYS_set_robust_list,
        libc::SYS_exit,
        libc::SYS_exit_group,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll,
        // A thread may always give up more.
        libc::SYS_capget,
        libc::SYS_capset,
        libc::SYS_seccomp,
        libc::SYS_landlock_create_ruleset,
        libc::SYS_landlock_add_rule,
        libc::SYS_landlock_restrict_self,
    ];
    let mut entries: Vec<Entry> = calls.iter().copied().map(any).collect();
    // Memory that can be executed is a program of somebody else's.
    let executable = libc::PROT_EXEC as u64;
    entries.push(masked(libc::SYS_mmap, 2, executable, 0));
    entries.push(masked(libc::SYS_mprotect, 2, executable, 0));
    // The C library names threads and anonymous memory, and no more.
    const PR_SET_VMA: u64 = 0x5356_4d41;
    for option in [
        libc::PR_SET_NAME as u64,
        PR_SET_VMA,
        libc::PR_SET_NO_NEW_PRIVS as u64,
        libc::PR_GET_NO_NEW_PRIVS as u64,
    ] {
        entries.push(only(libc::SYS_prctl, 0, option));
    }
    // Threads look at the size of stacks. Zero is our own process: a limit of CPU time on another
    // one is as good as a signal.
    entries.push(only(libc::SYS_prlimit64, 0, 0));
    // No owner of a descriptor and no signal for it: those reach other processes.
    for command in [
        libc::F_DUPFD_CLOEXEC,
        libc::F_GETFD,
        libc::F_SETFD,
        libc::F_GETFL,
        libc::F_SETFL,
        libc::F_ADD_SEALS,
        libc::F_GET_SEALS,
    ] {
        entries.push(only(libc::SYS_fcntl, 1, command as u64));
    }
    // abort(3) signals its own thread.
    let own = u64::from(std::process::id());
    entries.push(only(libc::SYS_tgkill, 0, own));
    entries
}

fn sharing() -> Vec<Entry> {
    let calls = [
        libc::SYS_fchown,
        libc::SYS_memfd_create,
        libc::SYS_ftruncate,
        libc::SYS_fallocate,
        libc::SYS_pidfd_open,
    ];
    let mut entries: Vec<Entry> = calls.map(any).into();
    entries.push(only(libc::SYS_socketpair, 0, libc::AF_UNIX as u64));
    entries
}

fn scheduling() -> Vec<Entry> {
    let calls = [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_getscheduler,
        libc::SYS_sched_setattr,
        libc::SYS_sched_getattr,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_send_signal,
    ];
    let mut entries: Vec<Entry> = calls.map(any).into();
    // Before Linux 6.9 there are no pidfds of threads: a nudge goes to a number.
    entries.push(only(libc::SYS_tgkill, 2, sys::signal::NUDGE as u64));
    entries
}

fn sockets() -> Vec<Entry> {
    let families = [libc::AF_NETLINK, libc::AF_INET, libc::AF_INET6, libc::AF_UNIX];
    let mut entries: Vec<Entry> = Vec::new();
    for family in families {
        let family = Only { argument: 0, operation: SeccompCmpOp::Eq, value: family as u64 };
        entries.push((libc::SYS_socket, vec![family]));
    }
    entries.extend([libc::SYS_bind, libc::SYS_listen, libc::SYS_connect].map(any));
    // linux/sockios.h: the number of an interface by its name, which is asked through any socket.
    const SIOCGIFINDEX: u64 = 0x8933;
    entries.push(only(libc::SYS_ioctl, 1, SIOCGIFINDEX));
    entries
}

fn ports() -> Vec<Entry> {
    const LINK_CREATE: u64 = 28;
    // linux/sockios.h: what a driver is and has is asked through any socket. Changing it takes
    // CAP_NET_ADMIN as well.
    const SIOCETHTOOL: u64 = 0x8946;
    vec![
        only(libc::SYS_socket, 0, libc::AF_XDP as u64),
        only(libc::SYS_socket, 0, libc::AF_PACKET as u64),
        only(libc::SYS_bpf, 0, LINK_CREATE),
        only(libc::SYS_ioctl, 1, SIOCETHTOOL),
    ]
}

/// The filter of these calls.
fn filter(calls: &[Calls]) -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for calls in [Calls::Basic].iter().chain(calls) {
        for (call, conditions) in calls.entries() {
            let rules = rules.entry(call).or_default();
            let conditions = conditions.into_iter().map(|only| {
                let length = SeccompCmpArgLen::Dword;
                SeccompCondition::new(only.argument, length, only.operation, only.value)
            });
            let conditions: Vec<_> = conditions.collect::<Result<_, _>>()?;
            // No rule at all means: with any arguments.
            if !conditions.is_empty() {
                rules.push(SeccompRule::new(conditions)?);
            }
        }
    }
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, refused, SeccompAction::Allow, architecture()?)?.try_into()
}

/// `clone3` has its flags in memory, where no filter sees them: it is not there, and the C library
/// goes back to `clone`. A filter has one answer to what it refuses, so this is a filter of its
/// own.
fn no_clone3() -> Result<BpfProgram, BackendError> {
    let rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let absent = SeccompAction::Errno(libc::ENOSYS as u32);
    SeccompFilter::new(rules, SeccompAction::Allow, absent, architecture()?)?.try_into()
}

fn architecture() -> Result<TargetArch, BackendError> {
    std::env::consts::ARCH.try_into()
}

pub(super) fn restrict(calls: &[Calls]) -> Result<(), SysError> {
    let failed = |why: String| {
        let doing = "give up system calls by seccomp(2)".to_owned();
        SysError::new(doing, Errno::PERM, format!("{why}: report this"))
    };
    let made = filter(calls).map_err(|error| failed(error.to_string()))?;
    let no_clone3 = no_clone3().map_err(|error| failed(error.to_string()))?;
    // When both refuse a call, the kernel takes the answer of the filter that came last; the other
    // order would give EPERM, at which the C library gives up.
    seccompiler::apply_filter(&made).map_err(|error| failed(error.to_string()))?;
    seccompiler::apply_filter(&no_clone3).map_err(|error| failed(error.to_string()))
}
