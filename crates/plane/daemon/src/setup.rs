//! From a configuration to an event loop that is ready to run.

mod post;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;

use attach::{AttachListener, PortInfo};
use base::{Nanos, PortId};
use config::{Config, Job};
use datapath::cores::Call;
use datapath::{
    DispatcherConfig, DispatcherPort, Listener, Listeners, MigrateConfig, SteeringConfig,
    SyntheticState,
};
use policy::steer::{self, SteerConfig};
use policy::{Control, ControlConfig};
use port::xdp::{Destination, Protocol};
use port::{Opener, Port, PortSpec};
use shm::{FlowState, FramePool, PoolConfig};
use sys::eventfd::EventFd;
use wire::Toeplitz;

use self::post::Post;
use crate::alarm::Alarm;
use crate::apps::{AttachServer, AttachedApps, Claims, Notices, Rules, SOCKET_MODE, Terms};
use crate::ask::Asks;
use crate::cores::{Cores, keeps_own};
use crate::engine::Engines;
use crate::event_loop::EventLoop;
use crate::failure::Failure;
use crate::folder;
use crate::guardian::{Guardian, Lock};
use crate::pins;
use crate::port_reopener::PortReopener;
use crate::worker_pool::{WorkerPool, WorkerPoolConfig};

/// Messages in each ring between dispatcher and worker: a ring is never longer than the frames
/// that could be in it, and 1024 packets are a millisecond at a million a second.
const RING_MESSAGES_MAX: u32 = 1024;

/// Frames that there are at least for each queue of each port: a quarter of them is for receiving,
/// and a queue that holds less than a batch would lose packets while it is being read.
const FRAMES_PER_QUEUE: u32 = 4 * base::BURST as u32;

/// Link address on ports that have none: locally administered, unicast.
const MAC: [u8; 6] = [0x02, 0xca, 0x11, 0x50, 0x00, 0x01];

/// Everything that the configuration names, opened.
pub(crate) struct Parts {
    pub(crate) event_loop: EventLoop,
    /// Absent when no application may attach.
    pub(crate) attach_server: Option<AttachServer>,
    pub(crate) asks: Asks,
    pub(crate) port_reopener: PortReopener,
}

/// Opens everything that the configuration names.
pub(crate) fn open(
    config: &Config,
    guardian: Option<(&Guardian, &Lock)>,
) -> Result<Parts, Failure> {
    let listeners = config.listen.iter().map(|text| text.parse());
    let listeners: Vec<Listener> = listeners.collect::<Result<_, _>>()?;
    check_job(config.job(), &listeners)?;
    let pins = pins::of(config).map_err(Failure::Said)?;
    let frames = PoolConfig {
        frames: config.frames.count.max(FRAMES_PER_QUEUE.saturating_mul(queues(config)?)),
        chunk_bytes: config.frames.bytes,
        numa_node: numa_node(config),
    };
    let mut pool = FramePool::new(frames)?;
    let mut opener = Opener::new(&pool);
    let (mut ports, mut specs) = (Vec::new(), Vec::new());
    for (text, id) in config.ports.iter().zip(0..) {
        let spec: PortSpec = text.parse()?;
        let port = opener.open(&spec, PortId(id), &mut pool)?;
        specs.push((text.clone(), spec));
        let mut dispatcher_port = DispatcherPort::new(port, MAC);
        if config.trust_link {
            dispatcher_port.trust_link();
        }
        ports.push(dispatcher_port);
    }
    let (port_reopener, returned_ports) = {
        let stations = ports.iter().map(|port| Arc::clone(port.stations()));
        PortReopener::new(&specs, stations, &opener)?
    };
    for interface in opener.interfaces() {
        for listener in &listeners {
            interface.ours().add(destination(listener))?;
        }
    }
    let seed = config.steer.seed.unwrap_or_else(random_seed);
    let dispatcher_config = DispatcherConfig {
        steering: steering(config),
        ring: config.frames.count.min(RING_MESSAGES_MAX).next_power_of_two() as usize,
        hash_key: Toeplitz::key_from_seed(seed),
    };
    let policy_config = |groups| SteerConfig { groups, seed };
    let control_config = control_config(config);
    // Said before the ports are given away, so that a wrong name leaves nothing half made.
    steer::by_name(&config.steer.policy, policy_config(0))?;
    let dispatcher = datapath::Dispatcher::new(
        &dispatcher_config,
        ports,
        pool,
        listened(config, &listeners),
        |groups| {
            let steer = steer::by_name(&config.steer.policy, policy_config(groups));
            Control::new(control_config, steer.expect("the name was looked up above"), groups)
        },
    )?;
    let sockets = match config.job() {
        Job::Sockets => Some(Post::new()?),
        _ => None,
    };
    let alarm = Alarm::new(EventFd::new()?);
    let (asks, asked) = channel();
    let cores = Cores::new(config)?;
    let call = cores.as_ref().map(Cores::call);
    let own_call = call.clone().filter(|_| keeps_own(config));
    let hash_key = dispatcher_config.hash_key;
    let engines = Engines::new(
        config,
        &listeners,
        hash_key,
        dispatcher.ports(),
        sockets.as_ref().map(|post| post.command_queue.clone()),
    )?;
    let worker_pool = worker_pool(config, alarm.clone(), own_call, engines)?;
    let mut attached_apps = AttachedApps::new()?;
    let mut counters = None;
    let attach_server = match config.apps.max {
        0 => None,
        _ => {
            let interfaces = opener.interfaces().cloned().collect();
            let own = listeners.iter().map(destination).collect();
            let claims = Claims::new(interfaces, own);
            let doorbell = match &sockets {
                Some(post) => Arc::clone(&post.attach_server_wake),
                None => Arc::new(EventFd::new()?),
            };
            let (mut attach_server, notices) =
                attach_server(config, &dispatcher, seed, claims, call, doorbell)?;
            if let Some(post) = sockets {
                let doorbells = worker_pool.doorbells.clone();
                let counters = Arc::clone(&attach_server.counters);
                if let Some((guardian, lock)) = guardian {
                    guardian.begin(&opener, lock, config)?;
                }
                attach_server.serve_sockets(post.socket_table(
                    config,
                    &dispatcher,
                    doorbells,
                    counters,
                    guardian.map(|(guardian, _)| guardian.clone()),
                )?);
            }
            counters = Some(Arc::clone(&attach_server.counters));
            attached_apps.tell(notices);
            Some(attach_server)
        }
    };
    let mut event_loop =
        EventLoop::new(dispatcher, worker_pool, attached_apps, cores, asked, seed, config);
    event_loop.pins.want(pins::steps(&[], &pins));
    event_loop.attach_server_counters = counters;
    event_loop.port_faults.returned = Some(returned_ports);
    let notices = event_loop.attached_apps.notices();
    let asks = Asks::new(asks, alarm, notices);
    Ok(Parts { event_loop, attach_server, asks, port_reopener })
}

/// A connection needs a job that speaks TCP: with another job a SYN would be taken from the
/// kernel and never answered.
pub(crate) fn check_job(job: Job, listeners: &[Listener]) -> Result<(), Failure> {
    let speaks_tcp = match job {
        Job::Sockets | Job::TcpEcho | Job::TcpDiscard | Job::TcpChargen => true,
        Job::Auto | Job::Echo | Job::Sink | Job::Synthetic => false,
    };
    match listeners.iter().find(|listener| listener.protocol == wire::Protocol::Tcp) {
        Some(listener) if !speaks_tcp => Err(Failure::Said(format!(
            "{listener}: the job {:?} speaks no TCP, so that nobody would answer a connection: \
             choose a job that does, such as --job tcp-echo; to serve programs leave --listen out, \
             and start them with `calisto run`",
            job.name()
        ))),
        _ => Ok(()),
    }
}

/// What an operator must know of a configuration that does what nobody may have asked for.
pub(crate) fn warning(config: &Config) -> Option<String> {
    let echoes_unasked = config.workers.job == Job::Auto && config.job() == Job::Echo;
    (echoes_unasked && !config.listen.is_empty()).then(|| {
        format!(
            "no job is named, so that every packet to {} is sent back to its sender, which may be \
             forged: name a job (--job echo says that this is meant)",
            config.listen.join(", ")
        )
    })
}

/// What the dispatcher's own workers serve.
fn listened(config: &Config, listeners: &[Listener]) -> Listeners {
    let mut listened = Listeners::new(listeners.to_vec());
    if config.job() == Job::Sockets {
        listened.serve_rest();
    }
    listened
}

/// Where applications attach, and what they get.
fn attach_server(
    config: &Config,
    dispatcher: &datapath::Dispatcher<port::AnyPort>,
    seed: u64,
    claims: Claims,
    call: Option<Call>,
    doorbell: Arc<EventFd>,
) -> Result<(AttachServer, Notices), Failure> {
    let rules = Rules::parse(&config.apps.allow, sys::users::uid_of)?;
    let dispatcher_ports = dispatcher.ports();
    let macs = dispatcher_ports.iter().map(DispatcherPort::mac).collect();
    let ports = config.ports.iter().zip(dispatcher_ports).map(|(spec, dispatcher_port)| PortInfo {
        port: spec.clone(),
        mac: Some(dispatcher_port.mac()),
        mtu: dispatcher_port.port().capabilities().mtu,
    });
    let addresses = host_addresses(config)?;
    let terms = Terms::new(config, steering(config), seed, macs, addresses, call);
    let path = config.apps_socket();
    folder::make_for(&path).map_err(|error| {
        Failure::Said(format!("cannot make the folder of {}: {error}", path.display()))
    })?;
    let listener = AttachListener::bind(&path, SOCKET_MODE)?;
    let max = usize::from(config.apps.max);
    Ok(AttachServer::new(listener, rules, terms, ports.collect(), claims, max, doorbell))
}

/// The addresses of the ports' interfaces: who listens on all of them may send from these.
fn host_addresses(config: &Config) -> Result<Vec<IpAddr>, Failure> {
    let mut addresses = Vec::new();
    for text in &config.ports {
        let spec: PortSpec = text.parse()?;
        let index = spec.interface().and_then(sys::interface::index_of);
        if let Some(index) = index {
            addresses.extend(sys::interface::addresses(index)?);
        }
    }
    Ok(addresses)
}

pub(crate) fn control_config(config: &Config) -> ControlConfig {
    ControlConfig {
        idle_timeout: Nanos::from_millis(u64::from(config.steer.idle_timeout_ms)),
        ..ControlConfig::default()
    }
}

fn steering(config: &Config) -> SteeringConfig {
    SteeringConfig {
        groups: config.steer.groups,
        overrides: config.steer.overrides,
        workers_max: config.workers.max,
        tick: Nanos::from_micros(u64::from(config.steer.tick_us)),
        load_interval: Nanos::from_micros(u64::from(config.steer.load_interval_us)),
        migrate: MigrateConfig {
            hold_packets: config.handover.hold_packets as usize,
            deadline: Nanos::from_millis(u64::from(config.handover.deadline_ms)),
            ..MigrateConfig::default()
        },
    }
}

fn worker_pool(
    config: &Config,
    alarm: Alarm,
    call: Option<Call>,
    engines: Option<Engines>,
) -> Result<WorkerPool, Failure> {
    let state: SyntheticState = match (config.workers.job, config.workers.state_bytes) {
        (Job::Synthetic, bytes @ 1..) => {
            Some(Arc::new(FlowState::new(config.workers.state_flows, bytes as usize)?))
        }
        _ => None,
    };
    Ok(WorkerPool::new(WorkerPoolConfig::new(config, state, engines), alarm, call))
}

pub(crate) fn destination(listener: &Listener) -> Destination {
    let address = listener.address.ip();
    Destination {
        protocol: match listener.protocol {
            wire::Protocol::Tcp => Protocol::Tcp,
            wire::Protocol::Udp => Protocol::Udp,
        },
        address: (!address.is_unspecified()).then_some(address),
        port: (listener.address.port() != 0).then_some(listener.address.port()),
    }
}

/// Queues of all ports together. An interface that is not there is for its port to refuse.
fn queues(config: &Config) -> Result<u32, Failure> {
    let mut queues = 0u32;
    for text in &config.ports {
        let of_it = match text.parse()? {
            PortSpec::Xdp { interface, queue: None, .. } => {
                sys::ethtool::channels(&interface).map_or(1, |channels| channels.rx)
            }
            _ => 1,
        };
        queues = queues.saturating_add(of_it);
    }
    Ok(queues)
}

/// The node of the first port's device: frames are best kept there.
fn numa_node(config: &Config) -> Option<u16> {
    let spec: PortSpec = config.ports.first()?.parse().ok()?;
    sys::numa::of_interface(spec.interface()?)
}

/// A seed that nobody outside can guess: flows that collide cannot be chosen on purpose.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(sys::clock::tsc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tcp_listener_without_a_job_that_speaks_tcp_is_refused() {
        let listen = |text: &str| [text.parse::<Listener>().expect("it is a listener")];
        let tcp = listen("tcp:10.0.0.2:80");
        for job in [Job::Echo, Job::Sink, Job::Synthetic] {
            let failure = check_job(job, &tcp).expect_err("nobody would answer").to_string();
            assert!(
                failure.contains(job.name()) && failure.contains("--job tcp-echo"),
                "{failure}"
            );
            assert!(check_job(job, &listen("udp:10.0.0.2:80")).is_ok());
        }
        for job in [Job::TcpEcho, Job::TcpDiscard, Job::TcpChargen] {
            assert!(check_job(job, &tcp).is_ok());
        }
    }

    #[test]
    fn an_echo_that_nobody_asked_for_is_warned_of() {
        let config = |job| {
            let text = format!("ports = ['xdp:eth1']\nlisten = ['udp:10.0.0.2:7']\n{job}");
            Config::parse(&text).expect("all of it is allowed")
        };
        let text = warning(&config("")).expect("nobody asked for it");
        assert!(text.contains("udp:10.0.0.2:7") && text.contains("--job echo"), "{text}");
        assert_eq!(warning(&config("[workers]\njob = 'echo'")), None);
        assert_eq!(warning(&config("[workers]\njob = 'sink'")), None);
        let none = Config::parse("ports = ['xdp:eth1']").expect("programs are served");
        assert_eq!(warning(&none), None);
    }
}
