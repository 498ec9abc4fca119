//! tunnel: carries packets to networks behind other routers inside packets of IPIP or GRE.
//!
//! WHAT IT DOES
//!   A packet to a network of a tunnel goes on inside another one, from our end of the tunnel to
//!   the other; one that comes from there, for here, goes on as what it was. Put `router` behind
//!   it: that one sends both on. What is of no tunnel passes. A packet that is too long for its
//!   tunnel is answered with an ICMP error that tells the length that is not; that length follows
//!   `mtu` and what routers on the way say of the path, which is believed for ten minutes, but of
//!   IPv4 packets that may be fragmented: these go in by `mtu` alone. Nothing is encrypted, and
//!   anybody who can send in the other end's name can send packets into the tunnel: only from its
//!   own networks.
//!
//! PARAMETERS
//!   tunnels        at most 256, each with
//!     kind         "ipip" (IPv4 and IPv6 inside IPv4 or IPv6) or "gre"
//!     local        our end: an address of this host
//!     remote       the other end, of the same IP version
//!     networks     what is behind it, as ["10.2.0.0/16", "fd02::/16"]; the first tunnel that has
//!                  a packet's destination takes it
//!     key          of GRE: a number that both ends write and want (RFC 2890); none
//!     mtu          bytes of the largest outer packet, 576 (of IPv6 1280) to 65535, and no more
//!                  than the link takes by which it leaves; 1500. IPv6 inside needs 1280 and the
//!                  head: 20 or 40 bytes, and 4 or with a key 8 of GRE. On a path that takes less
//!                  longer packets of IPv6 are lost: nothing is cut
//!     address      our addresses that ICMP errors come from, as ["10.1.0.1", "fd01::1"]; `local`
//!
//! COUNTERS
//!   wrapped, unwrapped; ttl_exceeded, too_long, no_room, unknown_peer, fragment, bad_header,
//!   bad_payload, foreign_source, congestion (dropped); path_mtu_learned, path_mtu_ignored;
//!   answered, unanswered. Each has a sentence in the statistics.
//!
//! STANDARDS
//!   RFC 2003 (IPv4 in IPv4), RFC 4213 (IPv6 in IPv4), RFC 2473 (in IPv6; its limit is read, and
//!   not written), RFC 2784 and 2890 (GRE), RFC 6040 (ECN; DSCP is copied), RFC 1191 and 8201 (path
//!   MTU), RFC 6864 (outer packets are never fragmented, and need no identification).
//!
//! LIMITS
//!   Nothing is fragmented and nothing put together: of packets that may be fragmented, too long
//!   ones are dropped and answered as well, and outer packets in pieces are dropped. No keepalives,
//!   no checksums of GRE are written (right ones are accepted), no routing header of GRE, no
//!   multicast. Whose chain takes packets of these protocols takes all of them that come for this
//!   host.

mod gre;
mod limit;
mod link;
mod mtu;
mod settings;
mod unwrap;
mod wrap;

use std::net::IpAddr;
use std::sync::Arc;

use base::Nanos;
use shm::{Batch, Frame};

use crate::esp::answer::{self, Rate, Wrong};
use crate::esp::packet::{self, Found, Packet};
use crate::esp::selector::{self, Address};
use crate::{Function, Verdict, Verdicts};

use link::Link;
pub use settings::{
    BadTunnel, Kind, MTU_MIN_IPV4, MTU_MIN_IPV6, NETWORKS_MAX, TUNNELS_MAX, TunnelSettings,
};

counters! {
    /// What a [`Tunnel`] has counted.
    TunnelCounters {
        /// Packets sent into a tunnel.
        wrapped,
        /// Packets that came out of a tunnel.
        unwrapped,
        /// Packets whose time to live ended here, dropped, and answered if that may be.
        ttl_exceeded,
        /// Packets longer than their tunnel takes, dropped, and answered likewise.
        too_long,
        /// Packets whose frame has no room for the headers of the tunnel, dropped.
        no_room,
        /// Packets of a tunnel's protocol from an address that is no end of one, dropped.
        unknown_peer,
        /// Outer packets in pieces, dropped.
        fragment,
        /// Packets with a header of GRE that is cut off, wrong, or has another key, dropped.
        bad_header,
        /// Packets of a tunnel without a right packet of IPv4 or IPv6 inside, dropped.
        bad_payload,
        /// Packets out of a tunnel from none of its networks, or from an address that functions of
        /// this chain send from, dropped.
        foreign_source,
        /// Packets marked on their way that cannot carry the mark inside, dropped.
        congestion,
        /// What routers said of a tunnel's path, believed.
        path_mtu_learned,
        /// What somebody said of a path and is about no packet of ours, dropped.
        path_mtu_ignored,
        /// ICMP errors sent.
        answered,
        /// ICMP errors not sent: too many, nobody to send them, or not allowed.
        unanswered,
    }
}

/// The function.
#[derive(Debug)]
pub struct Tunnel {
    /// Slices share them, for what is learned of a path.
    links: Arc<[Link]>,
    /// Addresses that nobody behind a tunnel sends from, in order.
    made: Arc<[Address]>,
    rate: Rate,
    counters: TunnelCounters,
}

impl Tunnel {
    /// Carries packets through these.
    ///
    /// # Errors
    /// One of them cannot be, or there are too many.
    pub fn new(tunnels: &[TunnelSettings]) -> Result<Self, BadTunnel> {
        let links = link::links(tunnels)?;
        let counters = TunnelCounters::default();
        Ok(Self { links, made: Arc::default(), rate: Rate::new(), counters })
    }

    /// From these addresses other functions send: what comes out of a tunnel with such a source is
    /// forged, and could not be told from theirs.
    #[must_use]
    pub fn refusing(self, made: impl Iterator<Item = IpAddr>) -> Self {
        let mut made: Vec<Address> = made.map(selector::of).collect();
        made.sort_unstable();
        Self { made: made.into(), ..self }
    }

    /// For another slice, with the same tunnels.
    #[must_use]
    pub fn sharing_paths(&self) -> Self {
        let (links, made) = (Arc::clone(&self.links), Arc::clone(&self.made));
        Self { links, made, rate: Rate::new(), counters: TunnelCounters::default() }
    }

    /// Goes on counting where `before`, whose place it takes, has come to. What was learned of
    /// paths is learned again.
    pub fn take_over(&mut self, before: &mut Self) {
        self.counters = before.counters;
        std::mem::swap(&mut self.rate, &mut before.rate);
    }

    /// What has been counted so far.
    pub fn counts(&self) -> &TunnelCounters {
        &self.counters
    }

    #[inline]
    fn decide(&mut self, frame: &mut Frame, now: Nanos) -> Verdict {
        // What is malformed the router says.
        let Found::Packet(mut packet) = packet::find(frame.bytes()) else { return Verdict::Next };
        if self.links.iter().any(|link| link.local == packet.to) {
            limit::skip(&mut packet, frame.bytes());
            if Kind::is_of_any(packet.protocol) {
                return self.arrive(frame, &packet);
            }
            if mtu::is_news(frame.bytes(), &packet) {
                return self.learn(frame.bytes(), &packet, now);
            }
        }
        let is_behind = |link: &Link| link.networks.iter().any(|net| net.contains(packet.to));
        match self.links.iter().position(is_behind) {
            Some(index) => self.depart(frame, &packet, index, now),
            None => Verdict::Next,
        }
    }

    #[inline]
    fn depart(&mut self, frame: &mut Frame, packet: &Packet, index: usize, now: Nanos) -> Verdict {
        let link = &self.links[index];
        let inner_mtu = link.inner_mtu(packet, frame.bytes(), now);
        let (counter, wrong) = match wrap::wrap(frame, packet, &link.head, inner_mtu) {
            Ok(()) => {
                self.counters.wrapped += 1;
                return Verdict::Next;
            }
            Err(wrap::Refused::NoRoom) => return drop_for(&mut self.counters.no_room),
            Err(wrap::Refused::TooLong) => (&mut self.counters.too_long, Wrong::TooBig(inner_mtu)),
            Err(wrap::Refused::TtlExceeded) => {
                (&mut self.counters.ttl_exceeded, Wrong::TimeExceeded)
            }
        };
        *counter += 1;
        let port = frame.meta().port;
        if self.rate.take(now) && answer::answer(frame, packet, link.own, wrong) {
            self.counters.answered += 1;
            Verdict::Out(port)
        } else {
            drop_for(&mut self.counters.unanswered)
        }
    }

    #[inline]
    fn arrive(&mut self, frame: &mut Frame, packet: &Packet) -> Verdict {
        let is_of = |link: &&Link| {
            link.remote == packet.from
                && link.local == packet.to
                && link.kind.is_carried_by(packet.protocol)
        };
        let counters = &mut self.counters;
        let mut found = None;
        for link in self.links.iter().filter(is_of) {
            found = Some(unwrap::unwrap(frame, packet, link, (&self.links, &self.made)));
            // Another tunnel between the same ends may have that key.
            if found != Some(Err(unwrap::Refused::BadHeader)) {
                break;
            }
        }
        match found {
            Some(Ok(())) => {
                counters.unwrapped += 1;
                Verdict::Next
            }
            None => drop_for(&mut counters.unknown_peer),
            Some(Err(refused)) => drop_for(match refused {
                unwrap::Refused::Fragment => &mut counters.fragment,
                unwrap::Refused::BadHeader => &mut counters.bad_header,
                unwrap::Refused::BadPayload => &mut counters.bad_payload,
                unwrap::Refused::ForeignSource => &mut counters.foreign_source,
                unwrap::Refused::Congestion => &mut counters.congestion,
            }),
        }
    }

    #[cold]
    fn learn(&mut self, frame: &[u8], packet: &Packet, now: Nanos) -> Verdict {
        let news = mtu::read(frame, packet);
        let mut is_ours = false;
        for link in self.links.iter() {
            if let Some(news) = news.filter(|news| {
                // Nobody refuses what is no longer than his link takes.
                news.quoted > news.mtu
                    && news.from == link.local
                    && news.to == link.remote
                    && link.kind.is_carried_by(news.protocol)
            }) {
                link.path.learn(news.mtu, now);
                is_ours = true;
            }
        }
        drop_for(match is_ours {
            true => &mut self.counters.path_mtu_learned,
            false => &mut self.counters.path_mtu_ignored,
        })
    }
}

fn drop_for(counter: &mut u64) -> Verdict {
    *counter += 1;
    Verdict::Drop
}

impl Function for Tunnel {
    fn name(&self) -> &'static str {
        "tunnel"
    }

    fn process(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos) {
        for (_, frame, verdict) in verdicts.undecided(batch) {
            *verdict = self.decide(frame, now);
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, &'static str, u64)) {
        self.counters.each(each);
    }
}

#[cfg(test)]
mod tests;
