//! A worker on granted cores: runs when it is granted one, parks when it has nothing to do or is
//! asked to.
//!
//! The order in which it parks leaves no gap: it arms its doorbell, looks once more, says that it
//! parked, and sleeps. What comes before the doorbell is seen; what comes after rings, and the
//! daemon sees a parked worker with something in its ring.

use attach::Detached;
use base::Nanos;
use shm::CoreCommand;
use shm::core_grant::CoreGrantTasks;
use sys::clock;

use super::Worker;
use super::spin::UNSENT_RETRY;
use super::wait::Woken;

impl Worker {
    /// The core that it holds: by its number, the only one that this thread runs on. None: it is
    /// parked, or runs wherever Linux lets it.
    pub fn core(&self) -> Option<u16> {
        self.grant_side.as_ref().and_then(|grant_side| grant_side.core)
    }

    /// Whether to call [`Self::wait`] soon, since the core is asked back or gone: a program that
    /// does much between two calls of [`Self::receive`] asks now and then. One load.
    #[inline]
    pub fn must_park(&mut self) -> bool {
        let Some(grant_side) = &mut self.grant_side else { return false };
        match self.end.core_grant().look() {
            CoreCommand::Run(core) => {
                if grant_side.core != Some(core) || grant_side.is_parked {
                    grant_side.core = Some(core);
                    grant_side.is_parked = false;
                    self.end.core_grant().run();
                }
                false
            }
            CoreCommand::Drain => false,
            CoreCommand::Park(_) | CoreCommand::Nothing => true,
        }
    }

    /// Tells the core control about tasks that wait for this worker beside its packets: how many
    /// were ever made ready and ever taken, modulo 2^32, and for how long the oldest one waits.
    /// Worth calling once a turn for a program that has a queue of tasks.
    #[inline]
    pub fn note_tasks(&mut self, put: u32, taken: u32, oldest: Nanos, idle: Nanos) {
        let Some(grant_side) = &mut self.grant_side else { return };
        let tasks = CoreGrantTasks { put, taken, oldest_ns: oldest.0, idle_ns: idle.0 };
        self.end.core_grant().note(tasks);
        // A daemon that sleeps would not see that they wait.
        let has_backlog = put != taken;
        if has_backlog && !std::mem::replace(&mut grant_side.has_backlog, has_backlog) {
            self.spoke();
        } else if let Some(grant_side) = &mut self.grant_side {
            grant_side.has_backlog = has_backlog;
        }
    }

    /// For a thread that has no packets to wait for, but work to place: reads its command and
    /// answers it; returns the core that it holds now. Poll [`Self::fd`] for changes.
    ///
    /// # Errors
    /// The attachment has ended.
    pub fn look_at_core(&mut self) -> Result<Option<u16>, Detached> {
        self.shared.glance()?;
        self.disarm();
        if self.must_park() {
            self.say_parked();
        }
        Ok(self.core())
    }

    /// Asks for a core, for work that no packet has brought, such as a timer that is due; sleeps
    /// until it is granted, at most `timeout` ([`Nanos::FAR_FUTURE`]: without end). Whether it has
    /// one; a worker that is not on granted cores always has. A signal ends the wait early.
    ///
    /// # Errors
    /// The attachment has ended.
    pub fn claim_core(&mut self, timeout: Nanos) -> Result<bool, Detached> {
        self.shared.glance()?;
        if !self.must_park() {
            return Ok(true);
        }
        self.tell_thread();
        let deadline = deadline(timeout);
        self.say_parked();
        self.say_wants();
        loop {
            let woken = self.sleep(rest(deadline));
            self.awake(woken)?;
            if !self.must_park() {
                return Ok(true);
            }
            if matches!(woken, Woken::Not | Woken::ByAlarm) {
                return Ok(false);
            }
        }
    }

    /// [`Self::wait`] of a worker on granted cores.
    pub(super) fn wait_granted(&mut self, timeout: Nanos) -> Result<bool, Detached> {
        self.tell_thread();
        let deadline = deadline(timeout);
        loop {
            let may_run = !self.must_park();
            if may_run {
                if !self.unsent.is_empty() {
                    let woken = self.sleep(UNSENT_RETRY.min(rest(deadline)));
                    self.awake(woken)?;
                    return Ok(self.has_next());
                }
                if self.has_next() || self.spin_for(self.spin.min(rest(deadline))) {
                    return Ok(true);
                }
            }
            let has_next = self.arm();
            if has_next && may_run {
                self.disarm();
                return Ok(true);
            }
            self.say_parked();
            if has_next || !self.unsent.is_empty() {
                // It was asked for its core, or woken by a byte that came late. What the ring
                // had no room for it can only offer again with a core.
                self.say_wants();
            }
            self.counters.sleeps += 1;
            let woken = self.sleep(rest(deadline));
            self.awake(woken)?;
            // Who can be called by other threads may have more to do with a core than its own
            // packets.
            let is_called = woken == Woken::ByAlarm || self.alarm.is_some() && !self.must_park();
            if woken == Woken::Not || is_called {
                return Ok(self.has_next());
            }
        }
    }

    /// It gives its core back, once.
    fn say_parked(&mut self) {
        let Some(grant_side) = &mut self.grant_side else { return };
        if self.end.core_grant().has_left() {
            return;
        }
        grant_side.is_parked = true;
        grant_side.core = None;
        self.counters.parks += 1;
        self.end.core_grant().park();
        self.spoke();
    }

    /// Something is due, and it has no core.
    fn say_wants(&mut self) {
        self.end.core_grant().want();
        self.spoke();
    }

    fn spoke(&mut self) {
        if self.end.core_grant_spoke() {
            self.counters.wakes += 1;
            self.shared.daemon.ring();
        }
    }

    /// Tells the daemon which thread it is, when that has changed.
    fn tell_thread(&mut self) {
        let Some(grant_side) = &mut self.grant_side else { return };
        let this = std::thread::current().id();
        if grant_side.thread != Some(this) {
            grant_side.thread = Some(this);
            self.end.core_grant().note_thread(sys::thread::tid());
        }
    }
}

fn deadline(timeout: Nanos) -> Nanos {
    match timeout {
        Nanos::FAR_FUTURE => timeout,
        timeout => clock::now() + timeout,
    }
}

fn rest(deadline: Nanos) -> Nanos {
    match deadline {
        Nanos::FAR_FUTURE => deadline,
        deadline => deadline.since(clock::now()),
    }
}
