//! A running chain gets another file: all of it is made ready first, and then put in force, or
//! nothing is.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::Nanos;
use calisto_nf::esp::Gateway;
use sys::clock;

use super::make::{Parts, all_stages};
use super::senders::senders;
use super::{Chain, Event};
use crate::error::ChainError;
use crate::file::{ChainFile, FunctionPart};
use crate::filter::wanted::has;
use crate::health::Health;
use crate::stage::Stage;
use crate::swap::{Origin, Swap};
use crate::tunnels;

/// Whether a new function and an old one have something in common.
type IsAlike<'a> = &'a dyn Fn(&FunctionPart, &FunctionPart) -> bool;
/// A way to be alike, and what comes of it.
type Likeness<'a> = (IsAlike<'a>, fn(usize) -> Origin);

/// Threads look for other functions between two batches; one that does not is stuck.
const WITHIN: Duration = Duration::from_secs(5);

impl Chain {
    /// Puts the functions of `file` in force, and what the files say that it names: rules, routes,
    /// keys, rates. Packets flow meanwhile, and what is not changed goes on where it is.
    ///
    /// # Errors
    /// What is wrong in the files, or cannot be changed while the chain runs; everything is as it
    /// was then. Only [`ChainError::Ended`] means that a thread has not taken its functions.
    pub fn reload(
        &mut self,
        file: &ChainFile,
        folder: &Path,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), ChainError> {
        refuse_what_stays(&self.file, file)?;
        let gateway = self.next_gateway(file, folder)?;
        let before = senders(&self.file, self.gateway.as_deref());
        let senders = senders(file, gateway.as_deref());
        let origins = origins(&self.file.functions, &file.functions, before == senders);
        let router = file.functions.iter().find_map(|function| match function {
            FunctionPart::Router(router) => Some(router),
            _ => None,
        });
        let prepared = match (&self.tables, router) {
            (Some(tables), Some(router)) => Some(tables.prepare(router, folder)?),
            _ => None,
        };
        let health = Health::of(file, &self.health);
        let parts = Parts {
            folder,
            ports: &self.ports,
            rib: None,
            gateway: gateway.as_ref(),
            health: &health,
            follows: None,
        };
        let is_same = |place: usize| matches!(origins.get(place), Some(Origin::Same(_)));
        let all = all_stages(&parts, file, &is_same)?;
        // Which packets are taken may follow from addresses and rules of the new file.
        let filter = self.next_filter(file, tell)?;
        // From here on nothing can fail but a thread that has ended.
        self.unhook(file)?;
        self.hand_over(all, &origins)?;
        self.gateway = gateway;
        self.health = health;
        if let (Some(tables), Some(prepared)) = (&mut self.tables, prepared) {
            tables.commit(prepared, senders)?;
        }
        self.send_steps(&|| false);
        self.file = file.clone();
        if let Some(filter) = filter {
            self.want_filter(&filter);
        }
        self.send_takes()?;
        tell(Event::Reloaded { functions: file.functions.len() });
        Ok(())
    }

    /// Asks the servers of a balancer whether they are well, and puts those that have changed in
    /// force.
    pub(super) fn look_after_servers(
        &mut self,
        now: Nanos,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), ChainError> {
        self.health.turn(now, |server, is_well| {
            let what = if is_well { "is well" } else { "is not well: it gets no new flows" };
            tell(Event::Note(format!("the server {server} {what}")));
        });
        let Some(changed) = self.health.take_changed(now) else { return Ok(()) };
        let is_balancer = |place: usize| {
            matches!(self.file.functions.get(place), Some(FunctionPart::Balancer(_)))
        };
        let origin = |place| match is_balancer(place) {
            true => Origin::After(place),
            false => Origin::Same(place),
        };
        let origins: Vec<Origin> = (0..self.file.functions.len()).map(origin).collect();
        let parts = Parts {
            folder: Path::new(""),
            ports: &self.ports,
            rib: None,
            gateway: self.gateway.as_ref(),
            health: &self.health,
            follows: Some(&changed),
        };
        let all = all_stages(&parts, &self.file, &|place| !is_balancer(place))?;
        self.hand_over(all, &origins)
    }

    /// The tunnels of the new file, which go on where those of the old one are.
    fn next_gateway(
        &self,
        file: &ChainFile,
        folder: &Path,
    ) -> Result<Option<Arc<Gateway>>, ChainError> {
        let part = file.functions.iter().find_map(|function| match function {
            FunctionPart::Esp(esp) => Some(esp),
            _ => None,
        });
        let before = self.gateway.as_deref();
        let next = part.map(|part| tunnels::read(part, folder, before, clock::now()));
        Ok(next.transpose()?.map(Arc::new))
    }

    /// Sends each thread its functions, and waits until all have those they had before sent back.
    fn hand_over(&mut self, all: Vec<Vec<Stage>>, origins: &[Origin]) -> Result<(), ChainError> {
        for (thread, stages) in self.threads.iter_mut().zip(all) {
            // Between two reloads the way is empty.
            let _ = thread.swapper.to.push(Swap { stages, from: origins.to_vec() });
            thread.feed.wake();
        }
        let began = Instant::now();
        for thread in &mut self.threads {
            while thread.swapper.back.pop().is_none() {
                let has_ended = thread.handle.as_ref().is_none_or(|handle| handle.is_finished());
                if has_ended || began.elapsed() > WITHIN {
                    let why = "it has not taken its functions: the chain is not as its file says";
                    let slice = thread.name.clone();
                    return Err(ChainError::Ended { slice, why: why.to_owned() });
                }
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        Ok(())
    }
}

/// What a chain cannot change while it runs.
fn refuse_what_stays(old: &ChainFile, new: &ChainFile) -> Result<(), ChainError> {
    let refused = |what: &str| {
        Err(ChainError::Reload(format!("{what}: end the chain and run it anew for that")))
    };
    if old.name != new.name {
        return refused("`name` is another one");
    }
    if old.slices != new.slices {
        return refused("a [[slice]] is another one");
    }
    // Which packets are taken at all follows from these.
    for kind in ["router", "esp"] {
        if has(old, kind) != has(new, kind) {
            return refused(&format!("a function {kind:?} has come or gone"));
        }
    }
    Ok(())
}

/// For each new function the old one that it is, or takes the place of; each old one once, and
/// those that are most alike first. `senders_stay`: functions send from the addresses of before.
fn origins(old: &[FunctionPart], new: &[FunctionPart], senders_stay: bool) -> Vec<Origin> {
    let mut is_free = vec![true; old.len()];
    let mut origins = vec![Origin::New; new.len()];
    // What is in the files that a function names may have changed.
    let is_same = |one: &FunctionPart, other: &FunctionPart| {
        let names_files = matches!(
            one,
            FunctionPart::Esp(_) | FunctionPart::Own(_) | FunctionPart::SharedObject(_)
        );
        // It lets nobody send in the name of those.
        let is_tunnel = matches!(one, FunctionPart::Tunnel(_));
        one == other && !names_files && (senders_stay || !is_tunnel)
    };
    let is_set_alike = |one: &FunctionPart, other: &FunctionPart| one == other;
    let is_of_one_object = |one: &FunctionPart, other: &FunctionPart| match (one, other) {
        (FunctionPart::SharedObject(one), FunctionPart::SharedObject(other)) => {
            one.file == other.file
        }
        _ => false,
    };
    let is_of_one_kind = |one: &FunctionPart, other: &FunctionPart| one.kind() == other.kind();
    let likenesses: [Likeness<'_>; 4] = [
        (&is_same, Origin::Same),
        (&is_set_alike, Origin::After),
        (&is_of_one_object, Origin::After),
        (&is_of_one_kind, Origin::After),
    ];
    for (is_alike, origin) in likenesses {
        for (part, found) in new.iter().zip(&mut origins) {
            if *found != Origin::New {
                continue;
            }
            let mut all = old.iter().zip(&is_free);
            if let Some(place) = all.position(|(other, is_free)| *is_free && is_alike(part, other))
            {
                is_free[place] = false;
                *found = origin(place);
            }
        }
    }
    origins
}

#[cfg(test)]
mod tests;
