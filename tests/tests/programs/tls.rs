//! Python's requests with a time limit, which connects without waiting, over TLS.

use whole::{Accelerated, Program, project};

use crate::ground::certificate;
use crate::install;

const PYTHON: &str = "/usr/bin/python3";
const PORT: &str = "8443";

fn script(name: &str) -> String {
    project().join("tests/programs").join(name).display().to_string()
}

#[test]
fn requests_fetches_over_tls_within_its_time_limit_from_the_wire_and_within_the_host() {
    install();
    let accelerated = Accelerated::start();
    for is_server_here in [false, true] {
        let side = if is_server_here { accelerated.here() } else { accelerated.there() };
        let host = side.ipv4().to_string();
        let [certificate, key] = certificate(accelerated.daemon().folder(), &host);
        let words = [PYTHON, &script("tls.py"), "serve", &host, PORT, &certificate, &key];
        let mut server: Program = match is_server_here {
            true => accelerated.run(&words),
            false => accelerated.run_there(&words),
        };
        server.wait_until_it_says("listening");
        let client = [PYTHON, &script("tls.py"), "fetch", &host, PORT, &certificate];
        let said = accelerated.run(&client).succeed();
        assert_eq!(said, format!("5 answers of 300000 bytes from {host}\n"));
        if !is_server_here {
            let carried = accelerated.carried();
            assert!(carried.received > 1_500_000 && carried.sent > 1000, "{carried:?}");
        }
        server.kill();
    }
    accelerated.all_was_accelerated();
    accelerated.nothing_is_left();
}
