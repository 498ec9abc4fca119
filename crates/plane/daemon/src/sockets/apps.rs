//! The applications that are here, what the programs of each user share, and those that went.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use base::{AppId, Nanos, SlotId};
use config::Tenant;
use datapath::DetachReason;
use shm::sockets::{Budget, Quota};
use stack::Rate;

use super::app::App;
use super::memory::RingMemory;
use super::put_out::PutOuts;
use super::shares::{ROOT, Shares};
use super::traced::{self, Traced};
use crate::payers::payer_of;

/// A number is not given to another application for this long: what workers still say is about the
/// old one.
const NUMBER_RESTS: Nanos = Nanos::from_secs(10);

/// Processes of all applications at once, in shares of users: every round of the attach server
/// looks at each, at the four thousand that one user may have for some milliseconds.
const PROCESSES_MAX: usize = 16_384;

/// The applications that are here, by number.
pub(super) struct Apps {
    here: BTreeMap<AppId, App>,
    /// Numbers that applications had, and until when they rest.
    resting: BTreeMap<AppId, Nanos>,
    /// By user: the rate that its programs share.
    rates: BTreeMap<u32, Arc<Rate>>,
    /// By user: the memory and connections that its programs share. A quota lives as long as any
    /// of that memory.
    quotas: BTreeMap<u32, Weak<Quota>>,
    /// What the rings of all of them may have in memory.
    memory: RingMemory,
    gone: Vec<Gone>,
    put_out: PutOuts,
    /// Whose requests are traced.
    traced: Option<Traced>,
    is_draining: bool,
}

/// An application that is here no more, and why.
pub(crate) struct Gone {
    pub(crate) app: AppId,
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) reason: DetachReason,
}

impl Apps {
    /// Nobody, whose rings may take `budget` once they come.
    pub(super) fn new(budget: Budget) -> Self {
        Self {
            here: BTreeMap::new(),
            resting: BTreeMap::new(),
            rates: BTreeMap::new(),
            quotas: BTreeMap::new(),
            memory: RingMemory::new(budget),
            gone: Vec::new(),
            put_out: PutOuts::default(),
            traced: None,
            is_draining: false,
        }
    }

    /// What their rings may have in memory together.
    pub(super) fn budget(&self) -> &Budget {
        self.memory.budget()
    }

    pub(super) fn memory(&mut self) -> &mut RingMemory {
        &mut self.memory
    }

    /// Whether the connection of a slot was reset because memory was short.
    pub(super) fn has_evicted(&self, app: AppId, slot: SlotId) -> bool {
        self.memory.has_evicted(app, slot)
    }

    /// When memory is to be looked at next.
    pub(super) fn next_deadline(&self) -> Nanos {
        self.memory.next_deadline()
    }

    pub(super) fn get(&self, number: AppId) -> Option<&App> {
        self.here.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: AppId) -> Option<&mut App> {
        self.here.get_mut(&number)
    }

    /// All of them, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &App> {
        self.here.values()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut App> {
        self.here.values_mut()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.here.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        self.here.len()
    }

    /// Applications of one user, subordinate users included.
    pub(super) fn count_of(&self, uid: u32) -> usize {
        let payer = payer_of(uid);
        self.iter().filter(|app| payer_of(app.uid) == payer).count()
    }

    /// Whether one more process of a user may come, whichever of its applications it is of.
    pub(super) fn check_processes(&self, uid: u32) -> Result<(), String> {
        let count = |app: &App| app.pids.len();
        let payer = payer_of(uid);
        let own: usize = self.iter().filter(|app| payer_of(app.uid) == payer).map(count).sum();
        let all: usize = self.iter().map(count).sum();
        match Shares::allows(PROCESSES_MAX, uid, own, all, 1) {
            true => Ok(()),
            false => {
                Err(format!("user {uid} has {own} processes here, of {all}: that is its share"))
            }
        }
    }

    /// From now on no application comes, and none gets a further socket.
    pub(super) fn drain(&mut self) {
        self.is_draining = true;
    }

    pub(super) fn is_draining(&self) -> bool {
        self.is_draining
    }

    pub(super) fn insert(&mut self, app: App) {
        traced::apply(self.traced.as_ref(), &app);
        self.here.insert(app.number(), app);
    }

    /// Whose requests are traced.
    pub(super) fn traced(&self) -> Option<&Traced> {
        self.traced.as_ref()
    }

    /// From now on those are traced, whoever comes included.
    pub(super) fn trace(&mut self, traced: Option<Traced>) {
        self.traced = traced;
        self.iter().for_each(|app| traced::apply(self.traced.as_ref(), app));
    }

    /// Programs that were put out while they lived.
    pub(super) fn put_out(&mut self) -> &mut PutOuts {
        &mut self.put_out
    }

    /// Removes an application, remembers why, and lets its number rest.
    pub(super) fn remove(
        &mut self,
        number: AppId,
        reason: DetachReason,
        now: Nanos,
    ) -> Option<App> {
        let app = self.here.remove(&number)?;
        self.resting.insert(number, now + NUMBER_RESTS);
        self.forget_rates(now);
        self.memory.note_left(&app.streams);
        self.gone.push(Gone { app: number, name: app.name.clone(), uid: app.uid, reason });
        Some(app)
    }

    /// Forgets the rates of users without a program, but none that is spent: who leaves and comes
    /// back would have it anew.
    fn forget_rates(&mut self, now: Nanos) {
        let here = &self.here;
        self.rates
            .retain(|uid, rate| !rate.is_full(now) || here.values().any(|other| other.uid == *uid));
    }

    /// Applications that went since the last call.
    pub(super) fn take_gone(&mut self) -> Vec<Gone> {
        std::mem::take(&mut self.gone)
    }

    /// A number that no application has, and none had a moment ago.
    pub(super) fn free_number(&mut self, now: Nanos) -> Option<AppId> {
        self.resting.retain(|_, until| *until > now);
        // Zero is no application's number, so that a word that was never written names none.
        (1..u16::MAX)
            .map(AppId)
            .find(|number| !self.here.contains_key(number) && !self.resting.contains_key(number))
    }

    /// The rate that the programs of a user share, if its tenant has one.
    pub(super) fn rate_of(&mut self, uid: u32, tenant: &Tenant) -> Option<Arc<Rate>> {
        if tenant.rate_mbit == 0 {
            return None;
        }
        let bytes_per_s = u64::from(tenant.rate_mbit) * 1_000_000 / 8;
        let new = || Arc::new(Rate::new(bytes_per_s, u64::from(tenant.burst_kib) << 10));
        Some(Arc::clone(self.rates.entry(uid).or_insert_with(new)))
    }

    /// The memory and connections that the programs of a user share.
    pub(super) fn quota_of(&mut self, uid: u32, tenant: &Tenant) -> Arc<Quota> {
        self.quotas.retain(|_, quota| quota.strong_count() > 0);
        if let Some(quota) = self.quotas.get(&uid).and_then(Weak::upgrade) {
            return quota;
        }
        let bytes = u64::from(tenant.memory_mib) << 20;
        let part = if uid == ROOT { u64::MAX } else { self.budget().part(3, 4) };
        let budget = Arc::clone(self.memory.budget());
        let quota = Arc::new(Quota::within(tenant.connections, bytes, budget, part));
        self.quotas.insert(uid, Arc::downgrade(&quota));
        quota
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_who_leaves_and_comes_back_has_the_rate_that_it_had_spent() {
        let mut apps = Apps::new(Budget::new(1 << 20));
        let tenant = Tenant { rate_mbit: 8, ..Tenant::default_of(7) };
        let now = Nanos::from_secs(5);
        let rate = apps.rate_of(7, &tenant).expect("it is limited");
        rate.take_whole(1 << 18, now).expect("the bucket is full");
        apps.forget_rates(now);
        let later = now + Nanos::from_millis(1);
        let again = apps.rate_of(7, &tenant).expect("it is limited");
        assert!(again.take_whole(1 << 17, later).is_err(), "a new bucket");
        apps.forget_rates(now + Nanos::from_secs(10));
        assert!(apps.rates.is_empty(), "a full one is kept for nobody");
    }
}
