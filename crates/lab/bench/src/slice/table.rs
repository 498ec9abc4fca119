//! A table of the Internet's routes, from a file, and addresses as they come to a router.
//!
//! A line of the file is a prefix and a number. A public one of 1.25 million lines is among the
//! benches of the crate iptrie: where that crate's source lies on this machine, it is found.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use calisto_nf::{Prefix, PrefixError};

use crate::error::{Error, OrNeeds};
use crate::flows::{SEED, SplitMix};

/// A prefix, and the number of its next hop.
pub(super) type Route = (Prefix, u16);

/// Next hops of a table: from 1 to this.
pub(super) const NEXT_HOPS: u16 = 255;

/// Hosts that skewed traffic is for.
const HOSTS: usize = 100_000;

/// Bytes of a table of routes: ten times a full one.
const TABLE_BYTES_MAX: u64 = 1 << 30;

/// Where cargo keeps the sources of crates, below its home, and the file there.
const SOURCES: &str = "registry/src";
const CRATE: &str = "iptrie-";
const FILE: &str = "benches/bgpas.lpm";

/// The routes of the file that was named, or of the one that is found; `most` of them.
pub(super) fn routes(named: Option<&Path>, most: usize) -> Result<Vec<Route>, Error> {
    let found = named.map(Path::to_owned).or_else(find).ok_or_else(|| {
        format!("name a file by --table, or fetch the crate iptrie, which has {FILE}")
    });
    let file = found.or_needs("table of routes")?;
    let text = sys::regular_file::read_text(&file, TABLE_BYTES_MAX)
        .map_err(|error| format!("{}: {error}", file.display()))
        .or_needs("table of routes")?;
    parse(&text, most)
        .map_err(|why| format!("{}: {why}", file.display()))
        .or_needs("table of routes")
}

fn find() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(Path::new(&home).join(".cargo"))
    })?;
    let folders = |path: &Path| {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<PathBuf>>()
    };
    let crates = folders(&home.join(SOURCES)).into_iter().flat_map(|index| folders(&index));
    let ours = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(CRATE))
    };
    crates.filter(ours).map(|path| path.join(FILE)).find(|file| file.is_file())
}

fn parse(text: &str, most: usize) -> Result<Vec<Route>, String> {
    // A part of a table is to have both kinds of addresses: every n-th line, not the first ones.
    let lines = text.lines().count();
    let step = lines.div_ceil(most.max(1)).max(1);
    let mut routes = Vec::with_capacity(lines / step + 1);
    for (line, text) in text.lines().enumerate().step_by(step) {
        let route = text.split_once(' ').and_then(|(prefix, number)| {
            let prefix = match prefix.parse() {
                // Real tables have a few prefixes that are not zero behind their bits.
                Err(PrefixError::HostBits(meant)) => meant,
                prefix => prefix.ok()?,
            };
            let number: u32 = number.trim().parse().ok()?;
            Some((prefix, 1 + (number % u32::from(NEXT_HOPS)) as u16))
        });
        routes.push(route.ok_or_else(|| format!("line {}: no prefix and number", line + 1))?);
    }
    Ok(routes)
}

/// Addresses of all IPv4, each as likely as the others.
pub(super) fn random4(count: usize) -> Vec<u32> {
    let mut random = SplitMix(SEED);
    (0..count).map(|_| (random.next() >> 32) as u32).collect()
}

/// As traffic has them: of many hosts in the prefixes of `routes`, the n-th is met 1/n as often as
/// the first one.
pub(super) fn skewed4(routes: &[Route], count: usize) -> Vec<u32> {
    let mut random = SplitMix(SEED);
    let prefixes: Vec<(u32, u8)> = routes
        .iter()
        .filter_map(|(prefix, _)| match prefix.address() {
            IpAddr::V4(four) => Some((four.to_bits(), prefix.bits())),
            IpAddr::V6(_) => None,
        })
        .collect();
    skewed(&prefixes, count, &mut random, |(address, bits), random| {
        let noise = (random.next() >> 32) as u32;
        address | noise.checked_shr(bits.into()).unwrap_or(0)
    })
}

/// The same of IPv6.
pub(super) fn skewed6(routes: &[Route], count: usize) -> Vec<u128> {
    let mut random = SplitMix(SEED);
    let prefixes: Vec<(u128, u8)> = routes
        .iter()
        .filter_map(|(prefix, _)| match prefix.address() {
            IpAddr::V4(_) => None,
            IpAddr::V6(six) => Some((six.to_bits(), prefix.bits())),
        })
        .collect();
    skewed(&prefixes, count, &mut random, |(address, bits), random| {
        let noise = u128::from(random.next()) << 64 | u128::from(random.next());
        address | noise.checked_shr(bits.into()).unwrap_or(0)
    })
}

fn skewed<P: Copy, A: Copy>(
    prefixes: &[P],
    count: usize,
    random: &mut SplitMix,
    host: impl Fn(P, &mut SplitMix) -> A,
) -> Vec<A> {
    if prefixes.is_empty() {
        return Vec::new();
    }
    let hosts: Vec<A> = (0..HOSTS)
        .map(|_| {
            let prefix = prefixes[(random.next() % prefixes.len() as u64) as usize];
            host(prefix, random)
        })
        .collect();
    (0..count).map(|_| hosts[rank(random, hosts.len())]).collect()
}

/// A rank below `count`, by Zipf's law: its logarithm is even.
fn rank(random: &mut SplitMix, count: usize) -> usize {
    let even = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
    ((count as f64).powf(even) as usize).clamp(1, count) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "1.0.0.0/24 13335\n1.0.4.7/22 38803\n2001:db8::/32 255\n";

    #[test]
    fn a_line_is_a_prefix_and_a_number_and_a_wrong_one_is_named() {
        let routes = parse(TEXT, usize::MAX).expect("three lines");
        let texts: Vec<String> = routes.iter().map(|(prefix, _)| prefix.to_string()).collect();
        assert_eq!(texts, ["1.0.0.0/24", "1.0.4.0/22", "2001:db8::/32"]);
        assert!(routes.iter().all(|&(_, hop)| (1..=NEXT_HOPS).contains(&hop)), "{routes:?}");
        let error = parse("1.0.0.0/24 1\n1.0.0.0/33 1\n", usize::MAX).expect_err("a wrong line");
        assert!(error.contains("line 2"), "{error}");
        assert_eq!(parse(TEXT, 1).expect("one of them").len(), 1);
    }

    #[test]
    fn skewed_addresses_are_in_the_prefixes_and_a_few_are_most_of_them() {
        let routes = parse(TEXT, usize::MAX).expect("three lines");
        let addresses = skewed4(&routes, 10_000);
        let is_in = |address: &u32| {
            routes.iter().any(|(prefix, _)| prefix.contains(IpAddr::V4((*address).into())))
        };
        assert!(addresses.iter().all(is_in));
        assert!(skewed6(&routes, 100).iter().all(|six| six >> 96 == 0x2001_0db8));
        let mut random = SplitMix(1);
        let first = (0..10_000).filter(|_| rank(&mut random, HOSTS) == 0).count();
        assert!(first > 300, "{first}");
        assert!(skewed4(&[], 5).is_empty());
    }

    #[test]
    fn without_a_table_it_is_said_where_to_get_one() {
        let error = routes(Some(Path::new("/no/such/table")), 1).expect_err("it is not there");
        assert!(error.to_string().contains("/no/such/table"), "{error}");
    }
}
