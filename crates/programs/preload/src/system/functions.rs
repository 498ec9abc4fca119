//! Every function of libc that this library defines: one table.
//!
//! A row says how the function is declared, the system call that does its work where there is one,
//! and which function serves it. `by_descriptor` rows cost one load while their first argument is
//! no descriptor of ours: then libc's own function is called, by a jump. `always` rows always ask
//! us, and `by_hand` rows are served by a definition of their own. A server is a name that only
//! [`crate::exports`] resolves; [`crate::system::real`] makes the functions that ours stand before
//! of the same rows.

/// Gives all rows to the macro `$take`.
macro_rules! functions {
    ($take:ident) => { $take! {
    // Sockets.
    always socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int
        = SYS_socket => socket::socket;
    always __socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int
        = SYS_socket => socket::socket;
    always bind(fd: c_int, address: *const sockaddr, bytes: socklen_t) -> c_int
        = SYS_bind => udp::bind;
    always listen(fd: c_int, backlog: c_int) -> c_int = SYS_listen => listen::listen;
    always connect(fd: c_int, address: *const sockaddr, bytes: socklen_t) -> c_int
        = SYS_connect => connect::connect;
    always __connect(fd: c_int, address: *const sockaddr, bytes: socklen_t) -> c_int
        = SYS_connect => connect::connect;
    by_descriptor accept(fd: c_int, address: *mut sockaddr, bytes: *mut socklen_t) -> c_int
        = SYS_accept => accept::accept;
    by_descriptor accept4(fd: c_int, address: *mut sockaddr, bytes: *mut socklen_t, flags: c_int)
        -> c_int = SYS_accept4 => accept::accept4;
    by_descriptor shutdown(fd: c_int, how: c_int) -> c_int = SYS_shutdown => shutdown::shutdown;
    by_descriptor getsockname(fd: c_int, address: *mut sockaddr, bytes: *mut socklen_t) -> c_int
        = SYS_getsockname => names::getsockname;
    by_descriptor getpeername(fd: c_int, address: *mut sockaddr, bytes: *mut socklen_t) -> c_int
        = SYS_getpeername => names::getpeername;
    by_descriptor getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void,
        bytes: *mut socklen_t) -> c_int = SYS_getsockopt => options::getsockopt;
    always setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void,
        bytes: socklen_t) -> c_int = SYS_setsockopt => options::setsockopt;
    by_descriptor sockatmark(fd: c_int) -> c_int = => names::sockatmark;

    // Bytes.
    by_descriptor read(fd: c_int, buffer: *mut c_void, bytes: size_t) -> ssize_t
        = SYS_read => receive::read;
    by_descriptor __read(fd: c_int, buffer: *mut c_void, bytes: size_t) -> ssize_t
        = SYS_read => receive::read;
    always __read_chk(fd: c_int, buffer: *mut c_void, bytes: size_t, room: size_t) -> ssize_t
        = => checked::read;
    by_descriptor readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t
        = SYS_readv => receive::readv;
    by_descriptor preadv2(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int)
        -> ssize_t = => receive::preadv2;
    by_descriptor preadv64v2(fd: c_int, parts: *const iovec, count: c_int, at: off64_t,
        flags: c_int) -> ssize_t = => receive::preadv2;
    by_descriptor recv(fd: c_int, buffer: *mut c_void, bytes: size_t, flags: c_int) -> ssize_t
        = => receive::recv;
    always __recv_chk(fd: c_int, buffer: *mut c_void, bytes: size_t, room: size_t, flags: c_int)
        -> ssize_t = => checked::recv;
    by_descriptor recvfrom(fd: c_int, buffer: *mut c_void, bytes: size_t, flags: c_int,
        address: *mut sockaddr, address_bytes: *mut socklen_t) -> ssize_t
        = SYS_recvfrom => receive::recvfrom;
    always __recvfrom_chk(fd: c_int, buffer: *mut c_void, bytes: size_t, room: size_t,
        flags: c_int, address: *mut sockaddr, address_bytes: *mut socklen_t) -> ssize_t
        = => checked::recvfrom;
    always recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t
        = SYS_recvmsg => message::recvmsg;
    always recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int,
        timeout: *mut timespec) -> c_int = SYS_recvmmsg => many::recvmmsg;
    by_descriptor write(fd: c_int, buffer: *const c_void, bytes: size_t) -> ssize_t
        = SYS_write => send::write;
    by_descriptor __write(fd: c_int, buffer: *const c_void, bytes: size_t) -> ssize_t
        = SYS_write => send::write;
    by_descriptor writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t
        = SYS_writev => send::writev;
    by_descriptor pwritev2(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int)
        -> ssize_t = => send::pwritev2;
    by_descriptor pwritev64v2(fd: c_int, parts: *const iovec, count: c_int, at: off64_t,
        flags: c_int) -> ssize_t = => send::pwritev2;
    by_descriptor send(fd: c_int, buffer: *const c_void, bytes: size_t, flags: c_int) -> ssize_t
        = => send::send;
    by_descriptor __send(fd: c_int, buffer: *const c_void, bytes: size_t, flags: c_int) -> ssize_t
        = => send::send;
    by_descriptor sendto(fd: c_int, buffer: *const c_void, bytes: size_t, flags: c_int,
        address: *const sockaddr, address_bytes: socklen_t) -> ssize_t
        = SYS_sendto => send::sendto;
    always sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t
        = SYS_sendmsg => message::sendmsg;
    always sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int
        = SYS_sendmmsg => many::sendmmsg;
    by_descriptor sendfile(to: c_int, from: c_int, at: *mut off_t, bytes: size_t) -> ssize_t
        = SYS_sendfile => sendfile::sendfile;
    by_descriptor sendfile64(to: c_int, from: c_int, at: *mut off64_t, bytes: size_t) -> ssize_t
        = SYS_sendfile => sendfile::sendfile;
    always splice(from: c_int, from_at: *mut off64_t, to: c_int, to_at: *mut off64_t,
        bytes: size_t, flags: c_uint) -> ssize_t = SYS_splice => splice::splice;

    // Waiting.
    always poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int
        = => poll::poll;
    always __poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int
        = => poll::poll;
    always __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int
        = => poll::poll_checked;
    always ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec,
        mask: *const sigset_t) -> c_int = => poll::ppoll;
    always __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec,
        mask: *const sigset_t, room: size_t) -> c_int = => poll::ppoll_checked;
    always select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *mut timeval) -> c_int = => select::select;
    always __select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *mut timeval) -> c_int = => select::select;
    always pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *const timespec, mask: *const sigset_t) -> c_int = => select::pselect;
    always epoll_create(size: c_int) -> c_int = => epoll::epoll_create;
    always epoll_create1(flags: c_int) -> c_int = SYS_epoll_create1 => epoll::epoll_create1;
    always epoll_ctl(set: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int
        = SYS_epoll_ctl => epoll::epoll_ctl;
    by_descriptor epoll_wait(set: c_int, events: *mut epoll_event, room: c_int, timeout: c_int)
        -> c_int = => epoll::epoll_wait;
    by_descriptor epoll_pwait(set: c_int, events: *mut epoll_event, room: c_int, timeout: c_int,
        mask: *const sigset_t) -> c_int = => epoll::epoll_pwait;
    by_descriptor epoll_pwait2(set: c_int, events: *mut epoll_event, room: c_int,
        timeout: *const timespec, mask: *const sigset_t) -> c_int = => epoll::epoll_pwait2;

    // Descriptors.
    by_descriptor close(fd: c_int) -> c_int = SYS_close => close::close;
    by_descriptor __close(fd: c_int) -> c_int = SYS_close => close::close;
    always close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int
        = SYS_close_range => close::close_range;
    always closefrom(first: c_int) -> c_int = => close::closefrom;
    always dup(fd: c_int) -> c_int = SYS_dup => duplicate::dup;
    always dup2(fd: c_int, to: c_int) -> c_int = => duplicate::dup2;
    always __dup2(fd: c_int, to: c_int) -> c_int = => duplicate::dup2;
    always dup3(fd: c_int, to: c_int, flags: c_int) -> c_int = SYS_dup3 => duplicate::dup3;
    always prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int
        = SYS_prctl => confine::prctl;
    always fcntl(fd: c_int, command: c_int, argument: usize) -> c_int
        = SYS_fcntl => duplicate::fcntl;
    always fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int
        = SYS_fcntl => duplicate::fcntl;
    always __fcntl(fd: c_int, command: c_int, argument: usize) -> c_int
        = SYS_fcntl => duplicate::fcntl;
    by_descriptor ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int
        = SYS_ioctl => options::ioctl;

    // Processes.
    always execve(path: *const c_char, arguments: *const *const c_char,
        environment: *const *const c_char) -> c_int = SYS_execve => exec::execve;
    always execv(path: *const c_char, arguments: *const *const c_char) -> c_int
        = => exec::execv;
    always execvp(file: *const c_char, arguments: *const *const c_char) -> c_int
        = => exec::execvp;
    always execvpe(file: *const c_char, arguments: *const *const c_char,
        environment: *const *const c_char) -> c_int = => exec::execvpe;
    always fexecve(fd: c_int, arguments: *const *const c_char,
        environment: *const *const c_char) -> c_int = => exec::fexecve;
    always execveat(folder: c_int, path: *const c_char, arguments: *const *const c_char,
        environment: *const *const c_char, flags: c_int) -> c_int
        = SYS_execveat => exec::execveat;
    always posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const c_void,
        attributes: *const c_void, arguments: *const *mut c_char,
        environment: *const *mut c_char) -> c_int = => spawn::posix_spawn;
    always posix_spawnp(pid: *mut pid_t, file: *const c_char, actions: *const c_void,
        attributes: *const c_void, arguments: *const *mut c_char,
        environment: *const *mut c_char) -> c_int = => spawn::posix_spawnp;
    always system(command: *const c_char) -> c_int = => spawn::system;
    always popen(command: *const c_char, mode: *const c_char) -> *mut c_void
        = => spawn::popen;
    always clone(run: *mut c_void, stack: *mut c_void, flags: c_int, argument: *mut c_void,
        parent_tid: *mut c_void, tls: *mut c_void, child_tid: *mut c_void) -> c_int
        = => spawn::clone;

    // Signals.
    always sigaction(signal: c_int, new: *const SignalAction, old: *mut SignalAction) -> c_int
        = => signals::sigaction;
    always __sigaction(signal: c_int, new: *const SignalAction, old: *mut SignalAction) -> c_int
        = => signals::sigaction;
    always signal(signal: c_int, handler: sighandler_t) -> sighandler_t = => signals::signal;
    always bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t
        = => signals::signal;
    always ssignal(signal: c_int, handler: sighandler_t) -> sighandler_t
        = => signals::signal;
    always sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t
        = => signals::sysv_signal;
    always __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t
        = => signals::sysv_signal;
    always sigset(signal: c_int, handler: sighandler_t) -> sighandler_t = => signals::sigset;
    always pthread_cancel(thread: pthread_t) -> c_int = => cancel::pthread_cancel;
    always siginterrupt(signal: c_int, ends_calls: c_int) -> c_int = => signals::siginterrupt;

    // Streams of stdio, whose own calls never pass by here.
    always fdopen(fd: c_int, mode: *const c_char) -> *mut c_void = => stdio::fdopen;
    always freopen(path: *const c_char, mode: *const c_char, stream: *mut c_void) -> *mut c_void
        = => stdio::freopen;
    always freopen64(path: *const c_char, mode: *const c_char, stream: *mut c_void) -> *mut c_void
        = => stdio::freopen64;
    by_descriptor vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int
        = => stdio::vdprintf;
    by_descriptor __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char,
        arguments: *mut c_void) -> c_int = => stdio::vdprintf_checked;

    // Everything, by number: `exports::by_number` defines it, beside what it leads to.
    by_hand syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize)
        -> c_long = => by_number::syscall;
    } };
}

pub(crate) use functions;
