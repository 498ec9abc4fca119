//! What things cost, as lines of a table: the measured ranges that a model takes.

use report::Parameter;
use sim::Range;
use sim::model::Costs;

/// The machine's costs, with what measured each; `is_set`: the scenario has its own.
pub(super) fn of_costs(costs: &Costs, is_set: impl Fn(&str) -> bool) -> Vec<Parameter> {
    let named = costs.named().into_iter().filter(|cost| !is_set(cost.name));
    let parameter = |cost: sim::model::NamedCost| Parameter {
        name: format!("cost of {}", cost.name),
        value: shown(cost.range),
        source: cost.source.to_owned(),
    };
    named.map(parameter).collect()
}

/// A range with its unit.
pub(super) fn shown(range: Range) -> String {
    if range.low == range.high {
        format!("{} ns", range.median.0)
    } else {
        format!("{} ns ({} to {})", range.median.0, range.low.0, range.high.0)
    }
}
