//! From looks to views: differences of counters become rates, names become fit to be shown.

use admin::{AppStatus, CoreApp, Counter};
use base::{Nanos, printable};

use super::look::Look;
use super::rate::{History, per_second};
use super::view::{App, AppCores, Core, Cores, Loss, SCHEMA_VERSION, Thread, View};

/// Letters of a name that is shown, at most.
const NAME_CHARS_MAX: usize = 64;

/// A loop that polls turns more often than this a second, one that sleeps between its packets less
/// often: a turn without work takes well under 10 us, a sleep and its wake-up more than 20.
const POLLING_TURNS_PER_S: f64 = 40_000.0;

/// Counters of losses start with one of these.
const LOSSES: [&str; 5] = ["drop_", "malformed_", "refused_", "not_ours_", "punt_"];

/// Counters of a port that are losses.
const PORT_LOSSES: [&str; 9] = [
    "rx_ring_full",
    "rx_fill_empty",
    "rx_kernel_dropped",
    "rx_oversize",
    "rx_invalid",
    "tx_oversize",
    "tx_refused",
    "tx_errors",
    "tx_invalid",
];

/// Counters of cores on demand that say that something went wrong.
const CORE_LOSSES: [&str; 3] = ["nudges", "ran_while_parked", "stray_threads"];

/// The daemon with its own workers among applications, as its answer about cores has it.
const OWN_NAME: &str = "calistod";

/// The last look, and what is remembered of those before.
#[derive(Debug, Default)]
pub(super) struct Model {
    last: Option<Look>,
    received: History,
    cores: History,
    restarts: u32,
}

impl Model {
    /// A new look: what there is to show now.
    pub(super) fn take(&mut self, look: Look) -> View {
        let restarted = self.last.as_ref().is_some_and(|last| is_another(last, &look));
        self.restarts += u32::from(restarted);
        let last = self.last.take().filter(|_| !restarted);
        let since = Since { last: last.as_ref(), now: &look };
        let received_per_s = since.total(|look| dispatched(look, "rx_packets"));
        let cores = since.cores();
        if let Some(rate) = received_per_s {
            self.received.push(rate);
        }
        if let Some(cores) = &cores {
            self.cores.push(cores.used as f64);
        }
        let status = &look.status;
        let view = View {
            schema_version: SCHEMA_VERSION,
            seconds: since.span().as_secs_f64(),
            restarts: self.restarts,
            version: name(&status.version),
            pid: status.pid,
            uptime_s: status.uptime_s,
            arrangement: name(&status.arrangement),
            job: name(&status.job),
            policy: name(&status.policy),
            frames: status.frames,
            frames_free: status.frames_free,
            received_per_s,
            sent_per_s: since.total(|look| dispatched(look, "tx_packets")),
            cores,
            apps: since.apps(),
            threads: since.threads(),
            losses: since.losses(),
            received_history: self.received.clone(),
            cores_history: self.cores.clone(),
        };
        self.last = Some(look);
        view
    }
}

/// Whether another daemon answers than before.
fn is_another(last: &Look, now: &Look) -> bool {
    last.status.pid != now.status.pid || last.status.uptime_s > now.status.uptime_s
}

/// Two looks at the same daemon, or the first one.
struct Since<'a> {
    last: Option<&'a Look>,
    now: &'a Look,
}

impl Since<'_> {
    fn span(&self) -> Nanos {
        self.last.map_or(Nanos::ZERO, |last| self.now.at.since(last.at))
    }

    /// The rate of a counter whose value before is this; who has none has begun since the last
    /// look, and all counters begin at zero.
    fn rate(&self, before: Option<u64>, after: u64) -> Option<f64> {
        self.last?;
        per_second(before.unwrap_or(0), after, self.span())
    }

    /// The rate of what `value` finds in both looks.
    fn total(&self, value: impl Fn(&Look) -> u64) -> Option<f64> {
        self.rate(self.last.map(&value), value(self.now))
    }

    fn cores(&self) -> Option<Cores> {
        let status = &self.now.cores;
        status.enabled.then_some(())?;
        let called = |number: u32| {
            let known = status.apps.iter().find(|app| app.app == number);
            known.map_or_else(|| number.to_string(), |app| name(&app.name))
        };
        let rows = status.cores.iter().map(|row| Core {
            core: row.core,
            state: name(&row.state),
            app: row.app,
            app_name: row.app_name.as_deref().map(name).or_else(|| row.app.map(called)),
            worker: row.worker,
            next: row.next_app.map(called),
        });
        Some(Cores {
            policy: name(&status.policy),
            interval_ns: status.interval_ns,
            tick_cost_ns: status.tick_cost_ns,
            used: status.cores.iter().filter(|core| core.state != "idle").count(),
            rows: rows.collect(),
            grants_per_s: self.total(|look| look.cores.grants),
            parks_per_s: self.total(|look| look.cores.parks),
            revokes_per_s: self.total(|look| look.cores.revokes),
            takes_per_s: self.total(|look| look.cores.takes),
        })
    }

    fn apps(&self) -> Vec<App> {
        let own = &self.now.status;
        let cores = self.app_cores(0);
        let mut apps = vec![App {
            number: 0,
            name: OWN_NAME.to_owned(),
            state: state("attached", false, cores.as_ref()),
            sockets: None,
            packets_per_s: self.total(|look| sum(look.status.workers.iter().map(|w| w.packets))),
            queued: sum(own.workers.iter().map(|worker| worker.queued.into())),
            workers: own.workers.len(),
            asleep: 0,
            cores: cores.map(|(cores, _)| cores),
        }];
        let mut attached_apps: Vec<&AppStatus> =
            self.now.apps.iter().filter(|app| app.state != "gone").collect();
        attached_apps.sort_by_key(|app| app.id);
        apps.extend(attached_apps.into_iter().map(|app| self.app(app)));
        apps
    }

    fn app(&self, app: &AppStatus) -> App {
        let packets = |app: &AppStatus| sum(app.workers.iter().map(|worker| worker.packets));
        // Programs and applications in packet mode have numbers of their own.
        let is_same =
            |old: &&AppStatus| old.id == app.id && old.served.is_some() == app.served.is_some();
        let before = self.last.and_then(|last| last.apps.iter().find(is_same));
        let sockets = app.served.as_ref().map(|served| served.sockets);
        let asleep = app.workers.iter().filter(|worker| worker.asleep).count();
        let all_asleep = asleep > 0 && asleep == app.workers.len();
        let cores = if sockets.is_some() { None } else { self.app_cores(app.id) };
        let packets_per_s = self.rate(before.map(packets), packets(app));
        App {
            number: app.id,
            name: name(&app.name),
            state: state(&app.state, all_asleep, cores.as_ref()),
            sockets,
            // The daemon's workers count packets of all programs together.
            packets_per_s: packets_per_s.filter(|_| sockets.is_none()),
            queued: sum(app.workers.iter().map(|worker| worker.queued.into())),
            workers: app.workers.len(),
            asleep,
            cores: cores.map(|(cores, _)| cores),
        }
    }

    /// What an application has of the cores, and whether it has asked for one more.
    fn app_cores(&self, number: u32) -> Option<(AppCores, bool)> {
        self.now.cores.enabled.then_some(())?;
        let find = |look: &Look| look.cores.apps.iter().find(|app| app.app == number).cloned();
        let (app, before) = (find(self.now)?, self.last.and_then(find));
        let rate = |count: fn(&CoreApp) -> u64| self.rate(before.as_ref().map(count), count(&app));
        let asks = rate(|app| app.asked).is_some_and(|rate| rate > 0.0);
        let cores = AppCores {
            class: name(&app.class),
            held: app.held,
            guaranteed: app.guaranteed,
            burst: app.burst,
            parked: app.parked,
            oldest_us: app.oldest_us,
            grants_per_s: rate(|app| app.grants),
            parks_per_s: rate(|app| app.parks),
            revokes_per_s: rate(|app| app.revokes),
            takes_per_s: rate(|app| app.takes),
        };
        Some((cores, asks))
    }

    /// The daemon's loops: those that count their turns.
    fn threads(&self) -> Vec<Thread> {
        let threads = self.now.threads.iter().filter_map(|thread| {
            let steps = value(&thread.counters, "steps")?;
            let idle = value(&thread.counters, "idle_steps")?;
            let turns_per_s = self.rate(self.before(&thread.thread, "steps"), steps);
            let idle_per_s = self.rate(self.before(&thread.thread, "idle_steps"), idle);
            let spin_share = spin_share(turns_per_s, idle_per_s);
            Some(Thread {
                name: name(&thread.thread),
                turns_per_s,
                spin_share,
                waiting: turns_per_s.map(|turns| waiting(turns, spin_share)),
            })
        });
        threads.collect()
    }

    /// The value of a thread's counter at the last look.
    fn before(&self, thread: &str, counter: &str) -> Option<u64> {
        let threads = &self.last?.threads;
        let thread = threads.iter().find(|old| old.thread == thread)?;
        value(&thread.counters, counter)
    }

    fn losses(&self) -> Vec<Loss> {
        let mut losses = Vec::new();
        let mut add = |place: &str, counter: &Counter, before: Option<u64>| {
            let per_s = self.rate(before, counter.value).filter(|rate| *rate > 0.0);
            losses.extend(per_s.map(|per_s| Loss {
                place: name(place),
                name: name(&counter.name),
                per_s,
                total: counter.value,
            }));
        };
        for thread in &self.now.threads {
            let is_loss =
                |counter: &&Counter| LOSSES.iter().any(|start| counter.name.starts_with(start));
            for counter in thread.counters.iter().filter(is_loss) {
                add(&thread.thread, counter, self.before(&thread.thread, &counter.name));
            }
        }
        for port in &self.now.status.ports {
            let mut old = self.last.iter().flat_map(|last| &last.status.ports);
            let old = old.find(|old| old.port == port.port);
            let is_loss = |counter: &&Counter| PORT_LOSSES.contains(&counter.name.as_str());
            for counter in port.counters.iter().filter(is_loss) {
                add(&port.port, counter, old.and_then(|old| value(&old.counters, &counter.name)));
            }
        }
        let is_loss = |counter: &&Counter| CORE_LOSSES.contains(&counter.name.as_str());
        for counter in self.now.cores.counters.iter().filter(is_loss) {
            let before = self.last.and_then(|last| value(&last.cores.counters, &counter.name));
            add("cores", counter, before);
        }
        // Equal ones stay in the daemon's order.
        losses.sort_by(|one, other| other.per_s.total_cmp(&one.per_s));
        losses
    }
}

/// What an application does, in a word or two.
fn state(state: &str, asleep: bool, cores: Option<&(AppCores, bool)>) -> String {
    let state = match (state, cores) {
        ("attached", Some((_, true))) => "wants more",
        ("attached", Some((cores, false))) if cores.held == 0 => "parked",
        ("attached", _) if asleep => "asleep",
        ("attached", _) => "runs",
        (other, _) => other,
    };
    name(state)
}

fn spin_share(turns: Option<f64>, idle: Option<f64>) -> Option<f64> {
    let turns = turns.filter(|turns| *turns > 0.0)?;
    // The two are read one after the other, and the loop turns meanwhile.
    Some((idle? / turns).min(1.0))
}

/// How a loop with that many turns a second waits for work.
fn waiting(turns_per_s: f64, spin_share: Option<f64>) -> &'static str {
    match spin_share {
        Some(share) if share < 0.5 => "busy",
        _ if turns_per_s > POLLING_TURNS_PER_S => "polls",
        _ => "sleeps",
    }
}

fn dispatched(look: &Look, counter: &str) -> u64 {
    let dispatcher = look.threads.iter().find(|thread| thread.thread == "dispatcher");
    dispatcher.and_then(|thread| value(&thread.counters, counter)).unwrap_or(0)
}

fn value(counters: &[Counter], name: &str) -> Option<u64> {
    counters.iter().find(|counter| counter.name == name).map(|counter| counter.value)
}

/// A sum of figures that a stranger at the socket may have made up.
fn sum(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(0, u64::saturating_add)
}

/// A name fit for a terminal.
fn name(text: &str) -> String {
    printable(text, NAME_CHARS_MAX)
}

#[cfg(test)]
mod tests;
