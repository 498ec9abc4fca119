//! syscall(2): what programs ask of the kernel by number is what they would have asked by name.

use libc::{c_int, c_long, c_uint, sigset_t};
use rustix::io::Errno;

use crate::table::{self, real};
use crate::{adopt, life, outcome};

/// What pselect6 has for a mask.
#[repr(C)]
#[derive(Clone, Copy)]
struct MaskArgument {
    mask: *const sigset_t,
    bytes: usize,
}

/// syscall(2).
///
/// # Safety
/// As for libc's, and as for the call of that number.
pub(crate) unsafe fn syscall(
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
        // A ring would read and write descriptors without passing by here.
        libc::SYS_io_uring_setup => return outcome::failed::<isize>(Errno::NOSYS) as c_long,
        libc::SYS_clone | libc::SYS_clone3 => life::will_fork(),
        _ => {}
    }
    // SAFETY: the caller's promise.
    let result = unsafe { real::syscall(number, a, b, c, d, e, f) };
    if number == libc::SYS_pidfd_getfd && result >= 0 {
        adopt::may_be_ours(result as c_int);
    }
    result
}

macro_rules! pointer {
    ($value:expr) => {
        std::ptr::with_exposed_provenance_mut($value)
    };
}

/// The calls that have a name in the table. Kernel and libc take the same arguments for all of these.
unsafe fn by_name(number: c_long, arguments: [usize; 6]) -> Option<c_long> {
    let [a, b, c, d, e, f] = arguments;
    let fd = a as c_int;
    // SAFETY: the caller's promise.
    let result = unsafe {
        match number {
            libc::SYS_read => table::read(fd, pointer!(b), c) as c_long,
            libc::SYS_write => table::write(fd, pointer!(b), c) as c_long,
            libc::SYS_readv => table::readv(fd, pointer!(b), c as c_int) as c_long,
            libc::SYS_writev => table::writev(fd, pointer!(b), c as c_int) as c_long,
            libc::SYS_recvfrom => {
                table::recvfrom(fd, pointer!(b), c, d as c_int, pointer!(e), pointer!(f)) as c_long
            }
            libc::SYS_sendto => {
                table::sendto(fd, pointer!(b), c, d as c_int, pointer!(e), f as c_uint) as c_long
            }
            libc::SYS_recvmsg => table::recvmsg(fd, pointer!(b), c as c_int) as c_long,
            libc::SYS_sendmsg => table::sendmsg(fd, pointer!(b), c as c_int) as c_long,
            libc::SYS_recvmmsg => {
                table::recvmmsg(fd, pointer!(b), c as c_uint, d as c_int, pointer!(e)).into()
            }
            libc::SYS_sendmmsg => table::sendmmsg(fd, pointer!(b), c as c_uint, d as c_int).into(),
            libc::SYS_sendfile => table::sendfile(fd, b as c_int, pointer!(c), d) as c_long,
            libc::SYS_splice => {
                table::splice(fd, pointer!(b), c as c_int, pointer!(d), e, f as c_uint) as c_long
            }
            libc::SYS_socket => table::socket(fd, b as c_int, c as c_int).into(),
            libc::SYS_bind => table::bind(fd, pointer!(b), c as c_uint).into(),
            libc::SYS_listen => table::listen(fd, b as c_int).into(),
            libc::SYS_connect => table::connect(fd, pointer!(b), c as c_uint).into(),
            libc::SYS_accept => table::accept(fd, pointer!(b), pointer!(c)).into(),
            libc::SYS_accept4 => table::accept4(fd, pointer!(b), pointer!(c), d as c_int).into(),
            libc::SYS_shutdown => table::shutdown(fd, b as c_int).into(),
            libc::SYS_getsockname => table::getsockname(fd, pointer!(b), pointer!(c)).into(),
            libc::SYS_getpeername => table::getpeername(fd, pointer!(b), pointer!(c)).into(),
            libc::SYS_getsockopt => {
                table::getsockopt(fd, b as c_int, c as c_int, pointer!(d), pointer!(e)).into()
            }
            libc::SYS_setsockopt => {
                table::setsockopt(fd, b as c_int, c as c_int, pointer!(d), e as c_uint).into()
            }
            libc::SYS_close => table::close(fd).into(),
            libc::SYS_close_range => {
                table::close_range(a as c_uint, b as c_uint, c as c_int).into()
            }
            libc::SYS_dup => table::dup(fd).into(),
            libc::SYS_dup3 => table::dup3(fd, b as c_int, c as c_int).into(),
            libc::SYS_fcntl => table::fcntl(fd, b as c_int, c).into(),
            libc::SYS_ioctl => table::ioctl(fd, b as _, c).into(),
            libc::SYS_epoll_create1 => table::epoll_create1(fd).into(),
            libc::SYS_epoll_ctl => table::epoll_ctl(fd, b as c_int, c as c_int, pointer!(d)).into(),
            libc::SYS_epoll_pwait => {
                table::epoll_pwait(fd, pointer!(b), c as c_int, d as c_int, pointer!(e)).into()
            }
            libc::SYS_epoll_pwait2 => {
                table::epoll_pwait2(fd, pointer!(b), c as c_int, pointer!(d), pointer!(e)).into()
            }
            libc::SYS_ppoll => table::ppoll(pointer!(a), b as _, pointer!(c), pointer!(d)).into(),
            libc::SYS_pselect6 => {
                let argument: *const MaskArgument = pointer!(f);
                let mask = argument.as_ref().map_or(std::ptr::null(), |argument| argument.mask);
                table::pselect(fd, pointer!(b), pointer!(c), pointer!(d), pointer!(e), mask).into()
            }
            libc::SYS_execve => table::execve(pointer!(a), pointer!(b), pointer!(c)).into(),
            libc::SYS_execveat => {
                table::execveat(fd, pointer!(b), pointer!(c), pointer!(d), e as c_int).into()
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
            libc::SYS_poll => table::poll(pointer!(a), b as _, c as c_int),
            libc::SYS_select => {
                table::select(fd, pointer!(b), pointer!(c), pointer!(d), pointer!(e))
            }
            libc::SYS_dup2 => table::dup2(fd, b as c_int),
            libc::SYS_epoll_create => table::epoll_create(fd),
            libc::SYS_epoll_wait => table::epoll_wait(fd, pointer!(b), c as c_int, d as c_int),
            libc::SYS_fork | libc::SYS_vfork => {
                life::will_fork();
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
