//! iperf3, both ways, as a server and as a client: what it says it has carried is what went
//! through.

use whole::{Accelerated, Program};

use crate::bodies::BODY_BYTES;
use crate::install;

/// Bytes of all streams together, as iperf3's report has them.
fn received(report: &str) -> u64 {
    let report: serde_json::Value = serde_json::from_str(report).expect("iperf3 -J prints JSON");
    assert!(report.get("error").is_none(), "{report}");
    report["end"]["sum_received"]["bytes"].as_u64().unwrap_or_else(|| panic!("{report}"))
}

fn server(mut program: Program) -> Program {
    program.wait_until_it_says("Server listening");
    program
}

/// Both ways between an end on Calisto and one on Linux.
fn both_ways(is_server_here: bool) {
    install();
    let accelerated = Accelerated::start();
    let bytes = BODY_BYTES.to_string();
    let mut came = [0, 0];
    for (way, option) in ["-4", "-R"].iter().enumerate() {
        for streams in ["1", "4"] {
            // One that serves a single test.
            let words = ["iperf3", "-s", "-1", "--forceflush"];
            let (server, host) = match is_server_here {
                true => (server(accelerated.run(&words)), accelerated.here().ipv4()),
                false => (server(accelerated.run_there(&words)), accelerated.there().ipv4()),
            };
            let host = host.to_string();
            let words = ["iperf3", "-c", &host, "-J", "-n", &bytes, "-P", streams, option];
            let report = match is_server_here {
                true => accelerated.run_there(&words).succeed(),
                false => accelerated.run(&words).succeed(),
            };
            came[way] += received(&report);
            server.succeed();
        }
    }
    // The sender stops when it has written enough; some of it is still on its way then and not
    // counted.
    assert!(came.iter().all(|bytes| *bytes >= BODY_BYTES * 2 / 10 * 9), "{came:?}");
    let [to_server, to_client] = came;
    let (received, sent) =
        if is_server_here { (to_server, to_client) } else { (to_client, to_server) };
    accelerated.all_was_accelerated();
    let carried = accelerated.carried();
    let is_about = |carried: u64, came: u64| carried >= came && carried - came < came / 10;
    assert!(
        is_about(carried.received, received) && is_about(carried.sent, sent),
        "{carried:?} {came:?}"
    );
    accelerated.nothing_is_left();
}

#[test]
fn iperf3_as_a_server_is_right_both_ways() {
    both_ways(true);
}

#[test]
fn iperf3_as_a_client_is_right_both_ways() {
    both_ways(false);
}
