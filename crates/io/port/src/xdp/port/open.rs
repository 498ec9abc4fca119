//! Opening queues of an interface: what needs rights, and no frames.

use std::os::fd::AsFd;

use base::{ChecksumState, PortId, QueueId};
use sys::poll_set::PollSet;

use crate::xdp::chain::Link;
use crate::xdp::interface::TIMEOUT;
use crate::xdp::queue::Common;
use crate::xdp::segments::SegmentSocket;
use crate::xdp::socket::Socket;
use crate::xdp::{Take, Umem, XdpInterface, XdpOptions};
use crate::{Capabilities, LinkChecksums, OpenError, Queues};

/// Ethernet header and two VLAN tags (IEEE 802.1ad) come on top of an MTU.
const LINK_BYTES: u32 = 22;

/// The sockets of a port, bound to their queues, before they have frames to receive into: what
/// another thread, with the rights for it, may have opened.
pub struct XdpSockets {
    pub(super) sockets: Vec<(QueueId, Socket)>,
    pub(super) segments: Option<SegmentSocket>,
    pub(super) poll_set: Option<PollSet>,
    pub(super) common: Common,
    pub(super) capabilities: Capabilities,
}

impl XdpSockets {
    /// Opens a socket for `queue` of `interface`, or one for each of its queues, over the frames of
    /// which `umem` is made.
    ///
    /// # Errors
    /// No such queue, or one that is in use; an MTU that does not fit; missing rights.
    pub fn open(
        interface: &XdpInterface,
        id: PortId,
        queue: Option<QueueId>,
        umem: &Umem,
        options: &XdpOptions,
    ) -> Result<Self, OpenError> {
        options.check()?;
        let of = interface.queues();
        let name = interface.name();
        let (queues, numbers) = match queue {
            Some(queue) if u32::from(queue.0) >= of => {
                let (interface, queue) = (name.to_owned(), queue.0);
                return Err(OpenError::NoQueue { interface, queue, queues: of });
            }
            Some(queue) => (Queues::One { queue, of }, vec![queue]),
            None => {
                (Queues::All(of), (0..of).map_while(|n| n.try_into().ok()).map(QueueId).collect())
            }
        };
        let max = umem.frame_bytes_max() - LINK_BYTES;
        if interface.mtu() > max {
            let (mtu, chunk_bytes) = (interface.mtu(), umem.chunk_bytes());
            let interface = name.to_owned();
            return Err(OpenError::MtuTooLarge { interface, mtu, max, chunk_bytes });
        }
        let opened = |&queue: &QueueId| Ok((queue, open_socket(interface, queue, umem, options)?));
        let sockets = interface
            .at_home(|| numbers.iter().map(opened).collect::<Result<Vec<_>, OpenError>>())??;
        // A queue between the packet socket and the device would be passed by what the rings send.
        let segments = match interface.is_queueless() {
            true => interface.at_home(|| SegmentSocket::open(interface.index()))?,
            false => None,
        };
        let zero_copy = sockets.iter().all(|(_, socket)| socket.zero_copy);
        let checksums = match options.trust_link {
            true => LinkChecksums::Trusted,
            false if interface.is_veth() => LinkChecksums::MayBeOpen,
            false => LinkChecksums::Complete,
        };
        let common = Common {
            id,
            fill_target: options.fill_target(umem.frames(), sockets.len() as u32),
            frame_bytes_max: interface.mtu() + LINK_BYTES,
            chunk_room: umem.frame_bytes_max(),
            link: Link { mtu: interface.mtu(), is_trusted: options.trust_link },
            busy_poll: options.busy_poll_micros.is_some(),
            needs_wakeup: !zero_copy,
            // In copy mode the kernel sees to it whatever the device can do.
            completes_checksums: umem.has_tx_metadata() && !zero_copy,
            checksum: match options.trust_link {
                true => ChecksumState::Partial,
                false => ChecksumState::Unknown,
            },
        };
        let capabilities = Capabilities {
            kind: "xdp",
            cuts_segments: segments.is_some(),
            name: name.to_owned(),
            mode: mode(interface, queues, zero_copy, common.busy_poll),
            frame_bytes_max: common.frame_bytes_max,
            mtu: interface.mtu(),
            zero_copy,
            queues,
            needs_wakeup: common.needs_wakeup,
            kernel_answers_arp: interface.take() == Take::Ours,
            checksums,
            mac: Some(interface.mac()),
            hears_others: true,
        };
        let poll_set = match sockets.len() {
            1 => None,
            _ => Some(PollSet::new()?),
        };
        for (_, socket) in &sockets {
            poll_set.iter().try_for_each(|set| set.add(socket.as_fd()))?;
        }
        Ok(Self { sockets, segments, poll_set, common, capabilities })
    }
}

/// How the port works, in words.
fn mode(interface: &XdpInterface, queues: Queues, zero_copy: bool, busy_poll: bool) -> String {
    let copy = if zero_copy { "zero copy" } else { "copy" };
    let wake = if busy_poll { "busy poll" } else { "need wake-up" };
    format!("{}, {copy}, {wake}, {queues}", interface.mode())
}

/// Opens the socket. The kernel lets go of a queue a moment after its socket has closed, in a
/// work queue, so that one which was just closed (by us, or by a daemon that is being restarted)
/// is still busy: wait that moment.
fn open_socket(
    interface: &XdpInterface,
    queue: QueueId,
    umem: &Umem,
    options: &XdpOptions,
) -> Result<Socket, OpenError> {
    let (name, index) = (interface.name(), interface.index());
    let end = sys::clock::now() + TIMEOUT;
    loop {
        match Socket::open(name, index, queue.0, umem, options, interface.is_generic()) {
            Err(OpenError::Busy { .. }) if sys::clock::now() < end => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            result => return result,
        }
    }
}
