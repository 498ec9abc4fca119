//! `calisto try`: what it says before and after a run, beside what has happened.

use std::process::Command;

use serde_json::Value;
use whole::{Accelerated, Program, Trap, binary, project};

const PYTHON: &str = "/usr/bin/python3";

fn script(name: &str) -> String {
    project().join("tests/programs").join(name).display().to_string()
}

/// `calisto try` where the daemon is.
fn trial(accelerated: &Accelerated, words: &[&str]) -> Program {
    let mut command: Command = accelerated.here().command(binary("calisto"));
    command.arg("try").args(words);
    command.env("CALISTO_ADMIN", accelerated.daemon().socket());
    command.env("CALISTO_APPS", accelerated.daemon().apps_socket());
    Program::spawn(command.current_dir(accelerated.daemon().folder()))
}

/// The report, which stands last on standard error.
fn report(said: &str) -> Value {
    let line = said.lines().rev().find(|line| line.starts_with('{'));
    serde_json::from_str(line.expect("a line of JSON")).expect("it is JSON")
}

#[test]
fn a_server_that_was_tried_is_told_what_its_callers_moved_and_that_nothing_was_left_to_the_kernel()
{
    let accelerated = Accelerated::start();
    let host = accelerated.here().ipv4().to_string();
    let server = [PYTHON, &script("asyncio_server.py"), "0.0.0.0", "8000"];
    let mut server = trial(&accelerated, &[&["-j", "--"][..], &server].concat());
    server.wait_until_it_says("listening");
    let client = [PYTHON, &script("asyncio_client.py"), &host, "8000", "5", "50000"];
    assert!(accelerated.run_there(&client).succeed().ends_with("are right\n"));
    // It is passed on to the program.
    let ended = server.stop();
    let report = report(&ended.said);
    let carried = &report["carried"];
    assert_eq!(carried["connections"], 5, "{report}");
    assert_eq!(carried["bytes_received"], 250_000, "{report}");
    assert!(carried["bytes_sent"].as_u64() > Some(250_000), "{report}");
    assert!(carried["sockets_seen"].as_u64() > Some(0), "{report}");
    assert_eq!(carried["left_to_kernel"], serde_json::json!({}), "{report}");
    assert_eq!(carried["has_others"], false, "{report}");
    assert_eq!(report["plan"]["is_accelerated"], true, "{report}");
    assert!(report.get("kernel").is_none(), "{report}");
    let code = report["accelerated"]["exit_code"].as_u64();
    assert_eq!(ended.status.code().map(|code| code as u64), code, "{report}");
    assert!(report["accelerated"]["cpu_seconds"].as_f64() > Some(0.0), "{report}");
    assert!(!ended.out.contains('{'), "the program's output is its own: {}", ended.out);
    accelerated.all_was_accelerated();
}

#[test]
fn a_client_is_run_on_the_kernel_first_when_that_is_asked_for_and_both_stand_side_by_side() {
    let accelerated = Accelerated::start();
    let there = accelerated.there().ipv4().to_string();
    let server = [PYTHON, &script("asyncio_server.py"), "0.0.0.0", "8000"];
    let mut server = accelerated.run_there(&server);
    server.wait_until_it_says("listening");
    let client = [PYTHON, &script("asyncio_client.py"), &there, "8000", "3", "100000"];
    let ended = trial(&accelerated, &[&["--kernel-too", "--"][..], &client].concat()).end();
    assert!(ended.status.success(), "{}{}", ended.out, ended.said);
    assert_eq!(ended.out.matches("are right").count(), 2, "it ran twice: {}", ended.out);
    let said = &ended.said;
    for part in ["It would be accelerated", "3 connections", "300,000 bytes sent"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    for row in ["kernel ", "Calisto "] {
        assert!(said.lines().any(|line| line.starts_with(row)), "{row}: {said}");
    }
    server.kill();
}

#[test]
fn what_a_program_leaves_to_the_kernel_is_told_with_the_reason() {
    let accelerated = Accelerated::start();
    let there = accelerated.there().ipv4().to_string();
    let marks = "import socket, sys; s = socket.socket(); \
                 s.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 7); \
                 s.connect_ex((sys.argv[1], 9))";
    let file = accelerated.daemon().folder().join("report.json");
    let name = file.to_str().expect("it is text");
    let words = ["-j", "-o", name, "--", PYTHON, "-c", marks, &there];
    let ended = trial(&accelerated, &words).end();
    let told = std::fs::read_to_string(&file).expect("it was written");
    assert_eq!(report(&told)["carried"]["connections"], 0, "{told}");
    assert!(!ended.said.contains('{'), "{}", ended.said);
    let ended = trial(&accelerated, &["--", PYTHON, "-c", marks, &there]).end();
    assert!(ended.said.contains("Nothing went through the data plane."), "{}", ended.said);
    let left = "1 sockets: an option was set that only the kernel has";
    assert!(ended.said.contains(left), "{}", ended.said);
}

#[test]
fn a_program_that_cannot_be_accelerated_is_not_run() {
    let accelerated = Accelerated::start();
    let alone = Trap::build_with("limits", &["-static"]);
    let ended = trial(&accelerated, &["--", alone.path(), "here", "127.0.0.1", "127.0.0.1"]).end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.said);
    for part in ["statically linked", "nothing to try until"] {
        assert!(ended.said.contains(part), "{part}: {}", ended.said);
    }
    assert_eq!(ended.out, "");
}
