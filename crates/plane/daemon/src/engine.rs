//! The TCP engines of the daemon's own workers, from the configuration.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use base::{Nanos, WorkerId};
use config::{Config, Congestion, Job};
use datapath::{Dispatcher, DispatcherPort, Listener};
use port::{AnyPort, Port};
use stack::{
    CommandQueue, Exchange, RingLimits, ServiceKind, SocketCounts, SocketJob, SocketJobConfig,
};
use tcp::{Algorithm, FlowOptions};
use wire::Protocol;

use crate::failure::Failure;

/// What every worker's engine is made from; absent: the workers' job is another.
#[derive(Clone, Debug)]
pub(crate) struct Engines {
    config: SocketJobConfig,
    exchange: Exchange,
    /// What each worker counts, those that have ended included.
    counts: Arc<Mutex<Vec<(WorkerId, SocketCounts)>>>,
}

impl Engines {
    /// Engines for flows that come by any of `ports`.
    pub(crate) fn new(
        config: &Config,
        listeners: &[Listener],
        hash_key: [u8; 40],
        ports: &[DispatcherPort<AnyPort>],
        command_queue: Option<CommandQueue>,
    ) -> Result<Option<Self>, Failure> {
        let service = match config.job() {
            Job::Auto | Job::Echo | Job::Sink | Job::Synthetic => return Ok(None),
            Job::Sockets if command_queue.is_none() => return Ok(None),
            // Nothing is served but what applications listen for.
            Job::Sockets => ServiceKind::Discard,
            Job::TcpEcho => ServiceKind::Echo,
            Job::TcpDiscard => ServiceKind::Discard,
            Job::TcpChargen => ServiceKind::Chargen,
        };
        if config.steer.policy == "shared" {
            return Err(Failure::Said(
                "policy \"shared\" gives any worker any packet, but a connection has one worker: \
                 choose another steer.policy"
                    .to_owned(),
            ));
        }
        let config = SocketJobConfig {
            engine: engine(config, hash_key, mtu(ports)),
            secret: sys::random::bytes()?,
            service,
            listeners: if command_queue.is_some() { Vec::new() } else { addresses(listeners)? },
            backlog: config.tcp.backlog,
            flow: flow(config),
            rings: RingLimits {
                receive_log2: kib_log2(config.tcp.ring_max_kib),
                send_log2: kib_log2(config.tcp.ring_max_kib),
                bytes_max: u64::from(config.tcp.memory_mib) << 20,
            },
            command_queue,
            joins: ports
                .iter()
                .all(|dispatcher_port| dispatcher_port.port().capabilities().cuts_segments),
        };
        Ok(Some(Self { config, exchange: Exchange::new(), counts: Arc::default() }))
    }

    /// The engine of one more worker.
    pub(crate) fn stream(
        &self,
        worker: WorkerId,
        dispatcher: &mut Dispatcher<AnyPort>,
        now: Nanos,
    ) -> Result<SocketJob, String> {
        if self.config.joins {
            dispatcher.expect_pieces();
        }
        dispatcher.expect_errors();
        let owners = dispatcher.steering_mut().share_owners();
        let counts = SocketCounts::new();
        let mut all = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((worker, counts.clone()));
        SocketJob::new(worker, &self.config, self.exchange.clone(), owners, counts, now)
            .map_err(|error| error.to_string())
    }

    /// Where sockets of applications come from.
    pub(crate) fn command_queue(&self) -> Option<&CommandQueue> {
        self.config.command_queue.as_ref()
    }

    /// Whether what is served are sockets of applications.
    pub(crate) fn has_sockets(&self) -> bool {
        self.config.command_queue.is_some()
    }

    /// Every count of a worker's engine: name, help, value. Those of workers that had its number
    /// before are added.
    pub(crate) fn counts_of(&self, worker: WorkerId) -> Vec<(&'static str, &'static str, u64)> {
        let all = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums: Vec<(&'static str, &'static str, u64)> = Vec::new();
        for (_, counts) in all.iter().filter(|(id, _)| *id == worker) {
            if sums.is_empty() {
                sums = counts.iter().collect();
                continue;
            }
            for ((.., sum), (.., count)) in sums.iter_mut().zip(counts.iter()) {
                *sum += count;
            }
        }
        sums
    }

    /// What all engines together have done, in one line.
    pub(crate) fn summary(&self) -> String {
        let all = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = |name: &str| -> u64 {
            let values = all.iter().flat_map(|(_, counts)| counts.iter());
            values.filter(|(other, ..)| *other == name).map(|(.., value)| value).sum()
        };
        let (received, fast) = (sum("received"), sum("fast"));
        format!(
            "tcp: {} connections, {received} segments in ({:.1} % on the fast path), {} \
             out, {} sent again",
            sum("connected"),
            100.0 * fast as f64 / received.max(1) as f64,
            sum("transmitted"),
            sum("retransmitted"),
        )
    }
}

fn engine(config: &Config, hash_key: [u8; 40], mtu: u16) -> tcp::Config {
    let millis = |millis: u32| Nanos::from_millis(u64::from(millis));
    let tcp = &config.tcp;
    tcp::Config {
        flows_max: tcp.flows,
        hash_key,
        sent_max: 1 << 18,
        mtu,
        mtu_probing: tcp.mtu_probing,
        window_scaling: tcp.window_scaling,
        timestamps: tcp.timestamps,
        sack: tcp.sack,
        rto_min: millis(tcp.rto_min_ms),
        ack_delay: millis(tcp.ack_delay_ms),
        time_wait: millis(tcp.time_wait_ms),
        initial_window: tcp.initial_window,
        ..tcp::Config::default()
    }
}

/// As the engine calls it.
pub(crate) fn algorithm(congestion: Congestion) -> Algorithm {
    match congestion {
        Congestion::Cubic => Algorithm::Cubic,
        Congestion::Reno => Algorithm::NewReno,
        Congestion::Dctcp => Algorithm::Dctcp,
        Congestion::Timely => Algorithm::Timely,
    }
}

/// Settings of every flow.
pub(crate) fn flow(config: &Config) -> FlowOptions {
    let tcp = &config.tcp;
    FlowOptions {
        receive_ring_log2: kib_log2(tcp.ring_kib),
        receive_limit_log2: kib_log2(tcp.ring_max_kib),
        send_ring_log2: kib_log2(tcp.ring_kib),
        congestion: algorithm(tcp.congestion),
        ecn: tcp.congestion == Congestion::Dctcp,
        no_delay: tcp.no_delay,
        pacing: tcp.pacing,
        ..FlowOptions::default()
    }
}

/// The addresses that engines listen on: an unspecified one stands for both IP versions there.
fn addresses(listeners: &[Listener]) -> Result<Vec<SocketAddr>, Failure> {
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for listener in listeners.iter().filter(|listener| listener.protocol == Protocol::Tcp) {
        let address = listener.address;
        if address.port() == 0 {
            return Err(Failure::Said(format!(
                "{listener}: a TCP service needs a port of its own: name one"
            )));
        }
        let is_there = addresses.iter().any(|other| {
            let are_any = other.ip().is_unspecified() && address.ip().is_unspecified();
            other.port() == address.port() && (are_any || other.ip() == address.ip())
        });
        if !is_there {
            addresses.push(address);
        }
    }
    match addresses.is_empty() {
        true => Err(Failure::Said(
            "a TCP service needs a TCP listener: listen = [\"tcp:10.0.0.2:7\"]".to_owned(),
        )),
        false => Ok(addresses),
    }
}

/// The logarithm of the bytes of that many kibibytes, a power of two.
fn kib_log2(kib: u32) -> u8 {
    10 + kib.trailing_zeros() as u8
}

/// The longest packet that every port takes.
pub(crate) fn mtu(ports: &[DispatcherPort<AnyPort>]) -> u16 {
    let mtus = ports.iter().map(|dispatcher_port| dispatcher_port.port().capabilities().mtu);
    mtus.map(|mtu| u16::try_from(mtu).unwrap_or(u16::MAX)).min().unwrap_or(1500)
}
