//! The scenarios that come with the program: a file a figure.

use crate::error::ScenarioError;
use crate::sweep::Scenario;

/// Names and texts, in the order of the page.
pub const SCENARIOS: &[(&str, &str)] = &[
    ("calisto-6", include_str!("../scenarios/calisto-6.toml")),
    ("calisto-7", include_str!("../scenarios/calisto-7.toml")),
    ("calisto-beyond", include_str!("../scenarios/calisto-beyond.toml")),
    ("calisto-penalty", include_str!("../scenarios/calisto-penalty.toml")),
    ("shenango-interval", include_str!("../scenarios/shenango-interval.toml")),
    ("shenango-shift", include_str!("../scenarios/shenango-shift.toml")),
    ("shenango-batch", include_str!("../scenarios/shenango-batch.toml")),
    ("shenango-batch-tail", include_str!("../scenarios/shenango-batch-tail.toml")),
    ("shenango-stealing", include_str!("../scenarios/shenango-stealing.toml")),
    ("netslices-routing", include_str!("../scenarios/netslices-routing.toml")),
    ("netslices-ipsec", include_str!("../scenarios/netslices-ipsec.toml")),
    ("spin-latency", include_str!("../scenarios/spin-latency.toml")),
    ("spin-peak", include_str!("../scenarios/spin-peak.toml")),
    ("spin-tax", include_str!("../scenarios/spin-tax.toml")),
    ("spin-tax-work", include_str!("../scenarios/spin-tax-work.toml")),
    ("spin-ipc", include_str!("../scenarios/spin-ipc.toml")),
    ("spin-scale", include_str!("../scenarios/spin-scale.toml")),
    ("spin-cores", include_str!("../scenarios/spin-cores.toml")),
    ("spin-smt", include_str!("../scenarios/spin-smt.toml")),
    ("spin-qwait", include_str!("../scenarios/spin-qwait.toml")),
    ("tas-connections", include_str!("../scenarios/tas-connections.toml")),
    ("tas-cores", include_str!("../scenarios/tas-cores.toml")),
    ("fairness", include_str!("../scenarios/fairness.toml")),
    ("fabric-fct", include_str!("../scenarios/fabric-fct.toml")),
    ("fabric-fct-tail", include_str!("../scenarios/fabric-fct-tail.toml")),
    ("fabric-queue", include_str!("../scenarios/fabric-queue.toml")),
    ("incast", include_str!("../scenarios/incast.toml")),
    ("incast-queue", include_str!("../scenarios/incast-queue.toml")),
    ("rss-skew", include_str!("../scenarios/rss-skew.toml")),
    ("tails", include_str!("../scenarios/tails.toml")),
    ("tails-queues", include_str!("../scenarios/tails-queues.toml")),
    ("whole", include_str!("../scenarios/whole.toml")),
    ("map", include_str!("../scenarios/map.toml")),
    ("apps", include_str!("../scenarios/apps.toml")),
    ("demo-moves", include_str!("../scenarios/demo-moves.toml")),
];

/// The scenario of that name.
///
/// # Errors
/// There is none: a sentence with the nearest name.
pub fn find(name: &str) -> Result<Scenario, String> {
    let names = || SCENARIOS.iter().map(|(name, _)| *name);
    let Some((_, text)) = SCENARIOS.iter().find(|(known, _)| *known == name) else {
        let meant = config::nearest(name, names());
        let meant = meant.map_or(String::new(), |name| format!("did you mean {name}? "));
        let name = crate::error::shorten(name);
        return Err(format!(
            "no figure is called {name}; {meant}there are {} (a scenario of your own is a file that ends in .toml)",
            names().collect::<Vec<_>>().join(", ")
        ));
    };
    Scenario::parse(text).map_err(|error: ScenarioError| format!("{name}: {error}"))
}
