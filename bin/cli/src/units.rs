//! Quantities as people write them: `1ms`, `1%`, `1Gbit`, `4KiB`.

use std::net::{IpAddr, SocketAddr};

use base::Nanos;

/// An address of a host; names are not looked up.
pub(crate) fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| "write an IP address, such as 10.0.0.1 or fd00::1".to_owned())
}

/// An address and a port.
pub(crate) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "write an IP address and a port, such as 127.0.0.1:9100 or [::1]:9100".to_owned()
    })
}

/// A length of time: a number and ns, us, ms or s.
pub(crate) fn duration(text: &str) -> Result<Nanos, String> {
    let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    let nanos = quantity(text, &units)
        .ok_or_else(|| "write a number and its unit, such as 500us, 1ms or 2s".to_owned())?;
    if nanos > 3600e9 {
        return Err("no more than an hour (3600s)".to_owned());
    }
    Ok(Nanos(nanos.round() as u64))
}

/// A probability: `1%` or `0.01`.
pub(crate) fn probability(text: &str) -> Result<f64, String> {
    let value = quantity(text, &[("%", 0.01), ("", 1.0)])
        .ok_or_else(|| "write a share such as 1% or 0.01".to_owned())?;
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err("a share is from 0% to 100%".to_owned())
    }
}

/// A rate in bits per second: a number and bit, kbit, Mbit or Gbit.
pub(crate) fn bit_rate(text: &str) -> Result<u64, String> {
    let units = [("bit", 1.0), ("kbit", 1e3), ("Mbit", 1e6), ("Gbit", 1e9)];
    let bits = quantity(text, &units)
        .ok_or_else(|| "write bits per second, such as 10Mbit or 1Gbit".to_owned())?;
    if (1.0..=1e13).contains(&bits) {
        Ok(bits.round() as u64)
    } else {
        Err("from 1bit to 10000Gbit".to_owned())
    }
}

/// A number of bytes: a number, with B, KiB or MiB if wanted.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let units = [("", 1.0), ("B", 1.0), ("KiB", 1024.0), ("MiB", 1_048_576.0)];
    let bytes =
        quantity(text, &units).ok_or_else(|| "write bytes, such as 256 or 4KiB".to_owned())?;
    if bytes.fract() == 0.0 && bytes <= 1e15 {
        Ok(bytes as u64)
    } else {
        Err("write a whole number of bytes".to_owned())
    }
}

/// A finite number that is not negative, in the unit that follows it.
fn quantity(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim())?;
    let value = number.parse::<f64>().ok()? * factor;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_people_write_them() {
        for (text, nanos) in
            [("0s", 0), ("1ns", 1), ("1.5us", 1_500), ("20 ms", 20_000_000), ("2s", 2_000_000_000)]
        {
            assert_eq!(duration(text), Ok(Nanos(nanos)), "{text}");
        }
        for (text, share) in [("1%", 0.01), ("0.25", 0.25), ("100%", 1.0), ("0", 0.0)] {
            assert_eq!(probability(text), Ok(share), "{text}");
        }
        for (text, rate) in [("1bit", 1), ("64kbit", 64_000), ("1.5Mbit", 1_500_000)] {
            assert_eq!(bit_rate(text), Ok(rate), "{text}");
        }
        assert_eq!(bit_rate("1Gbit"), Ok(1_000_000_000));
        for (text, count) in [("256", 256), ("4KiB", 4096), ("1MiB", 1 << 20), ("3B", 3)] {
            assert_eq!(bytes(text), Ok(count), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_an_example() {
        for text in ["", "ms", "1", "1 minute", "-1ms", "1e3ms", "1..2ms", "infs", "4000s"] {
            let error = duration(text).expect_err(text);
            assert!(error.contains('s'), "{error}");
        }
        for text in ["", "101%", "1.1", "-1%", "%", "nan"] {
            assert!(probability(text).is_err(), "{text}");
        }
        for text in ["", "0bit", "1gbit", "1", "99999Gbit"] {
            assert!(bit_rate(text).is_err(), "{text}");
        }
        for text in ["", "1.5", "-1", "1kB", "99999999999999999999"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
