//! redis-benchmark as Debian has it, on Linux's sockets: asks, and says how fast it was answered.

use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use cli::failure::Failure;
use testbed::Side;

use super::progress::check_stop;
use super::redis_server::{said, spawn};

/// Connections, as redis-benchmark has by default.
pub(super) const CONNECTIONS: u32 = 50;
/// Bytes of a value.
pub(super) const VALUE_BYTES: u32 = 64;
/// Requests of each kind in a round: about a second for both together.
pub(super) const REQUESTS: u32 = 40_000;

/// A round that takes longer than this does not end.
const TIMEOUT: Duration = Duration::from_secs(120);

/// One round: of GET, then of SET.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Round {
    pub(super) get: Speed,
    pub(super) set: Speed,
}

/// How requests of one kind were answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Speed {
    pub(super) requests_per_s: f64,
    pub(super) p50_us: f64,
}

/// Asks the server at `address`, from `side` and on `cpu`.
pub(super) fn ask(
    side: &Side,
    cpu: Option<usize>,
    benchmark: &Path,
    address: SocketAddr,
) -> Result<Round, Failure> {
    let mut command = side.command(benchmark);
    command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()]);
    command.args(["-t", "set,get", "--csv", "-c", &CONNECTIONS.to_string()]);
    command.args(["-d", &VALUE_BYTES.to_string(), "-n", &REQUESTS.to_string()]);
    let mut process = spawn(command, cpu)?;
    let deadline = Instant::now() + TIMEOUT;
    let ended = loop {
        let ended = process.try_wait().map_err(|error| failed(&error.to_string()))?;
        let stopped = check_stop();
        if let Some(status) = ended {
            break status;
        }
        if stopped.is_err() || Instant::now() > deadline {
            // It is our child; what it was about to say is of no interest.
            let _ = process.kill();
            let _ = process.wait();
            stopped?;
            return Err(failed(&format!("it has not ended for {} s", TIMEOUT.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut text = String::new();
    if let Some(output) = process.stdout.take() {
        // A table of two lines, which the pipe has room for.
        output.take(1 << 16).read_to_string(&mut text).map_err(|e| failed(&e.to_string()))?;
    }
    match round_of(&text).filter(|_| ended.success()) {
        Some(round) => Ok(round),
        None => Err(failed(&format!("{ended}: {} {}", text.trim(), said(&mut process)))),
    }
}

fn failed(why: &str) -> Failure {
    Failure::new(format!("redis-benchmark has no result: {why}"))
}

/// Of its CSV: a line of names, and one for each kind.
fn round_of(csv: &str) -> Option<Round> {
    let mut lines = csv
        .lines()
        .map(|line| line.split(',').map(|cell| cell.trim_matches('"')).collect::<Vec<_>>());
    let names = lines.find(|cells| cells.first() == Some(&"test"))?;
    let rows: Vec<_> = lines.collect();
    let speed = |kind: &str| {
        let row = rows.iter().find(|row| row.first() == Some(&kind))?;
        let cell = |name: &str| {
            let at = names.iter().position(|&column| column == name)?;
            row.get(at)?.parse::<f64>().ok()
        };
        let p50_us = cell("p50_latency_ms")? * 1000.0;
        Some(Speed { requests_per_s: cell("rps")?, p50_us })
    };
    Some(Round { get: speed("GET")?, set: speed("SET")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_by_its_names_and_not_by_its_places() {
        let csv = "WARNING: no config\n\
                   \"test\",\"rps\",\"avg_latency_ms\",\"p50_latency_ms\"\n\
                   \"SET\",\"100.5\",\"9\",\"0.25\"\n\"GET\",\"200.5\",\"8\",\"0.5\"\n";
        let round = Round {
            get: Speed { requests_per_s: 200.5, p50_us: 500.0 },
            set: Speed { requests_per_s: 100.5, p50_us: 250.0 },
        };
        assert_eq!(round_of(csv), Some(round));
        assert_eq!(round_of("Could not connect to Redis"), None);
        assert_eq!(round_of("\"test\",\"rps\"\n\"GET\",\"1\"\n"), None);
    }
}
