//! The fourth act: redis-server, unmodified, on the data path's sockets and on Linux's, for the
//! same clients on the same veth.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use admin::{Command, ReplyBody};
use cli::daemon::Daemon;
use cli::failure::Failure;
use serde::Serialize;
use testbed::{Side, Testbed, TestbedConfig};

use super::Demo;
use super::placement::Placement;
use super::progress::{Progress, check_stop, pause};
use super::redis_client::{self, REQUESTS, Round};
use super::redis_server::{Programs, RedisServer};
use super::server::{Server, run};
use super::tcp_act::median;
use super::tcp_counts::Counts;

/// Redis's port, and the one of Linux's behind it.
const OUR_PORT: u16 = 6379;
const LINUX_PORT: u16 = 6380;

/// Linux's own address on the same wire.
const LINUX_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);

/// The engines show what they count a moment later.
const COUNTED: Duration = Duration::from_millis(20);

/// What one server has shown, the median round of each figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Shown {
    /// calisto or linux.
    pub(super) server: &'static str,
    pub(super) get_per_s: f64,
    pub(super) set_per_s: f64,
    pub(super) get_p50_us: f64,
    pub(super) set_p50_us: f64,
}

/// The whole act.
#[derive(Clone, Debug)]
pub(super) struct RedisAct {
    pub(super) ours: Shown,
    pub(super) linux: Shown,
    /// Segments of the accelerated server that the data path has received; the kernel has seen
    /// none.
    pub(super) segments: u64,
    /// The port that the daemon served on.
    pub(super) port: String,
}

/// Plays it, in namespaces of its own.
pub(super) fn play(
    demo: &Demo,
    programs: &Programs,
    placement: &Placement,
    tell: &Progress,
) -> Result<RedisAct, Failure> {
    if demo.port == "af_packet" {
        return Err(Failure::usage(
            "the redis act needs AF_XDP: over a packet socket the kernel would see the packets too",
        ));
    }
    let bed = Testbed::new(TestbedConfig::default()).map_err(Failure::new)?;
    check_stop()?;
    let (client, side) = (bed.client(), bed.server());
    let mut server = Server::start("xdp", &settings(placement), &bed, tell)?;
    let add = format!("{LINUX_ADDRESS}/{}", Side::IPV4_PREFIX);
    run(side.command("ip").args(["address", "add", &add, "dev", side.interface()]))?;
    let (cpu, apps) = (placement.dispatcher, server.apps_socket());
    let ours = SocketAddr::from((side.ipv4(), OUR_PORT));
    let linux = SocketAddr::from((LINUX_ADDRESS, LINUX_PORT));
    let mut redis = [
        RedisServer::start(&bed, &programs.server, ours, cpu, Some(&apps))?,
        RedisServer::start(&bed, &programs.server, linux, cpu, None)?,
    ];
    tell.say("redis: one server under `calisto run`, one on Linux, redis-benchmark asks in turns");
    let daemon = server.daemon();
    let mut rounds: [Vec<Round>; 2] = Default::default();
    let mut segments = 0;
    for number in 0..demo.rounds {
        // Whoever goes first finds a colder machine: that is each of them in turn.
        for turn in if number % 2 == 0 { [0, 1] } else { [1, 0] } {
            let (name, address) = [("calisto", ours), ("linux", linux)][turn];
            let before = Carried::look(&daemon, side)?;
            let round = redis_client::ask(client, placement.client, &programs.benchmark, address)?;
            redis[turn].check_alive()?;
            server.check_alive()?;
            if turn == 0 {
                segments += before.is_all_ours(&daemon, side)?;
            }
            let Round { get, set } = round;
            tell.say(&format!(
                "{name}: {:.0} GET/s, {:.0} SET/s",
                get.requests_per_s, set.requests_per_s
            ));
            rounds[turn].push(round);
        }
    }
    drop(redis);
    let [of_ours, of_linux] = rounds;
    Ok(RedisAct {
        ours: shown("calisto", &of_ours),
        linux: shown("linux", &of_linux),
        segments,
        port: server.stop()?,
    })
}

/// The daemon's settings, without its port: one worker in the dispatcher's loop, as redis-server
/// has one thread.
pub(super) fn settings(placement: &Placement) -> Vec<String> {
    let mut settings = vec![
        "workers.count=1".to_owned(),
        "workers.job=sockets".to_owned(),
        "workers.arrangement=fused".to_owned(),
    ];
    settings.extend(placement.dispatcher.map(|cpu| format!("workers.dispatcher_cpu={cpu}")));
    settings
}

/// Who has carried what, so far. A server that has fallen back to the kernel answers as well, and
/// would be shown for the wrong stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Carried {
    by_daemon: u64,
    by_kernel: u64,
    fallbacks: u64,
}

impl Carried {
    fn look(daemon: &Daemon, side: &Side) -> Result<Self, Failure> {
        let fallbacks = match daemon.ask(Command::Fallbacks)? {
            ReplyBody::Fallbacks { totals, .. } => totals.iter().map(|total| total.count).sum(),
            other => return Err(daemon.unexpected(&other)),
        };
        let by_daemon = Counts::of_daemon(daemon)?.received;
        Ok(Self { by_daemon, by_kernel: Counts::of_linux(side)?.received, fallbacks })
    }

    /// Segments that the daemon has carried since, if it was all of them.
    fn is_all_ours(self, daemon: &Daemon, side: &Side) -> Result<u64, Failure> {
        pause(COUNTED)?;
        self.compare(Self::look(daemon, side)?)
    }

    fn compare(self, now: Self) -> Result<u64, Failure> {
        let by_daemon = now.by_daemon.saturating_sub(self.by_daemon);
        let by_kernel = now.by_kernel.saturating_sub(self.by_kernel);
        let fallbacks = now.fallbacks.saturating_sub(self.fallbacks);
        // Each of the two kinds of request, one at a time on each connection, is a segment.
        let least = 2 * u64::from(REQUESTS);
        if by_kernel == 0 && fallbacks == 0 && by_daemon >= least {
            return Ok(by_daemon);
        }
        Err(Failure::new(format!(
            "redis-server was not accelerated: the data path has received {by_daemon} segments of at \
             least {least}, the kernel {by_kernel}, and {fallbacks} sockets fell back to it; look at \
             `calisto explain PID`"
        )))
    }
}

fn shown(server: &'static str, rounds: &[Round]) -> Shown {
    let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
    Shown {
        server,
        get_per_s: of(|round| round.get.requests_per_s),
        set_per_s: of(|round| round.set.requests_per_s),
        get_p50_us: of(|round| round.get.p50_us),
        set_p50_us: of(|round| round.set.p50_us),
    }
}

#[cfg(test)]
mod tests {
    use super::super::redis_client::Speed;
    use super::*;

    #[test]
    fn a_server_that_fell_back_is_not_shown_as_accelerated() {
        let before = Carried { by_daemon: 100, by_kernel: 50, fallbacks: 1 };
        let after = Carried { by_daemon: 100_000, ..before };
        assert_eq!(before.compare(after), Ok(99_900));
        for wrong in [
            before,
            Carried { by_kernel: 51, ..after },
            Carried { fallbacks: 2, ..after },
            Carried { by_daemon: 80_099, ..after },
        ] {
            let told = before.compare(wrong).expect_err("not all of it was ours").to_string();
            assert!(told.contains("was not accelerated"), "{told}");
        }
    }

    #[test]
    fn each_figure_is_its_median_round() {
        let speed = |requests_per_s, p50_us| Speed { requests_per_s, p50_us };
        let round = |get, set| Round { get: speed(get, 1000.0 - get), set: speed(set, set) };
        let shown = shown("calisto", &[round(1.0, 9.0), round(3.0, 7.0), round(2.0, 8.0)]);
        assert_eq!((shown.get_per_s, shown.set_per_s), (2.0, 8.0));
        assert_eq!((shown.get_p50_us, shown.set_p50_us), (998.0, 8.0));
    }

    #[test]
    fn the_daemon_serves_sockets_with_one_worker() {
        let settings = settings(&Placement::of(&[0, 1]));
        let mut config = config::Config::default();
        config.set_all(settings.iter().map(String::as_str)).expect("all of them are settings");
        assert_eq!((config.workers.count, config.workers.job), (1, config::Job::Sockets));
    }
}
