//! The copy itself, of bytes that somebody else may be writing.
//!
//! A plain copy that races is undefined behaviour, and the compiler may replace it by anything that
//! looks twice. Relaxed atomics may race, but go byte by byte where an address is odd and never by
//! vectors. So on x86-64 the moves are written down: to the compiler they are opaque, and to the
//! memory they are what relaxed atomic moves of bytes would be. Elsewhere, and under Miri, it is
//! atomics.
//!
//! Where a length is no multiple of a vector, the last vector overlaps the one before it: a byte may
//! be read twice, and which of both reads counts is as undecided as everything about a race.

pub(crate) use self::moves::copy;

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod moves {
    use std::arch::{asm, is_x86_feature_detected};

    /// From so many bytes on, vectors of 32 are worth a look at what the processor has.
    const WIDE: usize = 256;

    /// Moves the first and the last word of a stretch, which may overlap: both are read before any
    /// is written.
    macro_rules! both_ends {
        ($from:ident, $to:ident, $last:expr, $move:literal, $class:ident, $size:literal) => {{
            let last = $last;
            // SAFETY: the caller vouches for the whole stretch, and both words lie in it.
            unsafe {
                asm!(
                    concat!($move, " {a", $size, "}, [{from}]"),
                    concat!($move, " {b", $size, "}, [{from} + {last}]"),
                    concat!($move, " [{to}], {a", $size, "}"),
                    concat!($move, " [{to} + {last}], {b", $size, "}"),
                    from = in(reg) $from,
                    to = in(reg) $to,
                    last = in(reg) last,
                    a = out($class) _,
                    b = out($class) _,
                    options(nostack, preserves_flags),
                );
            }
        }};
    }

    /// Copies `bytes` bytes.
    ///
    /// # Safety
    /// So many can be read from `from` and written to `to`. Others may touch them meanwhile, but in
    /// this process only by this function, atomics, or not at all.
    #[inline]
    pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
        match bytes {
            0 => {}
            // SAFETY: as the caller says, here and below.
            1..=16 => unsafe { short(from, to, bytes) },
            17..=32 => both_ends!(from, to, bytes - 16, "movups", xmm_reg, ""),
            // SAFETY: see above.
            33.. => unsafe { long(from, to, bytes) },
        }
    }

    /// From 1 to 16 bytes.
    #[inline]
    unsafe fn short(from: *const u8, to: *mut u8, bytes: usize) {
        match bytes {
            8.. => both_ends!(from, to, bytes - 8, "mov", reg, ":r"),
            4.. => both_ends!(from, to, bytes - 4, "mov", reg, ":e"),
            2.. => both_ends!(from, to, bytes - 2, "mov", reg, ":x"),
            _ => both_ends!(from, to, bytes - 1, "mov", reg_byte, ""),
        }
    }

    /// 33 bytes and more.
    #[inline(never)]
    unsafe fn long(from: *const u8, to: *mut u8, bytes: usize) {
        if bytes < 64 {
            // SAFETY: the first and the last 32 bytes are in the stretch.
            return unsafe { four_vectors(from, to, bytes - 32) };
        }
        if bytes >= WIDE && is_x86_feature_detected!("avx") {
            // SAFETY: it was just detected, and the stretch is longer than it needs.
            return unsafe { wide(from, to, bytes) };
        }
        let last = bytes - 64;
        let mut at = 0;
        while at < last {
            // SAFETY: 64 bytes from `at` on are in the stretch, since more than 64 are left.
            unsafe { four_vectors(from.add(at), to.add(at), 32) };
            at += 64;
        }
        // SAFETY: the last 64 bytes.
        unsafe { four_vectors(from.add(last), to.add(last), 32) };
    }

    /// 32 bytes at the start and 32 bytes at `second`.
    #[inline]
    unsafe fn four_vectors(from: *const u8, to: *mut u8, second: usize) {
        // SAFETY: the caller vouches for both.
        unsafe {
            asm!(
                "movups {a}, [{from}]",
                "movups {b}, [{from} + 16]",
                "movups {c}, [{from} + {second}]",
                "movups {d}, [{from} + {second} + 16]",
                "movups [{to}], {a}",
                "movups [{to} + 16], {b}",
                "movups [{to} + {second}], {c}",
                "movups [{to} + {second} + 16], {d}",
                from = in(reg) from,
                to = in(reg) to,
                second = in(reg) second,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// 128 bytes and more, 128 at a time.
    #[target_feature(enable = "avx")]
    unsafe fn wide(from: *const u8, to: *mut u8, bytes: usize) {
        let last = bytes - 128;
        let mut at = 0;
        loop {
            // SAFETY: `at` is at most `last`, so that 128 bytes follow.
            unsafe {
                asm!(
                    "vmovups {a}, [{from}]",
                    "vmovups {b}, [{from} + 32]",
                    "vmovups {c}, [{from} + 64]",
                    "vmovups {d}, [{from} + 96]",
                    "vmovups [{to}], {a}",
                    "vmovups [{to} + 32], {b}",
                    "vmovups [{to} + 64], {c}",
                    "vmovups [{to} + 96], {d}",
                    from = in(reg) from.add(at),
                    to = in(reg) to.add(at),
                    a = out(ymm_reg) _,
                    b = out(ymm_reg) _,
                    c = out(ymm_reg) _,
                    d = out(ymm_reg) _,
                    options(nostack, preserves_flags),
                );
            }
            if at == last {
                break;
            }
            at = (at + 128).min(last);
        }
        // SAFETY: it touches registers only.
        unsafe {
            asm!("vzeroupper", out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, options(nostack, nomem, preserves_flags))
        };
    }
}

#[cfg(any(not(target_arch = "x86_64"), miri))]
mod moves {
    use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

    /// Copies `bytes` bytes.
    ///
    /// # Safety
    /// So many can be read from `from` and written to `to`. Others may touch them meanwhile, but in
    /// this process only by this function, atomics, or not at all.
    #[inline]
    pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
        let (from, mut at) = (from.cast_mut(), 0);
        if from.addr().is_multiple_of(8) && to.addr().is_multiple_of(8) {
            while bytes - at >= 8 {
                // SAFETY: inside both stretches, and aligned as was just seen.
                unsafe {
                    let word = AtomicU64::from_ptr(from.add(at).cast()).load(Ordering::Relaxed);
                    AtomicU64::from_ptr(to.add(at).cast()).store(word, Ordering::Relaxed);
                }
                at += 8;
            }
        }
        while at < bytes {
            // SAFETY: inside both stretches; a byte is always aligned.
            unsafe {
                let byte = AtomicU8::from_ptr(from.add(at)).load(Ordering::Relaxed);
                AtomicU8::from_ptr(to.add(at)).store(byte, Ordering::Relaxed);
            }
            at += 1;
        }
    }
}
