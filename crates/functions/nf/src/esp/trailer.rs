//! What stands behind a packet in ESP: padding, its length and what the packet is (RFC 4303 section
//! 2.4).

/// Bytes of padding, its length and the next header, behind a payload of that many bytes.
#[inline]
pub(crate) const fn bytes_behind(payload: usize, block: usize) -> usize {
    let plain = payload + FIXED;
    FIXED + plain.next_multiple_of(block) - plain
}

/// Writes a trailer over the whole of `out`, which is at least two bytes.
#[inline]
pub(crate) fn write(out: &mut [u8], next_header: u8) {
    let padding = out.len() - FIXED;
    for (byte, number) in out[..padding].iter_mut().zip(1..=u8::MAX) {
        *byte = number;
    }
    out[padding] = padding as u8;
    out[padding + 1] = next_header;
}

/// Splits what was decrypted into payload and next header; nothing when the padding is not the one
/// that every honest sender writes.
#[inline]
pub(crate) fn split(plain: &[u8]) -> Option<(&[u8], u8)> {
    let (before, &[padding, next_header]) = plain.split_last_chunk::<FIXED>()?;
    let (payload, pad) = before.split_at_checked(before.len().checked_sub(padding.into())?)?;
    let is_right = pad.iter().zip(1..=u8::MAX).all(|(&byte, number)| byte == number);
    is_right.then_some((payload, next_header))
}

const FIXED: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_of_every_length_ends_on_a_block_and_comes_back() {
        for block in [4, 16] {
            for payload in 0..100usize {
                let mut plain = vec![0xaa; payload + bytes_behind(payload, block)];
                write(&mut plain[payload..], 4);
                assert_eq!(plain.len() % block, 0);
                assert!(plain.len() - payload < block + FIXED);
                assert_eq!(split(&plain), Some((&[0xaa; 100][..payload], 4)));
            }
        }
    }

    #[test]
    fn padding_that_is_not_counted_or_longer_than_all_is_refused() {
        assert_eq!(split(&[9, 1, 2, 3, 3, 4]), Some(([9].as_slice(), 4)));
        assert_eq!(split(&[9, 1, 2, 4, 3, 4]), None);
        assert_eq!(split(&[9, 1, 2, 3, 5, 4]), None);
        assert_eq!(split(&[4]), None);
        let longest: Vec<u8> = (1..=255).chain([255, 4]).collect();
        assert_eq!(split(&longest), Some(([].as_slice(), 4)));
    }
}
