//! What this program becomes when a case starts it once more: `calisto bench helper`, which help
//! does not show.

mod neighbour;
mod server;

use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use clap::ValueEnum;

use crate::error::{Error, OrNeeds};
use crate::process::Process;
use crate::tcp::RpcKind;

pub(crate) use neighbour::Conduct;

/// The port of the application in whose name a neighbour forges packets.
pub(crate) const VICTIM_PORT: u16 = 7;

/// A process of a measurement: this program again.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Helper {
    #[command(subcommand)]
    kind: Kind,
}

/// What it does.
#[derive(Clone, Debug, PartialEq, clap::Subcommand)]
pub(crate) enum Kind {
    /// Attaches beside another application, and behaves in some way.
    Neighbour {
        conduct: Conduct,
        /// Where the daemon lets applications attach.
        socket: PathBuf,
        /// Where it listens.
        listen: SocketAddr,
        /// Where forged packets go.
        client: SocketAddr,
    },
    /// Answers UDP packets through the client library, on a guaranteed core.
    Echo { socket: PathBuf, listen: SocketAddr },
    /// Answers UDP packets through the kernel's sockets.
    KernelEcho { listen: SocketAddr },
    /// Multiplies matrices, and writes into a file how many.
    Multiply {
        progress: PathBuf,
        /// At the lowest priority of the normal class.
        #[arg(long)]
        nice: bool,
    },
    /// Requests to a TCP server in memory.
    Rpc { kind: RpcKind, requests: u64 },
    /// Makes the largest data path and prints what is resident.
    Resident,
}

impl Helper {
    /// Is one, until its work is done or its parent wants no more of it.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Error> {
        match &self.kind {
            Kind::Neighbour { conduct, socket, listen, client } => {
                neighbour::run(*conduct, socket, *listen, *client, out)
            }
            Kind::Echo { socket, listen } => server::echo(socket, *listen, out),
            Kind::KernelEcho { listen } => server::kernel_echo(*listen, out),
            Kind::Multiply { progress, nice } => server::multiply(progress, *nice, out),
            Kind::Rpc { kind, requests } => kind.converse(*requests).map(drop),
            Kind::Resident => crate::steer::print_resident(out),
        }
    }
}

impl Kind {
    /// The words of the command line that make this program one.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = ["bench", "helper"].map(OsString::from).into();
        match self {
            Self::Neighbour { conduct, socket, listen, client } => {
                words.extend(["neighbour".into(), word(*conduct).into(), socket.into()]);
                words.extend([listen.to_string().into(), client.to_string().into()]);
            }
            Self::Echo { socket, listen } => {
                words.extend(["echo".into(), socket.into(), listen.to_string().into()]);
            }
            Self::KernelEcho { listen } => {
                words.extend(["kernel-echo".into(), listen.to_string().into()]);
            }
            Self::Multiply { progress, nice } => {
                words.extend(["multiply".into(), progress.into()]);
                words.extend(nice.then(|| "--nice".into()));
            }
            Self::Rpc { kind, requests } => {
                words.extend(["rpc".into(), word(*kind).into(), requests.to_string().into()]);
            }
            Self::Resident => words.push("resident".into()),
        }
        words
    }
}

/// Whether its parent wants no more of it, or is gone.
fn is_over() -> bool {
    let orphaned = rustix::process::getppid().is_none_or(|parent| parent.is_init());
    orphaned || sys::signal::stop_requested()
}

/// Says that it is ready, and its number.
fn greet(out: &mut dyn Write) -> Result<(), Error> {
    writeln!(out, "ready {}", std::process::id()).and_then(|()| out.flush()).map_err(Error::Output)
}

/// Starts one on `cpu` with a `command` that ends in its words; when it is ready, its own number
/// too: the process may be another program that has started it.
pub(crate) fn start(command: Command, cpu: usize) -> Result<(Process, u32), Error> {
    let mut process = Process::talk(command, cpu)?;
    let pid = process.heard("ready")?.parse().or_needs("number of a second process")?;
    Ok((process, pid))
}

/// The word that stands for a value on a command line.
pub(crate) fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_every_kind_are_read_as_that_kind() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            helper: Helper,
        }
        let (socket, listen) = (PathBuf::from("/s"), SocketAddr::from(([10, 77, 0, 2], 8)));
        let neighbour = |conduct: &Conduct| Kind::Neighbour {
            conduct: *conduct,
            socket: "/s".into(),
            listen,
            client: SocketAddr::from(([10, 77, 0, 1], 9)),
        };
        let rpc = |kind: &RpcKind| Kind::Rpc { kind: *kind, requests: 12 };
        let kinds = Conduct::value_variants().iter().map(neighbour);
        let kinds = kinds.chain(RpcKind::value_variants().iter().map(rpc)).chain([
            Kind::Echo { socket: socket.clone(), listen },
            Kind::KernelEcho { listen },
            Kind::Multiply { progress: socket.clone(), nice: false },
            Kind::Multiply { progress: socket, nice: true },
            Kind::Resident,
        ]);
        for kind in kinds {
            let words = kind.words();
            assert_eq!(words[..2], ["bench", "helper"]);
            let line = <Line as clap::Parser>::try_parse_from(&words[1..]);
            assert_eq!(line.expect("its parent writes it so").helper.kind, kind);
        }
    }

    #[test]
    fn a_helper_that_is_not_told_where_is_refused() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            _helper: Helper,
        }
        for kind in ["neighbour", "echo", "kernel-echo", "multiply", "rpc"] {
            assert!(<Line as clap::Parser>::try_parse_from(["helper", kind]).is_err(), "{kind}");
        }
    }
}
