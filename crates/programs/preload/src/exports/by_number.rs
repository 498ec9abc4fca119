//! syscall(2): what programs ask of the kernel by number is what they would have asked by name.

use libc::{c_int, c_long, c_uint, sigset_t, timespec};
use rustix::io::Errno;

use crate::calls::{confine, select, signals};
use crate::exports;
use crate::process::inherited;
use crate::system::{copy, faults, fork, outcome, real};

/// What pselect6 has for a mask.
#[repr(C)]
#[derive(Clone, Copy)]
struct MaskArgument {
    mask: *const sigset_t,
    bytes: usize,
}

impl MaskArgument {
    fn mask(self) -> Result<*const sigset_t, Errno> {
        let is_right = self.mask.is_null() || self.bytes == KERNEL_MASK_BYTES;
        if is_right { Ok(self.mask) } else { Err(Errno::INVAL) }
    }
}

/// Bytes of a mask of signals as the kernel has it.
const KERNEL_MASK_BYTES: usize = 8;

/// Makes a call that waits at most for a time, and writes there what remains of it, as the kernel
/// does and the functions of libc do not.
///
/// # Safety
/// Reading and writing the time is the program's wish.
unsafe fn telling_what_remains(time: *mut timespec, call: impl FnOnce() -> c_int) -> c_int {
    faults::watch();
    // What cannot be read is the call's to refuse.
    // SAFETY: the caller's promise.
    let limit = if time.is_null() { None } else { unsafe { copy::get(time) }.ok() };
    let began = sys::clock::now();
    let result = call();
    let limit = limit.filter(|limit| limit.tv_sec >= 0 && (0..SECOND).contains(&limit.tv_nsec));
    if let Some(limit) = limit {
        outcome::unheard(|| {
            let whole = (limit.tv_sec.cast_unsigned()).saturating_mul(SECOND.cast_unsigned());
            let whole = whole.saturating_add(limit.tv_nsec.cast_unsigned());
            let left = whole.saturating_sub(sys::clock::now().since(began).0);
            let second = SECOND.cast_unsigned();
            let left = timespec {
                tv_sec: (left / second).cast_signed(),
                tv_nsec: (left % second).cast_signed(),
            };
            faults::watch();
            // A time that may not be written stays as it is.
            // SAFETY: the caller's promise.
            let _ = unsafe { copy::put(time, &left) };
        });
    }
    result
}

/// Nanoseconds of a second.
const SECOND: c_long = 1_000_000_000;

/// `syscall` of libc.
///
/// # Safety
/// As for libc's, and as for the call of that number.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: the caller's promise.
    if let Some(result) = unsafe { by_name(number, [a, b, c, d, e, f]) } {
        return result;
    }
    match number {
        libc::SYS_seccomp => {
            // SAFETY: the caller's promise.
            return confine::seccomp(a, || unsafe { real::syscall(number, a, b, c, d, e, f) });
        }
        // A ring would read and write descriptors without passing by here.
        libc::SYS_io_uring_setup => return outcome::failed::<isize>(Errno::NOSYS) as c_long,
        libc::SYS_clone | libc::SYS_clone3 => fork::will_fork(),
        _ => {}
    }
    // SAFETY: the caller's promise.
    let result = unsafe { real::syscall(number, a, b, c, d, e, f) };
    if number == libc::SYS_rt_sigaction && result == 0 && b != 0 {
        signals::set_by_number(a as c_int);
    }
    if number == libc::SYS_pidfd_getfd && result >= 0 && !fork::is_borrowed() {
        inherited::may_be_ours(result as c_int);
    }
    result
}

macro_rules! pointer {
    ($value:expr) => {
        std::ptr::with_exposed_provenance_mut($value)
    };
}

/// The calls that have a name among our symbols. Kernel and libc take the same arguments for all of
/// these.
unsafe fn by_name(number: c_long, arguments: [usize; 6]) -> Option<c_long> {
    let [a, b, c, d, e, f] = arguments;
    let fd = a as c_int;
    // SAFETY: the caller's promise.
    let result = unsafe {
        match number {
            libc::SYS_read => exports::read(fd, pointer!(b), c) as c_long,
            libc::SYS_write => exports::write(fd, pointer!(b), c) as c_long,
            libc::SYS_readv => exports::readv(fd, pointer!(b), c as c_int) as c_long,
            libc::SYS_writev => exports::writev(fd, pointer!(b), c as c_int) as c_long,
            libc::SYS_preadv2 => {
                let at = d.cast_signed() as i64;
                exports::preadv2(fd, pointer!(b), c as c_int, at, f as c_int) as c_long
            }
            libc::SYS_pwritev2 => {
                let at = d.cast_signed() as i64;
                exports::pwritev2(fd, pointer!(b), c as c_int, at, f as c_int) as c_long
            }
            libc::SYS_recvfrom => {
                exports::recvfrom(fd, pointer!(b), c, d as c_int, pointer!(e), pointer!(f))
                    as c_long
            }
            libc::SYS_sendto => {
                exports::sendto(fd, pointer!(b), c, d as c_int, pointer!(e), f as c_uint) as c_long
            }
            libc::SYS_recvmsg => exports::recvmsg(fd, pointer!(b), c as c_int) as c_long,
            libc::SYS_sendmsg => exports::sendmsg(fd, pointer!(b), c as c_int) as c_long,
            libc::SYS_recvmmsg => {
                exports::recvmmsg(fd, pointer!(b), c as c_uint, d as c_int, pointer!(e)).into()
            }
            libc::SYS_sendmmsg => {
                exports::sendmmsg(fd, pointer!(b), c as c_uint, d as c_int).into()
            }
            libc::SYS_sendfile => exports::sendfile(fd, b as c_int, pointer!(c), d) as c_long,
            libc::SYS_splice => {
                exports::splice(fd, pointer!(b), c as c_int, pointer!(d), e, f as c_uint) as c_long
            }
            libc::SYS_socket => exports::socket(fd, b as c_int, c as c_int).into(),
            libc::SYS_bind => exports::bind(fd, pointer!(b), c as c_uint).into(),
            libc::SYS_listen => exports::listen(fd, b as c_int).into(),
            libc::SYS_connect => exports::connect(fd, pointer!(b), c as c_uint).into(),
            libc::SYS_accept => exports::accept(fd, pointer!(b), pointer!(c)).into(),
            libc::SYS_accept4 => exports::accept4(fd, pointer!(b), pointer!(c), d as c_int).into(),
            libc::SYS_shutdown => exports::shutdown(fd, b as c_int).into(),
            libc::SYS_getsockname => exports::getsockname(fd, pointer!(b), pointer!(c)).into(),
            libc::SYS_getpeername => exports::getpeername(fd, pointer!(b), pointer!(c)).into(),
            libc::SYS_getsockopt => {
                exports::getsockopt(fd, b as c_int, c as c_int, pointer!(d), pointer!(e)).into()
            }
            libc::SYS_setsockopt => {
                exports::setsockopt(fd, b as c_int, c as c_int, pointer!(d), e as c_uint).into()
            }
            libc::SYS_close => exports::close(fd).into(),
            libc::SYS_close_range => {
                exports::close_range(a as c_uint, b as c_uint, c as c_int).into()
            }
            libc::SYS_dup => exports::dup(fd).into(),
            libc::SYS_dup3 => exports::dup3(fd, b as c_int, c as c_int).into(),
            libc::SYS_fcntl => exports::fcntl(fd, b as c_int, c).into(),
            libc::SYS_ioctl => exports::ioctl(fd, b as _, c).into(),
            libc::SYS_epoll_create1 => exports::epoll_create1(fd).into(),
            libc::SYS_epoll_ctl => {
                exports::epoll_ctl(fd, b as c_int, c as c_int, pointer!(d)).into()
            }
            libc::SYS_epoll_pwait if e != 0 && f != KERNEL_MASK_BYTES => {
                outcome::failed::<isize>(Errno::INVAL) as c_long
            }
            libc::SYS_epoll_pwait2 if e != 0 && f != KERNEL_MASK_BYTES => {
                outcome::failed::<isize>(Errno::INVAL) as c_long
            }
            libc::SYS_epoll_pwait => {
                exports::epoll_pwait(fd, pointer!(b), c as c_int, d as c_int, pointer!(e)).into()
            }
            libc::SYS_epoll_pwait2 => {
                exports::epoll_pwait2(fd, pointer!(b), c as c_int, pointer!(d), pointer!(e)).into()
            }
            libc::SYS_ppoll => {
                if d != 0 && e != KERNEL_MASK_BYTES {
                    return Some(outcome::failed::<isize>(Errno::INVAL) as c_long);
                }
                let call = || exports::ppoll(pointer!(a), b as _, pointer!(c), pointer!(d));
                telling_what_remains(pointer!(c), call).into()
            }
            libc::SYS_pselect6 => {
                let argument: *const MaskArgument = pointer!(f);
                faults::watch();
                let mask = match argument.is_null() {
                    true => Ok(std::ptr::null()),
                    false => copy::get(argument).and_then(MaskArgument::mask),
                };
                let mask = match mask {
                    Ok(mask) => mask,
                    Err(errno) => return Some(outcome::failed::<isize>(errno) as c_long),
                };
                let by_kernel = || real::syscall(number, a, b, c, d, e, f) as c_int;
                let sets = [pointer!(b), pointer!(c), pointer!(d)];
                let call = || select::pselect_or(fd, sets, pointer!(e), mask, by_kernel);
                telling_what_remains(pointer!(e), call).into()
            }
            libc::SYS_prctl => exports::prctl(fd, b, c, d, e).into(),
            libc::SYS_execve => exports::execve(pointer!(a), pointer!(b), pointer!(c)).into(),
            libc::SYS_execveat => {
                exports::execveat(fd, pointer!(b), pointer!(c), pointer!(d), e as c_int).into()
            }
            _ => return older(number, arguments),
        }
    };
    Some(result)
}

/// Calls that newer machines do not have any more.
#[cfg(target_arch = "x86_64")]
unsafe fn older(number: c_long, arguments: [usize; 6]) -> Option<c_long> {
    let [a, b, c, d, e, _] = arguments;
    let fd = a as c_int;
    // SAFETY: the caller's promise.
    let result = unsafe {
        match number {
            libc::SYS_poll => exports::poll(pointer!(a), b as _, c as c_int),
            libc::SYS_select => {
                let by_kernel = || real::syscall(number, a, b, c, d, e, 0) as c_int;
                let sets = [pointer!(b), pointer!(c), pointer!(d)];
                select::select_or(fd, sets, pointer!(e), by_kernel)
            }
            libc::SYS_dup2 => exports::dup2(fd, b as c_int),
            libc::SYS_epoll_create => exports::epoll_create(fd),
            libc::SYS_epoll_wait => exports::epoll_wait(fd, pointer!(b), c as c_int, d as c_int),
            libc::SYS_fork | libc::SYS_vfork => {
                fork::will_fork();
                return None;
            }
            _ => return None,
        }
    };
    Some(result.into())
}

/// Calls that newer machines do not have any more.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn older(_: c_long, _: [usize; 6]) -> Option<c_long> {
    None
}
