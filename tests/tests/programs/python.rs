//! Python's http.server and asyncio, as servers and as a client; curl on the other end of
//! http.server.

use whole::{Accelerated, Carried, Program, kernel_udp, project};

use crate::bodies::{BODY_BYTES, sha256, write_body};
use crate::curl::{By, fetch, of_client, of_server, upload};
use crate::install;

const PYTHON: &str = "/usr/bin/python3";
const PORT: &str = "8000";

fn script(name: &str) -> String {
    project().join("tests/programs").join(name).display().to_string()
}

/// Two transfers, one after the other.
fn sum(one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
    (one.0 + other.0, one.1 + other.1)
}

/// A hundred MiB each way between curl and http.server, of which one runs on Calisto.
fn bodies_are_exact(
    accelerated: &Accelerated,
    server: &mut Program,
    host: &str,
    by: By,
) -> (u64, u64) {
    server.wait_until_it_says("Serving HTTP");
    let folder = accelerated.daemon().folder();
    let (body, came) = (folder.join("body"), folder.join("came"));
    let sum_of_body = write_body(&body);
    let url = format!("http://{host}:{PORT}/body");
    let fetched = fetch(accelerated, by, &url, &came);
    assert_eq!(sha256(&came), sum_of_body, "from the server");
    let (sent, received, said) = upload(accelerated, by, &body, &url);
    assert_eq!(said.trim(), sum_of_body, "to the server");
    assert!(fetched.1 > BODY_BYTES && sent > BODY_BYTES, "{fetched:?} {sent}");
    sum(fetched, (sent, received))
}

#[test]
fn http_server_of_python_sends_and_takes_large_bodies_exactly() {
    install();
    let accelerated = Accelerated::start();
    let host = accelerated.here().ipv4().to_string();
    let words = [PYTHON, "-u", &script("http_server.py"), PORT, "0.0.0.0"];
    let mut server = accelerated.run(&words);
    let carried = bodies_are_exact(&accelerated, &mut server, &host, By::Linux);
    accelerated.carried_exactly(of_server(carried));
    server.stop();
    accelerated.nothing_is_left();
}

#[test]
fn http_server_of_python_serves_as_it_is_started_by_everybody() {
    install();
    let accelerated = Accelerated::start();
    let folder = accelerated.daemon().folder();
    std::fs::write(folder.join("small"), "a small file\n").expect("the folder is ours");
    let mut server = accelerated.run(&[PYTHON, "-u", "-m", "http.server", PORT]);
    server.wait_until_it_says("Serving HTTP");
    let url = format!("http://{}:{PORT}/small", accelerated.here().ipv4());
    let mut carried = (0, 0);
    for _ in 0..20 {
        let came = folder.join("came");
        carried = sum(carried, fetch(&accelerated, By::Linux, &url, &came));
        assert_eq!(std::fs::read_to_string(&came).expect("it came"), "a small file\n");
    }
    accelerated.carried_exactly(of_server(carried));
    server.stop();
    accelerated.nothing_is_left();
}

#[test]
fn curl_sends_and_takes_large_bodies_exactly() {
    install();
    let accelerated = Accelerated::start();
    let host = accelerated.there().ipv4().to_string();
    let words = [PYTHON, "-u", &script("http_server.py"), PORT, "0.0.0.0"];
    let mut server = accelerated.run_there(&words);
    let carried = bodies_are_exact(&accelerated, &mut server, &host, By::Calisto);
    accelerated.carried_exactly(of_client(carried));
    accelerated.nothing_is_left();
}

/// Bytes that asyncio_client.py asks for in `count` connections of `size` bytes: those that it
/// says, and those that it hears.
fn asyncio_bytes(count: u64, size: u64) -> (u64, u64) {
    const DIGEST_BYTES: u64 = 32;
    (count * size, count * (size + DIGEST_BYTES))
}

#[test]
fn asyncio_serves_many_connections_at_once() {
    install();
    let accelerated = Accelerated::start();
    let host = accelerated.here().ipv4().to_string();
    let mut server = accelerated.run(&[PYTHON, &script("asyncio_server.py"), "0.0.0.0", PORT]);
    server.wait_until_it_says("listening");
    let client = script("asyncio_client.py");
    let talk = |count: &str, size: &str| {
        let words = [PYTHON, &client, &host, PORT, count, size];
        assert!(accelerated.run_there(&words).succeed().ends_with("are right\n"));
    };
    talk("50", "100000");
    talk("1", "104857600");
    let (sent, received) = sum(asyncio_bytes(50, 100_000), asyncio_bytes(1, BODY_BYTES));
    accelerated.carried_exactly(Carried { received: sent, sent: received });
    server.stop();
    accelerated.nothing_is_left();
}

#[test]
fn asyncio_is_a_client_of_many_connections_at_once() {
    install();
    let accelerated = Accelerated::start();
    let host = accelerated.there().ipv4().to_string();
    let mut server = accelerated.run_there(&[PYTHON, &script("asyncio_server.py"), &host, PORT]);
    server.wait_until_it_says("listening");
    let client = script("asyncio_client.py");
    let talk = |count: &str, size: &str| {
        let words = [PYTHON, &client, &host, PORT, count, size];
        assert!(accelerated.run(&words).succeed().ends_with("are right\n"));
    };
    talk("50", "100000");
    talk("1", "104857600");
    let (sent, received) = sum(asyncio_bytes(50, 100_000), asyncio_bytes(1, BODY_BYTES));
    accelerated.carried_exactly(Carried { received, sent });
    accelerated.nothing_is_left();
}

#[test]
fn datagram_endpoints_of_asyncio_are_answered_over_the_wire_and_within_the_host() {
    install();
    let accelerated = Accelerated::start();
    let before = kernel_udp(accelerated.here(), "InDatagrams");
    let datagrams = script("asyncio_datagrams.py");
    for (is_server_here, is_client_here) in [(true, false), (false, true), (true, true)] {
        let side = if is_server_here { accelerated.here() } else { accelerated.there() };
        let host = side.ipv4().to_string();
        let run = |words: &[&str], is_here: bool| match is_here {
            true => accelerated.run(words),
            false => accelerated.run_there(words),
        };
        let mut server = run(&[PYTHON, &datagrams, &host, PORT], is_server_here);
        server.wait_until_it_says("listening");
        let client = run(&[PYTHON, &datagrams, &host, PORT, "60"], is_client_here);
        let said = client.succeed();
        assert_eq!(said, "60 endpoints were answered\n", "{is_server_here} {is_client_here}");
        server.kill();
        if !(is_server_here && is_client_here) {
            let seen = kernel_udp(accelerated.here(), "InDatagrams");
            assert_eq!(seen, before, "the kernel has seen some");
        }
    }
    // Datagrams of one host are the kernel's, and that is said of each connected socket.
    let reasons: Vec<String> = accelerated.fallbacks().into_iter().map(|of| of.reason).collect();
    assert_eq!(reasons, ["loopback_peer_not_accelerated"]);
    accelerated.nothing_is_left();
}
