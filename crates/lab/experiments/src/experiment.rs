//! The models that a scenario can run: what each can be told, and what comes out of it.

mod connections;
mod demo;
mod disciplines;
mod form;
pub(crate) mod machine;
mod net;
mod parameters;
mod scan;
mod scan_cores;
mod slices;
mod theory_queue;
mod whole;

pub(crate) use form::{Experiment, Row, Task};

/// All of them.
pub(crate) const EXPERIMENTS: &[&Experiment] = &[
    &machine::EXPERIMENT,
    &theory_queue::EXPERIMENT,
    &scan::EXPERIMENT,
    &scan_cores::EXPERIMENT,
    &slices::EXPERIMENT,
    &net::EXPERIMENT,
    &whole::EXPERIMENT,
    &connections::EXPERIMENT,
    &demo::EXPERIMENT,
    &disciplines::EXPERIMENT,
];

/// The model of that name.
pub(crate) fn by_name(name: &str) -> Result<&'static Experiment, String> {
    EXPERIMENTS.iter().copied().find(|experiment| experiment.name == name).ok_or_else(|| {
        let names: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        let meant = config::nearest(name, names.iter().copied());
        let meant = meant.map_or(String::new(), |name| format!("did you mean \"{name}\"? "));
        format!(
            "no experiment is called \"{}\"; {meant}there are {}",
            crate::error::shorten(name),
            names.join(", ")
        )
    })
}
