//! What is measured over wires in memory: functions, each with packets that it forwards.

use std::net::SocketAddr;

use calisto_nf::esp::Algorithm;
use calisto_nf::router::RouterSettings;
use calisto_nf::{Fib, Function, Router, capacity};
use wire::build::UdpPacket;

use super::functions::{bridge, tunnel, whole_table};
use super::memory::{Subject, Work};
use super::table::{self, Route};
use crate::error::{Error, OrNeeds};
use crate::flows::SEED;

/// Different packets of what looks destinations up: more than a cache holds of their entries.
const DESTINATIONS: usize = 1 << 16;

/// Bytes of the headers of a UDP packet over IPv4.
const HEADERS: usize = 14 + 20 + 8;

/// Link addresses of both ports.
pub(super) const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 3]];

/// Bytes of a packet that are encrypted, trailer and all: as in the slides.
pub(super) const TEXT_BYTES: usize = 1408;
/// What the trailer of ESP has of them.
const TRAILER_BYTES: usize = 2;

/// A table of routes, and addresses that are looked up in it.
pub(super) struct Internet {
    pub(super) fib: Fib,
    routes: usize,
    destinations: Vec<u32>,
}

impl Internet {
    pub(super) fn new(routes: &[Route]) -> Result<Self, Error> {
        let fib = whole_table(routes, MACS)?.fib(SEED);
        // Skewed traffic never leaves the table, and so is never for a loopback or a group.
        let mut destinations = table::skewed4(routes, DESTINATIONS);
        if destinations.is_empty() {
            return Err("there is no IPv4 route").or_needs("table of routes");
        }
        destinations.truncate(DESTINATIONS);
        Ok(Self { fib, routes: routes.len(), destinations })
    }

    fn subject(&self) -> Result<Subject, Error> {
        let packets = self.destinations.iter().map(|&to| packet(64, to));
        let router = Router::new(self.fib.clone(), &RouterSettings::default());
        Ok(Subject {
            functions: vec![Box::new(router)],
            packets: packets.collect::<Result<_, _>>()?,
        })
    }
}

/// All that there is to measure; the router over `internet`, if there is a table.
pub(super) fn works<'a>(internet: &'a Result<Internet, Error>) -> Vec<Work<'a>> {
    let names = capacity::subjects(64).into_iter().map(|subject| subject.name);
    let mut works: Vec<Work<'a>> = names.map(|name| of_nf(name, 64)).collect();
    works.push(of_nf("l2", 1514));
    works.push(match internet {
        Ok(internet) => Work {
            name: format!("router, 64 B, {} routes", internet.routes),
            make: Box::new(|| internet.subject()),
        },
        Err(why) => {
            let why = why.to_string();
            let absent = move || Err(why.clone()).or_needs("router to measure");
            Work { name: "router, 64 B".to_owned(), make: Box::new(absent) }
        }
    });
    works.extend(Algorithm::ALL.map(seal));
    works
}

/// Encryption by one algorithm.
pub(super) fn seal(algorithm: Algorithm) -> Work<'static> {
    let name = format!("esp, {TEXT_BYTES} B, {}", algorithm.name());
    Work { name, make: Box::new(move || esp(algorithm)) }
}

/// A function as its own crate sets it up, with frames of that many bytes.
fn of_nf(name: &'static str, frame_bytes: usize) -> Work<'static> {
    let make = move || {
        let found =
            capacity::subjects(frame_bytes).into_iter().find(|subject| subject.name == name);
        let found = found.ok_or_else(|| format!("there is no {name}")).or_needs("function")?;
        // What says nothing of the port is sent on by the next one.
        let functions: Vec<Box<dyn Function>> = vec![found.function, Box::new(bridge()?)];
        Ok(Subject { functions, packets: found.packets })
    };
    Work { name: format!("{name}, {frame_bytes} B"), make: Box::new(make) }
}

fn esp(algorithm: Algorithm) -> Result<Subject, Error> {
    let functions: Vec<Box<dyn Function>> = vec![Box::new(tunnel(algorithm)?), Box::new(bridge()?)];
    // As few as are in the caches behind a NIC that writes into them.
    let frame_bytes = 14 + TEXT_BYTES - TRAILER_BYTES;
    let to = |host: u8| packet(frame_bytes, u32::from_be_bytes([10, 2, 0, host]));
    Ok(Subject { functions, packets: (1..=64).map(to).collect::<Result<_, _>>()? })
}

/// A UDP packet from 10.1/16 to that address, `frame_bytes` long.
pub(super) fn packet(frame_bytes: usize, destination: u32) -> Result<Vec<u8>, Error> {
    let payload = vec![0x5a; frame_bytes.saturating_sub(HEADERS)];
    let mut bytes = vec![0; frame_bytes.max(HEADERS)];
    let packet = UdpPacket {
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: MACS[0],
        source: SocketAddr::from(([10, 1, 2, 3], 1024 + (destination % 1024) as u16)),
        destination: SocketAddr::from((destination.to_be_bytes(), 9)),
        payload: &payload,
        vlan: None,
    };
    let len = packet.write(&mut bytes).ok_or("it does not fit").or_needs("packet to forward")?;
    bytes.truncate(len);
    Ok(bytes)
}
