//! What an ESP gateway does with one packet, before and after the cipher.

use std::ops::Range;

use base::Nanos;
use shm::Frame;

use super::answer::{self, Rate, Wrong};
use super::gateway::{Gateway, Policy};
use super::inbound::{self, Arrival};
use super::packet::{self, Esp, Found, Packet};
use super::replay::Stale;
use super::{EspCounters, Others, outbound};
use crate::Verdict;

/// What it decides by, and where it counts.
pub(crate) struct Decide<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) others: Others,
    pub(crate) rate: &'a mut Rate,
    pub(crate) now: Nanos,
    pub(crate) counters: &'a mut EspCounters,
}

/// What is to be done with a packet. Ranges are from the SPI to the ICV, in bytes of the frame.
pub(crate) enum Decision {
    Seal { tunnel: u16, esp: Range<usize>, sequence_high: Option<u32> },
    Open { arrival: Arrival, sequence_high: Option<u32> },
    Verdict(Verdict),
}

impl Decision {
    fn drop(counter: &mut u64) -> Self {
        *counter += 1;
        Self::Verdict(Verdict::Drop)
    }
}

impl Decide<'_> {
    /// Before the cipher.
    #[inline]
    pub(crate) fn packet(&mut self, frame: &mut Frame) -> Decision {
        let packet = match packet::find(frame.bytes()) {
            Found::Packet(packet) => packet,
            Found::Other => return Decision::Verdict(Verdict::Next),
            Found::Malformed => return Decision::drop(&mut self.counters.malformed),
        };
        if self.gateway.is_own(packet.to) {
            match packet.esp(frame.bytes()) {
                Esp::Whole(esp) => return self.arrive(frame, &packet, esp),
                Esp::Fragment => return Decision::drop(&mut self.counters.fragment),
                Esp::None => {}
            }
        }
        match self.gateway.policy(packet.from, packet.to) {
            Policy::Protect(tunnel) => self.protect(frame, &packet, tunnel),
            Policy::Unprotected => Decision::drop(&mut self.counters.unprotected),
            Policy::None if self.others == Others::Drop => {
                Decision::drop(&mut self.counters.no_policy)
            }
            Policy::None => {
                self.counters.passed += 1;
                Decision::Verdict(Verdict::Next)
            }
        }
    }

    #[inline]
    fn protect(&mut self, frame: &mut Frame, packet: &Packet, tunnel: u16) -> Decision {
        let link = self.gateway.link(tunnel);
        let high = |sequence: u64| link.tunnel.is_extended.then_some((sequence >> 32) as u32);
        let counters = &mut *self.counters;
        let (counter, wrong) = match outbound::wrap(frame, packet, link) {
            Ok(wrapped) => {
                let sequence_high = high(wrapped.sequence);
                return Decision::Seal { tunnel, esp: wrapped.esp, sequence_high };
            }
            Err(outbound::Refused::NoRoom) => return Decision::drop(&mut counters.no_room),
            Err(outbound::Refused::SequenceOverflow) => {
                return Decision::drop(&mut counters.sequence_overflow);
            }
            Err(outbound::Refused::TooLong) => {
                (&mut counters.too_long, Wrong::TooBig(link.inner_mtu))
            }
            Err(outbound::Refused::TtlExceeded) => {
                (&mut counters.ttl_exceeded, Wrong::TimeExceeded)
            }
        };
        *counter += 1;
        let port = frame.meta().port;
        if self.rate.take(self.now) && answer::answer(frame, packet, link.tunnel.answers(), wrong) {
            self.counters.answered += 1;
            Decision::Verdict(Verdict::Out(port))
        } else {
            Decision::drop(&mut self.counters.unanswered)
        }
    }

    #[inline]
    fn arrive(&mut self, frame: &mut Frame, packet: &Packet, esp: Range<usize>) -> Decision {
        match inbound::arrive(self.gateway, frame.bytes(), packet, esp, self.now) {
            Ok(arrival) => {
                let is_extended = self.gateway.link(arrival.tunnel).tunnel.is_extended;
                let sequence_high = is_extended.then_some((arrival.sequence >> 32) as u32);
                Decision::Open { arrival, sequence_high }
            }
            Err(refused) => Decision::drop(self.counter(refused)),
        }
    }

    /// After the cipher has sealed a packet, or failed.
    #[inline]
    pub(crate) fn sealed(&mut self, is_good: bool) -> Verdict {
        if is_good {
            self.counters.sealed += 1;
            Verdict::Next
        } else {
            self.counters.cipher_failed += 1;
            Verdict::Drop
        }
    }

    /// After the cipher has verified and decrypted a packet, or found it forged.
    #[inline]
    pub(crate) fn opened(
        &mut self,
        frame: &mut Frame,
        arrival: &Arrival,
        is_good: bool,
    ) -> Verdict {
        if !is_good {
            self.counters.bad_icv += 1;
            return Verdict::Drop;
        }
        match inbound::unwrap(self.gateway, frame, arrival) {
            Ok(()) => {
                self.counters.opened += 1;
                Verdict::Next
            }
            Err(refused) => {
                *self.counter(refused) += 1;
                Verdict::Drop
            }
        }
    }

    fn counter(&mut self, refused: inbound::Refused) -> &mut u64 {
        let counters = &mut *self.counters;
        match refused {
            inbound::Refused::BadLength => &mut counters.bad_length,
            inbound::Refused::UnknownSpi => &mut counters.unknown_spi,
            inbound::Refused::Stale(Stale::Replayed) => &mut counters.replayed,
            inbound::Refused::Stale(Stale::TooOld) => &mut counters.too_old,
            inbound::Refused::BadPadding => &mut counters.bad_padding,
            inbound::Refused::BadPayload => &mut counters.bad_payload,
            inbound::Refused::Selector => &mut counters.selector_mismatch,
            inbound::Refused::Congestion => &mut counters.congestion,
            inbound::Refused::Dummy => &mut counters.dummy,
        }
    }
}
