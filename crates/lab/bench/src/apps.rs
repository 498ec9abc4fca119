//! `calisto bench apps`: what attached applications cost, how soon one is served, and what a
//! hostile one can do to its neighbours.
//!
//! One file per case. `tenants.rs` is applications and dispatcher on one thread, `harness.rs` a
//! real daemon in a namespace, `neighbour.rs` a process that attaches to it.

mod attach;
mod dispatch;
pub(crate) mod harness;
mod hostile;
mod neighbour;
mod stream;
mod tenants;

use crate::cases::{Bench, Case};

/// Options that `calisto bench apps` alone has.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Apps {}

impl Bench for Apps {
    const NAME: &'static str = "apps";
    const CASES: &'static [Case] = &[
        Case {
            name: "dispatch",
            help: "16 applications against one of as many workers",
            run: dispatch::run,
        },
        Case {
            name: "attach",
            help: "how soon one is served, and what it leaves behind",
            run: attach::run,
        },
        Case {
            name: "hostile",
            help: "an application with a hostile neighbour, and with a busy one",
            run: hostile::run,
        },
    ];
}

#[cfg(test)]
mod tests;
