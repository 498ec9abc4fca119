//! Settings as a plan of the machine.

use base::Nanos;
use load::{Arrival, Distribution};
use sim::model::{AppPlan, Costs, MachinePlan, PlanError, Popularity, Step, System};
use sim::{Level, Range};

use super::super::form::{Misfit, Task};
use crate::scenario::Over;
use crate::setting::{Settings, Shift};

/// More requests in one run are a slip of the pen: it would take minutes.
const REQUESTS_MAX: f64 = 5e7;
/// Workers of all applications: their numbers have 16 bits.
const WORKERS_MAX: u64 = 60_000;
/// Slices of time of one run.
const SLICES_MAX: f64 = 10_000.0;
/// Stretches of load of one run: the machine counts them in 16 bits.
const STRETCHES_MAX: f64 = 65_534.0;
/// Stretches times applications, as each has a rate of its own in each: 80 MB of them.
const RATES_MAX: f64 = 1e7;

/// The load, stretch by stretch, and which of it is measured together.
pub(super) struct Timetable {
    /// Stretches.
    pub(super) shifts: Vec<Shift>,
    /// How many of the first are not measured.
    pub(super) unseen: usize,
    /// Each measured stretch is a row of its own; else all are one.
    pub(super) apart: bool,
}

impl Timetable {
    /// How many rows come out of it.
    pub(super) fn rows(&self) -> usize {
        if self.apart { self.shifts.len() - self.unseen } else { 1 }
    }
}

/// What a task asks for, as stretches of load.
pub(super) fn timetable(task: &Task<'_>) -> Timetable {
    let settings = task.settings;
    let part = if task.quick { 0.1 } else { 1.0 };
    let shortened = |length: Nanos| Nanos(((length.0 as f64 * part) as u64).max(1000));
    let measured = |rate: f64| shortened(measured(settings, rate));
    let warmup = |rate: f64| Shift { rate, length: shortened(settings.time("warmup")) };
    let rate = rate(settings);
    let shifts = settings.shifts("loadshift");
    match task.over {
        Over::Steps => {
            let shorter = |shift: &Shift| Shift { length: shortened(shift.length), ..*shift };
            let step =
                |rate: &f64| Shift { rate: *rate, length: shortened(settings.time("length")) };
            let before = shifts.iter().map(shorter);
            let all = before.chain(task.values.iter().map(step));
            Timetable { shifts: all.collect(), unseen: shifts.len(), apart: true }
        }
        Over::Time => {
            let slice = settings.time("slice").0.max(1);
            // As long as it is told, in a short run too: it has the points that were promised.
            let whole = [Shift { rate, length: self::measured(settings, rate) }];
            let shifts = if shifts.is_empty() { &whole } else { shifts };
            let sliced = shifts.iter().flat_map(|shift| {
                let full = usize::try_from(shift.length.0 / slice).unwrap_or(0);
                let rest = shift.length.0 % slice;
                let lengths = std::iter::repeat_n(slice, full).chain((rest > 0).then_some(rest));
                lengths.map(|length| Shift { rate: shift.rate, length: Nanos(length) })
            });
            Timetable { shifts: sliced.collect(), unseen: 0, apart: true }
        }
        Over::Points if shifts.is_empty() => Timetable {
            shifts: vec![warmup(rate), Shift { rate, length: measured(rate) }],
            unseen: 1,
            apart: false,
        },
        Over::Points => {
            let (first, others) = shifts.split_at(1);
            let repeat = (settings.number("repeat") * part).ceil() as usize;
            let repeated = std::iter::repeat_n(others, repeat).flatten();
            let all = first.iter().chain(repeated).copied();
            Timetable { shifts: all.collect(), unseen: 1, apart: false }
        }
    }
}

pub(super) fn check(task: &Task<'_>) -> Result<(), Misfit> {
    let settings = task.settings;
    let (cores, guaranteed) = (settings.whole("cores"), settings.whole("guaranteed"));
    let (apps, workers) = (settings.whole("apps"), workers(settings));
    if guaranteed * apps > cores {
        return Err((
            "guaranteed".to_owned(),
            format!(
                "`guaranteed` is {guaranteed} for each of `apps` = {apps}, but there are only `cores` = \
                 {cores}: allowed is at most {}",
                cores / apps
            ),
        ));
    }
    if guaranteed > workers {
        return Err((
            "guaranteed".to_owned(),
            format!(
                "`guaranteed` is {guaranteed}, more than the `workers` that could use a core: allowed is \
                 at most {workers}"
            ),
        ));
    }
    if apps * workers > WORKERS_MAX {
        return Err((
            "workers".to_owned(),
            format!(
                "`apps` times `workers` is {}; allowed is at most {WORKERS_MAX} workers in all",
                apps * workers
            ),
        ));
    }
    if settings.whole("flows") < apps {
        return Err((
            "flows".to_owned(),
            format!("`flows` is less than `apps`: allowed is at least {apps}, a flow for each"),
        ));
    }
    if task.over == Over::Points && settings.shifts("loadshift").len() == 1 {
        let says = "`loadshift` has one load, and the first is not measured: write two or more";
        return Err(("loadshift".to_owned(), says.to_owned()));
    }
    bounded(task)?;
    plan(task, &timetable(task), Level::Median).check().map_err(|error| {
        // A field's path ends with the name that the setting has, too.
        let key = match &error {
            PlanError::Field { field, .. } => field.rsplit('.').next().unwrap_or(field).to_owned(),
            PlanError::Groups(_) => "groups".to_owned(),
            PlanError::Policy(_) => "policy".to_owned(),
            PlanError::Cores(_) => "guaranteed".to_owned(),
        };
        (key, error.to_string())
    })
}

/// Not for ever: what a run asks for is done in minutes at most.
fn bounded(task: &Task<'_>) -> Result<(), Misfit> {
    let settings = task.settings;
    // Counted before any is made: a text can ask for more than there is memory.
    let stretches = stretches(task);
    let (key, most) = match task.over {
        Over::Time => ("slice", SLICES_MAX),
        Over::Points | Over::Steps => ("repeat", STRETCHES_MAX),
    };
    if stretches > most {
        return Err((
            key.to_owned(),
            format!(
                "`{key}` cuts the run into {stretches:.0} stretches of time; allowed are at most {most}"
            ),
        ));
    }
    let apps = settings.number("apps");
    if stretches * apps > RATES_MAX {
        return Err((
            "apps".to_owned(),
            format!(
                "`apps` is {apps} in a run of {stretches:.0} stretches of time; allowed are at most \
                 {:.0} in that many",
                RATES_MAX / stretches
            ),
        ));
    }
    let whole = Task { quick: false, ..task.clone() };
    let requests = |shift: &Shift| shift.rate * shift.length.as_secs_f64();
    let requests: f64 = timetable(&whole).shifts.iter().map(requests).sum();
    if requests > REQUESTS_MAX {
        let given = |key: &str| settings.maybe(key).is_some();
        let key = match settings.shifts("loadshift").is_empty() {
            false => "loadshift",
            true if given("load") => "load",
            true => "rate",
        };
        return Err((
            key.to_owned(),
            format!(
                "`{key}` and the lengths make {requests:.0} requests in one run; allowed are at most \
                 {REQUESTS_MAX}: lower the rate, `packets`, `length` or `warmup`"
            ),
        ));
    }
    Ok(())
}

/// How many stretches a task's timetable has.
fn stretches(task: &Task<'_>) -> f64 {
    let settings = task.settings;
    let shifts = settings.shifts("loadshift");
    match task.over {
        Over::Steps => (shifts.len() + task.values.len()) as f64,
        Over::Points if shifts.is_empty() => 2.0,
        Over::Points => 1.0 + (shifts.len() - 1) as f64 * settings.number("repeat"),
        Over::Time => {
            let slice = settings.time("slice").0.max(1) as f64;
            let slices = |length: Nanos| (length.0 as f64 / slice).ceil();
            if shifts.is_empty() {
                return slices(measured(settings, rate(settings)));
            }
            shifts.iter().map(|shift| slices(shift.length)).sum()
        }
    }
}

/// How long is measured at a rate: so long that enough requests come, but not less than is asked
/// for.
fn measured(settings: &Settings, rate: f64) -> Nanos {
    let packets = settings.number("packets") / rate * 1e9;
    Nanos((packets as u64).max(settings.time("length").0))
}

/// Requests a second; where the load is a share of what the cores can do, that.
pub(in crate::experiment) fn rate(settings: &Settings) -> f64 {
    let Some(load) = settings.maybe("load") else { return settings.number("rate") };
    let each = settings.time("mean") + costs(settings).packet.at(Level::Median);
    load * settings.number("cores") * 1e9 / each.0.max(1) as f64
}

fn workers(settings: &Settings) -> u64 {
    match settings.whole("workers") {
        0 => settings.whole("cores"),
        workers => workers,
    }
}

/// The measured costs, but for those that the scenario sets.
pub(super) fn costs(settings: &Settings) -> Costs {
    let mut costs = Costs::default();
    for cost in costs.named() {
        if let Some(time) = settings.maybe_time(cost.name) {
            costs.set(cost.name, Range::exactly(time));
        } else if let Some(end) = settings.pinned(cost.name) {
            costs.set(cost.name, Range::exactly(cost.range.at(end)));
        }
    }
    costs
}

pub(super) fn plan(task: &Task<'_>, timetable: &Timetable, level: Level) -> MachinePlan {
    let settings = task.settings;
    let apps = settings.whole("apps");
    let exponent = settings.number("apps_zipf");
    let weights: Vec<f64> = (1..=apps).map(|rank| (rank as f64).powf(-exponent)).collect();
    let all: f64 = weights.iter().sum();
    let batch = settings.flag("batch");
    let cores = settings.whole("cores") as u16;
    let app = app(settings, apps);
    let mut plans = vec![app; apps as usize];
    if batch {
        plans.push(AppPlan::batch(cores));
    }
    let steps = timetable.shifts.iter().map(|shift| {
        let rates = weights.iter().map(|weight| shift.rate * weight / all);
        let rates: Vec<f64> = rates.chain(batch.then_some(0.0)).collect();
        Step::new(shift.length, rates)
    });
    MachinePlan {
        cores,
        cores_policy: settings.word("cores_policy").to_owned(),
        interval: settings.time("interval"),
        apps: plans,
        costs: costs(settings),
        level,
        steps: steps.collect(),
    }
}

fn app(settings: &Settings, apps: u64) -> AppPlan {
    let groups = settings.whole("groups") as u32;
    let system = System::by_name(settings.word("policy"), groups);
    let zipf = settings.number("zipf");
    let popularity =
        if zipf == 0.0 { Popularity::Uniform } else { Popularity::Zipf { exponent: zipf } };
    let arrival = Arrival::ALL.into_iter().find(|one| one.name() == settings.word("arrival"));
    let app = AppPlan {
        system: system.expect("its rules let no other word and no other number pass"),
        workers: workers(settings) as u16,
        guaranteed: settings.whole("guaranteed") as u16,
        queue_delay: settings.time("queue_delay"),
        flows: (settings.whole("flows") / apps).max(1) as u32,
        popularity,
        arrival: arrival.unwrap_or(Arrival::Poisson),
        service: distribution(settings),
        service_mean: settings.time("mean"),
        churn: settings.number("churn") / apps as f64,
        ring: settings.whole("ring") as usize,
        steals: settings.flag("steals"),
        quantum: settings.maybe_time("quantum").unwrap_or(Nanos::FAR_FUTURE),
        spin: settings.time("spin"),
        rest_after: settings.time("rest_after"),
        ..AppPlan::default()
    };
    if settings.flag("own_cores") { app.with_cores_of_its_own() } else { app }
}

/// The distribution that a scenario names.
pub(in crate::experiment) fn distribution(settings: &Settings) -> Distribution {
    let word = settings.word("distribution");
    let named = Distribution::ALL.into_iter().find(|one| one.name() == word);
    named.expect("its rule lets no other word pass")
}
