//! Both sides of a comparison, and what is done when they differ.

use std::sync::atomic::{AtomicU32, Ordering};

use whole::{Accelerated, Trap};

use crate::comparison::{Difference, Played};
use crate::script::Script;
use crate::stage::{Pace, Side, Stage};

/// Ports of a script, as the player has it.
const PORTS: u32 = 4;
/// Below those that Linux chooses from, above those of root.
const FIRST_PORT: u32 = 2000;
const PORT_SETS: u32 = 7500;

/// Scripts that a shrinking plays at most.
const ATTEMPTS_MAX: usize = 150;

/// A stage of each side. Many lanes may play at once in one bed.
pub(crate) struct Lane<'bed> {
    linux: Stage<'bed>,
    calisto: Stage<'bed>,
}

impl<'bed> Lane<'bed> {
    pub(crate) fn new(bed: &'bed Accelerated, program: &'bed Trap) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let stage = |side| {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            Stage::new(bed, program, side, number)
        };
        Self { linux: stage(Side::Linux), calisto: stage(Side::Calisto) }
    }

    /// Plays a script on Linux and then on Calisto.
    pub(crate) fn play(&mut self, script: &Script, pace: Pace) -> Played {
        let linux = self.linux.play(script, ports(), None, pace);
        let calisto = self.calisto.play(script, ports(), Some(&linux), pace);
        Played { script: script.clone(), linux, calisto }
    }

    /// The script again and slowly, if it still differs.
    pub(crate) fn confirm(&mut self, script: &Script) -> Option<(Played, Difference)> {
        let once = self.play(script, Pace::CAREFUL);
        let sign = once.difference()?.sign;
        let again = self.play(script, Pace::CAREFUL);
        let difference = again.difference().filter(|difference| difference.sign == sign)?;
        Some((again, difference))
    }

    /// Leaves out of a script what is not needed for its difference.
    pub(crate) fn shrink(&mut self, played: Played, difference: &Difference) -> Played {
        let mut best = played;
        // What comes after it is not needed.
        best.script.0.truncate(difference.at + 1);
        let mut attempts = 0;
        let mut length = best.script.0.len().div_ceil(2);
        while length > 0 {
            let mut at = 0;
            while at < best.script.0.len() && attempts < ATTEMPTS_MAX {
                attempts += 1;
                let mut shorter = best.script.clone();
                let end = (at + length).min(shorter.0.len());
                shorter.0.drain(at..end);
                let played = self.play(&shorter, Pace::CALM);
                match played.difference() {
                    Some(other) if other.sign == difference.sign => {
                        best = played;
                        best.script.0.truncate(other.at + 1);
                    }
                    _ => at += length,
                }
            }
            length /= 2;
        }
        best
    }
}

/// The first port of a script that has not been played with for long.
fn ports() -> u16 {
    static PLAYED: AtomicU32 = AtomicU32::new(0);
    let set = PLAYED.fetch_add(1, Ordering::Relaxed) % PORT_SETS;
    u16::try_from(FIRST_PORT + set * PORTS).expect("the sets end below the ports of Linux")
}
