//! `calisto nf trace`: what a chain does to packets, function by function.

mod input;
mod text;

use std::net::IpAddr;
use std::path::PathBuf;

use chain::trace::{Place, Tracer};
use clap::Args;

use crate::failure::Failure;
use crate::output;
use input::Input;

/// Show what a chain does to packets: which function decided what, what it counted and what it
/// changed. Nothing is opened, received or sent.
///
/// The functions are those of a chain that runs, made anew: what a running one remembers (its
/// connections, say) they do not, but packets of one capture follow one another. Addresses, routes
/// and neighbours are this machine's as they are now, if it has the chain's interfaces. A neighbour
/// that nobody knows is taken to answer.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto nf trace edge.toml --pcap seen.pcap           why a packet of a capture was dropped\n  \
    calisto nf trace edge.toml --pcap seen.pcap -j        the same, a line of JSON for each packet\n  \
    calisto nf trace edge.toml --hex \"$FRAME\" --port eth1\n  \
    calisto nf trace edge.toml --pcap seen.pcap --address eth1=10.1.0.1/24 --address eth2=10.2.0.1/24\n  \
    \x20                                                   for another machine, with these addresses")]
pub(crate) struct Trace {
    /// The file that describes the chain.
    file: PathBuf,
    /// A packet as hexadecimal digits, from its Ethernet header on, or its IP header; repeatable.
    #[arg(long, value_name = "DIGITS", value_parser = input::digits, required_unless_present = "pcap")]
    hex: Vec<input::Packet>,
    /// A capture file (pcap or pcapng, of Ethernet or of IP packets alone).
    #[arg(long, value_name = "FILE", conflicts_with = "hex")]
    pcap: Option<PathBuf>,
    /// Packets of the capture, at most.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    count: u64,
    /// The port by which packets come; without it: the one that has their link address, or by which
    /// their sender is reached.
    #[arg(long, value_name = "NAME")]
    port: Option<String>,
    /// An address of a port, such as eth1=10.1.0.1/24, for a machine that is not this one;
    /// repeatable.
    #[arg(long, value_name = "PORT=ADDRESS/BITS", value_parser = address)]
    address: Vec<(String, IpAddr, u8)>,
    /// A file of routes in place of the chain's, or of the kernel's.
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Do not ask this machine for interfaces, addresses, routes and neighbours.
    #[arg(long)]
    elsewhere: bool,
}

impl Trace {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let (file, folder) = super::file::read(&self.file)?;
        let place = Place {
            is_elsewhere: self.elsewhere,
            addresses: self.address.clone(),
            routes: self.routes.clone(),
        };
        let mut tracer = Tracer::new(&file, &folder, &place).map_err(Failure::new)?;
        let port = match &self.port {
            None => None,
            Some(name) => Some(tracer.port_named(name).ok_or_else(|| {
                let ports = tracer.port_names();
                Failure::usage(format!("the chain has no port {name:?}: its ports are {ports}"))
            })?),
        };
        for note in tracer.notes() {
            eprintln!("note: {note}");
        }
        let mut input = match &self.pcap {
            Some(path) => Input::open(path)?,
            None => Input::given(self.hex.clone()),
        };
        let mut packet = Vec::new();
        for number in 1..=self.count {
            let Some(now) = input.next(&mut packet)? else { break };
            let trace = tracer.trace(&packet, port, now).map_err(|room| {
                Failure::new(format!(
                    "packet {number} has {} bytes, and a frame of the chain room for {room}: \
                     no port could have received it whole",
                    packet.len()
                ))
            })?;
            if json {
                output::json(&trace)?;
            } else {
                output::text(&text::render(&trace))?;
            }
        }
        Ok(())
    }
}

/// `eth1=10.1.0.1/24`.
fn address(text: &str) -> Result<(String, IpAddr, u8), String> {
    let wrong = || format!("{text:?} is no address of a port: write eth1=10.1.0.1/24");
    let (port, address) = text.split_once('=').ok_or_else(wrong)?;
    let (address, bits) = address.split_once('/').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.parse().ok().filter(|bits| *bits <= most).ok_or_else(wrong)?;
    Ok((port.to_owned(), address, bits))
}
