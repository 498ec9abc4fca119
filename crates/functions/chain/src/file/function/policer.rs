//! `kind = "policer"`.

use calisto_nf::Policer;
use calisto_nf::policer::{CLASSES_MAX, Class, PerSource, PolicerError};
use toml::de::DeValue;

use super::selector;
use crate::file::FileError;
use crate::file::section::{Section, list, number};

/// Classes of traffic, and how much of each passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicerPart {
    /// In the order in which packets are held against them.
    pub classes: Vec<Class>,
}

/// Kilobits, so that a thousandth of a megabit is a whole number.
const RATE_KBIT_MAX: f64 = 1e9;
/// A class without a burst may send what comes in this many milliseconds at once.
const BURST_MS: u64 = 50;
const BURST_MIN: u64 = 16 << 10;

pub(super) fn read(section: &mut Section<'_>) -> Result<PolicerPart, FileError> {
    let classes = section.sections("classes", 1..=CLASSES_MAX, class)?;
    let (classes, lines): (Vec<Class>, Vec<usize>) = classes.into_iter().unzip();
    // The seed plays no part in what is right.
    Policer::new(&classes, 0).map_err(|wrong| match wrong {
        PolicerError::Class { index, error } => {
            section.error_at(lines.get(index).copied(), "classes", error.to_string())
        }
        wrong @ PolicerError::TooMany(_) => section.error("classes", wrong.to_string()),
    })?;
    Ok(PolicerPart { classes })
}

fn class(section: &mut Section<'_>) -> Result<Class, FileError> {
    let rate_kbit = section.required("rate_mbit", "rate_mbit = 100", rate_kbit)?;
    let bytes_per_second = rate_kbit * 1000 / 8;
    let burst_kib = section.optional("burst_kib", number(2..=4_194_304))?;
    let burst_bytes = match burst_kib {
        Some(kib) => kib << 10,
        None => (bytes_per_second * BURST_MS / 1000).clamp(BURST_MIN, Class::BURST_MAX),
    };
    let per_source = section.optional("per_source", |value| {
        let bits = list(2..=2, number(0..=128))(value).ok();
        let two = bits.and_then(|bits| match bits[..] {
            [four @ 0..=32, six] => Some((u8::try_from(four).ok()?, u8::try_from(six).ok()?)),
            _ => None,
        });
        let (ipv4_bits, ipv6_bits) =
            two.ok_or_else(|| "[bits of IPv4, bits of IPv6], such as [32, 64]".to_owned())?;
        Ok(PerSource { ipv4_bits, ipv6_bits })
    })?;
    Ok(Class { selector: selector::read(section)?, bytes_per_second, burst_bytes, per_source })
}

/// Megabits a second, which may have three places after the point, as kilobits.
fn rate_kbit(value: &DeValue<'_>) -> Result<u64, String> {
    let megabits = match value {
        DeValue::Integer(_) => number(0..=1_000_000)(value).ok().map(|whole| whole as f64),
        DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
        _ => None,
    };
    let kilobits = megabits.map(|megabits| (megabits * 1000.0).round());
    let fits = kilobits.filter(|kilobits| (1.0..=RATE_KBIT_MAX).contains(kilobits));
    fits.map(|kilobits| kilobits as u64)
        .ok_or_else(|| "a number of megabits from 0.001 to 1000000".to_owned())
}
