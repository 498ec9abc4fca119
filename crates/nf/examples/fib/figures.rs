//! Loading, memory, lookups and the time that a change takes, over one table of routes.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use base::PortId;
use nf::{NextHop, Prefix, PrefixError};

use crate::peers::{Batched, IptrieTables, Ours, PoptrieTables, PrefixTrieTables, Route, Tables};

/// Addresses of one pass.
const ADDRESSES: usize = 1 << 20;
/// Numbers of next hops are below this.
const NEXT_HOPS: u32 = 256;

/// By crate: million lookups a second, one for each round.
type Rates = Vec<(&'static str, Vec<f64>)>;
/// Looks all addresses of a trace up.
type Pass<'a> = &'a dyn Fn(&dyn Tables) -> u64;

/// What was measured.
pub(crate) struct Figures {
    /// Routes of IPv4 and IPv6.
    pub(crate) routes: (usize, usize),
    /// Time from routes in memory to tables that can be used.
    pub(crate) load: Duration,
    /// Memory that routes and one thread's tables take, in bytes.
    pub(crate) memory_bytes: u64,
    /// By trace: how fast each crate was.
    pub(crate) lookups: Vec<(&'static str, Rates)>,
    /// Times that a change of one route took, its steps made and applied, shortest first.
    pub(crate) changes: Vec<Duration>,
}

/// Measures over the routes of a file, in turns.
///
/// # Errors
/// The file cannot be read, or is no table; or two crates do not give the same answers.
pub(crate) fn measure(
    table: &Path,
    rounds: usize,
    say: &mut dyn FnMut(&str),
) -> Result<Figures, String> {
    let text = std::fs::read_to_string(table).map_err(|error| error.to_string())?;
    let routes = parse(&text)?;
    drop(text);
    let before = resident_bytes();
    let begun = Instant::now();
    let mut ours = Ours::load(&routes)?;
    let load = begun.elapsed();
    let memory_bytes = resident_bytes().saturating_sub(before);
    say(&format!("loaded in {load:.2?}; now the other crates"));
    let changes = change_times(&mut ours, &routes)?;
    let (poptrie, prefix_trie) = (PoptrieTables::load(&routes), PrefixTrieTables::load(&routes));
    let iptrie = IptrieTables::load(&routes)?;
    let batched = Batched::new(&ours);
    let peers: [&dyn Tables; 4] = [&batched, &poptrie, &prefix_trie, &iptrie];
    let mut random = Random(0x1234_5678_9abc_def1);
    let (random4, skewed4) = (random.addresses4(), random.skewed4(&routes));
    let skewed6 = random.skewed6(&routes);
    let mut lookups = Vec::new();
    let traces: [(&str, Pass<'_>); 3] = [
        ("IPv4 random", &|tables| tables.sum4(&random4)),
        ("IPv4 skewed", &|tables| tables.sum4(&skewed4)),
        ("IPv6 skewed", &|tables| tables.sum6(&skewed6)),
    ];
    for (name, run) in traces {
        say(name);
        let mut rates: Rates = peers.iter().map(|peer| (peer.name(), Vec::new())).collect();
        let expected = run(peers[0]);
        for _ in 0..rounds {
            for (peer, (name, rates)) in peers.iter().zip(&mut rates) {
                let begun = Instant::now();
                let sum = run(*peer);
                rates.push(ADDRESSES as f64 / begun.elapsed().as_secs_f64() / 1e6);
                if sum != expected {
                    return Err(format!("{name} gives other next hops: {sum}, not {expected}"));
                }
            }
        }
        lookups.push((name, rates));
    }
    Ok(Figures { routes: ours.rib.len(), load, memory_bytes, lookups, changes })
}

/// Reads lines of a prefix and a number.
fn parse(text: &str) -> Result<Vec<Route>, String> {
    let mut routes = Vec::new();
    for (line, text) in text.lines().enumerate() {
        let route = text.split_once(' ').and_then(|(prefix, number)| {
            let prefix = match prefix.parse() {
                // Real tables have a few prefixes that are not zero behind their bits.
                Err(PrefixError::HostBits(meant)) => meant,
                prefix => prefix.ok()?,
            };
            let number: u32 = number.trim().parse().ok()?;
            Some((prefix, 1 + (number % (NEXT_HOPS - 1)) as u16))
        });
        routes.push(route.ok_or_else(|| format!("line {}: no prefix and number", line + 1))?);
    }
    Ok(routes)
}

/// Changes every thousandth route, and the two default routes, to another next hop and back.
fn change_times(ours: &mut Ours, routes: &[Route]) -> Result<Vec<Duration>, String> {
    let mut times = Vec::new();
    let mut steps = Vec::new();
    let defaults = [(Prefix::ALL_IPV4, 1), (Prefix::ALL_IPV6, 1)];
    for (prefix, _) in routes.iter().step_by(1000).chain(&defaults) {
        let before = ours.rib.get(*prefix);
        let other = NextHop::OnLink { port: PortId(0) };
        for to in [Some(other), before] {
            let begun = Instant::now();
            match to {
                Some(to) => ours.rib.set(*prefix, to, &mut steps),
                None => ours.rib.remove(*prefix, &mut steps).map(|_| ()),
            }
            .map_err(|error| error.to_string())?;
            for step in steps.drain(..) {
                ours.fib.apply(&step);
            }
            times.push(begun.elapsed());
        }
    }
    times.sort_unstable();
    Ok(times)
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

/// Numbers at random that are the same in every run (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Addresses of all IPv4, each as likely as the others.
    fn addresses4(&mut self) -> Vec<u32> {
        (0..ADDRESSES).map(|_| (self.next() >> 32) as u32).collect()
    }

    /// As traffic has them: of 100,000 hosts in the table's prefixes, the n-th is met 1/n as often as
    /// the first one.
    fn skewed4(&mut self, routes: &[Route]) -> Vec<u32> {
        let prefixes: Vec<(u32, u8)> = routes
            .iter()
            .filter_map(|(prefix, _)| match prefix.address() {
                std::net::IpAddr::V4(four) => Some((four.to_bits(), prefix.bits())),
                std::net::IpAddr::V6(_) => None,
            })
            .collect();
        let hosts: Vec<u32> = (0..100_000)
            .map(|_| {
                let (address, bits) = prefixes[self.next() as usize % prefixes.len()];
                address | ((self.next() >> 32) as u32).checked_shr(bits.into()).unwrap_or(0)
            })
            .collect();
        (0..ADDRESSES).map(|_| hosts[self.rank(hosts.len())]).collect()
    }

    /// The same of IPv6.
    fn skewed6(&mut self, routes: &[Route]) -> Vec<u128> {
        let prefixes: Vec<(u128, u8)> = routes
            .iter()
            .filter_map(|(prefix, _)| match prefix.address() {
                std::net::IpAddr::V4(_) => None,
                std::net::IpAddr::V6(six) => Some((six.to_bits(), prefix.bits())),
            })
            .collect();
        let hosts: Vec<u128> = (0..100_000)
            .map(|_| {
                let (address, bits) = prefixes[self.next() as usize % prefixes.len()];
                let noise = u128::from(self.next()) << 64 | u128::from(self.next());
                address | noise.checked_shr(bits.into()).unwrap_or(0)
            })
            .collect();
        (0..ADDRESSES).map(|_| hosts[self.rank(hosts.len())]).collect()
    }

    /// A rank below `count`, by Zipf's law: its logarithm is even.
    fn rank(&mut self, count: usize) -> usize {
        let even = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        ((count as f64).powf(even) as usize - 1).min(count - 1)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (four, six) = self.routes;
        writeln!(f, "routes: {four} IPv4, {six} IPv6")?;
        writeln!(f, "load: {:.2} s (< 2 s)", self.load.as_secs_f64())?;
        writeln!(f, "memory: {} MiB (< 200 MiB)", self.memory_bytes >> 20)?;
        let at = |share: f64| {
            let index = (self.changes.len() as f64 * share) as usize;
            self.changes.get(index.min(self.changes.len() - 1)).copied().unwrap_or_default()
        };
        let (median, most, longest) = (at(0.5), at(0.99), at(1.0));
        writeln!(
            f,
            "change of a route: median {median:.1?}, p99 {most:.1?}, longest {longest:.1?} (< 1 ms)"
        )?;
        for (trace, rates) in &self.lookups {
            write!(f, "{trace}:")?;
            for (name, rates) in rates {
                let (min, median, max) = spread(rates);
                write!(f, "  {name} {median:.1} ({min:.1}-{max:.1})")?;
            }
            let medians: Vec<f64> = rates.iter().map(|(_, rates)| spread(rates).1).collect();
            let best = medians[1..].iter().copied().fold(0.0, f64::max);
            writeln!(f, "  Mlookups/s; x {:.2} of the fastest other", medians[0] / best)?;
        }
        Ok(())
    }
}

fn spread(rates: &[f64]) -> (f64, f64, f64) {
    let mut rates = rates.to_vec();
    rates.sort_by(f64::total_cmp);
    (rates[0], rates[rates.len() / 2], rates[rates.len() - 1])
}
