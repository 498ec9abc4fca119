//! The Internet checksum: fast sum, pseudo-headers, incremental update, verification.
//!
//! RFC 1071: the sum does not care about byte order, so words are added as the machine loads them
//! and only the result is turned; nor about the width of words, so eight bytes are one addition,
//! whose carry goes into the next.

use crate::bytes::{array, be16};
use crate::{Flow, FlowKey, Protocol, udp};

/// A ones'-complement sum of words of 64 bits, not folded yet, in the machine's byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Nothing added yet.
    pub const ZERO: Self = Self(0);

    /// Adds `bytes`. Only the last piece of a packet may have an odd length.
    #[inline]
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        // Two sums, so that the carries of one need not wait for those of the other: with one a
        // full segment takes twice the time.
        let (mut sum, mut other) = (self, Self::ZERO);
        let (blocks, tail) = bytes.as_chunks::<128>();
        for block in blocks {
            let (words, _) = block.as_chunks::<8>();
            if let ([one, another], _) = words.as_chunks::<8>() {
                sum = sum.chain(one);
                other = other.chain(another);
            }
        }
        sum = sum.add(other.0);
        let (words, tail) = tail.as_chunks::<8>();
        let (eight, words) = words.as_chunks::<8>();
        if let [eight] = eight {
            sum = sum.chain(eight);
        }
        let (four, words) = words.as_chunks::<4>();
        if let [four] = four {
            sum = sum.chain(four);
        }
        for word in words {
            sum = sum.add(u64::from_ne_bytes(*word));
        }
        if tail.is_empty() {
            return sum;
        }
        // Less than eight bytes: a header of 20 has four.
        let (half, tail) = tail.as_chunks::<4>();
        if let [word] = half {
            sum = sum.add(u64::from(u32::from_ne_bytes(*word)));
        }
        let (quarter, last) = tail.as_chunks::<2>();
        if let [word] = quarter {
            sum = sum.add(u64::from(u16::from_ne_bytes(*word)));
        }
        if let [byte] = last {
            sum = sum.add(u64::from(u16::from_ne_bytes([*byte, 0])));
        }
        sum
    }

    /// Adds, with the carry at the other end.
    #[inline]
    const fn add(self, word: u64) -> Self {
        let (sum, carry) = self.0.overflowing_add(word);
        Self(sum + carry as u64)
    }

    /// Adds words, each carry into the next one.
    #[inline]
    fn chain<const N: usize>(self, words: &[[u8; 8]; N]) -> Self {
        let (mut sum, mut carry) = (self.0, false);
        for word in words {
            (sum, carry) = sum.carrying_add(u64::from_ne_bytes(*word), carry);
        }
        Self(sum + u64::from(carry))
    }

    /// Adds one word given as a number.
    #[inline]
    #[must_use]
    pub const fn word(self, word: u16) -> Self {
        self.add(word.to_be() as u64)
    }

    /// Adds what RFC 768 and RFC 9293 put before a segment in IPv4.
    #[inline]
    #[must_use]
    pub fn pseudo_ipv4(
        self,
        source: [u8; 4],
        destination: [u8; 4],
        protocol: u8,
        len: u16,
    ) -> Self {
        let address = |bytes| u64::from(u32::from_ne_bytes(bytes));
        self.add(address(source)).add(address(destination)).word(u16::from(protocol)).word(len)
    }

    /// Adds what RFC 8200 section 8.1 puts before a segment in IPv6.
    #[inline]
    #[must_use]
    pub fn pseudo_ipv6(
        self,
        source: [u8; 16],
        destination: [u8; 16],
        protocol: u8,
        len: u16,
    ) -> Self {
        self.bytes(&source).bytes(&destination).word(u16::from(protocol)).word(len)
    }

    /// Adds what stands before a segment of the flow `key`, whatever its version.
    #[inline]
    #[must_use]
    pub const fn pseudo_of(self, key: &FlowKey, len: u16) -> Self {
        let [a, b, c, d] = key.addresses();
        // As numbers: turned once, their sum is that of the bytes. An IPv4 address is half a word.
        let sum = Self(a).add(b).add(c).add(d).add(key.protocol_number()).add(len as u64);
        self.add(sum.0.to_be())
    }

    /// The sum folded to 16 bits, as a number; 0xffff over data that holds its right checksum.
    #[inline]
    pub const fn fold(self) -> u16 {
        // Both halves swapped and added to the whole: the upper half is then the sum of both, with
        // the carry out of the lower half, which is the same as its own, added in.
        let [a, b, c, d, ..] = self.0.wrapping_add(self.0.rotate_left(32)).to_be_bytes();
        let sum = u32::from_be_bytes([a, b, c, d]);
        let [a, b, ..] = sum.wrapping_add(sum.rotate_left(16)).to_be_bytes();
        u16::from_be(u16::from_be_bytes([a, b]))
    }

    /// The checksum to write.
    #[inline]
    pub const fn checksum(self) -> u16 {
        !self.fold()
    }

    /// The checksum to write into a UDP header, where zero means that there is none.
    #[inline]
    pub const fn udp_checksum(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            checksum => checksum,
        }
    }
}

/// The checksum of `bytes`, which hold zero where it will stand.
#[inline]
pub fn of(bytes: &[u8]) -> u16 {
    Sum::ZERO.bytes(bytes).checksum()
}

/// The checksum after a word that it covers changed from `old` to `new` (RFC 1624, equation 3).
///
/// A UDP checksum of zero (none) must stay zero: do not call this for it.
#[inline]
#[must_use]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = (!checksum) as u32 + (!old) as u32 + new as u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    let [_, _, high, low] = ((sum & 0xffff) + (sum >> 16)).to_be_bytes();
    !u16::from_be_bytes([high, low])
}

/// [`update`] for two words in a row, such as an IPv4 address.
#[inline]
#[must_use]
pub const fn update_pair(checksum: u16, old: [u8; 4], new: [u8; 4]) -> u16 {
    let [o0, o1, o2, o3] = old;
    let [n0, n1, n2, n3] = new;
    let first = update(checksum, u16::from_be_bytes([o0, o1]), u16::from_be_bytes([n0, n1]));
    update(first, u16::from_be_bytes([o2, o3]), u16::from_be_bytes([n2, n3]))
}

/// Whether the checksums of `frame`, classified as `flow`, are right: the IPv4 header's and UDP's
/// or TCP's.
///
/// A UDP checksum of zero is right over IPv4, where it means that there is none, and wrong over
/// IPv6 (RFC 8200 section 8.1). Offsets that do not fit the frame make the answer no.
#[inline]
pub fn verify(frame: &[u8], flow: &Flow) -> bool {
    verify_checked(frame, flow).unwrap_or(false)
}

/// Whether the sender of `frame`, classified as `flow`, left its checksum open for a device to
/// complete: the field then holds the sum of the pseudo-header alone (`CHECKSUM_PARTIAL` of
/// Documentation/networking/checksum-offloads in the kernel). The IPv4 header's own checksum must
/// be right. A complete checksum looks like an open one once in 65,535 packets.
#[inline]
pub fn is_open(frame: &[u8], flow: &Flow) -> bool {
    let is_open = |parts: Parts<'_>| {
        let place = match flow.key.protocol() {
            Protocol::Udp => 6,
            Protocol::Tcp => 16,
        };
        be16(parts.segment, place) == Some(parts.pseudo.fold())
    };
    parts(frame, flow).is_some_and(is_open)
}

/// What a checksum of UDP or TCP covers.
struct Parts<'a> {
    pseudo: Sum,
    segment: &'a [u8],
}

#[inline]
fn verify_checked(frame: &[u8], flow: &Flow) -> Option<bool> {
    let Parts { pseudo, segment } = parts(frame, flow)?;
    if flow.key.protocol() == Protocol::Udp && be16(segment, 6)? == 0 {
        return Some(!flow.key.is_ipv6());
    }
    Some(pseudo.bytes(segment).fold() == 0xffff)
}

/// Nothing when the IPv4 header's checksum is wrong, or offsets do not fit the frame.
#[inline]
fn parts<'a>(frame: &'a [u8], flow: &Flow) -> Option<Parts<'a>> {
    let (l3, l4) = (usize::from(flow.l3_offset), usize::from(flow.l4_offset));
    let protocol = flow.key.protocol();
    let len = match protocol {
        Protocol::Udp => flow.payload_len.checked_add(udp::HEADER_BYTES)?,
        Protocol::Tcp => {
            flow.payload_offset.checked_sub(flow.l4_offset)?.checked_add(flow.payload_len)?
        }
    };
    let segment = frame.get(l4..l4 + usize::from(len))?;
    let pseudo = if flow.key.is_ipv6() {
        let (source, destination) = (array(frame, l3 + 8)?, array(frame, l3 + 24)?);
        Sum::ZERO.pseudo_ipv6(source, destination, protocol.number(), len)
    } else {
        if Sum::ZERO.bytes(frame.get(l3..l4)?).fold() != 0xffff {
            return None;
        }
        let (source, destination) = (array(frame, l3 + 12)?, array(frame, l3 + 16)?);
        Sum::ZERO.pseudo_ipv4(source, destination, protocol.number(), len)
    };
    Some(Parts { pseudo, segment })
}

#[cfg(test)]
mod tests;
