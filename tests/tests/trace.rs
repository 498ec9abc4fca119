//! `calisto trace`: where the time of requests goes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use whole::{Accelerated, Program, TIMEOUT, binary, run, wait_for};

/// Answers each request after a time, and says when it listens.
const SLOW: &str = "import socket, sys, time\n\
    listener = socket.create_server((sys.argv[1], 8000))\n\
    print('listening', flush=True)\n\
    while True:\n\
    \x20   one, _ = listener.accept()\n\
    \x20   while request := one.recv(100):\n\
    \x20       time.sleep(float(sys.argv[2]))\n\
    \x20       one.sendall(request)\n";

fn trace(accelerated: &Accelerated, words: &str) -> Command {
    let mut command = Command::new(binary("calisto"));
    command.arg("trace").args(words.split_whitespace());
    command.env("CALISTO_ADMIN", accelerated.daemon().socket());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits until somebody traces: then another one is refused, whom else it would be refused for.
fn is_at_work(accelerated: &Accelerated) {
    wait_for("the trace to be at work", || {
        let (status, _, said) = run(&mut trace(accelerated, "--app nobody"));
        assert_eq!(status.code(), Some(1), "{said}");
        said.contains("one at a time").then_some(()).ok_or(said)
    });
}

fn serve(accelerated: &Accelerated, seconds: &str) -> (Program, TcpStream) {
    let here = accelerated.here().ipv4();
    let words = ["python3", "-c", SLOW, &here.to_string(), seconds];
    let mut server = accelerated.run(&words);
    server.wait_until_it_says("listening");
    let address = SocketAddr::from((here, 8000));
    let stream = accelerated.there().enter(|| TcpStream::connect(address));
    let stream = stream.expect("the namespace is there").expect("it listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("no zero");
    (server, stream)
}

fn ask(stream: &mut TcpStream) {
    stream.write_all(b"request").expect("it is there");
    stream.read_exact(&mut [0; 7]).expect("it answers");
}

fn stage<'a>(found: &'a Value, name: &str) -> &'a Value {
    let stages = found["stages"].as_array().expect("a list");
    stages.iter().find(|stage| stage["stage"] == name).expect(name)
}

#[test]
fn the_time_of_requests_is_found_where_the_program_spends_it_and_nothing_is_left_of_the_search() {
    let accelerated = Accelerated::start();
    let (server, mut stream) = serve(&accelerated, "0.02");
    let tracing =
        Program::spawn(&mut trace(&accelerated, "--app python3 --one-in 1 --seconds 600 -j"));
    is_at_work(&accelerated);
    (0..40).for_each(|_| ask(&mut stream));
    // What was answered last is on its way to the operator.
    std::thread::sleep(Duration::from_millis(500));
    tracing.signal(rustix::process::Signal::INT);
    let finished = tracing.end();
    assert!(finished.status.success(), "{}", finished.said);
    let found: Value = serde_json::from_str(&finished.out).expect("one line");
    let requests = found["requests"].as_u64().expect("a count");
    assert!((30..=40).contains(&requests), "{found}");
    for nothing in ["lost", "strange"] {
        assert_eq!(found[nothing], 0, "{found}");
    }
    let application = stage(&found, "application");
    assert!(application["p50_us"].as_f64().expect("a time") >= 20_000.0, "{found}");
    assert!(application["share"].as_f64().expect("a share") > 0.3, "{found}");
    let shares = found["stages"].as_array().expect("a list").iter();
    let together: f64 = shares.map(|stage| stage["share"].as_f64().expect("a share")).sum();
    assert!((together - 1.0).abs() < 1e-6, "{found}");
    // Another one begins from nothing, in words.
    let tracing = Program::spawn(&mut trace(&accelerated, "--one-in 2 --seconds 600"));
    is_at_work(&accelerated);
    (0..10).for_each(|_| ask(&mut stream));
    std::thread::sleep(Duration::from_millis(500));
    tracing.signal(rustix::process::Signal::INT);
    let finished = tracing.end();
    assert!(finished.status.success(), "{}", finished.said);
    let first = finished.out.lines().next().expect("a line");
    assert!(first.contains("one of 2 requests of the only program"), "{first}");
    assert!(finished.out.contains("application") && finished.out.contains("##"), "{first}");
    ask(&mut stream);
    accelerated.all_was_accelerated();
    drop(stream);
    drop(server.stop());
    accelerated.nothing_is_left();
}

#[test]
fn who_traces_in_vain_is_told_why_and_a_program_that_comes_later_is_traced_too() {
    let accelerated = Accelerated::start();
    let (status, _, said) = run(&mut trace(&accelerated, "--seconds 1"));
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("calisto run"), "{said}");
    let (status, _, said) = run(&mut trace(&accelerated, "--app nobody --seconds 1"));
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("no application \"nobody\""), "{said}");
    let tracing = Program::spawn(&mut trace(&accelerated, "--one-in 1 --seconds 600 -j"));
    is_at_work(&accelerated);
    let (server, mut stream) = serve(&accelerated, "0");
    (0..10).for_each(|_| ask(&mut stream));
    std::thread::sleep(Duration::from_millis(500));
    tracing.signal(rustix::process::Signal::INT);
    let finished = tracing.end();
    let found: Value = serde_json::from_str(&finished.out).expect("one line");
    assert!(found["requests"].as_u64().expect("a count") >= 8, "{found} {}", finished.said);
    drop(server.stop());
}
