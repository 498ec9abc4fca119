//! The third act: TCP by the data path itself, and by Linux, for the same clients on the same veth.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use cli::failure::Failure;
use load::Latencies;
use serde::Serialize;
use testbed::{Idle, LinuxServer, Service, Side, Testbed, TestbedConfig, linux_listeners};

use super::Demo;
use super::placement::Placement;
use super::progress::{Progress, check_stop, pause};
use super::server::{Server, run};
use super::tcp_client::{self, Answers};
use super::tcp_counts::Counts;

/// The data path's port, and Linux's: echo's (RFC 862), and the one behind it.
const OUR_PORT: u16 = 7;
const LINUX_PORT: u16 = 8;

/// Linux's own address: where packets come over a packet socket, the kernel loses the first one.
const LINUX_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);

/// Requests of one round of one server, after the warm-up.
const REQUESTS: Duration = Duration::from_millis(900);

/// Bulk of one round of one server.
const BULK: Duration = Duration::from_millis(400);

/// The engines show what they count a moment later.
const COUNTED: Duration = Duration::from_millis(20);

/// What one server has shown.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Shown {
    /// calisto or linux.
    pub(super) server: &'static str,
    /// Requests a second, the median round.
    pub(super) requests_per_s: f64,
    pub(super) p50_us: f64,
    pub(super) p95_us: f64,
    /// Share of segments that were done on the fast path, of the requests; Linux does not tell.
    pub(super) fast: Option<f64>,
    /// Segments out for each request answered.
    pub(super) packets_per_request: f64,
    /// Megabits a second that came back in bulk, the median round.
    pub(super) bulk_mbit_per_s: f64,
    /// Segments sent again, of everything.
    pub(super) sent_again: u64,
}

/// The whole act.
#[derive(Clone, Debug)]
pub(super) struct TcpAct {
    pub(super) ours: Shown,
    pub(super) linux: Shown,
    /// The port that the daemon served on.
    pub(super) port: String,
}

/// What the rounds of one server add up to.
#[derive(Default)]
struct Rounds {
    rates: Vec<f64>,
    latencies: Latencies,
    answers: u64,
    asking: Counts,
    bulk: Vec<f64>,
    bulking: Counts,
}

/// A server, how to count what it does, and what it has shown so far.
struct Contender<'a> {
    name: &'static str,
    address: SocketAddr,
    counts: Box<dyn Fn() -> Result<Counts, Failure> + 'a>,
    rounds: Rounds,
}

/// Plays it, in namespaces of its own.
pub(super) fn play(demo: &Demo, placement: &Placement, tell: &Progress) -> Result<TcpAct, Failure> {
    let bed = Testbed::new(TestbedConfig::default()).map_err(Failure::new)?;
    check_stop()?;
    let (client, side) = (bed.client(), bed.server());
    let ours = SocketAddr::from((side.ipv4(), OUR_PORT));
    let mut server = Server::start(&demo.port, &settings(placement, ours), &bed, tell)?;
    let add = format!("{LINUX_ADDRESS}/{}", Side::IPV4_PREFIX);
    run(side.command("ip").args(["address", "add", &add, "dev", side.interface()]))?;
    let linux = SocketAddr::from((LINUX_ADDRESS, LINUX_PORT));
    let cpu = placement.dispatcher;
    let listeners = linux_listeners(side, LINUX_ADDRESS, LINUX_PORT..LINUX_PORT + 1, None);
    let echo = listeners.and_then(|at| LinuxServer::start(cpu, at, Service::Echo, Idle::Sleep));
    let echo = echo.map_err(|error| Failure::new(format!("the echo of Linux: {error}")))?;
    tell.say(&format!(
        "TCP: {} to an echo of the data path and to one of Linux, {}",
        connections(demo.connections),
        core_layout(placement)
    ));
    let daemon = server.daemon();
    let mut contenders = [
        Contender::new("calisto", ours, || Counts::of_daemon(&daemon)),
        Contender::new("linux", linux, || Counts::of_linux(side)),
    ];
    for _ in 0..demo.rounds {
        for contender in &mut contenders {
            contender.ask(client, placement, demo, tell)?;
            server.check_alive()?;
        }
        // Whoever goes first finds a colder machine: that is each of them in turn.
        contenders.reverse();
    }
    for _ in 0..demo.rounds {
        for contender in &mut contenders {
            contender.bulk(client, placement, tell)?;
            server.check_alive()?;
        }
        contenders.reverse();
    }
    let [mut ours, mut linux] = contenders.map(Contender::shown);
    if ours.server != "calisto" {
        std::mem::swap(&mut ours, &mut linux);
    }
    drop(echo);
    let port = server.stop()?;
    Ok(TcpAct { ours, linux, port })
}

/// A number in words.
pub(super) fn connections(count: u32) -> String {
    if count == 1 { "1 connection".to_owned() } else { format!("{count} connections") }
}

/// Who runs where, in words.
pub(super) fn core_layout(placement: &Placement) -> String {
    match (placement.client, placement.dispatcher) {
        (Some(client), Some(server)) => {
            format!("client on CPU {client}, either server on CPU {server}")
        }
        _ => "client and servers on the same CPU".to_owned(),
    }
}

/// The daemon's settings, without its port: one worker in the dispatcher's loop, as Linux's echo
/// has one thread.
fn settings(placement: &Placement, ours: SocketAddr) -> Vec<String> {
    let mut settings = vec![
        format!("listen=[\"tcp:{ours}\"]"),
        "workers.count=1".to_owned(),
        "workers.job=tcp-echo".to_owned(),
        "workers.arrangement=fused".to_owned(),
    ];
    settings.extend(placement.dispatcher.map(|cpu| format!("workers.dispatcher_cpu={cpu}")));
    settings
}

impl<'a> Contender<'a> {
    fn new(
        name: &'static str,
        address: SocketAddr,
        counts: impl Fn() -> Result<Counts, Failure> + 'a,
    ) -> Self {
        Self { name, address, counts: Box::new(counts), rounds: Rounds::default() }
    }

    /// A round of requests.
    fn ask(
        &mut self,
        client: &Side,
        placement: &Placement,
        demo: &Demo,
        tell: &Progress,
    ) -> Result<(), Failure> {
        let before = (self.counts)()?;
        let Answers { latencies, seconds, all } =
            tcp_client::ask(client, placement.client, self.address, demo.connections, REQUESTS)?;
        let asking = self.counted_since(before)?;
        let rate = latencies.count() as f64 / seconds;
        let percentiles = latencies.percentiles();
        tell.say(&format!(
            "{}: {rate:.0} requests/s, p50 {:.0} us, p95 {:.0} us",
            self.name, percentiles.p50_us, percentiles.p95_us
        ));
        let rounds = &mut self.rounds;
        rounds.rates.push(rate);
        rounds.latencies.add(&latencies);
        rounds.answers += all;
        rounds.asking = rounds.asking.plus(asking);
        Ok(())
    }

    /// A round of bulk.
    fn bulk(
        &mut self,
        client: &Side,
        placement: &Placement,
        tell: &Progress,
    ) -> Result<(), Failure> {
        let before = (self.counts)()?;
        let bits = tcp_client::bulk(client, placement.client, self.address, BULK)?;
        let bulking = self.counted_since(before)?;
        tell.say(&format!("{}: {:.0} Mbit/s there and back", self.name, bits / 1e6));
        self.rounds.bulk.push(bits / 1e6);
        self.rounds.bulking = self.rounds.bulking.plus(bulking);
        Ok(())
    }

    fn counted_since(&self, before: Counts) -> Result<Counts, Failure> {
        pause(COUNTED)?;
        Ok((self.counts)()?.since(before))
    }

    fn shown(self) -> Shown {
        let Rounds { rates, latencies, answers, asking, bulk, bulking } = self.rounds;
        let percentiles = latencies.percentiles();
        Shown {
            server: self.name,
            requests_per_s: median(rates),
            p50_us: percentiles.p50_us,
            p95_us: percentiles.p95_us,
            fast: asking.fast.map(|fast| fast as f64 / asking.received as f64),
            packets_per_request: asking.transmitted as f64 / answers as f64,
            bulk_mbit_per_s: median(bulk),
            sent_again: asking.again + bulking.again,
        }
    }
}

/// The one in the middle; of two, the lower.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

impl TcpAct {
    /// What happened, in one sentence.
    pub(super) fn sentence(&self) -> String {
        let Self { ours, linux, .. } = self;
        let again = match ours.sent_again {
            0 => "sent nothing again".to_owned(),
            1 => "sent one segment again".to_owned(),
            again => format!("sent {again} segments again"),
        };
        format!(
            "the data path answered {:.2} x as many requests a second as Linux, with {:.2} packets \
             out for each (Linux: {:.2}), moved {:.2} x as much bulk, and {again}",
            ours.requests_per_s / linux.requests_per_s,
            ours.packets_per_request,
            linux.packets_per_request,
            ours.bulk_mbit_per_s / linux.bulk_mbit_per_s,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_a_round_that_was() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0]), 1.0);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn the_daemon_has_one_worker_where_linux_has_one_thread() {
        let ours = "10.77.0.2:7".parse().expect("an address");
        let settings = settings(&Placement::of(&[0, 1]), ours);
        assert!(settings.contains(&"listen=[\"tcp:10.77.0.2:7\"]".to_owned()), "{settings:?}");
        assert!(settings.contains(&"workers.dispatcher_cpu=1".to_owned()), "{settings:?}");
        assert_eq!(core_layout(&Placement::of(&[0, 1])), "client on CPU 0, either server on CPU 1");
        let mut config = config::Config::default();
        config.set_all(settings.iter().map(String::as_str)).expect("all of them are settings");
        assert_eq!((config.workers.count, config.workers.job), (1, config::Job::TcpEcho));
    }
}
