//! Sockets whose daemon has ended are offered to the next one, with the descriptors that they have.

use libc::c_int;

use crate::calls::{close, listen, to_kernel, twins, udp};
use crate::entry::descriptors;
use crate::entry::file::{File, Kind};
use crate::process::{again, lookup};
use crate::system::kernel_socket;

/// Says how that is done, before there is a socket that could need it.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    say();
}

/// See [`again::renew_by`].
pub(crate) fn say() {
    again::renew_by(offer, to_kernel::leave, to_kernel::sweep);
}

/// Offers a listener or a UDP socket anew. Where that is refused it is the kernel's, as any socket.
/// Calls of other threads that wait for the old one begin anew.
pub(crate) fn offer(fd: c_int, old: &File) {
    let is_shared = old.is_shared();
    if old.kind == Kind::Listener {
        kernel_socket::set_nonblocking(fd, old.is_nonblocking());
    }
    old.set_renewed();
    twins::let_go(fd);
    close::forget(fd);
    match old.kind {
        Kind::Stream => return,
        // Its numbers have their sets and their twins again as soon as it is ours. Who may not
        // listen there any more is told so at its next call of listen(2).
        Kind::Listener => drop(listen::beside(fd, kernel_socket::backlog(fd))),
        Kind::Datagram => {
            if udp::open(fd, old.family, None).is_err() {
                descriptors::set_fresh(fd);
            }
        }
    }
    if is_shared && let Some(held) = lookup::socket(fd) {
        held.file().iter().for_each(|file| file.socket.mark_shared());
    }
}
