//! `dns-responder`: answers DNS queries for a few names.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;

use calisto_client::{Frame, Verdict, reply};
use clap::Parser;
use examples::dns::{self, Ignored, RESPONSE_BYTES_MAX, Record, Zone};
use examples::{Options, Service, run};

/// Answers DNS queries for the names that it is given, over packets from the Calisto daemon. Other
/// names do not exist.
#[derive(Debug, Parser)]
#[command(
    name = "dns-responder",
    version,
    after_help = "Examples:\n  \
        dns-responder --listen udp:10.0.0.2:53 --record 'www.example.org A 192.0.2.1'\n  \
        dns-responder --listen udp:10.0.0.2:53 --workers 2 --ttl 5 \\\n    \
            --record 'example.org TXT hello world' --record 'example.org AAAA 2001:db8::1'\n\n\
        Ask it: dig @10.0.0.2 www.example.org"
)]
struct Cli {
    #[command(flatten)]
    options: Options,
    /// What it knows, as in a zone file: a name, A, AAAA or TXT, and the data; several times.
    #[arg(long = "record", value_name = "RECORD", required = true)]
    records: Vec<Record>,
    /// Seconds for which others may keep an answer.
    #[arg(long = "ttl", value_name = "SECONDS", default_value_t = 60)]
    ttl_seconds: u32,
}

struct Responder {
    zone: Arc<Zone>,
    ttl_seconds: u32,
    answered: u64,
    not_udp: u64,
    too_short: u64,
    responses: u64,
    malformed: u64,
}

impl Responder {
    fn new(zone: &Arc<Zone>, ttl_seconds: u32) -> Self {
        Self {
            zone: Arc::clone(zone),
            ttl_seconds,
            answered: 0,
            not_udp: 0,
            too_short: 0,
            responses: 0,
            malformed: 0,
        }
    }
}

impl Service for Responder {
    fn packet(&mut self, frame: &mut Frame) -> Verdict {
        let mut response = [0; RESPONSE_BYTES_MAX];
        let Some(query) = reply::payload(frame) else {
            self.not_udp += 1;
            return Verdict::Done;
        };
        match dns::answer(query, &self.zone, self.ttl_seconds, &mut response) {
            Ok(len) if reply::turn_around_with(frame, &response[..len]) => {
                self.answered += 1;
                return Verdict::Send;
            }
            Ok(_) => self.not_udp += 1,
            Err(Ignored::Short) => self.too_short += 1,
            Err(Ignored::Response) => self.responses += 1,
            Err(Ignored::Malformed) => self.malformed += 1,
        }
        Verdict::Done
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("answered", self.answered),
            ("not_udp", self.not_udp),
            ("too_short", self.too_short),
            ("responses", self.responses),
            ("malformed", self.malformed),
        ]
    }
}

fn main() -> ExitCode {
    let Cli { options, records, ttl_seconds } = Cli::parse();
    let zone = Arc::new(records.into_iter().collect::<Zone>());
    run("dns-responder", &options, || Responder::new(&zone, ttl_seconds))
}
