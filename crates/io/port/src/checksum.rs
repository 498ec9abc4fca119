//! The Internet checksum (RFC 1071), as far as a port needs it: to finish what a sender left open.

/// Ones' complement sum of `bytes` as big-endian words, folded to 16 bits and not inverted.
pub(crate) fn sum(bytes: &[u8]) -> u16 {
    // Sums of native words equal sums of big-endian words with the bytes swapped (RFC 1071,
    // 2 B), so whole machine words can be added and the order set right once at the end.
    let mut total: u64 = 0;
    let mut chunks = bytes.chunks_exact(4);
    for chunk in &mut chunks {
        total += u64::from(u32::from_ne_bytes(chunk.try_into().expect("chunks of four")));
    }
    let mut last = [0u8; 4];
    let rest = chunks.remainder();
    last[..rest.len()].copy_from_slice(rest);
    total += u64::from(u32::from_ne_bytes(last));
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    u16::from_be(total as u16)
}

/// Sums from `start` to the end of `packet`, with what lies at `start + offset` (the sum of a
/// pseudo-header) included, and writes the checksum there. False, and no change, when that place
/// is not in the packet.
#[must_use]
pub(crate) fn complete(packet: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(summed) = packet.get_mut(start..) else {
        return false;
    };
    let Some(field) = offset.checked_add(2).filter(|&end| end <= summed.len()) else {
        return false;
    };
    let checksum = match !sum(summed) {
        // UDP reads zero as "no checksum" (RFC 768); the other form of zero is right for all.
        0 => 0xffff,
        checksum => checksum,
    };
    summed[offset..field].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// The checksum `old` after a word of what it covers changed (RFC 1624, equation 3).
pub(crate) fn update(old: u16, word_before: u16, word_after: u16) -> u16 {
    let mut total = u32::from(!old) + u32::from(!word_before) + u32::from(word_after);
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071_gives_its_sum() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    #[test]
    fn every_length_sums_like_the_plain_definition() {
        let bytes: Vec<u8> = (0..67u32).map(|i| (i * 37 + 11) as u8).collect();
        for len in 0..bytes.len() {
            let mut total = 0u32;
            for pair in bytes[..len].chunks(2) {
                total += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low));
            }
            while total > 0xffff {
                total = (total & 0xffff) + (total >> 16);
            }
            assert_eq!(u32::from(sum(&bytes[..len])), total, "{len}");
        }
    }

    #[test]
    fn a_completed_packet_sums_to_all_ones() {
        let mut packet = [9, 9, 9, 1, 2, 3, 4, 0x12, 0x34, 5, 6, 7];
        assert!(complete(&mut packet, 3, 4));
        // The pseudo-header's sum was 0x1234 and is replaced by the checksum.
        let total = u32::from(sum(&packet[3..])) + 0x1234;
        assert_eq!((total & 0xffff) + (total >> 16), 0xffff);
    }

    #[test]
    fn a_place_outside_the_packet_changes_nothing() {
        let mut packet = [1, 2, 3, 4];
        for (start, offset) in [(5, 0), (0, 3), (4, 0), (2, 1), (0, usize::MAX)] {
            assert!(!complete(&mut packet, start, offset), "{start} {offset}");
        }
        assert_eq!(packet, [1, 2, 3, 4]);
    }

    #[test]
    fn a_sum_of_zero_is_written_as_all_ones() {
        let mut packet = [0xff, 0xff, 0, 0];
        assert!(complete(&mut packet, 0, 2));
        assert_eq!(packet[2..], [0xff, 0xff]);
    }

    #[test]
    fn an_updated_checksum_equals_one_made_anew() {
        let mut header = [0x45u8, 0, 0, 20, 1, 2, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let old = !sum(&header);
        header[1] = 3;
        assert_eq!(update(old, 0x4500, 0x4503), !sum(&header));
    }
}
