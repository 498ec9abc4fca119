//! Whether the daemon would run a configuration, and on this machine, without opening anything.
//!
//! What values each key may hold has been checked when the configuration was read (`config`). Here
//! it is asked what the texts mean, whether they fit together, and whether the interfaces,
//! addresses, CPUs and users that they name exist.

mod addresses;
mod cpus;
mod finding;
mod machine;
mod ports;
#[cfg(test)]
mod tests;
mod users;

use std::str::FromStr;

use config::Config;
use datapath::Listener;
use policy::steer::{self, SteerConfig};
use port::PortSpec;

pub use finding::{Finding, Severity};
pub use machine::Machine;

use crate::{cores, pins, setup};

/// Everything that is wrong or doubtful about `config`; without a machine, only what is so on every
/// machine. The worst comes first.
pub fn check(config: &Config, machine: Option<&Machine>) -> Vec<Finding> {
    let mut found = completeness(config);
    let specs = read::<PortSpec>("ports", &config.ports, &mut found);
    let listeners = read::<Listener>("listen", &config.listen, &mut found);
    found.extend(ports::check(config, &specs, machine));
    found.extend(addresses::check(&listeners, &specs, machine));
    found.extend(job(config, &listeners));
    found.extend(names(config));
    let (_, wrong) = pins::examine(config);
    found.extend(wrong.into_iter().map(|(at, says)| Finding::wrong("steer.pins", Some(at), says)));
    found.extend(cpus::check(config, machine));
    found.extend(users::check(config, machine));
    found.sort_by_key(|finding| finding.severity);
    found
}

fn completeness(config: &Config) -> Vec<Finding> {
    let Err(error) = config.check_complete() else { return Vec::new() };
    let key = ["ports", "listen"].into_iter().find(|key| Some(*key) == error.key());
    vec![Finding::wrong(key.unwrap_or("workers.job"), None, error)]
}

/// The texts of a key as what they stand for, with their places in its array.
fn read<T: FromStr<Err: ToString>>(
    key: &'static str,
    texts: &[String],
    found: &mut Vec<Finding>,
) -> Vec<(usize, T)> {
    let read = |(at, text): (usize, &String)| match text.parse::<T>() {
        Ok(value) => Some((at, value)),
        Err(error) => {
            found.push(Finding::wrong(key, Some(at), error.to_string()));
            None
        }
    };
    texts.iter().enumerate().filter_map(read).collect()
}

fn job(config: &Config, listeners: &[(usize, Listener)]) -> Option<Finding> {
    let listeners: Vec<Listener> = listeners.iter().map(|(_, listener)| *listener).collect();
    match setup::check_job(config.job(), &listeners) {
        Err(failure) => Some(Finding::wrong("workers.job", None, failure)),
        Ok(()) => setup::warning(config).map(|says| Finding::doubtful("workers.job", None, says)),
    }
}

/// Policies and sockets.
fn names(config: &Config) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Err(unknown) = steer::by_name(&config.steer.policy, SteerConfig { groups: 0, seed: 0 }) {
        found.push(Finding::wrong("steer.policy", None, unknown));
    }
    match policy::cores::by_name(config.cores_policy()) {
        Err(unknown) => found.push(Finding::wrong("cores.policy", None, unknown)),
        Ok(_) if config.cores.set.is_empty() => {}
        Ok(_) => {
            let refused = cores::control(config).err();
            found.extend(refused.map(|failure| Finding::wrong("cores.set", None, failure)));
        }
    }
    if config.apps.max > 0 && config.apps_socket().as_os_str() == config.admin_socket.as_str() {
        let says = "applications and operators cannot share one socket: choose another path";
        found.push(Finding::wrong("apps.socket", None, says));
    }
    found
}
