//! ICMP errors to whoever sent a packet that does not go into its tunnel (RFC 1191, RFC 8201, RFC
//! 1812).

use base::{ChecksumState, Nanos, TxChecksum};
use shm::Frame;
use wire::checksum::{self, Sum};
use wire::{ethernet, icmp, ipv4, ipv6};

use super::outer;
use super::packet::{Own, Packet};

/// What is wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// It is longer than this.
    TooBig(u16),
    /// It has passed as many routers as it might.
    TimeExceeded,
}

/// Turns the packet in `frame` into an ICMP error about itself, back to where it came from; false,
/// and a frame that means nothing any more, when no error may be sent about it (RFC 1812 section
/// 4.3.2.7, RFC 4443 section 2.4).
#[cold]
pub(crate) fn answer(frame: &mut Frame, packet: &Packet, own: Own, wrong: Wrong) -> bool {
    let l3 = packet.l3;
    let bytes = frame.bytes();
    if bytes.first_chunk().is_none_or(|mac| ethernet::is_group(*mac)) {
        return false;
    }
    let Some(cause) = bytes.get(l3..l3 + packet.total_bytes) else {
        return false;
    };
    let (header, quoted) = if packet.is_ipv4 {
        let quoted = packet.total_bytes.min(IPV4_ERROR_MAX - IPV4_HEADERS);
        (ipv4_error(cause, packet, own.four, wrong, quoted), quoted)
    } else {
        let Some(own) = own.six else {
            return false;
        };
        let quoted = packet.total_bytes.min(IPV6_ERROR_MAX - IPV6_HEADERS);
        (ipv6_error(cause, packet, own, wrong, quoted), quoted)
    };
    let Some(header) = header else {
        return false;
    };
    let header = if packet.is_ipv4 { &header[..IPV4_HEADERS] } else { &header[..] };
    if !frame.set_len(l3 + quoted) || !frame.push_front(header.len()) {
        return false;
    }
    let bytes = frame.bytes_mut();
    bytes.copy_within(header.len()..header.len() + l3, 0);
    bytes[l3..l3 + header.len()].copy_from_slice(header);
    bytes[l3 - 2..l3].copy_from_slice(&outer::ether_type(packet.is_ipv4));
    let is_turned = ethernet::swap_addresses(bytes);
    let meta = frame.meta_mut();
    meta.checksum = ChecksumState::Verified;
    meta.tx_checksum = TxChecksum::Complete;
    is_turned
}

/// RFC 1812 section 4.3.2.3.
const IPV4_ERROR_MAX: usize = 576;
/// RFC 4443 section 2.4 (c).
const IPV6_ERROR_MAX: usize = 1280;
const IPV4_HEADERS: usize = 28;
const IPV6_HEADERS: usize = 48;
const TTL: u8 = 64;

/// Headers of IP and ICMP; of IPv4 the first 28 bytes count.
type Headers = [u8; IPV6_HEADERS];

fn ipv4_error(
    cause: &[u8],
    packet: &Packet,
    own: [u8; 4],
    wrong: Wrong,
    quoted: usize,
) -> Option<Headers> {
    let fixed = cause.first_chunk::<20>()?;
    let is_later_fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff != 0;
    let source = [fixed[12], fixed[13], fixed[14], fixed[15]];
    let to = [fixed[16], fixed[17], fixed[18], fixed[19]];
    let kind = cause.get(packet.header_bytes).copied();
    let is_error = packet.protocol == ipv4::ICMP && kind.is_none_or(icmp::is_error_ipv4);
    if is_later_fragment || is_error || !ipv4::is_host(source) || !ipv4::is_host(to) {
        return None;
    }
    let mut headers = [0; IPV6_HEADERS];
    let [l0, l1] = u16::try_from(IPV4_HEADERS + quoted).ok()?.to_be_bytes();
    headers[..12].copy_from_slice(&[0x45, 0, l0, l1, 0, 0, 0x40, 0, TTL, ipv4::ICMP, 0, 0]);
    headers[12..16].copy_from_slice(&own);
    headers[16..20].copy_from_slice(&source);
    let sum = checksum::of(&headers[..20]).to_be_bytes();
    headers[10..12].copy_from_slice(&sum);
    match wrong {
        Wrong::TooBig(mtu) => {
            (headers[20], headers[21]) = (3, 4);
            headers[26..28].copy_from_slice(&mtu.to_be_bytes());
        }
        Wrong::TimeExceeded => headers[20] = 11,
    }
    let sum = Sum::ZERO.bytes(&headers[20..28]).bytes(cause.get(..quoted)?);
    headers[22..24].copy_from_slice(&sum.checksum().to_be_bytes());
    Some(headers)
}

fn ipv6_error(
    cause: &[u8],
    packet: &Packet,
    own: [u8; 16],
    wrong: Wrong,
    quoted: usize,
) -> Option<Headers> {
    let header = ipv6::Header::parse(cause).ok()?;
    let payload = cause.get(usize::from(ipv6::HEADER_BYTES)..)?;
    let is_error = match ipv6::walk(payload, packet.protocol) {
        Ok(transport) if transport.protocol == ipv6::ICMPV6 => {
            let kind = payload.get(usize::from(transport.extension_bytes)).copied();
            kind.is_none_or(icmp::is_error_ipv6)
        }
        Ok(_) => false,
        // Of a fragment only the first header is known.
        Err(_) => !packet.is_fragment || payload.first().is_none_or(|&next| next == ipv6::ICMPV6),
    };
    if is_error || !ipv6::is_host(header.source) || ipv6::is_multicast(header.destination) {
        return None;
    }
    let mut headers = [0; IPV6_HEADERS];
    let length = u16::try_from(IPV6_HEADERS - 40 + quoted).ok()?;
    let [l0, l1] = length.to_be_bytes();
    headers[..8].copy_from_slice(&[0x60, 0, 0, 0, l0, l1, ipv6::ICMPV6, TTL]);
    headers[8..24].copy_from_slice(&own);
    headers[24..40].copy_from_slice(&header.source);
    match wrong {
        Wrong::TooBig(mtu) => {
            headers[40] = 2;
            headers[46..].copy_from_slice(&mtu.to_be_bytes());
        }
        Wrong::TimeExceeded => headers[40] = 3,
    }
    let sum = Sum::ZERO
        .pseudo_ipv6(own, header.source, ipv6::ICMPV6, length)
        .bytes(&headers[40..])
        .bytes(cause.get(..quoted)?);
    headers[42..44].copy_from_slice(&sum.checksum().to_be_bytes());
    Some(headers)
}

/// How many errors may be sent: a bucket, as RFC 1812 section 4.3.2.8 asks for.
#[derive(Debug)]
pub(crate) struct Rate {
    /// When the bucket will be full, if nothing more is sent.
    full_at: Nanos,
}

/// One error in a millisecond, and fifty at once after a pause: Linux's figures.
const APART: Nanos = Nanos::from_millis(1);
const AT_ONCE: Nanos = Nanos::from_millis(50);

impl Rate {
    pub(crate) const fn new() -> Self {
        Self { full_at: Nanos::ZERO }
    }

    /// Whether one more may be sent.
    pub(crate) fn take(&mut self, now: Nanos) -> bool {
        let next = self.full_at.max(now) + APART;
        let may = next <= now + AT_ONCE;
        if may {
            self.full_at = next;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifty_errors_go_at_once_and_then_one_in_a_millisecond() {
        let mut rate = Rate::new();
        let start = Nanos::from_secs(9);
        assert_eq!((0..100).filter(|_| rate.take(start)).count(), 50);
        assert!(!rate.take(start));
        assert!(rate.take(start + APART));
        assert!(!rate.take(start + APART));
    }
}
