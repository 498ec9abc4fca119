//! The calls of libc that this library serves.

/// accept(2).
pub(crate) mod accept;
/// Signals that tell of news.
mod alarm;
/// What stands beside the bytes of a datagram.
mod beside;
/// pthread_cancel(3).
pub(crate) mod cancel;
/// read(2) and its kin with a look at the buffer.
pub(crate) mod checked;
/// close(2).
pub(crate) mod close;
/// prctl(2), seccomp(2).
pub(crate) mod confine;
/// connect(2).
pub(crate) mod connect;
/// What a UDP socket of ours receives and sends.
pub(crate) mod datagram;
/// dup(2), fcntl(2).
pub(crate) mod duplicate;
/// epoll(7).
pub(crate) mod epoll;
/// execve(2) and its kin.
pub(crate) mod exec;
/// Why a socket stays the kernel's.
pub(crate) mod fallback;
/// Options that a socket has when it becomes ours.
pub(crate) mod inherit;
/// Options that only the kernel carries out.
mod kernel_options;
/// listen(2).
pub(crate) mod listen;
/// recvmmsg(2), sendmmsg(2).
pub(crate) mod many;
/// recvmsg(2), sendmsg(2).
pub(crate) mod message;
/// getsockname(2), getpeername(2).
pub(crate) mod names;
/// Every socket option, and what becomes of it.
mod option_table;
/// getsockopt(2), setsockopt(2), ioctl(2).
pub(crate) mod options;
/// poll(2).
pub(crate) mod poll;
/// read(2), recv(2) and their kin.
pub(crate) mod receive;
/// Callers of a listener that ends.
mod refuse;
/// Sockets whose daemon has ended.
mod renew;
/// select(2).
pub(crate) mod select;
/// write(2), send(2) and their kin.
pub(crate) mod send;
/// sendfile(2).
pub(crate) mod sendfile;
/// What has become of a call that moves bytes.
mod served;
/// shutdown(2).
pub(crate) mod shutdown;
/// sigaction(2), signal(2).
pub(crate) mod signals;
/// socket(2).
pub(crate) mod socket;
/// The stretches of memory that a call names.
mod spans;
/// posix_spawn(3), system(3), popen(3), clone(2).
pub(crate) mod spawn;
/// splice(2).
pub(crate) mod splice;
/// Streams of stdio.
pub(crate) mod stdio;
/// TCP_INFO.
mod tcp_info;
mod to_kernel;
/// Numbers of one socket from before it was ours.
mod twins;
/// bind(2), and how UDP sockets become ours.
pub(crate) mod udp;
