//! The copy itself, of bytes that somebody else may be writing.
//!
//! A plain copy that races is undefined behaviour, and the compiler may replace it by anything that
//! looks twice. Relaxed atomics may race, but go byte by byte where an address is odd and never by
//! vectors. So on x86-64 the moves are written down: to the compiler they are opaque, and to the
//! memory they are what relaxed atomic moves of bytes would be. Elsewhere, and under Miri, it is
//! atomics.
//!
//! Where a length is no multiple of a vector, the last vector overlaps the one before it: a byte
//! may be read twice, and which of both reads counts is as undecided as everything about a race.

pub(crate) use self::moves::copy;

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod moves {
    use std::arch::{asm, is_x86_feature_detected};
    use std::sync::atomic::{AtomicU8, Ordering};

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
    /// `bytes` bytes can be read from `from` and written to `to`. Others may touch them meanwhile,
    /// but in this process only by this function, atomics, or not at all.
    #[inline]
    pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
        match bytes {
            // SAFETY: as the caller says, here and below.
            65.. => unsafe { long(from, to, bytes) },
            // SAFETY: see above.
            33.. => unsafe { four_vectors(from, to, bytes - 32) },
            17.. => both_ends!(from, to, bytes - 16, "movups", xmm_reg, ""),
            8.. => both_ends!(from, to, bytes - 8, "mov", reg, ":r"),
            4.. => both_ends!(from, to, bytes - 4, "mov", reg, ":e"),
            2.. => both_ends!(from, to, bytes - 2, "mov", reg, ":x"),
            1 => both_ends!(from, to, 0_usize, "mov", reg_byte, ""),
            0 => {}
        }
    }

    /// The first 32 bytes, and 32 bytes at `second`.
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

    const UNKNOWN: u8 = 0;
    const NARROW: u8 = 1;
    const WIDE: u8 = 2;

    /// Which vectors the processor has, once somebody has looked.
    static VECTORS: AtomicU8 = AtomicU8::new(UNKNOWN);

    /// From this many bytes on, vectors of 32 are worth a look at what the processor has.
    const WIDE_FROM: usize = 256;

    /// 65 bytes and more.
    #[inline(never)]
    unsafe fn long(from: *const u8, to: *mut u8, bytes: usize) {
        if bytes >= WIDE_FROM {
            match VECTORS.load(Ordering::Relaxed) {
                // SAFETY: the processor has them, and the caller vouches for the bytes.
                WIDE => return unsafe { wide(from, to, bytes) },
                // SAFETY: as the caller says.
                UNKNOWN => return unsafe { look(from, to, bytes) },
                _ => {}
            }
        }
        // SAFETY: the loop ends before 64 bytes or less are left, and the last 64 follow.
        unsafe {
            asm!(
                "2:",
                "movups {a}, [{from}]",
                "movups {b}, [{from} + 16]",
                "movups {c}, [{from} + 32]",
                "movups {d}, [{from} + 48]",
                "movups [{to}], {a}",
                "movups [{to} + 16], {b}",
                "movups [{to} + 32], {c}",
                "movups [{to} + 48], {d}",
                "add {from}, 64",
                "add {to}, 64",
                "cmp {from}, {last}",
                "jb 2b",
                from = inout(reg) from => _,
                to = inout(reg) to => _,
                last = in(reg) from.add(bytes - 64),
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack),
            );
            four_vectors(from.add(bytes - 64), to.add(bytes - 64), 32);
        }
    }

    /// Looks at the processor, then copies.
    #[cold]
    unsafe fn look(from: *const u8, to: *mut u8, bytes: usize) {
        let vectors = if is_x86_feature_detected!("avx") { WIDE } else { NARROW };
        VECTORS.store(vectors, Ordering::Relaxed);
        // SAFETY: as the caller says.
        unsafe { long(from, to, bytes) }
    }

    /// 256 bytes and more.
    #[target_feature(enable = "avx")]
    unsafe fn wide(from: *const u8, to: *mut u8, bytes: usize) {
        let last = bytes - 256;
        // SAFETY: the loop ends before 256 bytes or less are left, and once round it takes the last
        // 256.
        unsafe {
            asm!(
                "2:",
                "vmovups {a}, [{from}]",
                "vmovups {b}, [{from} + 32]",
                "vmovups {c}, [{from} + 64]",
                "vmovups {d}, [{from} + 96]",
                "vmovups {e}, [{from} + 128]",
                "vmovups {f}, [{from} + 160]",
                "vmovups {g}, [{from} + 192]",
                "vmovups {h}, [{from} + 224]",
                "vmovups [{to}], {a}",
                "vmovups [{to} + 32], {b}",
                "vmovups [{to} + 64], {c}",
                "vmovups [{to} + 96], {d}",
                "vmovups [{to} + 128], {e}",
                "vmovups [{to} + 160], {f}",
                "vmovups [{to} + 192], {g}",
                "vmovups [{to} + 224], {h}",
                "cmp {from}, {last_from}",
                "je 3f",
                "add {from}, 256",
                "add {to}, 256",
                "cmp {from}, {last_from}",
                "jb 2b",
                "mov {from}, {last_from}",
                "mov {to}, {last_to}",
                "jmp 2b",
                "3:",
                from = inout(reg) from => _,
                to = inout(reg) to => _,
                last_from = in(reg) from.add(last),
                last_to = in(reg) to.add(last),
                a = out(ymm_reg) _,
                b = out(ymm_reg) _,
                c = out(ymm_reg) _,
                d = out(ymm_reg) _,
                e = out(ymm_reg) _,
                f = out(ymm_reg) _,
                g = out(ymm_reg) _,
                h = out(ymm_reg) _,
                options(nostack),
            );
        }
    }
}

#[cfg(any(not(target_arch = "x86_64"), miri))]
mod moves {
    use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

    /// Copies `bytes` bytes.
    ///
    /// # Safety
    /// `bytes` bytes can be read from `from` and written to `to`. Others may touch them meanwhile,
    /// but in this process only by this function, atomics, or not at all.
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
