//! Numbers of a verdict, as people say them.

pub(super) fn with_unit(number: f64, unit: &str) -> String {
    let shown = if number.abs() >= 100.0 || number.fract() == 0.0 {
        format!("{number:.0}")
    } else if number.abs() >= 10.0 {
        format!("{number:.1}")
    } else {
        format!("{number:.3}")
    };
    if unit.is_empty() { shown } else { format!("{shown} {unit}") }
}

/// How far one is from the other; infinite is what has no end because more was asked for than can
/// be served.
pub(super) fn difference(own: f64, other: f64) -> String {
    let ratio = own / other;
    if own == other {
        "the same".to_owned()
    } else if own.is_infinite() {
        "saturated".to_owned()
    } else if other.is_infinite() {
        "served where the other is saturated".to_owned()
    } else if other == 0.0 {
        format!("{} where the other has nothing", with_unit(own, ""))
    } else if ratio >= 3.0 {
        format!("x {ratio:.1}")
    } else {
        format!("{:+.1} %", 100.0 * (ratio - 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_not_taken_for_saturation() {
        for (own, other, expected) in [
            (3.0, 0.0, "3 where the other has nothing"),
            (0.0, 3.0, "-100.0 %"),
            (0.0, 0.0, "the same"),
            (f64::INFINITY, 3.0, "saturated"),
            (0.0, f64::INFINITY, "served where the other is saturated"),
            (9.0, 3.0, "x 3.0"),
            (3.3, 3.0, "+10.0 %"),
        ] {
            assert_eq!(difference(own, other), expected);
        }
    }
}
