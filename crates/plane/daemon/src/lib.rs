//! The daemon: threads, clocks, signals and sockets around the data path. `calistod` is [`run`]
//! and the reading of its arguments.
//!
//! Read `setup.rs` for what is made at the start, `event_loop.rs` for the loop, `worker_pool.rs`
//! for the workers' threads, `apps.rs` and `tenancy.rs` for applications, and `answer.rs` for what
//! an operator can ask.
#![forbid(unsafe_code)]

mod admin_clients;
mod admin_socket;
mod answer;
mod app_status;
mod apps;
mod ask;
mod attach_server_counters;
mod capture;
mod cores;
mod cores_status;
mod doorbells;
mod drain;
mod engine;
mod event_loop;
mod failure;
mod folder;
mod log;
mod outside;
mod port_faults;
mod setup;
mod signals;
mod sockets;
mod status;
mod stream;
mod tenancy;
mod wait;
mod watched;
mod worker_pool;

use config::Config;

pub use crate::failure::Failure;

use crate::setup::Parts;
use crate::signals::Survived;
use crate::watched::Watched;

/// Runs the data plane of `config` in this process until SIGINT, SIGTERM or `calisto down`; then
/// every port is closed, and what it took is Linux's again.
///
/// # Errors
///
/// What could not be opened, with the place in the configuration; or that a thread without which
/// nobody is served has died.
pub fn run(config: &Config) -> Result<(), Failure> {
    sys::signal::install_stop_handler()?;
    let _survived = Survived::start()?;
    sys::memlock::raise();
    let cannot = |error| Failure::Said(format!("cannot start a thread: {error}"));
    let Parts { mut event_loop, attach_server, asks } = setup::open(config)?;
    log::start().map_err(cannot)?;
    let attach_server = attach_server.map(|attach_server| {
        let asks = asks.clone();
        // Without it nobody comes in, and what is taken from the kernel is never given back.
        let end = || {
            log::warn("the thread that talks to applications has died: the daemon ends".to_owned());
            sys::signal::request_stop();
        };
        Watched::start("door", move || attach_server.serve(&asks), end)
    });
    let attach_server = attach_server.transpose().map_err(cannot)?;
    let server = admin_socket::serve(&config.admin_socket, asks)?;
    log::ready(&config.admin_socket);
    event_loop.describe().into_iter().for_each(log::say);
    setup::warning(config).into_iter().for_each(log::warn);
    event_loop.run();
    event_loop.attached_apps.close_attach_server();
    if let Some(engines) = event_loop.worker_pool.engines() {
        log::say(engines.summary());
    }
    // Questions that the attach server may wait with are answered by nobody from here on.
    drop(event_loop);
    let is_attach_server_well = attach_server.is_none_or(Watched::join);
    drop(server);
    match is_attach_server_well {
        true => Ok(()),
        false => Err(Failure::Said("the thread that talks to applications has died".to_owned())),
    }
}
