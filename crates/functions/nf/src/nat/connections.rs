//! Connections that are translated, and the packets that they have in pieces.

use base::Nanos;
use shm::Frame;

use super::counters::Stop;
use super::{Nat, Piece};
use crate::rewrite::{End, Side, write_end, write_identification};
use crate::track::{Owner, Packet, Seen};

impl Nat {
    /// The mapping of the packet's connection, which `begin` finds where one begins with it that
    /// `owner` pays for.
    pub(super) fn connection<E: Into<Stop>>(
        &mut self,
        packet: &Packet,
        owner: Owner,
        now: Nanos,
        begin: impl FnOnce(&mut Self) -> Result<u32, E>,
    ) -> Result<u32, Stop> {
        let mut seen = self.track.look(packet, now);
        if let Seen::Known { id, .. } = seen {
            if let Some(place) = self.mappings.marked(self.track.mark(id)) {
                if self.track.is_in_use(id) {
                    self.mappings.note_answer(place);
                }
                return Ok(place);
            }
            // Its mapping has given way: what comes now begins anew, or is of nothing.
            self.track.close(id);
            self.read_ended();
            seen = self.track.look(packet, now);
        }
        let done = match seen {
            Seen::New => self.begin(packet, owner, now, begin),
            Seen::Invalid(invalid) => Err(invalid.into()),
            Seen::Known { .. } | Seen::Related { .. } => Err(Stop::InvalidIcmp),
        };
        self.read_ended();
        done
    }

    /// What has ended with the packet, or gives way to it, keeps its mapping until it is known
    /// whether the new connection goes by that.
    fn begin<E: Into<Stop>>(
        &mut self,
        packet: &Packet,
        owner: Owner,
        now: Nanos,
        begin: impl FnOnce(&mut Self) -> Result<u32, E>,
    ) -> Result<u32, Stop> {
        // First, so that one that is refused takes no place.
        self.track.has_room(owner, now)?;
        let place = begin(self).map_err(Into::into)?;
        match self.track.open_for(owner, packet, self.mappings.mark(place), now) {
            Ok(_) => {
                self.mappings.hold(place);
                self.counters.opened += 1;
                Ok(place)
            }
            Err(refused) => {
                self.mappings.end_if_unused(place);
                Err(refused.into())
            }
        }
    }

    pub(super) fn read_ended(&mut self) {
        while let Some(mark) = self.track.take_ended() {
            self.mappings.release(mark);
        }
    }

    pub(super) fn note_fragment(&mut self, packet: &Packet, piece: Piece, now: Nanos) {
        if let Some(fragment) = packet.fragment {
            self.pieces.note(&packet.tuple, fragment.id, piece, now);
        }
    }

    pub(super) fn later_fragment(
        &mut self,
        frame: &mut Frame,
        packet: &Packet,
        now: Nanos,
    ) -> Result<(), Stop> {
        let id = packet.fragment.map_or(0, |fragment| fragment.id);
        match self.pieces.find(&packet.tuple, id, now).ok_or(Stop::InvalidFragment)? {
            Piece::Source { address, identification } => {
                write_identification(frame, identification);
                write_end(frame, Side::Source, End { address, port: None });
                self.counters.outbound += 1;
            }
            Piece::Destination { address } => {
                write_end(frame, Side::Destination, End { address, port: None });
                self.counters.inbound += 1;
            }
        }
        Ok(())
    }
}
