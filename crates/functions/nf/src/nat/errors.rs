//! ICMP errors, and the packets that they quote (RFC 5508 section 4).

use base::Nanos;
use shm::Frame;

use super::counters::Stop;
use super::{Nat, address_of, class_of, mapped, put_source};
use crate::rewrite::{End, Side, is_icmp_right, write_end, write_quoted};
use crate::track::{Packet, Seen};

impl Nat {
    /// An ICMP error that leaves: the packet that it quotes had its destination translated (RFC
    /// 5508 section 4.2).
    pub(super) fn error_out(
        &mut self,
        frame: &mut Frame,
        mut packet: Packet,
        from_inside: bool,
        now: Nanos,
    ) -> Result<(), Stop> {
        let Some(quoted) = packet.quoted_mut().map(|tuple| *tuple) else { return Ok(()) };
        let class = class_of(&quoted);
        let inside = address_of(quoted.destination).zip(class);
        let found = inside
            .and_then(|(at, class)| self.mappings.find(at, quoted.destination_port, class))
            .and_then(|place| self.mappings.get(place).copied());
        let Some(mapping) = found else {
            // Not of any connection that was translated.
            return if from_inside { Err(Stop::NoMapping) } else { Ok(()) };
        };
        self.check_error(frame, &packet, now)?;
        let end = End { address: mapping.outside, port: Some(mapping.outside_port) };
        write_quoted(frame, Side::Destination, end);
        // One of our own routers keeps its address.
        if from_inside {
            write_end(frame, Side::Source, End { address: mapping.outside, port: None });
        }
        self.counters.errors += 1;
        Ok(())
    }

    /// An ICMP error that is for one of our addresses: about a packet whose source was translated.
    pub(super) fn error_in(
        &mut self,
        frame: &mut Frame,
        mut packet: Packet,
        pool: u16,
        now: Nanos,
    ) -> Result<(), Stop> {
        let destination = packet.tuple.destination;
        let Some(quoted) = packet.quoted_mut() else { return Err(Stop::InvalidIcmp) };
        let class = class_of(quoted).ok_or(Stop::InvalidIcmp)?;
        if quoted.source != destination {
            return Err(Stop::InvalidIcmp);
        }
        let place = self.mappings.at(pool, quoted.source_port, class).ok_or(Stop::NoMapping)?;
        let Some(mapping) = self.mappings.get(place) else { return Err(Stop::NoMapping) };
        let end = End { address: mapping.inside, port: Some(mapping.inside_port) };
        put_source(quoted, class, end);
        packet.tuple.destination = mapped(end.address);
        self.check_error(frame, &packet, now)?;
        write_quoted(frame, Side::Source, end);
        write_end(frame, Side::Destination, End { address: end.address, port: None });
        self.counters.errors += 1;
        Ok(())
    }

    /// Whether the error is about a connection that there is, and whole and unharmed.
    fn check_error(&mut self, frame: &Frame, packet: &Packet, now: Nanos) -> Result<(), Stop> {
        let is_right = packet.fragment.is_none() && is_icmp_right(frame.bytes());
        let seen = if is_right { self.track.look(packet, now) } else { Seen::New };
        self.read_ended();
        match seen {
            Seen::Related { .. } => Ok(()),
            _ => Err(Stop::InvalidIcmp),
        }
    }
}
