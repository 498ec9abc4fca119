//! What claims hang on, as bars: the cost that moves most is at the top.

use std::fmt::Write;

use crate::line::{Claim, Swing};
use crate::markup::Escaped;
use crate::number;

/// Of a bar, in the unit of its picture.
const WIDTH: f64 = 160.0;

/// Writes a table for the claims of a figure that say it.
pub(super) fn write(page: &mut String, claims: &[Claim]) {
    if claims.iter().all(|claim| claim.hangs_on.is_empty()) {
        return;
    }
    *page += "<h3>What the claims hang on</h3>\n<p>Each cost alone at the least and at the most that was measured, all others at their medians: the number that decides the claim then.</p>\n";
    *page += "<div class=\"wide\"><table class=\"tornado\">\n<tr><th>Claim</th><th>Cost</th><th class=\"number\">At its least</th><th></th><th class=\"number\">At its most</th><th>Turns it</th></tr>\n";
    for claim in claims {
        let all = claim.hangs_on.iter();
        let widest = all.clone().map(Swing::width).fold(0.0, f64::max);
        for (row, swing) in all.enumerate() {
            let says = if row == 0 { claim.claim.as_str() } else { "" };
            let turns = if swing.turns { "yes" } else { "" };
            let _ = writeln!(
                page,
                "<tr><td>{}</td><td>{}</td><td class=\"number\">{}</td><td>{}</td><td class=\"number\">{}</td><td class=\"no\">{turns}</td></tr>",
                Escaped(says),
                Escaped(&swing.cost),
                number::result(swing.low),
                bar(swing, widest),
                number::result(swing.high),
            );
        }
    }
    *page += "</table></div>\n";
}

/// From one end to the other, about the median in the middle.
fn bar(swing: &Swing, widest: f64) -> String {
    let scale = WIDTH / 2.0 / widest.max(f64::MIN_POSITIVE);
    let place = |value: f64| WIDTH / 2.0 + (value - swing.median) * scale;
    let ends = [swing.low, swing.median, swing.high].map(place);
    let left = ends.iter().copied().fold(f64::INFINITY, f64::min);
    let right = ends.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (middle, width) = (WIDTH / 2.0, right - left);
    format!(
        "<svg class=\"swing\" width=\"{WIDTH:.0}\" height=\"12\" role=\"img\" aria-label=\"from {} to {}\">\
         <rect x=\"{left:.1}\" y=\"2\" width=\"{width:.1}\" height=\"8\" fill=\"currentColor\" opacity=\"0.45\"/>\
         <line x1=\"{middle:.1}\" x2=\"{middle:.1}\" y1=\"0\" y2=\"12\" stroke=\"currentColor\"/></svg>",
        number::result(swing.low),
        number::result(swing.high)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_claim_that_hangs_on_a_cost_has_a_bar_and_says_that_it_turns() {
        let mut page = String::new();
        write(&mut page, &[sample::claim(Some(true))]);
        assert!(page.is_empty(), "nobody asked: {page}");
        let mut claim = sample::claim(Some(true));
        let swing = |cost: &str, high, turns| Swing {
            cost: cost.to_owned(),
            low: 0.9,
            median: 0.95,
            high,
            turns,
        };
        claim.hangs_on = vec![swing("packet", 1.2, true), swing("<wake>", 0.96, false)];
        write(&mut page, &[claim]);
        assert_eq!(page.matches("class=\"swing\"").count(), 2, "{page}");
        assert_eq!(page.matches("<td class=\"no\">yes</td>").count(), 1, "{page}");
        assert!(page.contains("&lt;wake&gt;") && !page.contains("<wake>"), "{page}");
        // The widest takes half of the picture, and the other one a fifth of that.
        assert!(page.contains("width=\"80.0\"") && page.contains("width=\"16.0\""), "{page}");
    }
}
