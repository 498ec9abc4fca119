//! A TAP interface as a port: the kernel's end is an interface, ours a descriptor.
//!
//! One system call a packet, and still the simplest way to talk to the kernel of this machine.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use base::{FrameMeta, Nanos, PortId, QueueId};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use shm::{Batch, FramePool};
use sys::capability::Capability;
use sys::interface;

use crate::finish::finish;
use crate::{Capabilities, Fault, LinkChecksums, OpenError, Port, PortCounters, Queues, sockopt};

/// Settings of a TAP interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TapOptions {
    /// Address and prefix length of the kernel's end; the interface is then set up, too.
    pub address: Option<(IpAddr, u8)>,
    /// Set the interface up.
    pub up: bool,
    /// Its MTU; `None`: as it is.
    pub mtu: Option<u32>,
    /// Allow several ports on one interface, each a queue.
    pub multi_queue: bool,
}

/// One queue of a TAP interface.
pub struct TapPort {
    /// `None` once closed.
    fd: Option<OwnedFd>,
    id: PortId,
    fault: Option<Fault>,
    counters: PortCounters,
    capabilities: Capabilities,
}

impl TapPort {
    /// Makes the interface called `name` in the calling thread's namespace, or takes one that is
    /// there and has no program. It goes when the port does, unless it was made persistent.
    ///
    /// # Errors
    /// CAP_NET_ADMIN is missing, the interface is in use or no TAP, or its MTU does not fit.
    pub fn open(
        name: &str,
        id: PortId,
        queue: QueueId,
        pool: &FramePool,
        options: &TapOptions,
    ) -> Result<Self, OpenError> {
        let fd = attach(name, options.multi_queue)?;
        let chunk_bytes = pool.config().chunk_bytes;
        let max = chunk_bytes - shm::pool::HEADROOM_BYTES - 22;
        let found = interface::by_name(name)?;
        if let Some(mtu) = options.mtu {
            interface::set_mtu(found.index, mtu)?;
        }
        let mtu = options.mtu.unwrap_or(found.mtu);
        if mtu > max {
            let interface = name.to_owned();
            return Err(OpenError::MtuTooLarge { interface, mtu, max, chunk_bytes });
        }
        if let Some((address, prefix_bits)) = options.address {
            interface::add_address(found.index, address, prefix_bits)?;
        }
        if options.up || options.address.is_some() {
            interface::set_up(found.index, true)?;
        }
        // The kernel's end has the interface's address; ours differs from it in one bit, which
        // makes it another local one.
        let mut mac = found.mac;
        mac[5] ^= 1;
        let capabilities = Capabilities {
            kind: "tap",
            name: name.to_owned(),
            mode: if options.multi_queue { "multi-queue, copy" } else { "copy" }.to_owned(),
            frame_bytes_max: mtu + 22,
            mtu,
            cuts_segments: false,
            zero_copy: false,
            queues: match options.multi_queue {
                true => Queues::One { queue, of: found.rx_queues },
                false => Queues::All(1),
            },
            needs_wakeup: true,
            kernel_answers_arp: false,
            checksums: LinkChecksums::Complete,
            mac: Some(mac),
            hears_others: true,
        };
        let counters = PortCounters::default();
        Ok(Self { fd: Some(fd), id, fault: None, counters, capabilities })
    }

    fn stopped_by(&mut self, errno: Errno) {
        match errno {
            // The interface was deleted: the descriptor has no interface any more.
            Errno::BADFD | Errno::NODEV => self.fault = Some(Fault::Vanished),
            Errno::IO => self.fault = Some(Fault::Down),
            _ => {}
        }
    }
}

impl Port for TapPort {
    fn rx(&mut self, pool: &mut FramePool, batch: &mut Batch, now: Nanos) -> usize {
        let Some(fd) = &self.fd else { return 0 };
        let queue = self.capabilities.queues.first();
        let mut received = 0;
        let mut stopped = None;
        while !batch.is_full() {
            let Some(mut frame) = pool.take() else {
                self.counters.rx_no_frame += 1;
                break;
            };
            let room = frame.room();
            let fits = frame.set_len(room);
            debug_assert!(fits, "the room is what fits");
            match rustix::io::read(fd, frame.bytes_mut()) {
                Ok(len) if len < room => {
                    let fits = frame.set_len(len);
                    debug_assert!(fits, "less than the room fits");
                    *frame.meta_mut() =
                        FrameMeta { received_at: now, port: self.id, queue, ..FrameMeta::UNKNOWN };
                    self.counters.rx_bytes += len as u64;
                    batch.push(frame);
                    received += 1;
                }
                Ok(_) => {
                    // It filled the frame, so the kernel may have cut it.
                    self.counters.rx_oversize += 1;
                    pool.give(frame);
                }
                Err(errno) => {
                    pool.give(frame);
                    stopped = Some(errno);
                    break;
                }
            }
        }
        self.counters.rx_packets += received as u64;
        if received > 0 && self.fault == Some(Fault::Down) {
            self.fault = None;
        }
        if let Some(errno) = stopped {
            self.stopped_by(errno);
        }
        received
    }

    fn tx(&mut self, pool: &mut FramePool, batch: &mut Batch, _now: Nanos) -> usize {
        let Some(fd) = &self.fd else { return 0 };
        let mut taken = 0;
        let mut stopped = None;
        for frame in batch.iter_mut() {
            if finish(frame, self.capabilities.frame_bytes_max, &mut self.counters) {
                self.counters.kicks += 1;
                match rustix::io::write(fd, frame.bytes()) {
                    Ok(_) => {
                        self.counters.tx_packets += 1;
                        self.counters.tx_bytes += frame.len() as u64;
                    }
                    Err(errno @ (Errno::AGAIN | Errno::NOBUFS | Errno::INTR)) => {
                        self.counters.kicks_busy += 1;
                        self.counters.tx_full += 1;
                        stopped = Some(errno);
                        break;
                    }
                    Err(errno) => {
                        self.counters.tx_errors += 1;
                        stopped = Some(errno);
                    }
                }
            }
            taken += 1;
        }
        batch.drain(..taken).for_each(|frame| pool.give(frame));
        match stopped {
            Some(errno) => self.stopped_by(errno),
            None if taken > 0 && self.fault == Some(Fault::Down) => self.fault = None,
            None => {}
        }
        taken
    }

    fn flush(&mut self, _pool: &mut FramePool, _now: Nanos) {}

    fn prepare_wait(&mut self, _pool: &mut FramePool) {}

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    fn next_deadline(&self) -> Nanos {
        Nanos::FAR_FUTURE
    }

    fn fault(&self) -> Option<Fault> {
        self.fault
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }

    fn close(&mut self, _pool: &mut FramePool) {
        self.fd = None;
    }
}

/// Opens the clone device and attaches it to the interface `name`.
fn attach(name: &str, multi_queue: bool) -> Result<OwnedFd, OpenError> {
    /// `_IOW('T', 202, int)` of linux/if_tun.h.
    const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
    let failed = |errno| match errno {
        Errno::BUSY => OpenError::Busy { interface: name.to_owned(), queue: 0 },
        errno => OpenError::of(
            format!("attach to TAP interface {name}"),
            errno,
            &[Capability::NetAdmin],
            "is there another kind of interface of that name, or one made with other options?",
        ),
    };
    if name.is_empty() || name.len() > interface::NAME_BYTES_MAX || name.contains(['/', '%']) {
        return Err(OpenError::Setting(format!(
            "{name:?} cannot be the name of an interface: use 1 to {} letters and digits",
            interface::NAME_BYTES_MAX
        )));
    }
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open("/dev/net/tun", flags, Mode::empty()).map_err(|errno| {
        let advice = "this kernel has no TUN/TAP driver, or /dev/net/tun is not visible here";
        OpenError::of("open /dev/net/tun", errno, &[Capability::NetAdmin], advice)
    })?;
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, &from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
        *to = from as libc::c_char;
    }
    let multi = if multi_queue { libc::IFF_MULTI_QUEUE } else { 0 };
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | multi) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which `request` is.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), TUNSETIFF, &raw mut request) };
    if result < 0 {
        return Err(failed(sockopt::last_errno()));
    }
    Ok(fd)
}
