//! One AF_XDP socket: four rings and a queue.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use sys::capability::Capability;

use super::if_xdp as uapi;
use super::if_xdp::{MmapOffsets, RingOffset, SOL_XDP, Statistics, XdpDesc};
use super::ring::{Consumer, Producer, RingMemory};
use super::{CopyMode, Umem, XdpOptions};
use crate::mapping::Mapping;
use crate::{OpenError, sockopt};

// SAFETY: numbers only.
unsafe impl sockopt::Plain for MmapOffsets {}
// SAFETY: numbers only.
unsafe impl sockopt::Plain for Statistics {}

/// A bound socket.
pub(super) struct Socket {
    /// Rings first: their mappings must be gone before the queue can be bound anew.
    pub(super) fill: Producer<u64>,
    pub(super) completion: Consumer<u64>,
    pub(super) rx: Consumer<XdpDesc>,
    pub(super) tx: Producer<XdpDesc>,
    pub(super) zero_copy: bool,
    fd: Arc<OwnedFd>,
}

/// What a kick did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kick {
    /// The kernel took it up.
    Taken,
    /// The kernel was busy or out of buffers: again later.
    Again,
    /// The interface is down.
    Down,
    /// The interface is gone.
    Gone,
}

impl Socket {
    /// Opens and binds a socket on queue `queue` of the interface `name` (index `ifindex`), to the
    /// program of which the kernel hands socket buffers if it `is_generic`.
    pub(super) fn open(
        name: &str,
        ifindex: u32,
        queue: u16,
        umem: &Umem,
        options: &XdpOptions,
        is_generic: bool,
    ) -> Result<Self, OpenError> {
        let fd = rustix::net::socket_with(
            AddressFamily::from_raw(libc::AF_XDP as u16),
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|errno| {
            let advice = "this kernel has no AF_XDP: use af_packet";
            OpenError::of("open an AF_XDP socket", errno, &[Capability::NetRaw], advice)
        })?;
        let fd = Arc::new(fd);
        let rings = Rings::make(fd.as_fd(), options.ring_entries)?;
        apply_socket_options(fd.as_fd(), name, options)?;
        let place = (ifindex, queue);
        join(fd.as_fd(), place, umem, options.copy, is_generic)?
            .map_err(|errno| not_bound(name, queue, options.copy, errno))?;
        umem.joined(&fd);
        let mode: u32 = sockopt::get(fd.as_fd(), SOL_XDP, uapi::XDP_OPTIONS).unwrap_or(0);
        let zero_copy = mode & uapi::XDP_OPTIONS_ZEROCOPY != 0;
        let Rings { fill, completion, rx, tx } = rings;
        Ok(Self { fill, completion, rx, tx, zero_copy, fd })
    }

    /// Makes the kernel look at the transmit ring.
    pub(super) fn kick_tx(&self) -> Kick {
        // SAFETY: no bytes and no address are passed.
        let result = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null(),
                0,
            )
        };
        classify(result)
    }

    /// Makes the kernel look at the fill ring, or poll the device.
    pub(super) fn kick_rx(&self) -> Kick {
        // SAFETY: no bytes and no address are passed.
        let result = unsafe {
            libc::recvfrom(
                self.fd.as_raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        classify(result)
    }

    /// Whether the kernel has taken the interface away. Reading it clears it: remember.
    pub(super) fn is_unbound(&self) -> bool {
        let error: libc::c_int =
            sockopt::get(self.fd.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(0);
        error == libc::ENETDOWN
    }

    pub(super) fn statistics(&self) -> Statistics {
        sockopt::get(self.fd.as_fd(), SOL_XDP, uapi::XDP_STATISTICS).unwrap_or_default()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn classify(result: isize) -> Kick {
    if result >= 0 {
        return Kick::Taken;
    }
    match sockopt::last_errno() {
        // Normal in copy mode: the device queue is full, the batch limit is reached, no memory
        // for another packet, or another thread is in the driver.
        Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR => Kick::Again,
        Errno::NETDOWN => Kick::Down,
        Errno::NXIO | Errno::NODEV => Kick::Gone,
        _ => Kick::Again,
    }
}

struct Rings {
    fill: Producer<u64>,
    completion: Consumer<u64>,
    rx: Consumer<XdpDesc>,
    tx: Producer<XdpDesc>,
}

impl Rings {
    /// Has the kernel make the four rings, `entries` each, and maps them.
    fn make(fd: BorrowedFd<'_>, entries: u32) -> Result<Self, OpenError> {
        let failed = |errno| OpenError::of("make the rings of an AF_XDP socket", errno, &[], "");
        for ring in [
            uapi::XDP_UMEM_FILL_RING,
            uapi::XDP_UMEM_COMPLETION_RING,
            uapi::XDP_RX_RING,
            uapi::XDP_TX_RING,
        ] {
            sockopt::set(fd, SOL_XDP, ring, &entries).map_err(failed)?;
        }
        let offsets: MmapOffsets =
            sockopt::get(fd, SOL_XDP, uapi::XDP_MMAP_OFFSETS).map_err(failed)?;
        let map = |page: u64, offset: &RingOffset, entry_bytes: usize| {
            let bytes = offset.desc as usize + entries as usize * entry_bytes;
            let mapping = Mapping::new(fd, page, bytes).map_err(failed)?;
            Ok::<Arc<dyn RingMemory>, OpenError>(Arc::new(mapping))
        };
        let MmapOffsets { rx, tx, fill, completion } = offsets;
        let strange = || failed(Errno::PROTO);
        let address = size_of::<u64>();
        let desc = size_of::<XdpDesc>();
        let fill_memory = map(uapi::XDP_UMEM_PGOFF_FILL_RING, &fill, address)?;
        let completion_memory = map(uapi::XDP_UMEM_PGOFF_COMPLETION_RING, &completion, address)?;
        let rx_memory = map(uapi::XDP_PGOFF_RX_RING, &rx, desc)?;
        let tx_memory = map(uapi::XDP_PGOFF_TX_RING, &tx, desc)?;
        Ok(Self {
            fill: Producer::new(fill_memory, &fill, entries).ok_or_else(strange)?,
            completion: Consumer::new(completion_memory, &completion, entries)
                .ok_or_else(strange)?,
            rx: Consumer::new(rx_memory, &rx, entries).ok_or_else(strange)?,
            tx: Producer::new(tx_memory, &tx, entries).ok_or_else(strange)?,
        })
    }
}

fn apply_socket_options(
    fd: BorrowedFd<'_>,
    name: &str,
    options: &XdpOptions,
) -> Result<(), OpenError> {
    // One kick should send everything that is in the ring; before Linux 6.17 it stops after 32
    // and is repeated.
    let _ = sockopt::set(fd, SOL_XDP, uapi::XDP_MAX_TX_SKB_BUDGET, &options.ring_entries);
    let Some(micros) = options.busy_poll_micros else {
        return Ok(());
    };
    let socket = libc::SOL_SOCKET;
    let micros = libc::c_int::try_from(micros).unwrap_or(libc::c_int::MAX);
    sockopt::set(fd, socket, uapi::SO_PREFER_BUSY_POLL, &1i32)
        .and_then(|()| sockopt::set(fd, socket, uapi::SO_BUSY_POLL, &micros))
        .and_then(|()| {
            sockopt::set(fd, socket, uapi::SO_BUSY_POLL_BUDGET, &(base::BURST as libc::c_int))
        })
        .map_err(|errno| {
            let doing = format!("busy-poll {name}");
            OpenError::of(doing, errno, &[Capability::NetAdmin], "leave out busy_poll")
        })
}

/// Binds to a queue over the memory of `umem`: by a socket that has it already, or else by bringing
/// it to the kernel.
fn join(
    fd: BorrowedFd<'_>,
    place: (u32, u16),
    umem: &Umem,
    copy: CopyMode,
    is_generic: bool,
) -> Result<Result<(), Errno>, OpenError> {
    for leader in umem.sockets() {
        match bind(fd, place, Some(leader.as_fd()), copy, 0) {
            // Its interface has gone, and it is bound to nothing any more.
            Err(Errno::BADF) => {}
            result => return Ok(result),
        }
    }
    umem.register(fd)?;
    // Only there do packets come that are longer than the link takes. A driver that writes into our
    // frames may know nothing of packets in several, and then not write there at all.
    if is_generic && bind(fd, place, None, copy, uapi::XDP_USE_SG).is_ok() {
        return Ok(Ok(()));
    }
    Ok(bind(fd, place, None, copy, 0))
}

/// The kernel lets a queue go in a work queue of its own, after the last descriptor of its socket
/// was closed: whoever comes at once finds it taken, and asks again so often, for a second.
const BUSY_TRIES: usize = 200;
const BUSY_STEP: Duration = Duration::from_millis(5);

fn bind(
    fd: BorrowedFd<'_>,
    place: (u32, u16),
    leader: Option<BorrowedFd<'_>>,
    copy: CopyMode,
    several_frames: u16,
) -> Result<(), Errno> {
    while_busy(|| bind_now(fd, place, leader, copy, several_frames))
}

fn while_busy(mut attempt: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
    for _ in 1..BUSY_TRIES {
        match attempt() {
            Err(Errno::BUSY) => std::thread::sleep(BUSY_STEP),
            result => return result,
        }
    }
    attempt()
}

fn bind_now(
    fd: BorrowedFd<'_>,
    (ifindex, queue): (u32, u16),
    leader: Option<BorrowedFd<'_>>,
    copy: CopyMode,
    several_frames: u16,
) -> Result<(), Errno> {
    let (flags, shared_umem_fd) = match leader {
        // A follower inherits the leader's copy mode and wake-up flag and may not name any.
        Some(leader) => (uapi::XDP_SHARED_UMEM, leader.as_raw_fd() as u32),
        None => {
            let mode = match copy {
                // Without either flag the kernel tries zero copy and falls back by itself.
                CopyMode::Probe => 0,
                CopyMode::Copy => uapi::XDP_COPY,
                CopyMode::ZeroCopy => uapi::XDP_ZEROCOPY,
            };
            (mode | uapi::XDP_USE_NEED_WAKEUP | several_frames, 0)
        }
    };
    let address = uapi::SockaddrXdp {
        family: libc::AF_XDP as u16,
        flags,
        ifindex,
        queue_id: u32::from(queue),
        shared_umem_fd,
    };
    // SAFETY: the address is a valid sockaddr_xdp of the length given, and only read.
    let result = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            std::ptr::from_ref(&address).cast(),
            size_of::<uapi::SockaddrXdp>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(sockopt::last_errno()) }
}

fn not_bound(name: &str, queue: u16, copy: CopyMode, errno: Errno) -> OpenError {
    match errno {
        Errno::BUSY => OpenError::Busy { interface: name.to_owned(), queue },
        Errno::OPNOTSUPP if copy == CopyMode::ZeroCopy => {
            OpenError::NoZeroCopy { interface: name.to_owned(), errno }
        }
        errno => OpenError::of(
            format!("bind to queue {queue} of {name}"),
            errno,
            &[Capability::NetRaw],
            "is the interface up, and has it that queue?",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_is_let_go_a_moment_later_is_waited_for_and_one_that_is_not_is_busy() {
        let answers = |first: &[Errno], then: Result<(), Errno>| {
            let mut left = first.iter();
            while_busy(|| left.next().map_or(then, |&errno| Err(errno)))
        };
        assert_eq!(answers(&[Errno::BUSY; 3], Ok(())), Ok(()));
        assert_eq!(answers(&[Errno::BUSY, Errno::PERM], Ok(())), Err(Errno::PERM));
        assert_eq!(answers(&[], Err(Errno::BUSY)), Err(Errno::BUSY));
    }
}
