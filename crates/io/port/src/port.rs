//! What every port can do: the trait that everything above is generic over.

use std::fmt;
use std::os::fd::BorrowedFd;

use base::{Nanos, QueueId};
use shm::{Batch, FramePool};

use crate::hook::Hook;
use crate::{Filter, Judge, OpenError, PortCounters};

/// A NIC, or something that looks like one: one receive and one transmit queue of it.
///
/// One thread owns a port and the pool whose frames it moves. No method blocks, allocates or logs;
/// what goes wrong moves a counter or shows in [`Port::fault`]. A port is polled: call
/// [`Port::rx`] (which also takes back transmitted frames), and before sleeping
/// [`Port::prepare_wait`], then wait for [`Port::poll_fd`] or [`Port::next_deadline`], whichever
/// comes first.
pub trait Port {
    /// Appends received frames to `batch`, up to its capacity, oldest first; how many. Their meta
    /// says `now`, the port, the queue, a stripped VLAN tag and what is known of the checksum.
    fn rx(&mut self, pool: &mut FramePool, batch: &mut Batch, now: Nanos) -> usize;

    /// Takes frames from the front of `batch` in order; how many. Frames that did not fit stay,
    /// and the caller decides: try again, or give them back and count. A frame that can never
    /// leave (too long, in pieces) is taken, given back to `pool` and counted.
    fn tx(&mut self, pool: &mut FramePool, batch: &mut Batch, now: Nanos) -> usize;

    /// From now on receives only what `filter` wants, or everything again; who looks at the
    /// packets. What came before may still be received.
    ///
    /// # Errors
    /// The kernel refuses what it should be able to do.
    fn set_filter(&mut self, filter: Option<&Filter>) -> Result<Judge, OpenError> {
        let why = "this kind of port does not look at packets".to_owned();
        Ok(if filter.is_none() { Judge::Kernel } else { Judge::Reader { why } })
    }

    /// From now on `hook` finishes what it can of the packets that `filter` wants, in the kernel,
    /// and the others of them are received. A later [`Port::set_filter`] ends that.
    ///
    /// # Errors
    /// Why there is none here; everything is as it was then.
    fn set_hook(&mut self, _filter: Option<&Filter>, _hook: &Hook) -> Result<(), String> {
        Err("only ports of AF_XDP have a hook".to_owned())
    }

    /// Pushes on what earlier calls could not finish: unsent kicks, frames whose time has come.
    /// [`Port::rx`] does the same; a thread that only transmits calls this.
    fn flush(&mut self, pool: &mut FramePool, now: Nanos);

    /// Makes ready for a sleep: nothing that arrives from now on may fail to make
    /// [`Port::poll_fd`] readable. Call [`Port::rx`] once more between this and sleeping.
    fn prepare_wait(&mut self, pool: &mut FramePool);

    /// Readable when [`Port::rx`] has something to give; `None` for a port without the kernel.
    fn poll_fd(&self) -> Option<BorrowedFd<'_>>;

    /// When [`Port::rx`] or [`Port::flush`] has something to do although nothing arrives;
    /// [`Nanos::FAR_FUTURE`]: never. May change after every other call.
    fn next_deadline(&self) -> Nanos;

    /// Why nothing moves any more; `None` while all is well. Moving nothing is all that a broken
    /// port does: the owner looks here at control rate.
    fn fault(&self) -> Option<Fault>;

    /// What the port is and what it can do. Fixed once it is open.
    fn capabilities(&self) -> &Capabilities;

    /// What happened so far. May make a system call: control rate.
    fn counters(&self) -> PortCounters;

    /// Gives every frame that it holds back to `pool`, those the kernel had included, and stops.
    /// Frames of a port that is dropped unclosed are lost to the pool (safe, and outstanding).
    fn close(&mut self, pool: &mut FramePool);
}

/// What a port is and what it can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The kind: "xdp", "af_packet", "tap", "pcap", "memory", "faulty".
    pub kind: &'static str,
    /// The interface or file.
    pub name: String,
    /// How it works here, for status: "native, copy", or why it is not what one would wish.
    pub mode: String,
    /// Bytes of the longest frame it can move, Ethernet header included.
    pub frame_bytes_max: u32,
    /// Bytes of the largest IP packet on the link.
    pub mtu: u32,
    /// Whether a TCP segment longer than the MTU, in one frame or several, leaves in pieces of
    /// [`base::FrameMeta::tx_segment_bytes`].
    pub cuts_segments: bool,
    /// Whether the NIC writes into our frames itself.
    pub zero_copy: bool,
    /// The queues of the interface that this port serves.
    pub queues: Queues,
    /// Whether transmitting needs a system call for each batch.
    pub needs_wakeup: bool,
    /// Whether the kernel sees the packets that are not ours, and so answers ARP and neighbour
    /// solicitations for us.
    pub kernel_answers_arp: bool,
    /// What is to be done about checksums of received packets.
    pub checksums: LinkChecksums,
    /// The link address when the port was opened, where there is one.
    pub mac: Option<[u8; 6]>,
    /// Whether frames may come that are for other link addresses, and so for other hosts.
    pub hears_others: bool,
}

/// Which of an interface's receive queues a port serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// All of them; how many. Of a file or a wire in memory: one.
    All(u32),
    /// One of several: other ports may serve the others.
    One {
        /// Its number, from 0.
        queue: QueueId,
        /// How many the interface uses.
        of: u32,
    },
}

impl Queues {
    /// How many receive queues the interface uses.
    pub fn of_interface(self) -> u32 {
        match self {
            Self::All(count) | Self::One { of: count, .. } => count,
        }
    }

    /// The first that the port serves.
    pub fn first(self) -> QueueId {
        match self {
            Self::All(_) => QueueId(0),
            Self::One { queue, .. } => queue,
        }
    }
}

impl fmt::Display for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(1) => f.write_str("1 queue"),
            Self::All(count) => write!(f, "{count} queues"),
            Self::One { queue, of } => write!(f, "queue {} of {of}", queue.0),
        }
    }
}

/// What a link's received checksums say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkChecksums {
    /// Every sender completes them: they are verified.
    Complete,
    /// The sender at the other end may be a kernel of this host, which leaves a checksum open and
    /// only sums the pseudo-header (`CHECKSUM_PARTIAL` of the kernel's documentation, as over
    /// veth). Open ones are accepted; all others are verified, for a bridge may have sent on what
    /// came by a wire.
    MayBeOpen,
    /// Nobody looks at them: an operator said so (`trust_link`).
    Trusted,
}

/// Why a port moves nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The interface was removed. An AF_XDP port goes on with new sockets when one of the name is
    /// there again; others are to be opened anew.
    Vanished,
    /// The interface is down; traffic goes on when it is set up again.
    Down,
    /// The file has been played to its end.
    EndOfFile,
    /// The file is damaged from here on.
    DamagedFile,
    /// The file cannot be written any more: disk full, or an error below it.
    CannotWrite,
    /// The other end of the wire is gone.
    PeerGone,
}

impl Fault {
    /// What it is, and what to do about it, of the port on `interface`.
    pub fn of(self, interface: &str) -> String {
        match self {
            Self::Down => format!("{self}: set it up with `ip link set dev {interface} up`"),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vanished => "the interface was removed",
            Self::Down => "the interface is down",
            Self::EndOfFile => "the capture file has ended",
            Self::DamagedFile => {
                "the capture file is damaged: no packet after the damage is played"
            }
            Self::CannotWrite => "the capture file cannot be written: look for a full disk",
            Self::PeerGone => "the other end of the wire is gone",
        })
    }
}
