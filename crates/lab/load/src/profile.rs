//! The offered rate over a run: pieces, one after the other, in which it is level or changes
//! evenly.
//!
//! Arrivals of rate 1 become arrivals of the profile by the inverse of its integral, so a ramp of
//! Poisson requests is a Poisson process at every moment, and one of constant ones has exactly as
//! many requests as its integral says.

use base::Nanos;

use crate::Error;

/// Pieces that a profile may have.
pub const PIECES_MAX: usize = 1000;

/// A stretch of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// How long.
    pub length: Nanos,
    /// Requests a second at its start.
    pub from: f64,
    /// Requests a second at its end; between them evenly.
    pub to: f64,
}

/// The pieces of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    pieces: Vec<Piece>,
    /// How many at the front belong to the warm-up.
    warmup: usize,
}

impl Piece {
    /// A level stretch.
    pub fn level(rate: f64, length: Nanos) -> Self {
        Self { length, from: rate, to: rate }
    }

    /// Requests in it.
    pub fn requests(&self) -> f64 {
        self.requests_until(self.length.as_secs_f64())
    }

    /// Requests in its first `seconds`.
    fn requests_until(&self, seconds: f64) -> f64 {
        let growth = (self.to - self.from) / self.length.as_secs_f64().max(1e-9);
        self.from * seconds + growth * seconds * seconds / 2.0
    }

    /// Seconds after which that many requests were due.
    fn seconds_of(&self, requests: f64) -> f64 {
        let growth = (self.to - self.from) / self.length.as_secs_f64().max(1e-9);
        // The root of the integral in the form that loses no digits, growth zero or not.
        let root = (self.from * self.from + 2.0 * growth * requests).max(0.0).sqrt();
        let sum = self.from + root;
        // The first request of a ramp that begins at zero is due at once.
        if sum > 0.0 { 2.0 * requests / sum } else { 0.0 }
    }
}

impl Profile {
    /// No pieces: the rate of the plan, all the time.
    pub const LEVEL: Self = Self { pieces: Vec::new(), warmup: 0 };

    /// These pieces are the run; it is measured from the first one on.
    ///
    /// # Errors
    /// None or too many, one without length, a rate that is none, or all of them zero.
    pub fn new(pieces: Vec<Piece>) -> Result<Self, Error> {
        let rate_is_wrong = |rate: f64| !(0.0..=1e9).contains(&rate);
        let sentence = if !(1..=PIECES_MAX).contains(&pieces.len()) {
            format!(
                "{} changes of the rate are not possible: choose 1 to {PIECES_MAX}",
                pieces.len()
            )
        } else if let Some(wrong) =
            pieces.iter().find(|piece| rate_is_wrong(piece.from) || rate_is_wrong(piece.to))
        {
            format!(
                "a rate of {} to {} a second is not possible: choose 0 to 1000M",
                wrong.from, wrong.to
            )
        } else if pieces.iter().any(|piece| piece.length == Nanos::ZERO) {
            "a rate that lasts no time is none: give each a length above zero".to_owned()
        } else if pieces.iter().all(|piece| piece.from <= 0.0 && piece.to <= 0.0) {
            "every rate is zero, so nothing would be sent: give one above zero".to_owned()
        } else {
            return Ok(Self { pieces, warmup: 0 });
        };
        Err(Error::Setting(sentence))
    }

    /// The same with pieces before it that are not measured.
    #[must_use]
    pub fn after(mut self, warmup: Vec<Piece>) -> Self {
        let warmup: Vec<_> =
            warmup.into_iter().filter(|piece| piece.length > Nanos::ZERO).collect();
        self.warmup += warmup.len();
        self.pieces.splice(0..0, warmup);
        self
    }

    /// Whether there is nothing but the rate of the plan.
    pub fn is_level(&self) -> bool {
        self.pieces.is_empty()
    }

    /// All pieces, those of the warm-up first.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Those that are measured.
    pub fn measured(&self) -> &[Piece] {
        &self.pieces[self.warmup.min(self.pieces.len())..]
    }

    /// How long the warm-up is.
    pub fn warmup(&self) -> Nanos {
        let warmup = &self.pieces[..self.warmup.min(self.pieces.len())];
        warmup.iter().fold(Nanos::ZERO, |sum, piece| sum + piece.length)
    }

    /// How long is measured.
    pub fn length(&self) -> Nanos {
        self.measured().iter().fold(Nanos::ZERO, |sum, piece| sum + piece.length)
    }

    /// The mean rate of what is measured.
    pub fn mean_rate(&self) -> f64 {
        let requests: f64 = self.measured().iter().map(Piece::requests).sum();
        requests / self.length().as_secs_f64().max(1e-9)
    }

    /// The highest rate.
    pub fn peak(&self) -> f64 {
        self.pieces.iter().map(|piece| piece.from.max(piece.to)).fold(0.0, f64::max)
    }

    /// The same with every rate multiplied by `share`.
    #[must_use]
    pub(crate) fn scaled(&self, share: f64) -> Self {
        let scale =
            |piece: &Piece| Piece { from: piece.from * share, to: piece.to * share, ..*piece };
        Self { pieces: self.pieces.iter().map(scale).collect(), warmup: self.warmup }
    }
}

/// Turns counts of requests into times; counts must not decrease from call to call.
#[derive(Clone, Debug)]
pub(crate) struct Inverse {
    pieces: Vec<Piece>,
    piece: usize,
    /// Time, in nanoseconds, and requests before that piece.
    nanos_before: f64,
    requests_before: f64,
}

impl Inverse {
    pub(crate) fn new(profile: &Profile) -> Self {
        Self { pieces: profile.pieces.clone(), piece: 0, nanos_before: 0.0, requests_before: 0.0 }
    }

    /// When, in nanoseconds from the start, `requests` were due; `None`: not before the end.
    #[inline]
    pub(crate) fn nanos_of(&mut self, requests: f64) -> Option<f64> {
        loop {
            let piece = self.pieces.get(self.piece)?;
            let own = requests - self.requests_before;
            let all = piece.requests();
            if own < all {
                let within = (piece.seconds_of(own) * 1e9).clamp(0.0, piece.length.0 as f64);
                return Some(self.nanos_before + within);
            }
            self.nanos_before += piece.length.0 as f64;
            self.requests_before += all;
            self.piece += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(pieces: Vec<Piece>, counts: impl Iterator<Item = u32>) -> Vec<f64> {
        let profile = Profile::new(pieces).expect("it is possible");
        let mut inverse = Inverse::new(&profile);
        counts.map_while(|count| inverse.nanos_of(f64::from(count))).collect()
    }

    const SECOND: Nanos = Nanos::from_secs(1);

    #[test]
    fn steps_have_exactly_the_requests_of_their_rates() {
        let pieces = (1..=5).map(|step| Piece::level(f64::from(step) * 100.0, SECOND)).collect();
        let times = times(pieces, 0..);
        assert_eq!(times.len(), 1500);
        for step in 0..5_u32 {
            let (from, to) = (f64::from(step) * 1e9, f64::from(step + 1) * 1e9);
            let within = times.iter().filter(|time| (from..to).contains(*time)).count();
            assert_eq!(within, 100 * (step as usize + 1));
        }
    }

    #[test]
    fn a_ramp_has_the_requests_of_its_integral_up_to_every_moment() {
        let ramp = Piece { length: Nanos::from_secs(2), from: 0.0, to: 1000.0 };
        let times = times(vec![ramp], 0..);
        assert_eq!(times.len(), 1000);
        for (count, time) in (0..).zip(&times) {
            let seconds = time / 1e9;
            assert!((250.0 * seconds * seconds - f64::from(count)).abs() < 1e-3, "{count} {time}");
        }
    }

    #[test]
    fn a_pause_between_two_rates_has_no_requests() {
        let pieces =
            vec![Piece::level(10.0, SECOND), Piece::level(0.0, SECOND), Piece::level(10.0, SECOND)];
        let times = times(pieces, 0..);
        assert_eq!(times.len(), 20);
        assert!(times.iter().all(|time| !(1e9..2e9).contains(time)), "{times:?}");
    }

    #[test]
    fn what_comes_before_is_warmup_and_counts_neither_as_length_nor_as_rate() {
        let profile = Profile::new(vec![Piece::level(50.0, SECOND)]).expect("it is possible");
        let ramp = Piece { length: Nanos::from_secs(4), from: 0.0, to: 50.0 };
        let profile = profile.after(vec![ramp, Piece::level(50.0, Nanos::ZERO)]);
        assert_eq!((profile.warmup(), profile.length()), (Nanos::from_secs(4), SECOND));
        assert_eq!((profile.pieces().len(), profile.measured().len()), (2, 1));
        assert!((profile.mean_rate() - 50.0).abs() < 1e-9 && profile.peak() == 50.0);
    }

    #[test]
    fn impossible_profiles_are_refused_by_a_sentence() {
        for (pieces, words) in [
            (vec![], "choose 1 to 1000"),
            (vec![Piece::level(-1.0, SECOND)], "choose 0 to 1000M"),
            (vec![Piece::level(f64::NAN, SECOND)], "choose 0 to 1000M"),
            (vec![Piece::level(0.0, SECOND)], "nothing would be sent"),
            (vec![Piece::level(1.0, Nanos::ZERO)], "above zero"),
        ] {
            let error = Profile::new(pieces).expect_err(words);
            assert!(error.is_usage() && error.to_string().contains(words), "{error}");
        }
    }
}
