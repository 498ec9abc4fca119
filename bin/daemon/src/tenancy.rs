//! Applications in the loop: in, out, and why.

use base::Nanos;
use datapath::{AppId, DetachReason};
use policy::steer::{self, SteerConfig};
use policy::{Control, ControlConfig};

use crate::apps::Arrival;
use crate::turn::Host;

impl Host {
    /// An application comes in.
    pub(crate) fn let_in(&mut self, arrival: Arrival) -> Result<AppId, String> {
        let Arrival { new, facts, eventfd } = arrival;
        let seed = self.seed;
        let name = self.dispatcher.steering().control().policy();
        let config = self.control_config();
        let attached = self.dispatcher.attach(new, |groups| {
            let steer = steer::by_name(name, SteerConfig { groups, seed });
            Control::new(config, steer.expect("the policy in force has a name"), groups)
        });
        let app = attached.map_err(|refused| refused.to_string())?;
        println!(
            "attached: {} {:?} of process {} (user {}) on {}",
            app,
            facts.name,
            facts.who.pid,
            facts.who.uid,
            facts.listen.join(" ")
        );
        self.guests.add(app, facts, eventfd);
        Ok(app)
    }

    /// Detaches an application; nothing when it is gone already.
    pub(crate) fn see_out(&mut self, app: AppId, reason: DetachReason, now: Nanos) {
        if let Some(counters) = self.dispatcher.detach(app, reason, now) {
            println!("detached: {app}: {reason}");
            self.guests.remove(app, reason, counters);
        }
    }

    /// Detaches those that have lied or stalled.
    pub(crate) fn evict(&mut self, now: Nanos) {
        while let Some((app, reason)) = self.dispatcher.next_fault() {
            self.see_out(app, reason, now);
        }
    }

    /// Everybody out: the daemon ends.
    pub(crate) fn close_house(&mut self, now: Nanos) {
        let all: Vec<AppId> = self.dispatcher.apps().collect();
        for app in all {
            self.see_out(app, DetachReason::DaemonEnds, now);
        }
    }

    pub(crate) fn control_config(&self) -> ControlConfig {
        ControlConfig {
            idle_timeout: Nanos::from_millis(u64::from(self.config.steer.idle_timeout_ms)),
            ..ControlConfig::default()
        }
    }
}
