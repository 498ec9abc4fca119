//! router: forwards IPv4 and IPv6 packets by the longest prefix of their destination.
//!
//! WHAT IT DOES
//!   A packet that came to its port's link address is checked, its destination is looked up, its
//!   TTL or hop limit is lowered, and it leaves by the port of its next hop, to that one's link
//!   address. What cannot be forwarded is dropped under a counter that says why; where the
//!   standards say that the sender is to be told, it becomes the ICMP error message, back by the
//!   port that it came from. Routes and neighbours come from the control side while packets flow; a
//!   neighbour that is not known yet is asked for, and its first packets wait until it answers or
//!   fails. One that did not answer is asked again while packets want it, once a second. An IPv4
//!   packet that is too long for its next link is cut into fragments, if it may be.
//!
//! PARAMETERS
//!   routes           "kernel": those of the kernel's main table, followed as they change; or a
//!   file when_full        "drop": packets that a route without room in the tables might be for are
//!                    dropped until there is room; or "stop": the chain ends, or does not begin;
//!                    drop
//!   rules            "refuse": the chain does not begin where the kernel has rules of routing (ip
//!                    rule, VRFs); or "ignore": it goes by the main table all the same; refuse
//!   icmp_per_second  error messages a second, all senders and slices together; 1000
//!   icmp_burst       error messages at once after a pause; 50
//!
//! COUNTERS
//!   forwarded; not_ip, tagged, link_group, not_to_us, bad_checksum, own_source, link_local,
//!   source_route, bad_option, multicast, broadcast, jumbogram, no_interface, for_us, no_route,
//!   blackhole, unreachable, prohibited, no_room, expired, too_big, fragments_no_room,
//!   held_too_long, neighbour_unknown, neighbour_failed (dropped); held; fragmented; wanted_full;
//!   icmp_sent, icmp_limited, icmp_withheld; in the hook hook_forwarded, which forwarded counts
//!   too, and what it has left to the slice (hook_not_plain, hook_expired, hook_open_checksum,
//!   hook_no_route, hook_no_neighbour, hook_too_long, hook_no_exit); and one for each way in which
//!   a header can be malformed, such as ipv4_option and ipv6_beyond_frame. Each has a sentence in
//!   the statistics.
//!
//! STANDARDS
//!   RFC 791 (options and fragments), RFC 1812 (sections 4.2, 4.3, 5.2, 5.3), RFC 8200, RFC 4443,
//!   RFC 1191, RFC 8201, RFC 1624 (the header checksum is updated, not computed), RFC 2644 (no
//!   directed broadcasts), RFC 7126 (source routes are dropped, other options are passed on as they
//!   are, router alert among them), RFC 8950 (IPv6 next hops of IPv4 routes).
//!
//! LIMITS
//!   No redirects are sent, no options are filled in. Of several paths to one destination one is
//!   used. Frames of a VLAN are not routed. Hop-by-hop options are not read (RFC 8200 section 4
//!   allows that). 32,766 next hops; IPv4 prefixes longer than /24 in 32,768 networks; 2 Mi nodes
//!   of the IPv6 trie (176,000 prefixes of the Internet take a tenth). A route without room keeps
//!   its packets, those of its whole /24 network, or of its whole IPv6 /16, from the shorter
//!   prefixes, which would send them to the wrong router. 16,384 neighbours. For each neighbour
//!   that is asked for the latest eight packets wait, and 128 in all, of at most 1,792 bytes, for
//!   five seconds; as many fragments wait for frames.
//!   In the hook (`hook = "auto"`) it follows the kernel's routes only, without rules of routing,
//!   and where the kernel forwards; it spreads flows over several paths as the kernel does. Packets
//!   that waited in the slice may come behind later ones that the hook has sent on.

mod destination;
mod header;
mod held;
mod inspect;
mod lookups;
mod options;
mod pieces;
mod stop;
mod wanted;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use base::{BURST, Nanos, PortId};
use shm::{Batch, Frame};
use wire::Malformed;

use crate::bucket::{Bucket, Rate};
use crate::fib::{Fib, FibChange, HopId, Interface, Neighbour, NextHop};
use crate::icmp::{self, Sender};
use crate::tag::strip_priority_tag;
use crate::{Function, Verdict, Verdicts};

use destination::Destination;
use header::{LINK, must_stay_whole, packet_bytes, write_link_and_limit};
use held::{Held, Keeping};
use inspect::{inspect, inspect_outside};
use lookups::Lookups;
use pieces::{Cutting, Pieces};
pub use stop::RouterCounters;
use stop::Stop;
pub use wanted::Wanted;
use wanted::WantedList;

/// What an operator may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterSettings {
    /// Error messages a second, all senders together.
    pub icmp_per_second: u32,
    /// Error messages at once after a pause.
    pub icmp_burst: u32,
}

impl Default for RouterSettings {
    /// What Linux sends at most (net.ipv4.icmp_msgs_per_sec, icmp_msgs_burst).
    fn default() -> Self {
        Self { icmp_per_second: 1000, icmp_burst: 50 }
    }
}

/// The function.
#[derive(Debug)]
pub struct Router {
    fib: Fib,
    counters: RouterCounters,
    /// By [`Malformed::index`].
    malformed: [u64; Malformed::ALL.len()],
    icmp_rate: Rate,
    /// Of all routers that share it.
    icmp_bucket: Arc<Bucket>,
    wanted: WantedList,
    held: Held,
    pieces: Pieces,
}

/// The shortest frame without its checksum (IEEE 802.3 section 3.2.7): padding up to here may stay.
const FRAME_MIN: usize = 60;

impl Router {
    /// Forwards by these tables.
    pub fn new(fib: Fib, settings: &RouterSettings) -> Self {
        let icmp_rate = Rate::new(settings.icmp_per_second.into(), settings.icmp_burst.into());
        Self {
            fib,
            counters: RouterCounters::default(),
            malformed: [0; Malformed::ALL.len()],
            icmp_rate,
            icmp_bucket: Arc::new(Bucket::full(&icmp_rate, Nanos::ZERO)),
            wanted: WantedList::default(),
            held: Held::default(),
            pieces: Pieces::default(),
        }
    }

    /// Lets the first packets to a neighbour wait while it is asked for, instead of dropping them,
    /// and fragments IPv4 packets that are too long for their next link and may be. Whoever runs
    /// the function then calls [`Self::release`] when [`Self::is_due`].
    #[must_use]
    pub fn holding_packets(mut self) -> Self {
        self.held = Held::with_room();
        self.pieces = Pieces::with_room();
        self
    }

    /// Sends error messages within one limit with `other`, a router of another thread with the same
    /// settings.
    #[must_use]
    pub fn sharing_limits_with(mut self, other: &Self) -> Self {
        self.icmp_bucket = Arc::clone(&other.icmp_bucket);
        self
    }

    /// Goes on with the tables, the packets that wait and the counters of `before`, whose place it
    /// takes, and which gets its own.
    pub fn take_over(&mut self, before: &mut Self) {
        let (rate, bucket) = (self.icmp_rate, Arc::clone(&self.icmp_bucket));
        std::mem::swap(self, before);
        if rate != self.icmp_rate {
            (self.icmp_rate, self.icmp_bucket) = (rate, bucket);
        }
    }

    /// Whether packets that waited may go on.
    #[inline]
    pub fn is_due(&self, now: Nanos) -> bool {
        self.pieces.are_waiting() || self.held.is_due(now)
    }

    /// Appends fragments, and packets that waited for a neighbour which has answered or failed, to
    /// `batch`, as they came, in frames from `take`: they are to be processed again, from this
    /// function on. Those that do not fit stay, and [`Self::is_due`] says so.
    #[cold]
    pub fn release(
        &mut self,
        batch: &mut Batch,
        now: Nanos,
        take: &mut dyn FnMut() -> Option<Frame>,
    ) {
        let Self { held, pieces, fib, counters, .. } = self;
        pieces.release(batch, take);
        let is_known = |Wanted { port, address }| fib.neighbour(port, address).is_some();
        counters.held_too_long += held.release(batch, now, take, is_known);
    }

    /// Takes one step of the control side, between two batches.
    pub fn apply(&mut self, change: &FibChange) {
        self.fib.apply(change);
        self.held.note_change();
    }

    /// Neighbours that packets wanted since the last call, each once, at most 64.
    pub fn take_wanted(&mut self) -> impl Iterator<Item = Wanted> {
        self.wanted.drain()
    }

    /// The tables.
    pub fn fib(&self) -> &Fib {
        &self.fib
    }

    /// What has been counted so far, malformed packets apart.
    pub fn counts(&self) -> &RouterCounters {
        &self.counters
    }

    /// How many packets were malformed in this way.
    pub fn malformed(&self, reason: Malformed) -> u64 {
        self.malformed[reason.index()]
    }

    /// Sends the packet in `frame`, which [`inspect`] found well, on to a next hop.
    #[inline]
    fn forward(
        &mut self,
        frame: &mut Frame,
        to: IpAddr,
        hop: HopId,
        now: Nanos,
    ) -> Result<PortId, Stop> {
        let Some(hop) = self.fib.hop(hop) else { return Err(Stop::NoRoute) };
        let is_ipv6 = to.is_ipv6();
        let (port, address, neighbour) = match hop.to {
            NextHop::Gateway { port, address } => (port, address, hop.neighbour),
            NextHop::OnLink { port } => (port, to, self.fib.neighbour(port, to)),
            NextHop::Local => return Err(Stop::ForUs),
            NextHop::Blackhole => return Err(Stop::Blackhole),
            NextHop::Unreachable => return Err(Stop::Unreachable { is_ipv6 }),
            NextHop::Prohibit => return Err(Stop::Prohibited),
            NextHop::NoRoute => return Err(Stop::NoRoute),
            NextHop::NoRoom => return Err(Stop::NoRoom),
        };
        let limit_at = LINK + if is_ipv6 { 7 } else { 8 };
        if frame.bytes().get(limit_at).is_none_or(|limit| *limit <= 1) {
            return Err(Stop::Expired);
        }
        let Some(&Interface { mac, mtu, .. }) = self.fib.interface(port) else {
            return Err(Stop::NoInterface);
        };
        let mut packet_bytes = packet_bytes(frame.bytes(), is_ipv6);
        if packet_bytes > mtu as usize && (is_ipv6 || must_stay_whole(frame.bytes())) {
            return Err(Stop::TooBig { mtu });
        }
        let destination = match neighbour {
            Some(Neighbour::At(mac)) => mac,
            // One that did not answer is asked again, as long as packets want it: it may have come
            // since.
            Some(Neighbour::Failed) => {
                self.want(port, address);
                return Err(Stop::NeighbourFailed);
            }
            None => {
                self.want(port, address);
                return Err(self.hold(frame, Wanted { port, address }, now));
            }
        };
        if packet_bytes > mtu as usize {
            match self.pieces.cut(frame, mtu as usize) {
                Cutting::Cut => self.counters.fragmented += 1,
                Cutting::Forbidden => return Err(Stop::TooBig { mtu }),
                Cutting::NoRoom => return Err(Stop::FragmentsNoRoom),
            }
            packet_bytes = header::packet_bytes(frame.bytes(), false);
        }
        // All checks are done: from here on the packet is written.
        let frame_bytes = (LINK + packet_bytes).max(FRAME_MIN);
        if frame.len() > frame_bytes {
            // What stands behind the packet goes no further: it is not what the MTU was held
            // against.
            let _ = frame.set_len(frame_bytes);
        }
        crate::checksum::complete_if_open(frame);
        write_link_and_limit(frame.bytes_mut(), destination, mac, is_ipv6);
        Ok(port)
    }

    /// Keeps a packet until its neighbour is known, if there is room.
    #[cold]
    fn hold(&mut self, frame: &Frame, waits_for: Wanted, now: Nanos) -> Stop {
        match self.held.keep(waits_for, frame, now) {
            Keeping::Kept => Stop::Held,
            Keeping::KeptForOldest => {
                self.counters.neighbour_unknown += 1;
                Stop::Held
            }
            Keeping::NoRoom => Stop::NeighbourUnknown,
        }
    }

    #[cold]
    fn want(&mut self, port: PortId, address: IpAddr) {
        if !self.wanted.push(Wanted { port, address }) {
            self.counters.wanted_full += 1;
        }
    }

    /// Refuses of packets that have just come what could not be forwarded wherever it went, and
    /// what comes from an address that functions of the chain send from: for functions before this,
    /// behind which nobody can tell what has come from what they made. Whether any was refused.
    pub fn admit(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos) -> bool {
        let mut has_refused = false;
        for (_, frame, verdict) in verdicts.undecided(batch) {
            strip_priority_tag(frame);
            if let Err(stop) = inspect_outside(&self.fib, frame) {
                *verdict = self.refuse(frame, stop, now);
                has_refused = true;
            }
        }
        has_refused
    }

    /// Drops a packet, or turns it into the message that its sender is to get.
    #[cold]
    fn refuse(&mut self, frame: &mut Frame, stop: Stop, now: Nanos) -> Verdict {
        match (stop, stop.counter(&mut self.counters)) {
            (_, Some(counter)) => *counter += 1,
            (Stop::Malformed(reason), None) => self.malformed[reason.index()] += 1,
            (Stop::MalformedOption { .. }, None) => {
                self.malformed[Malformed::Ipv4Option.index()] += 1;
            }
            (_, None) => {}
        }
        let Some(complaint) = stop.complaint() else { return Verdict::Drop };
        let port = frame.meta().port;
        let Some(interface) = self.fib.interface(port) else { return Verdict::Drop };
        let Interface { mac, mtu: _, four, six } = *interface;
        let sender = Sender { mac, four, six };
        if !icmp::may_answer(frame.bytes()) {
            self.counters.icmp_withheld += 1;
            return Verdict::Drop;
        }
        // RFC 1812 section 4.3.2.8, RFC 4443 section 2.4 f.
        if !self.icmp_bucket.take(&self.icmp_rate, 1, now) {
            self.counters.icmp_limited += 1;
            return Verdict::Drop;
        }
        if !icmp::answer(frame, complaint, &sender) {
            self.counters.icmp_withheld += 1;
            return Verdict::Drop;
        }
        self.counters.icmp_sent += 1;
        Verdict::Out(port)
    }

    fn finish(&mut self, frame: &mut Frame, to: IpAddr, hop: HopId, now: Nanos) -> Verdict {
        match self.forward(frame, to, hop, now) {
            Ok(port) => {
                self.counters.forwarded += 1;
                Verdict::Out(port)
            }
            Err(stop) => self.refuse(frame, stop, now),
        }
    }
}

impl Function for Router {
    fn name(&self) -> &'static str {
        "router"
    }

    /// In three rounds, so that the lookups of all packets overlap: check, look up, send on.
    fn process(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos) {
        let mut four = Lookups::new();
        let mut six = Lookups::new();
        for (index, frame, verdict) in verdicts.undecided(batch) {
            strip_priority_tag(frame);
            match inspect(&self.fib, frame) {
                Ok(Destination::Four(address)) => four.push(index, address),
                Ok(Destination::Six(address)) => six.push(index, address),
                Err(stop) => *verdict = self.refuse(frame, stop, now),
            }
        }
        let mut hops = [HopId::NONE; BURST];
        self.fib.four.lookup_batch(&four.addresses, &mut hops);
        for ((index, address), hop) in four.iter().zip(hops) {
            let to = Ipv4Addr::from_bits(address).into();
            verdicts[index] = self.finish(&mut batch[index], to, hop, now);
        }
        self.fib.six.lookup_batch(&six.addresses, &mut hops);
        for ((index, address), hop) in six.iter().zip(hops) {
            let to = Ipv6Addr::from_bits(address).into();
            verdicts[index] = self.finish(&mut batch[index], to, hop, now);
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, &'static str, u64)) {
        self.counters.each(each);
        let of_ip = ["ethernet_", "ipv4_", "ipv6_"];
        for reason in Malformed::ALL {
            if of_ip.iter().any(|start| reason.name().starts_with(start)) {
                each(reason.name(), reason.help(), self.malformed(*reason));
            }
        }
    }
}

#[cfg(test)]
mod tests;
