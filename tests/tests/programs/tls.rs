//! Python's requests with a time limit, which connects without waiting, over TLS.

use std::process::Command;

use whole::{Accelerated, Program, project};

use crate::install;

const PYTHON: &str = "/usr/bin/python3";
const PORT: &str = "8443";

fn script(name: &str) -> String {
    project().join("tests/programs").join(name).display().to_string()
}

/// A certificate of `host`, and its key, in the daemon's folder.
fn certificate(accelerated: &Accelerated, host: &str) -> [String; 2] {
    let folder = accelerated.daemon().folder();
    let path = |name: &str| folder.join(name).display().to_string();
    let (key, certificate) = (path("key.pem"), path("certificate.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
    openssl.args(["-nodes", "-days", "2", "-subj", "/CN=calisto-test", "-addext"]);
    openssl.arg(format!("subjectAltName=IP:{host}"));
    openssl.args(["-keyout", &key, "-out", &certificate]);
    let output = openssl.output().expect("openssl is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    [certificate, key]
}

#[test]
fn requests_fetches_over_tls_within_its_time_limit_from_the_wire_and_within_the_host() {
    install();
    let accelerated = Accelerated::start();
    for is_server_here in [false, true] {
        let side = if is_server_here { accelerated.here() } else { accelerated.there() };
        let host = side.ipv4().to_string();
        let [certificate, key] = certificate(&accelerated, &host);
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
