//! The impairments of a wire.

use std::fmt;

use base::Nanos;

/// From how long a queue on packets are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnThreshold {
    /// Packets in the queue.
    Packets(u32),
    /// Bytes in the queue.
    Bytes(u64),
}

/// The impairments of one direction of a wire. The default is a perfect one.
#[derive(Clone, Debug, PartialEq)]
pub struct Impairments {
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Probability that a packet comes twice.
    pub duplicate: f64,
    /// Probability that one bit of a packet is flipped.
    pub corrupt: f64,
    /// Probability that a packet is late by [`Self::reorder_delay`] and overtaken by others.
    pub reorder: f64,
    /// How late.
    pub reorder_delay: Nanos,
    /// One-way delay.
    pub delay: Nanos,
    /// Further delay, uniform up to this; it never reorders.
    pub jitter: Nanos,
    /// Bits per second of the bottleneck; `None`: no bottleneck.
    pub rate_bits_per_second: Option<u64>,
    /// Packets that wait before the bottleneck, the one being sent included; the next is dropped.
    pub queue_packets: Option<u32>,
    /// The same in bytes.
    pub queue_bytes: Option<u64>,
    /// From when on ECN-capable packets are marked "congestion experienced" (RFC 3168).
    pub ecn: Option<EcnThreshold>,
    /// Packets under way at once, in the queue and on the wire; the next is dropped and counted.
    pub held_max: u32,
    /// Start of all chance.
    pub seed: u64,
}

impl Default for Impairments {
    fn default() -> Self {
        Self {
            loss: 0.0,
            duplicate: 0.0,
            corrupt: 0.0,
            reorder: 0.0,
            reorder_delay: Nanos::from_millis(1),
            delay: Nanos::ZERO,
            jitter: Nanos::ZERO,
            rate_bits_per_second: None,
            queue_packets: None,
            queue_bytes: None,
            ecn: None,
            held_max: 1024,
            seed: 1,
        }
    }
}

impl Impairments {
    /// A perfect wire.
    pub const fn is_perfect(&self) -> bool {
        let Self { loss, duplicate, corrupt, reorder, delay, jitter, rate_bits_per_second, .. } =
            self;
        *loss == 0.0
            && *duplicate == 0.0
            && *corrupt == 0.0
            && *reorder == 0.0
            && delay.0 == 0
            && jitter.0 == 0
            && rate_bits_per_second.is_none()
    }

    /// Whether it can be built.
    ///
    /// # Errors
    /// Which setting is not possible, and what is.
    pub fn check(&self) -> Result<(), ImpairmentError> {
        for (name, value) in [
            ("loss", self.loss),
            ("duplicate", self.duplicate),
            ("corrupt", self.corrupt),
            ("reorder", self.reorder),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return Err(ImpairmentError(format!(
                    "{name} is a probability from 0 to 1, not {value}"
                )));
            }
        }
        let wrong = |sentence: &str| Err(ImpairmentError(sentence.to_owned()));
        if self.reorder > 0.0 && self.reorder_delay == Nanos::ZERO {
            return wrong("reordering needs a reorder delay, or nothing can overtake");
        }
        let queued = self.queue_packets.is_some() || self.queue_bytes.is_some();
        match self.rate_bits_per_second {
            Some(0) => return wrong("a rate of 0 lets nothing pass: use loss 1"),
            None if queued || self.ecn.is_some() => {
                return wrong("a queue or an ECN threshold needs a rate, or nothing ever waits");
            }
            _ => {}
        }
        if self.queue_packets == Some(0) || self.queue_bytes == Some(0) || self.held_max == 0 {
            return wrong("a queue of 0 lets nothing pass: use 1 or more");
        }
        if self.held_max > 1 << 20 {
            return wrong("no more than 1048576 packets can be under way");
        }
        Ok(())
    }
}

/// Impairments that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImpairmentError(String);

impl fmt::Display for ImpairmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ImpairmentError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_perfect_and_possible() {
        let perfect = Impairments::default();
        assert!(perfect.is_perfect());
        assert_eq!(perfect.check(), Ok(()));
        assert!(!Impairments { delay: Nanos(1), ..perfect }.is_perfect());
    }

    #[test]
    fn impossible_settings_are_refused_with_what_is_possible() {
        let good = Impairments::default();
        for (bad, word) in [
            (Impairments { loss: 1.5, ..good.clone() }, "loss"),
            (Impairments { corrupt: f64::NAN, ..good.clone() }, "corrupt"),
            (Impairments { reorder: -0.1, ..good.clone() }, "reorder"),
            (Impairments { reorder: 0.1, reorder_delay: Nanos::ZERO, ..good.clone() }, "overtake"),
            (Impairments { rate_bits_per_second: Some(0), ..good.clone() }, "rate of 0"),
            (Impairments { queue_packets: Some(9), ..good.clone() }, "needs a rate"),
            (Impairments { ecn: Some(EcnThreshold::Bytes(9)), ..good.clone() }, "needs a rate"),
            (Impairments { held_max: 0, ..good.clone() }, "queue of 0"),
            (Impairments { held_max: u32::MAX, ..good.clone() }, "1048576"),
        ] {
            let error = bad.check().expect_err(word).to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
