//! What `udp` promises, case by case.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use base::Nanos;
use clap::Parser;

use super::*;
use crate::{Arrival, Common, Work};

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    args: Args,
}

/// Whoever is answered in the end waits for it, on the busiest machine; a run ends when all is
/// answered.
const PATIENT: Nanos = Nanos::from_secs(20);

fn parse(line: &str) -> Result<Args, String> {
    let words = std::iter::once("load").chain(line.split_ascii_whitespace());
    CommandLine::try_parse_from(words).map(|line| line.args).map_err(|error| error.to_string())
}

/// A UDP echo on loopback, as long as it lives; it remembers who asked.
struct Echo {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<BTreeSet<SocketAddr>>>,
}

impl Echo {
    fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
        // Room for a whole run's requests: the thread may not get a CPU for as long.
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 1 << 20).expect("it is a size");
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("20 ms are possible");
        let address = socket.local_addr().expect("it is bound");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut bytes, mut clients) = ([0; 2048], BTreeSet::new());
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((length, from)) = socket.recv_from(&mut bytes) {
                    clients.insert(from);
                    socket.send_to(&bytes[..length], from).expect("loopback takes it");
                }
            }
            clients
        });
        Self { address, stop, thread: Some(thread) }
    }

    /// Ends it; who asked.
    fn stop(&mut self) -> BTreeSet<SocketAddr> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is stopped once");
        thread.join().expect("no assertion failed")
    }
}

#[test]
fn an_open_loop_over_loopback_is_answered_whole_by_one_thread_or_two_or_split() {
    let mut echo = Echo::start();
    for (threads, split) in [(1, false), (2, false), (1, true)] {
        let common = Common {
            rate: Some(1000.0),
            flows: Some(50),
            seconds: 0.2,
            warmup: 0.05,
            threads,
            grace: PATIENT,
            ..Common::default()
        };
        let work = Work { payload: 100, ..Work::default() };
        let args = Args { common, work, split, ..Args::new(echo.address) };
        let report = run(&args, false).expect("loopback is there");
        // 200 with standard deviation 14.
        let due = report.requests.sent + report.requests.never_sent;
        assert!((100..320).contains(&due), "{threads} {split}: {report:?}");
        assert_eq!(
            (report.requests.received, report.requests.lost),
            (report.requests.sent, 0),
            "{threads} {split}"
        );
        assert_eq!(
            report.replies.corrupted + report.replies.duplicates + report.replies.reordered,
            0
        );
        assert!(
            report.times.latency.p50_us > 0.0
                && report.times.latency.p50_us <= report.times.latency.max_us
        );
        assert!(report.times.latency.max_us >= report.times.latency_from_send.max_us);
        assert!(!report.run.interrupted && report.failed_checks.is_empty());
    }
    echo.stop();
}

#[test]
fn a_closed_loop_over_loopback_answers_what_it_sends() {
    let mut echo = Echo::start();
    let common = Common {
        outstanding: Some(8),
        flows: Some(4),
        flow_order: crate::FlowOrder::RoundRobin,
        seconds: 0.6,
        grace: PATIENT,
        ..Common::default()
    };
    let args = Args { common, ..Args::new(echo.address) };
    let report = run(&args, false).expect("loopback is there");
    assert!(report.requests.sent >= 8, "{report:?}");
    assert_eq!(
        (report.requests.lost, report.replies.corrupted, report.rates.target_rate),
        (0, 0, None)
    );
    assert_eq!(echo.stop().len(), 4);
}

#[test]
fn the_server_sees_as_many_flows_as_were_asked_for() {
    for source_prefix in [None, Some("127.8.0.0/25".parse().expect("it is a prefix"))] {
        let mut echo = Echo::start();
        let common = Common {
            rate: Some(2000.0),
            arrival: Arrival::Constant,
            flows: Some(300),
            flow_order: crate::FlowOrder::RoundRobin,
            seconds: 0.2,
            grace: PATIENT,
            ..Common::default()
        };
        let args = Args { common, source_prefix, ..Args::new(echo.address) };
        let report = run(&args, false).expect("loopback is there");
        // On a busy machine a few are not sent in time; those that are must be of as many flows.
        assert_eq!(report.requests.sent + report.requests.never_sent, 400, "{report:?}");
        assert_eq!((report.requests.lost, report.replies.corrupted), (0, 0), "{report:?}");
        assert_eq!(echo.stop().len() as u64, report.requests.sent.min(300));
    }
}

#[test]
fn each_step_of_a_sweep_is_measured_for_itself_and_all_together_are_the_whole() {
    let mut echo = Echo::start();
    let common = Common {
        rate: Some(3000.0),
        samples: Some(3),
        arrival: Arrival::Constant,
        seconds: 0.05,
        grace: PATIENT,
        ..Common::default()
    };
    let report = run(&Args { common, ..Args::new(echo.address) }, false).expect("loopback");
    echo.stop();
    let due: Vec<u64> = report.steps.iter().map(|step| step.sent + step.never_sent).collect();
    assert_eq!(due, [50, 100, 150]);
    assert_eq!(
        report.steps.iter().map(|step| step.received).sum::<u64>(),
        report.requests.received
    );
    assert_eq!(report.requests.lost, 0, "{report:?}");
    assert_eq!(report.csv_lines().lines().count(), 3);
    assert!(report.csv_lines().starts_with("constant, 1000, "), "{}", report.csv_lines());
    assert!(report.table().contains("step        3000/s wanted"), "{}", report.table());
}

#[test]
fn a_histogram_log_that_cannot_be_made_is_known_before_anything_is_sent() {
    let mut echo = Echo::start();
    let hdr = std::env::temp_dir().join("calisto-no-such-folder/log");
    let common = Common { seconds: 0.6, grace: PATIENT, hdr: Some(hdr), ..Common::default() };
    let args = Args { common, ..Args::new(echo.address) };
    let error = run(&args, false).expect_err("there is no such folder").to_string();
    assert!(error.contains("calisto-no-such-folder/log"), "{error}");
    assert_eq!(echo.stop().len(), 0, "nothing was sent");
}

#[test]
fn a_histogram_log_that_becomes_full_costs_the_log_and_not_the_report() {
    let mut echo = Echo::start();
    let common = Common {
        rate: Some(1000.0),
        seconds: 0.1,
        grace: PATIENT,
        hdr: Some("/dev/full".into()),
        ..Common::default()
    };
    let args = Args { common, ..Args::new(echo.address) };
    let report = run(&args, false).expect("it can be opened");
    echo.stop();
    assert!(report.requests.sent + report.requests.never_sent > 0, "{report:?}");
    assert_eq!(report.failed_checks.len(), 1, "{report:?}");
    assert!(report.failed_checks[0].contains("histogram log /dev/full"), "{report:?}");
}

#[test]
fn a_target_where_nobody_listens_is_all_lost_and_fails_its_check() {
    let address = UdpSocket::bind("127.0.0.1:0")
        .and_then(|socket| socket.local_addr())
        .expect("loopback is there");
    let common = Common {
        rate: Some(1000.0),
        seconds: 0.6,
        grace: Nanos::from_millis(20),
        check: vec!["lost=0".parse().expect("it is a threshold")],
        ..Common::default()
    };
    let args = Args { common, ..Args::new(address) };
    let report = run(&args, false).expect("sending does not need a listener");
    assert!(
        report.transport.refused > 0 && report.requests.lost == report.requests.sent,
        "{report:?}"
    );
    let [_, silence] = &report.failed_checks[..] else { panic!("{report:?}") };
    assert!(silence.contains("nothing was answered") && silence.contains("nobody listens"));
}

#[test]
fn the_command_line_has_the_defaults_of_the_library() {
    let target = "10.0.0.2:7".parse().expect("it is an address");
    let parsed = parse("10.0.0.2:7").expect("only the target is needed");
    assert_eq!(format!("{parsed:?}"), format!("{:?}", Args::new(target)));
}

#[test]
fn options_of_synthetic_mean_what_they_mean_there() {
    let args = parse("10.0.0.2:7 --mpps 0.02 --mean 167 -d bimodal1 -t 4 -f 9").expect("all known");
    let plan = args.plan().expect("it is possible");
    assert!(matches!(plan.pace, crate::Pace::Open { rate, .. } if rate == 20e3));
    assert_eq!((plan.iterations, plan.distribution), (167, crate::Distribution::Bimodal1));
    assert_eq!((args.options(false).threads, plan.flows), (4, 9));
    // There a thread is a connection.
    let args = parse("10.0.0.2:7 --threads 4").expect("it is known");
    assert_eq!(args.plan().map(|plan| plan.flows), Ok(4));
}

#[test]
fn wrong_arguments_are_refused_by_a_sentence_with_what_to_do() {
    for (line, words) in [
        ("", "TARGET"),
        ("10.0.0.2", "invalid socket address"),
        ("10.0.0.2:7 --rate fast", "20k"),
        ("10.0.0.2:7 --rate 5 --outstanding 3", "cannot be used with"),
        ("10.0.0.2:7 --distribution normal", "bimodal1"),
        ("10.0.0.2:7 --transport carrier_pigeon:veth0", "kernel"),
        ("10.0.0.2:7 --next-hop 02:00", "02:00:00:00:00:01"),
        ("10.0.0.2:7 --source-prefix 10.0.0.1", "10.78.0.0/16"),
        ("10.0.0.2:7 --check p95", "FIGURE=LIMIT"),
    ] {
        let error = parse(line).expect_err(line);
        assert!(error.contains(words), "{line}: {error}");
    }
    for (line, words) in [
        ("10.0.0.2:0", "port 0"),
        ("10.0.0.2:7 --flows 0", "1 to 700000"),
        ("10.0.0.2:7 --seconds=-1", "--seconds"),
        ("10.0.0.2:7 --seconds 0", "more seconds"),
        ("10.0.0.2:7 --payload 8", "16 to"),
        ("10.0.0.2:7 --transport af_packet:lo", "--source-ip"),
        ("10.0.0.2:7 --transport xdp:lo --source-ip 10.0.0.1 --threads 2 --flows 2", "one thread"),
    ] {
        let error = parse(line).and_then(|args| {
            run(&args, false).map(drop).map_err(|error| {
                assert!(error.is_usage(), "{error}");
                error.to_string()
            })
        });
        let error = error.expect_err(line);
        assert!(error.contains(words), "{line}: {error}");
    }
}
