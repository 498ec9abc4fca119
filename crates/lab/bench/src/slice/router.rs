//! What a router's tables cost over the routes of the Internet: to make, to keep, to ask, to
//! change.

use base::Nanos;
use sys::clock::now;

use super::change::{self, Change};
use super::table::{self, Route};
use super::tables::{Batched, IptrieTables, Ours, PoptrieTables, PrefixTrieTables, Tables};
use crate::cases::{Plan, in_turns, turns_of};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target, median, quantile};
use crate::place::on_cpu;
use crate::report::Report;
use crate::steer::resident_bytes;

/// Addresses of one pass.
const ADDRESSES: usize = 1 << 20;

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let cpus = plan.cpus;
    let routes = table::routes(plan.table.as_deref(), plan.pick(usize::MAX, 20_000))?;
    let four = routes.iter().filter(|(prefix, _)| prefix.address().is_ipv4()).count();
    report.begin(
        "router",
        &format!(
            "{four} IPv4 and {} IPv6 routes on CPU {}. Load: from routes in memory to tables of a \
             data thread; memory: what both have added to this process. Lookups: {ADDRESSES} \
             addresses a pass, ours 64 at once as the router does, the other crates one by one, \
             which is all they offer; random: any address, skewed: 100000 hosts in the table's \
             prefixes, the n-th 1/n as often as the first. Change: a route is set on CPU {} while \
             full batches for it are routed on CPU {}, from the call to the first packet that \
             leaves by the new next hop",
            routes.len() - four,
            cpus.server,
            cpus.client,
            cpus.server
        ),
    )?;
    let ours = loading(plan, report, &routes)?;
    lookups(plan, report, &routes, &ours)?;
    drop(ours);
    changes(plan, report, &routes)
}

/// Loads the table again and again; the last one.
fn loading(plan: &Plan, report: &mut Report<'_>, routes: &[Route]) -> Result<Ours, Error> {
    let (mut seconds, mut mebibytes, mut last) = (Vec::new(), Vec::new(), None);
    let [_] = turns_of(plan, report, "load", |_, _| {
        drop(last.take());
        let (length, added, ours) = on_cpu(plan.cpus.server, || {
            let before = resident_bytes()?;
            let began = now();
            let ours = Ours::load(routes)?;
            Ok((now().since(began), resident_bytes()?.saturating_sub(before), ours))
        })?;
        seconds.push(length.as_secs_f64());
        mebibytes.push(added as f64 / f64::from(1 << 20));
        last = Some(ours);
        Ok(())
    })?;
    report.figure(Figure::new("load", "s", &seconds).target(Target::AtMost(2.0)))?;
    // Only the first one finds nothing to use again that an earlier one has left.
    let first = &mebibytes[..1];
    report.figure(Figure::new("memory", "MiB", first).target(Target::AtMost(200.0)))?;
    last.ok_or("there is no round").or_needs("table")
}

/// Looks all addresses of a trace up.
type Pass<'a> = Box<dyn Fn(&dyn Tables) -> u64 + Sync + 'a>;

fn lookups(
    plan: &Plan,
    report: &mut Report<'_>,
    routes: &[Route],
    ours: &Ours,
) -> Result<(), Error> {
    report.progress("the tables of other crates");
    let (batched, poptrie) = (Batched::new(ours), PoptrieTables::load(routes));
    let (prefix_trie, iptrie) = (PrefixTrieTables::load(routes), IptrieTables::load(routes)?);
    let tables: [&dyn Tables; 4] = [&batched, &poptrie, &prefix_trie, &iptrie];
    let (random4, skewed4) = (table::random4(ADDRESSES), table::skewed4(routes, ADDRESSES));
    let skewed6 = table::skewed6(routes, ADDRESSES);
    let target = Some(Target::RatioAtLeast(1.5));
    let traces: [(&str, Option<Target>, Pass<'_>); 3] = [
        ("IPv4 random", target, Box::new(|tables| tables.sum4(&random4))),
        ("IPv4 skewed", target, Box::new(|tables| tables.sum4(&skewed4))),
        ("IPv6 skewed", None, Box::new(|tables| tables.sum6(&skewed6))),
    ];
    for (trace, target, pass) in traces {
        let expected = pass(tables[0]);
        let samples = in_turns(plan, report, trace, tables.len(), |which| {
            let (sum, seconds) = on_cpu(plan.cpus.server, || {
                let began = now();
                let sum = pass(tables[which]);
                Ok((sum, now().since(began).as_secs_f64()))
            })?;
            if sum != expected {
                let why = format!("{} gives others for {trace}", tables[which].name());
                return Err(why).or_needs("same next hops by all");
            }
            Ok(ADDRESSES as f64 / seconds / 1e6)
        })?;
        let of = |samples: &[f64]| median(samples).unwrap_or(0.0);
        let fastest =
            (1..tables.len()).max_by(|&a, &b| of(&samples[a]).total_cmp(&of(&samples[b])));
        let fastest = fastest.expect("there are others");
        let own = &samples[0];
        let figure = Figure::new(format!("{trace}: {}", tables[0].name()), "M lookups/s", own)
            .against(tables[fastest].name(), own, &samples[fastest]);
        report.figure(figure.target(target))?;
        for (table, samples) in tables.iter().zip(&samples).skip(1) {
            let metric = format!("{trace}: {}", table.name());
            report.figure(Figure::new(metric, "M lookups/s", samples))?;
        }
    }
    Ok(())
}

/// The time until a change is seen, of the shortest and of a long prefix.
fn changes(plan: &Plan, report: &mut Report<'_>, routes: &[Route]) -> Result<(), Error> {
    let count = plan.pick(100, 20);
    let mut router = Some(change::router(routes)?);
    for (name, watched) in [("/8", change::SHORT), ("/24", change::LONG)] {
        let (mut made, mut middle, mut longest) = (Vec::new(), Vec::new(), Vec::new());
        let [_] = turns_of(plan, report, format_args!("change of a {name}"), |_, _| {
            let routed = router.take().ok_or("it is lost").or_needs("router")?;
            let (changes, routed) = change::times(plan.cpus, routed, watched, count)?;
            router = Some(routed);
            let micros = |of: fn(&Change) -> Nanos, share| {
                let mut micros: Vec<f64> =
                    changes.iter().map(|change| of(change).as_micros_f64()).collect();
                micros.sort_by(f64::total_cmp);
                quantile(&micros, share)
            };
            made.push(micros(|change| change.made, 0.5));
            middle.push(micros(|change| change.seen, 0.5));
            longest.push(micros(|change| change.seen, 0.99));
            Ok(())
        })?;
        let metric = |which: &str| format!("change of a {name} under traffic, {which}");
        report.figure(Figure::new(metric("its steps made, p50"), "us", &made))?;
        report.figure(Figure::new(metric("seen, p50"), "us", &middle))?;
        let figure = Figure::new(metric("seen, p99"), "us", &longest);
        report.figure(figure.target(Target::AtMost(1000.0)))?;
    }
    Ok(())
}
