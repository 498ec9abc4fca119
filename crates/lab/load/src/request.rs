//! A request, and the bytes that it travels in.
//!
//! 16 bytes as in Shenango's `synthetic`: iterations of work and index, both u64 big endian. More
//! payload is a pattern that depends on the index, so that damage and mix-ups show.

use base::Nanos;

/// Bytes of a request without padding.
pub const REQUEST_BYTES: usize = 16;

/// One request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Counts the requests of its shard.
    pub index: u64,
    /// When it is due.
    pub intended: Nanos,
    /// Its flow, counted from zero in its shard.
    pub flow: u32,
    /// How much work it asks for.
    pub iterations: u64,
}

impl Request {
    /// Writes the request, and its pattern behind it, over all of `payload`.
    #[inline]
    pub fn write(&self, payload: &mut [u8]) {
        let Some((header, padding)) = payload.split_first_chunk_mut::<REQUEST_BYTES>() else {
            debug_assert!(false, "a payload has room for a request: the plan was checked");
            return;
        };
        header[..8].copy_from_slice(&self.iterations.to_be_bytes());
        header[8..].copy_from_slice(&self.index.to_be_bytes());
        for (place, byte) in padding.iter_mut().zip(pattern(self.index)) {
            *place = byte;
        }
    }
}

/// The iterations and index of a reply whose padding is intact. `wire_bytes` is what a request
/// has: a server may answer with less than it got, but not with more.
#[inline]
pub(crate) fn read_reply(payload: &[u8], wire_bytes: usize) -> Option<(u64, u64)> {
    let (header, padding) = payload.split_first_chunk::<REQUEST_BYTES>()?;
    let (iterations, index) = header.split_first_chunk::<8>()?;
    let iterations = u64::from_be_bytes(*iterations);
    let index = u64::from_be_bytes(*index.first_chunk()?);
    let intact = payload.len() <= wire_bytes
        && padding.iter().zip(pattern(index)).all(|(found, written)| *found == written);
    intact.then_some((iterations, index))
}

fn pattern(index: u64) -> impl Iterator<Item = u8> {
    let start = index as u8;
    (0_u8..=u8::MAX).cycle().map(move |step| start.wrapping_add(step).wrapping_mul(167))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Request =
        Request { index: 0x0102, intended: Nanos::ZERO, flow: 0, iterations: 0x0a0b };

    #[test]
    fn the_first_sixteen_bytes_are_iterations_and_index_big_endian() {
        let mut payload = [0xee; 16];
        REQUEST.write(&mut payload);
        assert_eq!(payload, [0, 0, 0, 0, 0, 0, 0x0a, 0x0b, 0, 0, 0, 0, 0, 0, 1, 2]);
    }

    #[test]
    fn an_intact_reply_is_read_and_a_shorter_one_too_but_not_a_longer_one() {
        let mut payload = [0; 64];
        REQUEST.write(&mut payload);
        for length in 16..=64 {
            assert_eq!(read_reply(&payload[..length], 64), Some((0x0a0b, 0x0102)));
        }
        assert_eq!(read_reply(&payload, 63), None);
        assert_eq!(read_reply(&payload[..15], 64), None);
    }

    #[test]
    fn every_damaged_byte_of_index_or_padding_shows() {
        let mut payload = [0; 600];
        REQUEST.write(&mut payload);
        for place in 16..600 {
            let mut damaged = payload;
            damaged[place] ^= 0x10;
            assert_eq!(read_reply(&damaged, 600), None, "byte {place}");
        }
        // Byte 15 is the part of the index that the pattern depends on.
        payload[15] ^= 1;
        assert_eq!(read_reply(&payload, 600), None);
    }
}
