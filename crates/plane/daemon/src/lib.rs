//! The daemon: threads, clocks, signals and sockets around the data path. `calistod` is [`run`]
//! and the reading of its arguments.
//!
//! Read `setup.rs` for what is made at the start, `event_loop.rs` for the loop, `worker_pool.rs`
//! for the workers' threads, `apps.rs` and `tenancy.rs` for applications, and `answer.rs` for what
//! an operator can ask. `check.rs` says beforehand what would be refused.
#![forbid(unsafe_code)]

mod admin_clients;
mod admin_socket;
mod alarm;
mod answer;
mod app_status;
mod apps;
mod ask;
mod attach_server_counters;
mod capture;
mod changes;
mod check;
mod confinement;
mod cores;
mod cores_status;
mod doorbells;
mod drain;
mod engine;
mod event_loop;
mod failure;
mod folder;
mod guardian;
mod log;
mod named_app;
mod open_sockets;
mod outside;
mod payers;
mod pinning;
mod pins;
mod port_faults;
mod port_reopener;
mod reload;
mod request_lines;
mod ring_memory;
mod service;
mod setup;
mod signals;
mod sockets;
mod station_follower;
mod status;
mod stream;
mod tenancy;
mod thread_pool;
mod wait;
mod watched;
mod worker_pool;
mod workers_wanted;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use config::{Config, Job};
use confine::Confined;

pub use crate::check::{Finding, Machine, Severity, check};
pub use crate::failure::Failure;
pub use crate::reload::Source;

use crate::changes::Reloads;
use crate::confinement::Role;
use crate::guardian::{Guardian, Lock, life};
use crate::service::Service;
use crate::setup::Parts;
use crate::signals::Survived;
use crate::watched::Watched;

/// Runs the data plane that `source` configures in this process until SIGINT, SIGTERM or `calisto
/// down`; then every port is closed, and what it took is Linux's again.
///
/// # Errors
///
/// The configuration is wrong; or what could not be opened, with the place in the configuration;
/// or that a thread without which nobody is served has died.
pub fn run(source: Source) -> Result<(), Failure> {
    let config = &source.read()?;
    if config.confine {
        confinement::begin(&socket_folders(config), source.folder());
    }
    // The guardian has it as well; what is wrong with it is said once there is a log.
    payers::hold(payers::read());
    // While there is no thread.
    let guardian = guarded(config)?;
    let has_guardian = guardian.is_some();
    if has_guardian {
        end_by_a_panic();
    }
    sys::signal::install_stop_handler()?;
    let (reloads, wishes) = Reloads::new();
    let _survived = Survived::start(reloads.clone())?;
    sys::memlock::raise();
    let cannot = |error| Failure::Said(format!("cannot start a thread: {error}"));
    log::start(&config.log).map_err(cannot)?;
    payers::hold(payers::read());
    // Before anybody can attach. Whoever fails here has no connections, and tells its guardian.
    let opened = || {
        let guardian = guardian.as_ref().map(|(guardian, lock)| (guardian, lock));
        let parts = setup::open(config, guardian)?;
        let asks = parts.asks.clone().with_reloads(reloads);
        let server = admin_socket::serve(&config.admin_socket, asks.clone())?;
        Ok::<_, Failure>((Parts { asks, ..parts }, server))
    };
    let (parts, server) = opened().inspect_err(|_| say_good_bye(guardian.as_ref()))?;
    let Parts { mut event_loop, attach_server, asks, port_reopener } = parts;
    let port_reopener = port_reopener.start().map_err(cannot)?;
    reload::start(source.clone(), config.clone(), wishes, asks.clone()).map_err(cannot)?;
    let service = Service::connect();
    let attach_server = attach_server.map(|attach_server| {
        let asks = asks.clone();
        // Without it nobody comes in, and what is taken from the kernel is never given back.
        let end = move || {
            tracing::error!(
                target: log::APPS,
                "the thread that talks to applications has died: the daemon ends"
            );
            if has_guardian {
                // An end in order would reset the connections.
                std::process::exit(1);
            }
            sys::signal::request_stop();
        };
        let serve = move || {
            if confinement::is_entered(Role::AttachServer) {
                attach_server.serve(&asks);
            }
        };
        Watched::start("attach", serve, end)
    });
    let attach_server = attach_server.transpose().map_err(cannot)?;
    log::ready(&config.admin_socket);
    let [ports, job] = [&config.ports.join(", "), config.job().name()];
    service.ready(&format!("ports {ports}, job {job}"), &asks)?;
    let hang = Duration::from_millis(config.sockets.hang_ms.into());
    if let Some((guardian, _)) = guardian.as_ref().filter(|_| !hang.is_zero()) {
        life::start(guardian, asks.clone(), hang).map_err(cannot)?;
    }
    drop(asks);
    for text in event_loop.describe() {
        tracing::info!(name: log::BOUNDED, target: log::DAEMON, "{text}");
    }
    if let Some(text) = setup::warning(config) {
        tracing::warn!(target: log::DAEMON, "{text}");
    }
    event_loop.confinement = match confinement::enter(Role::EventLoop)? {
        Some(Confined::Whole) => "whole",
        Some(Confined::WithoutPaths) => "without_paths",
        None => "off",
    };
    event_loop.run();
    guardian.iter().for_each(|(guardian, _)| guardian.say_ending());
    service.stopping();
    event_loop.attached_apps.close_attach_server();
    if let Some(engines) = event_loop.worker_pool.engines() {
        tracing::info!(target: log::WORKERS, "{}", engines.summary());
    }
    drop(port_reopener);
    // Questions that the attach server may wait with are answered by nobody from here on.
    drop(event_loop);
    let is_attach_server_well = attach_server.is_none_or(Watched::join);
    drop(server);
    match is_attach_server_well {
        true => {
            say_good_bye(guardian.as_ref());
            Ok(())
        }
        false => Err(Failure::Said("the thread that talks to applications has died".to_owned())),
    }
}

/// The argument with which [`run`] starts its own program again, and what that must then do instead
/// of anything else.
pub const LOOK_FOR_OPEN_SOCKETS: &str = open_sockets::ARGUMENT;

/// Answers the daemon that started this process which sockets are open, until it ends.
pub fn look_for_open_sockets() -> ExitCode {
    open_sockets::serve()
}

/// The argument with which [`run`] starts its own program as its guardian.
pub const GUARD: &str = guardian::starter::GUARD;

/// Guards the connections of the daemon that started this process.
pub fn guard() -> ExitCode {
    guardian::serve()
}

/// The argument with which [`run`] starts its own program as the process that starts guardians.
pub const START_GUARDIANS: &str = guardian::starter::ARGUMENT;

/// Starts guardians for the daemon that started this process, until it ends.
pub fn start_guardians() -> ExitCode {
    guardian::starter::serve()
}

/// Starts the guardian, if there is something to guard, and takes the place that the one before
/// may still have.
fn guarded(config: &Config) -> Result<Option<(Guardian, Lock)>, Failure> {
    if config.job() != Job::Sockets || !config.sockets.guardian || config.apps.max == 0 {
        return Ok(None);
    }
    let lock = Lock::take(&config.admin_socket);
    let cannot = |error| {
        Failure::Said(format!(
            "cannot start the guardian: {error}; `sockets.guardian = false` does without it"
        ))
    };
    Ok(Some((Guardian::start().map_err(cannot)?, lock)))
}

/// The guardian lets go of everything, and ends.
fn say_good_bye(guardian: Option<&(Guardian, Lock)>) {
    if let Some((guardian, _)) = guardian {
        guardian.end();
    }
}

/// From now on a panic of this thread is the end of the process at once: what it has must not be
/// dropped in order, because the guardian goes on with it.
fn end_by_a_panic() {
    let (tell, own) = (std::panic::take_hook(), std::thread::current().id());
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        if std::thread::current().id() == own {
            std::process::exit(101);
        }
    }));
}

/// Where files of sockets are replaced while the daemon runs.
fn socket_folders(config: &Config) -> Vec<PathBuf> {
    let sockets = [PathBuf::from(&config.admin_socket), config.apps_socket()];
    let folder = |path: &PathBuf| match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => Path::new(".").to_owned(),
    };
    sockets.iter().map(folder).collect()
}
