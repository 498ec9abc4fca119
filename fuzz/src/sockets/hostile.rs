//! What a hostile program writes: any word of any of its slots, of the ready bits, and of its heap.

use std::sync::atomic::Ordering;

use base::SlotId;
use shm::sockets::RingDesc;

use super::program::{Program, SLOTS};
use crate::hostile_peer::Program as Input;

/// A value that is worth a try: near what is there, near an end, or anything.
fn value(input: &mut Input<'_>, before: u64) -> u64 {
    match input.byte() % 8 {
        0 => before.wrapping_add(1),
        1 => before.wrapping_sub(1),
        2 => before.wrapping_add(u64::from(input.half())),
        3 => before.wrapping_sub(u64::from(input.half())),
        4 => u64::from(input.word()),
        5 => u64::MAX - u64::from(input.byte()),
        6 => before ^ 1 << (input.byte() % 64),
        _ => u64::from(input.word()) << 32 | u64::from(input.word()),
    }
}

/// Writes one word, and has a worker look.
pub(super) fn write(program: &Program, input: &mut Input<'_>) {
    let which = input.byte();
    let slot = SlotId(u32::from(input.byte()) % SLOTS);
    let words = program.words(slot);
    let long = [
        &words.rx_head,
        &words.tx_tail,
        &words.tx_ring_used,
        &words.rx_tail,
        &words.rx_ring,
        &words.tx_ring,
        &words.tx_head,
        &words.tx_urgent,
        &words.rx_urgent,
        &words.cookie,
        &words.pollers[usize::from(which >> 5) % 4],
        &words.info[usize::from(which >> 3) % words.info.len()],
    ];
    let short = [
        &words.state,
        &words.generation,
        &words.asks,
        &words.worker,
        &words.rx_base,
        &words.tx_base,
        &words.error,
        &words.notify_word,
        &words.sleepers,
        &words.options_version,
        &words.tx_log2_max,
        &words.options[usize::from(which >> 3) % words.options.len()],
    ];
    let at = usize::from(which) % (long.len() + short.len() + 2);
    if let Some(word) = long.get(at) {
        word.store(value(input, word.load(Ordering::Relaxed)), Ordering::Release);
    } else if let Some(word) = short.get(at - long.len()) {
        let before = word.load(Ordering::Relaxed);
        word.store(value(input, u64::from(before)) as u32, Ordering::Release);
    } else if at == long.len() + short.len() {
        // Bytes of a ring of its own, the backlog's entries among them.
        let desc = RingDesc::of_word(words.rx_ring.load(Ordering::Relaxed));
        let bytes = input.bytes(16);
        if let Some([first, _]) = program.memory.pieces(desc, value(input, 0), bytes.len()) {
            first.copy_in(bytes);
        }
    } else {
        program.memory.end(input.word());
    }
    for worker in 0..4 {
        if let Some(bits) = program.memory.worker(worker) {
            let _ = bits.set(slot);
        }
    }
}
