//! Pieces against slices, and beside a thread that writes meanwhile.

use proptest::prelude::*;

use super::*;

/// Bytes, none of them zero.
fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8 + 1).collect()
}

#[test]
fn every_length_is_copied_whole_and_nothing_beside_it() {
    for bytes in 0..700 {
        let from = content(bytes);
        for start in [0, 1, 7, 8, 13] {
            let mut memory = vec![0; bytes + 64];
            let place = Piece::from(&mut memory[start..]);
            assert_eq!(place.copy_in(&from), bytes);
            let mut back = vec![0; bytes];
            assert_eq!(place.copy_out(&mut back), bytes);
            assert_eq!(back, from, "{bytes} bytes at {start}");
            assert_eq!(memory[start..start + bytes], from, "{bytes} bytes at {start}");
            assert!(memory[..start].iter().all(|&byte| byte == 0), "{bytes} bytes at {start}");
            assert!(memory[start + bytes..].iter().all(|&byte| byte == 0), "{bytes} at {start}");
        }
    }
}

proptest! {
    #[test]
    fn a_part_of_a_piece_is_the_part_of_the_bytes(
        bytes in 0..3000_usize, at in 0..3100_usize, part in 0..3100_usize,
    ) {
        let from = content(bytes);
        let piece = ReadPiece::from(&from[..]);
        let expected = at.checked_add(part).and_then(|end| from.get(at..end));
        let found = piece.get(at, part).map(|part| part.to_vec());
        prop_assert_eq!(found.as_deref(), expected);
        let (first, rest) = piece.split_at(at);
        prop_assert_eq!(first.len(), at.min(bytes));
        prop_assert_eq!([first.to_vec(), rest.to_vec()].concat(), &from[..]);
        prop_assert_eq!(piece.byte(at), from.get(at).copied());
    }

    #[test]
    fn from_piece_to_piece_the_shorter_one_says_how_much(from in 0..600_usize, to in 0..600_usize) {
        let (source, mut memory) = (content(from), vec![0; to]);
        let copied = ReadPiece::from(&source[..]).copy_to(Piece::from(&mut memory[..]));
        prop_assert_eq!(copied, from.min(to));
        prop_assert_eq!(&memory[..copied], &source[..copied]);
        prop_assert!(memory[copied..].iter().all(|&byte| byte == 0));
    }
}

#[test]
fn cleared_is_zero_to_the_last_byte() {
    let mut memory = content(10_001);
    Piece::from(&mut memory[..10_000]).clear();
    assert!(memory[..10_000].iter().all(|&byte| byte == 0));
    assert_ne!(memory[10_000], 0);
}

/// Half of them are written while the other half is copied out: each byte of a copy is one of those
/// that were there.
#[test]
fn a_copy_that_races_brings_bytes_of_either_side_and_nothing_else() {
    let mut memory = vec![1_u8; 4096];
    let start = std::ptr::NonNull::from(&mut memory[..]).cast::<u8>();
    let address = start.as_ptr().expose_provenance();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let start = std::ptr::with_exposed_provenance_mut::<u8>(address);
            let start = std::ptr::NonNull::new(start).expect("an array's address");
            // SAFETY: both threads touch it by pieces only until they are joined.
            let piece = unsafe { Piece::new(start, 4096) };
            for round in 0..2000_u32 {
                piece.copy_in(&[1 + (round % 2) as u8 * 254; 4096]);
            }
        });
        // SAFETY: as above.
        let piece = unsafe { ReadPiece::new(start, 4096) };
        for _ in 0..2000 {
            let copy = piece.to_vec();
            assert!(copy.iter().all(|&byte| byte == 1 || byte == 255));
        }
    });
}
