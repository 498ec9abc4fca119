//! `nf-countries`: a chain of network functions with one of its own, which counts packets by the
//! country that they come from. All that it needs is crate `chain`.
#![forbid(unsafe_code)]

use std::any::Any;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;

use chain::own::{Batch, EachNamed, Function, Given, Kinds, Nanos, NotMade, Own, Prefix, Verdicts};

fn main() -> ExitCode {
    chain::serve::program(&Kinds::default().with("countries", Countries::make))
}

/// Counts IPv4 packets by the network that their sender is in; all of them pass.
#[derive(Debug)]
struct Countries {
    /// First and last address of each network in order, and the place of its country.
    networks: Vec<(u32, u32, usize)>,
    countries: Vec<Country>,
    elsewhere: u64,
}

#[derive(Debug)]
struct Country {
    name: Arc<str>,
    help: Arc<str>,
    packets: u64,
}

impl Countries {
    /// `networks` names a file of lines such as `192.0.2.0/24 ch`.
    fn make(given: &mut Given<'_>) -> Result<Box<dyn Own>, NotMade> {
        let path = given.path("networks")?;
        let path = path.ok_or_else(|| given.refuse("networks", "is missing: name a file"))?;
        let text = std::fs::read_to_string(&path)
            .map_err(|error| given.refuse("networks", format!("cannot be read: {error}")))?;
        Ok(Box::new(Self::read(&text)?))
    }

    fn read(text: &str) -> Result<Self, NotMade> {
        let mut places = BTreeMap::new();
        let (mut networks, mut countries) = (Vec::new(), Vec::new());
        for (line, number) in text.lines().zip(1..) {
            let wrong = |why: &str| format!("line {number} of its networks: {why}");
            let mut words = line.split_whitespace();
            let Some(prefix) = words.next() else { continue };
            let prefix: Prefix = prefix.parse().map_err(|error| wrong(&format!("{error}")))?;
            let name = words.next().ok_or_else(|| wrong("it has no country"))?;
            let IpAddr::V4(address) = prefix.address() else { continue };
            let first = address.to_bits();
            let last = first | u32::MAX.checked_shr(u32::from(prefix.bits())).unwrap_or(0);
            let place = *places.entry(name.to_owned()).or_insert_with(|| {
                let help = format!("Packets from {name}.").into();
                countries.push(Country { name: name.into(), help, packets: 0 });
                countries.len() - 1
            });
            networks.push((first, last, place));
        }
        networks.sort_unstable();
        if let Some(two) = networks.windows(2).find(|two| two[0].1 >= two[1].0) {
            let [one, other] = [two[0].0, two[1].0].map(std::net::Ipv4Addr::from_bits);
            return Err(format!("the networks that begin with {one} and {other} overlap").into());
        }
        Ok(Self { networks, countries, elsewhere: 0 })
    }

    fn count(&mut self, packet: &[u8]) {
        // An Ethernet header, and an IPv4 header whose source is in its bytes 12 to 15.
        let is_ipv4 = packet.get(12..15).is_some_and(|it| it[..2] == [8, 0] && it[2] >> 4 == 4);
        let source = packet.get(26..30).and_then(<[u8]>::as_array).filter(|_| is_ipv4);
        let Some(source) = source.copied().map(u32::from_be_bytes) else { return };
        let behind = self.networks.partition_point(|(first, ..)| *first <= source);
        let before = behind.checked_sub(1).and_then(|at| self.networks.get(at));
        match before.filter(|(_, last, _)| source <= *last) {
            Some((_, _, place)) => self.countries[*place].packets += 1,
            None => self.elsewhere += 1,
        }
    }
}

impl Function for Countries {
    fn name(&self) -> &'static str {
        "countries"
    }

    fn process(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, _now: Nanos) {
        for (_, frame, _) in verdicts.undecided(batch) {
            self.count(frame.bytes());
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, &'static str, u64)) {
        each("elsewhere", "Packets from no network of the file.", self.elsewhere);
    }

    fn named_counters(&self, each: EachNamed<'_>) {
        self.countries
            .iter()
            .for_each(|Country { name, help, packets }| each(name, help, *packets));
    }
}

impl Own for Countries {
    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_ref::<Self>() else { return };
        self.elsewhere = before.elsewhere;
        for country in &mut self.countries {
            let same = before.countries.iter().find(|other| other.name == country.name);
            country.packets = same.map_or(0, |same| same.packets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(source: [u8; 4]) -> Vec<u8> {
        [&[0; 12][..], &[8, 0, 0x45], &[0; 11], &source, &[0; 4]].concat()
    }

    fn counts(countries: &Countries) -> Vec<(String, u64)> {
        let mut counts = Vec::new();
        countries.named_counters(&mut |name, _, value| counts.push((name.to_string(), value)));
        countries.counters(&mut |name, _, value| counts.push((name.to_owned(), value)));
        counts
    }

    #[test]
    fn packets_are_counted_by_the_country_of_their_sender_and_another_file_goes_on_counting() {
        let text = "10.0.0.0/8 ch\n192.0.2.0/25 gr\n192.0.2.128/25 ch\n";
        let mut old = Countries::read(text).expect("it is right");
        let of = |last| [192, 0, 2, last];
        for source in [of(127), of(128), [10, 255, 255, 255], [11, 0, 0, 0], [9, 255, 255, 255]] {
            old.count(&packet(source));
        }
        old.count(&[0; 20]);
        let expected = [("ch", 2), ("gr", 1), ("elsewhere", 2)];
        assert_eq!(counts(&old), expected.map(|(name, value)| (name.to_owned(), value)));
        let mut new = Countries::read("192.0.2.0/24 gr\n0.0.0.0/1 it\n").expect("it is right");
        new.take_over(&mut old);
        new.count(&packet(of(1)));
        let expected = [("gr", 2), ("it", 0), ("elsewhere", 2)];
        assert_eq!(counts(&new), expected.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn networks_that_make_no_sense_are_refused_with_the_line_or_the_address() {
        for (text, part) in [
            ("10.0.0.0/8 ch\n10.0.0.0/33 gr", "line 2"),
            ("10.0.0.0/8", "no country"),
            ("10.0.0.0/8 ch\n10.1.0.0/16 gr", "10.1.0.0 overlap"),
        ] {
            let said = Countries::read(text).expect_err(text).to_string();
            assert!(said.contains(part), "{said}");
        }
    }
}
