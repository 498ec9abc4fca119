//! The fifth act: the daemon is killed under redis-server and its callers, again and again, and
//! none of them notices more than a pause. The sixth: another one takes its place.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use cli::failure::Failure;
use serde::Serialize;
use testbed::{Testbed, TestbedConfig};

use super::crash_callers::{Called, Callers};
use super::placement::Placement;
use super::progress::{Progress, check_stop, pause};
use super::redis_act::settings;
use super::redis_server::{Programs, RedisServer};
use super::server::Server;

/// Redis's port.
const PORT: u16 = 6379;

/// How long callers ask before the daemon is killed, and after the next one serves.
const ASKED_FOR: Duration = Duration::from_millis(1000);

/// How a daemon ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// By kill -9; its guardian does what is to be done.
    Killed,
    /// In order, by `calisto up --replace`.
    Replaced,
}

impl Ending {
    /// The act that shows it.
    pub(super) fn act(self) -> &'static str {
        match self {
            Self::Killed => "crash",
            Self::Replaced => "upgrade",
        }
    }
}

/// What one death has shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Death {
    /// From 1 on.
    pub(super) death: u32,
    /// Connections that the dead daemon had served.
    pub(super) served: u32,
    /// Connections of all callers, also those that the kernel has had since an earlier death.
    pub(super) connections: u32,
    /// Requests a second of all callers, before the death and after it.
    pub(super) before_per_s: f64,
    pub(super) after_per_s: f64,
    /// What the guardian said, or who took its place.
    pub(super) said: String,
}

/// The whole act.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CrashAct {
    pub(super) ending: Ending,
    pub(super) deaths: Vec<Death>,
    /// Requests that were answered, each as it had to be.
    pub(super) answered: u64,
    /// The longest that each connection was without an answer.
    pub(super) stalls: Vec<Duration>,
    /// What went wrong, of connections that broke.
    pub(super) broken: Vec<String>,
    pub(super) port: String,
}

/// Plays it, in namespaces of its own: a number of connections before each of a number of deaths.
pub(super) fn play(
    ending: Ending,
    (connections, rounds): (u32, u32),
    port: &str,
    programs: &Programs,
    placement: &Placement,
    tell: &Progress,
) -> Result<CrashAct, Failure> {
    if port == "af_packet" {
        return Err(Failure::usage(
            "the acts crash and upgrade need AF_XDP: nobody but the daemon has packets of a packet \
             socket",
        ));
    }
    let bed = Testbed::new(TestbedConfig::default()).map_err(Failure::new)?;
    check_stop()?;
    let settings = settings(placement);
    let mut server = Server::start("xdp", &settings, &bed, tell)?;
    let address = SocketAddr::from((bed.server().ipv4(), PORT));
    let (cpu, apps) = (placement.dispatcher, server.apps_socket());
    let mut redis = RedisServer::start(&bed, &programs.server, address, cpu, Some(&apps))?;
    tell.say(&format!(
        "{}: redis-server under `calisto run`; each caller counts up a number of its own",
        ending.act()
    ));
    let (mut all, mut deaths): (Vec<Callers>, Vec<Death>) = Default::default();
    for round in 0..rounds {
        all.push(Callers::start(bed.client(), address, round, connections)?);
        let before_per_s = rate(&all)?;
        server.check_alive()?;
        let said = match ending {
            Ending::Killed => {
                let said = server.kill()?;
                tell.say(&format!("kill -9 of the daemon: {said}"));
                server.start_again(&settings, bed.server())?;
                said
            }
            Ending::Replaced => {
                let said = server.replace(&settings, bed.server())?;
                tell.say(&format!("calisto up --replace: {said}"));
                said
            }
        };
        let after_per_s = rate(&all)?;
        redis.check_alive()?;
        deaths.push(Death {
            death: round + 1,
            served: connections,
            connections: connections * (round + 1),
            before_per_s,
            after_per_s,
            said,
        });
    }
    let called: Vec<Called> = all.into_iter().flat_map(Callers::end).collect();
    drop(redis);
    Ok(CrashAct {
        ending,
        deaths,
        answered: called.iter().map(|called| called.answered).sum(),
        stalls: called.iter().map(|called| called.longest).collect(),
        broken: called.into_iter().filter_map(|called| called.broken).collect(),
        port: server.stop()?,
    })
}

/// Requests a second of all callers, for a while.
fn rate(all: &[Callers]) -> Result<f64, Failure> {
    let answered = || all.iter().map(Callers::answered).sum::<u64>();
    let (begun, before) = (Instant::now(), answered());
    pause(ASKED_FOR)?;
    Ok((answered() - before) as f64 / begun.elapsed().as_secs_f64())
}
