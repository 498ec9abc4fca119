//! What an application may send: a bucket of bytes that fills with time, shared by all workers.

use std::sync::atomic::{AtomicU64, Ordering};

use base::Nanos;

/// A token bucket without a lock: it keeps only when it would be full.
#[derive(Debug)]
pub struct Rate {
    bytes_per_s: u64,
    burst_bytes: u64,
    /// The time at which all that was taken will have come in again.
    paid_until: AtomicU64,
}

impl Rate {
    /// `bytes_per_s` in the long run and `burst_bytes` at once.
    pub fn new(bytes_per_s: u64, burst_bytes: u64) -> Self {
        Self {
            bytes_per_s: bytes_per_s.max(1),
            burst_bytes: burst_bytes.max(1),
            paid_until: AtomicU64::new(0),
        }
    }

    fn time_of(&self, bytes: u64) -> u64 {
        (u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s)) as u64
    }

    /// Takes `bytes` or nothing. Nothing: when to try again. More than a burst is taken from a full
    /// bucket.
    pub fn take_whole(&self, bytes: u64, now: Nanos) -> Result<(), Nanos> {
        let burst = self.time_of(self.burst_bytes);
        let cost = self.time_of(bytes);
        let mut paid = self.paid_until.load(Ordering::Relaxed);
        loop {
            let next = paid.max(now.0) + cost;
            let due = next.saturating_sub(burst.max(cost));
            if due > now.0 {
                return Err(Nanos(due.max(now.0 + 1000)));
            }
            match self.paid_until.compare_exchange_weak(
                paid,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(other) => paid = other,
            }
        }
    }

    /// Takes what `wanted` bytes of payload cost as packets, or as many full packets of it as there
    /// are tokens for: how many bytes, and when to try again if it was less. A rest shorter than a
    /// packet is not taken in crumbs, each of which would cost headers of its own.
    pub fn take_packets(&self, wanted: u64, packet: PacketCost, now: Nanos) -> (u64, Nanos) {
        if wanted == 0 {
            return (0, now);
        }
        let burst = self.time_of(self.burst_bytes);
        let full = packet.payload_max + packet.headers;
        let whole = wanted + wanted.div_ceil(packet.payload_max) * packet.headers;
        let first = wanted.min(packet.payload_max);
        let mut paid = self.paid_until.load(Ordering::Relaxed);
        loop {
            let from = paid.max(now.0);
            let free_time = (now.0 + burst).saturating_sub(from);
            let free = u128::from(free_time) * u128::from(self.bytes_per_s) / 1_000_000_000;
            let free = free as u64;
            let (taken, cost) = match whole <= free {
                true => (wanted, whole),
                false => (free / full * packet.payload_max, free / full * full),
            };
            if taken == 0 {
                // Also of a bucket that is smaller than a packet.
                return match self.take_whole(first + packet.headers, now) {
                    Ok(()) if first == wanted => (first, now),
                    Ok(()) => (first, now + Nanos(1000)),
                    Err(due) => (0, due),
                };
            }
            let next = from + self.time_of(cost);
            match self.paid_until.compare_exchange_weak(
                paid,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    let rest = (wanted - taken).min(packet.payload_max) + packet.headers;
                    let due = next + self.time_of(rest);
                    return (taken, Nanos(due.saturating_sub(burst).max(now.0 + 1000)));
                }
                Err(other) => paid = other,
            }
        }
    }

    /// Whether nothing of it is taken: a new one would be the same.
    pub fn is_full(&self, now: Nanos) -> bool {
        self.paid_until.load(Ordering::Relaxed) <= now.0
    }
}

/// What packets of one kind cost: the payload that fits into one, and the bytes of its headers.
#[derive(Clone, Copy, Debug)]
pub struct PacketCost {
    payload_max: u64,
    headers: u64,
}

/// Bytes of an Ethernet header, of UDP's, of TCP's with timestamps, and of TCP's with the options
/// of a SYN.
const ETHERNET: u64 = 14;
const UDP: u64 = 8;
const TCP: u64 = 32;
const TCP_SYN: u64 = 40;

fn ip(is_ipv6: bool) -> u64 {
    if is_ipv6 { 40 } else { 20 }
}

impl PacketCost {
    /// Segments with `mss` bytes of payload at most.
    pub fn of_segments(mss: u16, is_ipv6: bool) -> Self {
        Self { payload_max: u64::from(mss.max(1)), headers: ETHERNET + ip(is_ipv6) + TCP }
    }

    /// Bytes of a SYN.
    pub fn of_syn(is_ipv6: bool) -> u64 {
        ETHERNET + ip(is_ipv6) + TCP_SYN
    }

    /// Bytes of a datagram. An empty one is a packet too.
    pub fn of_datagram(payload_bytes: usize, is_ipv6: bool) -> u64 {
        ETHERNET + ip(is_ipv6) + UDP + payload_bytes as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_whole_is_taken_or_costs_nothing() {
        let rate = Rate::new(1_000_000, 10_000);
        let now = Nanos::from_secs(5);
        assert_eq!(rate.take_whole(8000, now), Ok(()));
        // 5,000 bytes are there when 3,000 have come in.
        for _ in 0..100 {
            assert_eq!(rate.take_whole(5000, now), Err(now + Nanos::from_millis(3)));
        }
        assert_eq!(rate.take_whole(2000, now), Ok(()), "the tries took nothing");
        let later = now + Nanos::from_secs(1);
        assert_eq!(rate.take_whole(50_000, later), Ok(()), "the bucket is full");
        assert!(rate.take_whole(1, later).is_err(), "and pays for it");
    }

    #[test]
    fn a_burst_leaves_at_once_and_then_the_rate_holds_headers_included() {
        let rate = Rate::new(1_000_000, 10_000);
        let packet = PacketCost::of_segments(934, false);
        let mut now = Nanos::from_secs(5);
        assert_eq!(rate.take_packets(3934 - 5 * 66, packet, now).0, 3604);
        // 6,066 bytes are left: six packets of a thousand.
        let (taken, mut again) = rate.take_packets(100_000, packet, now);
        assert_eq!(taken, 6 * 934);
        let began = now;
        let mut sent = 0;
        while sent < 934_000 {
            assert!(again > now, "time moves on");
            now = again;
            let (taken, next) = rate.take_packets(934_000 - sent, packet, now);
            assert_eq!(taken % 934, 0, "no crumbs");
            (sent, again) = (sent + taken, next);
        }
        let took = now.since(began).0;
        assert!((990_000_000..=1_001_000_000).contains(&took), "{took} ns for a second's worth");
    }

    #[test]
    fn single_bytes_cost_packets() {
        let rate = Rate::new(1_000_000, 10_000);
        let packet = PacketCost::of_segments(1448, true);
        let now = Nanos::from_secs(5);
        let taken: u64 = (0..1000).map(|_| rate.take_packets(1, packet, now).0).sum();
        assert_eq!(taken, 10_000 / 87);
    }

    #[test]
    fn a_bucket_smaller_than_a_packet_lends_one_when_it_is_full() {
        let rate = Rate::new(1_000_000, 500);
        let packet = PacketCost::of_segments(1448, false);
        let now = Nanos::from_secs(5);
        let (taken, again) = rate.take_packets(3000, packet, now);
        assert_eq!((taken, again > now), (1448, true));
        let (none, due) = rate.take_packets(1552, packet, again);
        assert_eq!((none, due), (0, now + Nanos(1_514_000)));
        assert_eq!(rate.take_packets(1552, packet, due).0, 1448);
        assert!(!rate.is_full(due) && rate.is_full(due + Nanos::from_secs(1)));
    }
}
