//! The best pause that this CPU has: a wait for a write to one cache line where there is one.
//!
//! UMWAIT (Intel, CPUID.7.0:ECX.WAITPKG) and MWAITX (AMD, CPUID.80000001:ECX.MONITORX) let the
//! other hyper-thread and the power budget have what a loop would burn, and end within a fraction
//! of a microsecond after the write. Each ends after some 20 us at the latest, so the caller's own
//! bounds hold.

use crate::sync::{AtomicU64, Ordering};

/// A way to pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuWait {
    /// The PAUSE instruction, or what the architecture has instead.
    Pause,
    /// UMONITOR and UMWAIT.
    Umwait,
    /// MONITORX and MWAITX.
    Mwaitx,
}

impl CpuWait {
    /// What this CPU has.
    pub fn probe() -> Self {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        {
            x86::probe()
        }
        #[cfg(not(all(target_arch = "x86_64", not(loom))))]
        {
            Self::Pause
        }
    }

    /// The name, for people and programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Umwait => "umwait",
            Self::Mwaitx => "mwaitx",
        }
    }

    /// Returns when `word` is not zero, when its cache line is written, or after a moment.
    #[inline]
    pub(super) fn pause(self, word: &AtomicU64) {
        match self {
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            Self::Umwait => x86::umwait(word),
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            Self::Mwaitx => x86::mwaitx(word),
            _ => {
                if word.load(Ordering::Relaxed) == 0 {
                    std::hint::spin_loop();
                }
            }
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(loom)))]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid, __cpuid_count, _rdtsc};

    use super::{AtomicU64, CpuWait, Ordering};

    /// Cycles of the time stamp counter that one wait takes at most: some 20 us.
    const CYCLES_MAX: u32 = 1 << 16;

    const WAITPKG: u32 = 1 << 5;
    const MONITORX: u32 = 1 << 29;

    pub(super) fn probe() -> CpuWait {
        let has = |leaf: u32, bit: u32| {
            let most = __cpuid(leaf & 0x8000_0000).eax;
            most >= leaf && __cpuid_count(leaf, 0).ecx & bit != 0
        };
        if has(7, WAITPKG) {
            CpuWait::Umwait
        } else if has(0x8000_0001, MONITORX) {
            CpuWait::Mwaitx
        } else {
            CpuWait::Pause
        }
    }

    /// Only where the CPU has WAITPKG.
    pub(super) fn umwait(word: &AtomicU64) {
        // SAFETY: UMONITOR reads nothing and only watches the line of an address that is mapped.
        unsafe { asm!("umonitor {}", in(reg) word.as_ptr(), options(nostack, preserves_flags)) };
        // A write before the line was watched would be missed.
        if word.load(Ordering::Acquire) != 0 {
            return;
        }
        // SAFETY: reading the counter has no condition.
        let deadline = unsafe { _rdtsc() } + u64::from(CYCLES_MAX);
        // SAFETY: UMWAIT waits for the line or the deadline (EDX:EAX) and changes only flags. State
        // 1 (C0.1) is the one that ends sooner.
        unsafe {
            asm!(
                "umwait {state:e}",
                state = in(reg) 1_u32,
                in("eax") deadline as u32,
                in("edx") (deadline >> 32) as u32,
                options(nostack),
            );
        };
    }

    /// Only where the CPU has MONITORX.
    pub(super) fn mwaitx(word: &AtomicU64) {
        // SAFETY: MONITORX reads nothing and only watches the line of an address (RAX) that is
        // mapped; no extension (ECX), no hint (EDX).
        unsafe {
            asm!(
                "monitorx",
                in("rax") word.as_ptr(),
                in("ecx") 0,
                in("edx") 0,
                options(nostack, preserves_flags),
            );
        };
        if word.load(Ordering::Acquire) != 0 {
            return;
        }
        // SAFETY: MWAITX waits for the line or, with bit 1 of ECX, that many cycles (EBX, which the
        // compiler keeps for itself). Hint 0xf0 is C0, the state that ends soonest.
        unsafe {
            asm!(
                "xchg rbx, {cycles}",
                "mwaitx",
                "xchg rbx, {cycles}",
                cycles = inout(reg) u64::from(CYCLES_MAX) => _,
                in("eax") 0xf0,
                in("ecx") 2,
                options(nostack, preserves_flags),
            );
        };
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_probe_finds_what_the_kernel_finds() {
        let text = std::fs::read_to_string("/proc/cpuinfo").expect("it is Linux");
        let flags = text.lines().find(|line| line.starts_with("flags")).expect("x86 has flags");
        let has = |flag| flags.split_whitespace().any(|word| word == flag);
        let expected = if has("waitpkg") {
            CpuWait::Umwait
        } else if has("monitorx") {
            CpuWait::Mwaitx
        } else {
            CpuWait::Pause
        };
        println!("this CPU waits by {}", CpuWait::probe().name());
        assert_eq!(CpuWait::probe(), expected);
    }

    #[test]
    fn a_pause_ends_by_itself_and_at_once_when_the_word_is_set() {
        for word in [0, 1] {
            for _ in 0..100 {
                CpuWait::probe().pause(&AtomicU64::new(word));
            }
        }
    }
}
