//! Cores on demand: how many cores an application has, which ones, and which application gives one
//! back.
//!
//! Every tick the shell brings a [`CoresSample`](crate::cores::CoresSample) of the workers that
//! hold a core; a policy says which applications are congested and which have too much; the
//! [`CoresControl`](crate::cores::CoresControl) answers with a
//! [`CoresPlan`](crate::cores::CoresPlan). A policy is one file; a new one needs no other edit than
//! its module, its line in [`NAMES`](crate::cores::NAMES) and in
//! [`by_name`](crate::cores::by_name), and its form in a recording.

mod app;
mod asks;
mod control;
mod id;
mod idle;
mod interval;
mod packing;
mod plan;
mod queue_delay;
/// Every input of the core control and every answer, written down and run again.
pub mod record;
mod sample;
mod saved;
mod static_set;
mod table;
mod utilisation;

use base::{AppId, WorkerId};

use crate::UnknownPolicy;

pub use app::{AppTerms, Class, CoresRefused};
pub use asks::Asks;
pub use control::{CoresConfig, CoresControl};
pub use id::{APP_LIMIT, CoreId};
pub use plan::{CoresPlan, Hold};
pub use sample::{BusyWorker, CoresSample, Progress};
use saved::Saved;
pub use saved::SavedAllocate;
pub use table::{App, Core, Table};

/// Decides which applications need another core, or have one too many. Asks; never gives or takes.
///
/// Which core, and whose, is the same for every policy and not its business.
pub trait Allocate: Send {
    /// The name under which it is chosen.
    fn name(&self) -> &'static str;

    /// A tick: who asks. Bounded by the workers of the sample; no allocation.
    fn observe(&mut self, sample: &CoresSample, table: &Table, asks: &mut Asks);

    /// The worker has just been given a core: what was measured of it before says nothing any more.
    fn granted(&mut self, worker: WorkerId, table: &Table);

    /// Cores that the application may have at most, whatever it asks for.
    fn cores_max(&self, terms: &AppTerms) -> u16 {
        terms.burst
    }

    /// An application came.
    fn app_added(&mut self, app: AppId) {
        let _ = app;
    }

    /// An application went; its id may be used again.
    fn app_gone(&mut self, app: AppId) {
        let _ = app;
    }

    /// Memory for ids below these, so that nothing is allocated in a tick.
    fn make_room(&mut self, workers: usize, apps: usize);

    /// All that it remembers, so that a recording can begin at any moment.
    fn save(&self) -> SavedAllocate;
}

/// Every policy with a sentence of help.
pub const NAMES: [(&str, &str); 4] = [
    (
        "packing",
        "as few cores as serve the load: flows go to another worker when something is late or \
         cores are full, and back to fewer when these are enough",
    ),
    (
        "queue_delay",
        "a core more while something waits for longer than a tick (Shenango), or than the \
         application's own queue delay (Caladan)",
    ),
    ("utilisation", "a core more below 0.2 idle cores, one less above 1.25, every 10 ms (TAS)"),
    ("static_set", "every application has its guaranteed cores and no others (IX, Arrakis)"),
];

/// Makes the policy of that name.
///
/// # Errors
/// No policy has that name; the error suggests the nearest one.
pub fn by_name(name: &str) -> Result<Box<dyn Allocate>, UnknownPolicy> {
    Ok(match name {
        "packing" => Box::new(packing::Packing::default()),
        "queue_delay" => Box::new(queue_delay::QueueDelay::default()),
        "utilisation" => Box::new(utilisation::Utilisation::default()),
        "static_set" => Box::new(static_set::StaticSet::default()),
        unknown => return Err(UnknownPolicy::new("core", unknown, &NAMES)),
    })
}

/// Whether the policy of that name gives an application its guaranteed cores and nothing more: one
/// without any never runs.
pub fn gives_only_guaranteed(name: &str) -> bool {
    name == "static_set"
}

#[cfg(test)]
mod tests;
