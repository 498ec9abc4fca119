//! Metrics of what the daemon has answered.
//!
//! Cardinality is bounded: 64 ports, 1024 workers, a fixed set of reasons and states, and
//! [`crate::APPS_MAX`] names of applications.

use std::collections::BTreeMap;

use admin::{Counter, PortStatus, Status, ThreadCounters, WorkerStatus};

use crate::apps::{ByApp, app_of, label};
use crate::family::{Family, Kind, Sample, Value};
use crate::scrape::{AppSockets, Scrape};

/// Among the counters of workers: what goes up and down.
const GAUGES: [&str; 2] = ["tcp_flows", "tcp_ring_bytes"];

/// What is told of a daemon that does not answer.
pub fn down() -> Vec<Family> {
    vec![up(0)]
}

/// Every metric of a daemon that answers.
pub fn families(scrape: &Scrape) -> Vec<Family> {
    let mut families = vec![up(1)];
    families.extend(daemon(&scrape.status));
    families.extend(ports(&scrape.status.ports));
    families.extend(workers(&scrape.status.workers));
    families.extend(threads(&scrape.threads));
    families.extend(cores(scrape));
    families.extend(sockets(&scrape.sockets));
    families.push(fallbacks(scrape));
    let help = "How long the daemon took to answer, in seconds.";
    families.push(Family::gauge("scrape_duration_seconds", help, Value::Real(scrape.took_s)));
    families
}

fn up(up: u64) -> Family {
    Family::gauge("up", "Whether the daemon answers: 1, or 0.", Value::Count(up))
}

fn daemon(status: &Status) -> Vec<Family> {
    let count = |name: &str, help: &str, value: u64| Family::gauge(name, help, Value::Count(value));
    let labels = vec![
        ("version", status.version.clone()),
        ("arrangement", status.arrangement.clone()),
        ("job", status.job.clone()),
        ("policy", status.policy.clone()),
        ("confinement", status.confinement.clone()),
    ];
    let info = vec![Sample { labels, value: Value::Count(1) }];
    let help = "What runs, as labels; the value is always 1.";
    vec![
        Family::with("daemon_info", help, Kind::Gauge, info),
        Family::gauge(
            "uptime_seconds",
            "Seconds since the daemon started.",
            Value::Real(status.uptime_s),
        ),
        count("frames", "Buffers of packets.", u64::from(status.frames)),
        count(
            "frames_free",
            "Buffers of packets that nobody holds.",
            u64::from(status.frames_free),
        ),
        count("flow_groups", "Groups that flows are divided into.", u64::from(status.groups)),
        count("apps", "Applications in packet mode that are attached.", u64::from(status.apps)),
        count(
            "draining",
            "Whether the daemon is ending and lets sockets close: 1, or 0.",
            u64::from(status.draining_ms.is_some()),
        ),
    ]
}

fn ports(ports: &[PortStatus]) -> Vec<Family> {
    let labels =
        |at: usize, port: &PortStatus| vec![("index", at.to_string()), ("port", port.port.clone())];
    let each = |name: &str, help: &str, value: &dyn Fn(&PortStatus) -> u64| {
        let sample = |(at, port): (usize, &PortStatus)| Sample {
            labels: labels(at, port),
            value: Value::Count(value(port)),
        };
        let samples = ports.iter().enumerate().map(sample).collect();
        Family::with(name, help, Kind::Gauge, samples)
    };
    let mut counters = Counters::default();
    for (at, port) in ports.iter().enumerate() {
        counters.add("port", &port.counters, &labels(at, port));
    }
    let mut families = vec![
        each("port_fault", "Whether the port moves nothing: 1, or 0.", &|port| {
            u64::from(port.fault.is_some())
        }),
        each("port_mtu_bytes", "Bytes of the largest IP packet.", &|port| u64::from(port.mtu)),
    ];
    families.extend(counters.families());
    families
}

fn workers(workers: &[WorkerStatus]) -> Vec<Family> {
    let each = |name: &str, help: &str, value: &dyn Fn(&WorkerStatus) -> u64| {
        let sample = |worker: &WorkerStatus| Sample {
            labels: vec![("worker", worker.id.to_string())],
            value: Value::Count(value(worker)),
        };
        Family::with(name, help, Kind::Gauge, workers.iter().map(sample).collect())
    };
    vec![
        each("worker_active", "Whether the worker takes part: 1, or 0.", &|worker| {
            u64::from(worker.state == "active")
        }),
        each("worker_queued_packets", "Packets in the worker's ring.", &|worker| {
            u64::from(worker.queued)
        }),
        each("worker_groups", "Flow groups that the worker owns.", &|worker| {
            u64::from(worker.groups)
        }),
    ]
}

/// What the dispatcher, the workers, the attach server and the dispatcher for each application have
/// counted.
fn threads(threads: &[ThreadCounters]) -> Vec<Family> {
    let mut counters = Counters::default();
    let mut apps: BTreeMap<&str, (&str, ByApp<'_>)> = BTreeMap::new();
    for ThreadCounters { thread, counters: counted } in threads {
        if let Some(worker) = thread.strip_prefix("worker ") {
            counters.add("worker", counted, &[("worker", worker.to_owned())]);
        } else if let Some(app) = app_of(thread) {
            for counter in counted {
                let sums = apps.entry(&counter.name).or_default();
                sums.0 = &counter.help;
                sums.1.add(app, counter.value);
            }
        } else {
            counters.add(thread, counted, &[]);
        }
    }
    let of_apps = apps.into_iter().map(|(name, (help, sums))| {
        // Some have the word in their name already.
        let name = name.strip_prefix("app_").unwrap_or(name);
        Family::with(&format!("app_{name}"), help, Kind::Counter, sums.samples())
    });
    counters.families().chain(of_apps).collect()
}

fn cores(scrape: &Scrape) -> Vec<Family> {
    let cores = &scrape.cores;
    if !cores.enabled {
        return Vec::new();
    }
    let mut states = BTreeMap::new();
    for core in &cores.cores {
        *states.entry(core.state.as_str()).or_insert(0) += 1;
    }
    let state = |(state, count): (&str, u64)| Sample {
        labels: vec![("state", state.to_owned())],
        value: Value::Count(count),
    };
    let mut held = ByApp::default();
    for app in &cores.apps {
        held.add(&app.name, u64::from(app.held));
    }
    let counter = |name: &str, help: &str, count| {
        let sample = Sample { labels: Vec::new(), value: Value::Count(count) };
        Family::with(name, help, Kind::Counter, vec![sample])
    };
    let states = states.into_iter().map(state).collect();
    vec![
        Family::with("cores", "Cores that are given out, by state.", Kind::Gauge, states),
        Family::with(
            "app_cores_held",
            "Cores that the application has; calisto is the daemon's own workers.",
            Kind::Gauge,
            held.samples(),
        ),
        counter("cores_grants", "Cores given.", cores.grants),
        counter("cores_parks", "Cores given back because there was nothing to do.", cores.parks),
        counter("cores_revokes", "Cores asked back.", cores.revokes),
        counter("cores_takes", "Cores taken from who did not give them back.", cores.takes),
    ]
}

fn sockets(sockets: &AppSockets) -> Vec<Family> {
    let mut seen = Vec::new();
    let mut sums: BTreeMap<[&str; 3], u64> = BTreeMap::new();
    for ((app, protocol, state), count) in &sockets.counts {
        *sums.entry([label(app, &mut seen), protocol, state]).or_default() += count;
    }
    let sample = |([app, protocol, state], count): ([&str; 3], u64)| Sample {
        labels: vec![
            ("app", app.to_owned()),
            ("protocol", protocol.to_owned()),
            ("state", state.to_owned()),
        ],
        value: Value::Count(count),
    };
    vec![
        Family::with(
            "app_sockets",
            "Accelerated sockets of programs.",
            Kind::Gauge,
            sums.into_iter().map(sample).collect(),
        ),
        Family::gauge(
            "app_sockets_cut_off",
            "Whether there are more sockets than were counted: 1, or 0.",
            Value::Count(u64::from(sockets.is_cut_off)),
        ),
    ]
}

fn fallbacks(scrape: &Scrape) -> Family {
    let sample = |total: &admin::FallbackTotal| Sample {
        labels: vec![("reason", total.reason.clone())],
        value: Value::Count(total.count),
    };
    let samples = scrape.fallbacks.iter().map(sample).collect();
    Family::with("fallbacks", "Sockets that the kernel has kept.", Kind::Counter, samples)
}

/// Families in which several threads or ports have a sample each.
#[derive(Default)]
struct Counters {
    families: BTreeMap<String, Family>,
}

impl Counters {
    fn add(&mut self, whose: &str, counters: &[Counter], labels: &[(&'static str, String)]) {
        for Counter { name, help, value } in counters {
            let kind = match GAUGES.contains(&name.as_str()) {
                true => Kind::Gauge,
                false => Kind::Counter,
            };
            let name = format!("{whose}_{name}");
            let family = self
                .families
                .entry(name)
                .or_insert_with_key(|name| Family::with(name, help, kind, Vec::new()));
            family.samples.push(Sample { labels: labels.to_vec(), value: Value::Count(*value) });
        }
    }

    fn families(self) -> impl Iterator<Item = Family> {
        self.families.into_values()
    }
}
