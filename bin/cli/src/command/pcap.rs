//! `calisto pcap`: the packets of accelerated sockets, in a file that tshark reads.

mod relay;

use std::io::{self, IsTerminal};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use admin::{CAPTURE_SNAPLEN, CaptureRequest, Command, ReplyBody};
use clap::Args;
use serde::Serialize;

use self::relay::{End, Relay, Stats};
use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::growing_file::GrowingFile;
use crate::table::grouped;
use crate::target::{About, Admin};
use crate::{output, units};

/// Of the JSON; a reader that knows another one should not guess.
const SCHEMA_VERSION: u32 = 1;

/// Capture the packets of accelerated sockets, both ways, which tcpdump does not see.
///
/// All conditions that are given must be met. It goes on until Ctrl-C or a limit; the
/// file is whole at any time. The data path never waits for this: packets that find no room are
/// missing, and counted.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto pcap -w redis.pcapng --app redis-server -c 1000\n  \
    calisto pcap --port 6379 --host 10.0.0.1 | tshark -r -\n  \
    calisto pcap -w - --snaplen 96 | wireshark -k -i -")]
pub(crate) struct Pcap {
    /// Where to, as pcapng; `-` is standard output.
    #[arg(short = 'w', long = "write", value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// One of a packet's two addresses.
    #[arg(long, value_name = "ADDRESS", value_parser = units::address)]
    host: Option<IpAddr>,
    /// One of its two ports.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// This many packets, then it ends.
    #[arg(short = 'c', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// It ends before the file is longer than this.
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    bytes: Option<u64>,
    /// Bytes kept of each packet, at most.
    #[arg(long, value_name = "BYTES", default_value_t = CAPTURE_SNAPLEN)]
    #[arg(value_parser = clap::value_parser!(u32).range(14..=i64::from(CAPTURE_SNAPLEN)))]
    snaplen: u32,
    #[command(flatten)]
    admin: Admin,
    #[command(flatten)]
    about: About,
}

/// What was captured, for `-j`.
#[derive(Serialize)]
struct Captured<'a> {
    schema_version: u32,
    file: &'a Path,
    packets: u64,
    bytes: u64,
    /// Packets that met the conditions and are not in the file.
    missing: u64,
}

impl Pcap {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        // Ctrl-C ends the capture, not the program: the rest and the counts still come.
        sys::signal::install_stop_handler().map_err(Failure::new)?;
        let to_stdout = self.file == Path::new("-");
        if to_stdout && io::stdout().is_terminal() {
            return Err(Failure::usage(
                "a capture is nothing for a terminal: write it to a file with -w FILE, or on to a \
                 reader, as in `calisto pcap | tshark -r -`",
            ));
        }
        let cannot = |error: io::Error| {
            Failure::new(format!("cannot write {}: {error}", self.file.display()))
        };
        let daemon = Daemon::at(&self.admin.socket).about(self.about.app.as_deref());
        let (answer, connection) = daemon.open(Command::Capture(self.request()))?;
        let ReplyBody::Capturing { ports, .. } = answer else {
            return Err(daemon.unexpected(&answer));
        };
        let watched = io::stderr().is_terminal() && !(to_stdout && json);
        if watched {
            eprintln!("capturing on {}; Ctrl-C ends it", ports.join(", "));
        }
        let relay = Relay::new(connection).map_err(cannot)?;
        let progress = |stats: &Stats| {
            if watched {
                eprint!("\r{} packets, {} bytes ", grouped(stats.packets), grouped(stats.bytes));
            }
        };
        let ended = if to_stdout {
            relay.run(&mut io::stdout().lock(), progress)
        } else {
            let mut file = GrowingFile::new(&self.file);
            match relay.run(&mut file, progress) {
                Err(End::Output(error)) => return Err(file.broken_off(&error)),
                ended => file.finish().map(|()| ended)?,
            }
        };
        if watched {
            eprintln!();
        }
        match ended {
            Ok(stats) => self.report(stats, to_stdout, json),
            // Whoever reads us has seen enough.
            Err(End::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(End::Output(error)) => Err(cannot(error)),
            Err(End::Daemon(why)) => Err(Failure::new(format!(
                "the capture broke off: {why}; what is in {} is whole",
                self.file.display()
            ))),
        }
    }

    fn request(&self) -> CaptureRequest {
        let Self { host, port, count, bytes, snaplen, .. } = *self;
        CaptureRequest { host, port, snaplen: Some(snaplen), packets: count, bytes }
    }

    fn report(&self, stats: Stats, to_stdout: bool, json: bool) -> Result<(), Failure> {
        let Stats { packets, bytes, missing } = stats;
        if json {
            let schema_version = SCHEMA_VERSION;
            let file = &self.file;
            let captured = Captured { schema_version, file, packets, bytes, missing };
            if to_stdout {
                // Standard output is the capture's.
                eprintln!("{}", serde_json::to_string(&captured).map_err(Failure::new)?);
                return Ok(());
            }
            return output::json(&captured);
        }
        let missing = match missing {
            0 => String::new(),
            missing => format!("; {} found no room and are missing", grouped(missing)),
        };
        eprintln!("{} packets in {} bytes{missing}", grouped(packets), grouped(bytes));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;
    use crate::command::Command as Commands;

    fn parse(line: &str) -> Result<Pcap, clap::Error> {
        let words = ["calisto", "pcap"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words)?.command {
            Commands::Pcap(pcap) => Ok(pcap),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn conditions_become_a_request_that_the_daemon_takes() {
        let pcap = parse("-w x --host ::1 --port 80 -c 5 --bytes 1MiB --snaplen 96").expect("all");
        assert_eq!(
            pcap.request(),
            CaptureRequest {
                host: Some("::1".parse().expect("an address")),
                port: Some(80),
                snaplen: Some(96),
                packets: Some(5),
                bytes: Some(1 << 20),
            }
        );
        let all = parse("").expect("nothing is needed").request();
        assert_eq!(admin::Request::new(Command::Capture(all)).check(), Ok(()));
        for line in ["--snaplen 13", "--snaplen 65536", "-c 0", "--host x", "--port 65536"] {
            assert_eq!(parse(line).expect_err(line).exit_code(), 2, "{line}");
        }
    }
}
