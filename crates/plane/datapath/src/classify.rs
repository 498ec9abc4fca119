//! Step two: what each frame is, and, if it is a flow's, which group steers it.

use base::{ChecksumState, PortId};
use port::{LinkChecksums, Port};
use wire::icmp::ErrorMessage;
use wire::{Flow, NotOurs, Outcome, checksum};

use crate::app::AttachmentId;
use crate::classified::Classified;
use crate::dispatcher::{Dispatcher, DispatcherPort};

impl<P: Port> Dispatcher<P> {
    /// Looks at every frame of the batch before any is sent on: parsing runs over 64 packets in a
    /// row while the tables' lines are on their way.
    ///
    /// `address_mask` is what of a frame's first bytes has to be a link address of the port's.
    #[inline]
    pub(crate) fn classify_batch(&mut self, index: usize, address_mask: u64) {
        let Self { ports, toeplitz, listeners, apps, batch, classified, .. } = self;
        let DispatcherPort { checksums, ref stations, .. } = ports[index];
        let own = stations.own_number() & address_mask;
        classified.clear();
        for frame in batch.iter_mut() {
            // What is shorter is malformed, as the parser says.
            let start = frame.bytes().first_chunk().map(|start| u64::from_le_bytes(*start));
            if let Some(destination) = start.map(|start| start & address_mask)
                && destination != own
                && stations.is_for_another(destination)
            {
                classified.push(Classified::ForAnotherHost);
                continue;
            }
            let verdict = match wire::classify(frame.bytes()) {
                Outcome::Flow(flow) => {
                    let owner = listeners.owner(&flow.key);
                    let owner = owner.and_then(|app| Some((app, apps.steering(app)?)));
                    let Some((app, steering)) = owner else {
                        classified.push(Classified::NotListening);
                        continue;
                    };
                    let state = match frame.meta().checksum {
                        _ if checksums == LinkChecksums::Trusted => Some(ChecksumState::Partial),
                        ChecksumState::Unknown => {
                            look_at_checksums(checksums, frame.bytes(), &flow)
                        }
                        // The port's word, which is the kernel's.
                        known => Some(known),
                    };
                    if let Some(state) = state {
                        let hash = toeplitz.hash(&flow.key);
                        let meta = frame.meta_mut();
                        meta.checksum = state;
                        // The answer leaves by the port that the packet came by, as we number it.
                        meta.port = PortId(index as u16);
                        meta.flow_hash = hash;
                        meta.group = steering.group_of(hash, || flow.key.id());
                        meta.l3_offset = flow.l3_offset;
                        meta.l4_offset = flow.l4_offset;
                        Classified::Flow(flow.key, app)
                    } else {
                        Classified::BadChecksum
                    }
                }
                Outcome::NotOurs(NotOurs::IcmpError) if apps.hears_errors => {
                    let error = ErrorMessage::parse(frame.bytes());
                    // Only our own workers know what to do with one.
                    let error =
                        error.filter(|it| listeners.owner(&it.key) == Some(AttachmentId::OWN));
                    let owner =
                        error.and_then(|error| Some((error, apps.steering(AttachmentId::OWN)?)));
                    let Some((error, steering)) = owner else {
                        classified.push(Classified::NotOurs(NotOurs::IcmpError));
                        continue;
                    };
                    let hash = toeplitz.hash(&error.key);
                    let meta = frame.meta_mut();
                    meta.checksum = ChecksumState::Verified;
                    meta.port = PortId(index as u16);
                    meta.flow_hash = hash;
                    meta.group = steering.group_of(hash, || error.key.id());
                    (meta.l3_offset, meta.l4_offset) = (error.l3_offset, error.l4_offset);
                    Classified::Flow(error.key, AttachmentId::OWN)
                }
                Outcome::NotOurs(reason) => Classified::NotOurs(reason),
                Outcome::Malformed(reason) => Classified::Malformed(reason),
            };
            classified.push(verdict);
        }
    }
}

/// What the checksums of a packet are by the packet itself; nothing when they are wrong.
#[inline]
fn look_at_checksums(
    checksums: LinkChecksums,
    packet: &[u8],
    flow: &Flow,
) -> Option<ChecksumState> {
    // What is open costs no sum over the packet, so that it is looked for first.
    if checksums == LinkChecksums::MayBeOpen && checksum::is_open(packet, flow) {
        return Some(ChecksumState::Partial);
    }
    checksum::verify(packet, flow).then_some(ChecksumState::Verified)
}
