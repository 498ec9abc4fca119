//! The configuration read again while the daemon runs: all that has changed holds, or nothing.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use testbed::{Testbed, TestbedConfig};
use whole::{Accelerated, Daemon, Finished, project, run, wait_for};

const PYTHON: &str = "/usr/bin/python3";

fn script(name: &str) -> String {
    project().join("tests/programs").join(name).display().to_string()
}

/// The file that a daemon was started with.
fn file(daemon: &Daemon) -> PathBuf {
    daemon.folder().join("calisto.toml")
}

/// Puts another file in its place, as editors do.
fn write(daemon: &Daemon, text: &str) {
    let beside = daemon.folder().join("calisto.toml.new");
    fs::write(&beside, text).expect("the folder is the test's");
    fs::rename(beside, file(daemon)).expect("the folder is the test's");
}

fn text(daemon: &Daemon) -> String {
    fs::read_to_string(file(daemon)).expect("it was started with it")
}

/// What `calisto reload` says that it cannot do.
fn refused(daemon: &Daemon) -> String {
    let (status, _, said) = daemon.try_calisto("reload");
    assert_eq!(status.code(), Some(1), "{said}");
    said
}

#[test]
fn reloads_under_load_lose_nothing_and_reset_nobody() {
    let accelerated = Accelerated::with_workers("count = 1\nmax = 4", "");
    let daemon = accelerated.daemon();
    let mut server = accelerated.run(&[PYTHON, &script("asyncio_server.py"), "0.0.0.0", "8000"]);
    server.wait_until_it_says("listening");
    let host = accelerated.here().ipv4().to_string();
    let talk = [PYTHON, &script("asyncio_client.py"), &host, "8000", "16", "4000000"];
    let talking = accelerated.run_there(&talk);
    wait_for("load", || match daemon.counter("tcp_bytes_received") {
        0..1_000_000 => Err("little has come".to_owned()),
        _ => Ok(()),
    });
    let before = text(daemon);
    for round in 0..6 {
        // A table of another kind each time, and whole tables that come and go.
        let policy = ["sticky", "modulo"][round % 2];
        let count = 1 + round % 3;
        let tenant = ["", "[[tenant]]\nuid = \"*\"\nlisten = [\"*:8000\"]\n"][round % 2];
        let changed = before.replace("count = 1", &format!("count = {count}"));
        write(daemon, &format!("{changed}\n[steer]\npolicy = {policy:?}\n{tenant}"));
        if round % 2 == 0 {
            daemon.calisto("reload");
        } else {
            daemon.signal(Signal::HUP);
            wait_for("the policy", || match daemon.calisto("status") {
                said if said.contains(&format!("policy {policy}")) => Ok(()),
                said => Err(said),
            });
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let Finished { status, out, said } = talking.end();
    assert!(status.success() && out.contains("are right"), "{said}");
    server.kill();
    accelerated.nothing_is_left();
}

#[test]
fn rules_for_users_hold_for_what_is_asked_for_after_a_reload() {
    let accelerated = Accelerated::with("");
    let daemon = accelerated.daemon();
    let serve =
        |port: &str| accelerated.run(&[PYTHON, &script("asyncio_server.py"), "0.0.0.0", port]);
    let mut first = serve("8000");
    first.wait_until_it_says("listening");
    let before = text(daemon);
    write(daemon, &format!("{before}\n[[tenant]]\nuid = \"*\"\nlisten = [\"*:8000\"]\n"));
    assert_eq!(daemon.calisto("reload"), "changed: tenant\n");
    let Finished { status, said, .. } = serve("8001").end();
    assert!(!status.success() && said.contains("PermissionError"), "{said}");
    assert_eq!(accelerated.sockets().len(), 1, "what listens already goes on");
    write(daemon, &before);
    let told = daemon.calisto("reload -j");
    assert!(told.contains("\"changed\"") && told.contains("\"tenant\""), "{told}");
    serve("8001").wait_until_it_says("listening");
    assert_eq!(daemon.calisto("reload"), "nothing has changed\n");
    first.kill();
}

#[test]
fn what_needs_a_restart_or_is_wrong_is_named_and_nothing_is_changed() {
    let bed = Testbed::new(TestbedConfig::default()).expect("this test needs root and ip");
    let ports = "ports = [\"xdp:veth0\"]\nlisten = [\"udp:10.77.0.2:7\"]\n";
    let daemon = Daemon::start(bed.server(), &format!("{ports}[workers]\njob = \"echo\"\n"));
    let before = text(&daemon);
    let is_unchanged = || {
        let said = daemon.calisto("status");
        assert!(
            said.contains("policy sticky") && said.contains("listens on udp:10.77.0.2:7\n"),
            "{said}"
        );
    };
    let steer = "[steer]\npolicy = \"modulo\"\n";
    write(&daemon, &format!("{before}{steer}[frames]\ncount = 8192\n"));
    let said = refused(&daemon);
    assert!(said.contains("frames.count can only change with a restart"), "{said}");
    is_unchanged();
    write(&daemon, &format!("{before}{steer}[apps]\nallow = [\"user:no-such-user\"]\n"));
    assert!(refused(&daemon).contains("no-such-user"));
    is_unchanged();
    write(&daemon, &format!("{before}{steer}tick_us = \"soon\"\n"));
    let said = refused(&daemon);
    assert!(said.contains("line") && said.contains("steer.tick_us"), "{said}");
    is_unchanged();
    fs::remove_file(file(&daemon)).expect("it is there");
    assert!(refused(&daemon).contains("calisto.toml"));
    is_unchanged();
    write(&daemon, &format!("{before}{steer}"));
    assert_eq!(daemon.calisto("reload"), "changed: steer.policy\n");
    assert!(daemon.calisto("status").contains("policy modulo"));
}

#[test]
fn a_file_that_has_become_a_pipe_or_too_long_or_no_text_is_refused_and_reloads_go_on() {
    let bed = Testbed::new(TestbedConfig::default()).expect("this test needs root and ip");
    let daemon = Daemon::start(bed.server(), "ports = [\"xdp:veth0\"]\n");
    let before = text(&daemon);
    fs::remove_file(file(&daemon)).expect("it is there");
    let (status, _, said) = run(Command::new("mkfifo").arg(file(&daemon)));
    assert!(status.success(), "{said}");
    assert!(refused(&daemon).contains("it is a pipe (FIFO)"));
    fs::remove_file(file(&daemon)).expect("it is there");
    fs::write(file(&daemon), "#\n".repeat(1 << 20)).expect("the folder is the test's");
    assert!(refused(&daemon).contains("longer than the 1 MiB"));
    fs::write(file(&daemon), b"# one\n# \xff\n").expect("the folder is the test's");
    assert!(refused(&daemon).contains("line 2 is no text"));
    write(&daemon, &before);
    assert_eq!(daemon.calisto("reload"), "nothing has changed\n");
}

#[test]
fn listeners_of_the_daemons_own_workers_come_and_go_by_a_reload() {
    let bed = Testbed::new(TestbedConfig::default()).expect("this test needs root and ip");
    let with = |listen: &str| {
        format!("ports = [\"xdp:veth0\"]\nlisten = [{listen}]\n[workers]\njob = \"echo\"\n")
    };
    let daemon = Daemon::start(bed.server(), &with("\"udp:10.77.0.2:7\""));
    let answers = |port: u16| {
        bed.client()
            .enter(|| {
                let socket = std::net::UdpSocket::bind(("10.77.0.1", 0)).expect("a free port");
                socket.set_read_timeout(Some(Duration::from_millis(300))).expect("no zero");
                (0..10).any(|_| {
                    let _ = socket.send_to(b"hello", ("10.77.0.2", port));
                    socket.recv_from(&mut [0; 16]).is_ok()
                })
            })
            .expect("the namespace is there")
    };
    assert!(answers(7) && !answers(8));
    let head = text(&daemon);
    let head = head.lines().next().expect("its admin socket");
    let listen = |ports: &str| write(&daemon, &format!("{head}\n{}", with(ports)));
    listen("\"udp:10.77.0.2:7\", \"udp:10.77.0.2:8\"");
    assert_eq!(daemon.calisto("reload"), "changed: listen\n");
    assert!(answers(7) && answers(8));
    listen("\"udp:10.77.0.2:8\"");
    daemon.calisto("reload");
    assert!(!answers(7) && answers(8));
}

#[test]
fn what_was_changed_while_it_ran_is_saved_and_holds_after_a_restart() {
    const FLOW: &str = "udp 10.77.0.1:5000 -> 10.77.0.2:7";
    let bed = Testbed::new(TestbedConfig::default()).expect("this test needs root and ip");
    let config = "ports = [\"xdp:veth0\"] # the fast one\nlisten = [\"udp:10.77.0.2:7\"]\n\
                  [workers]\njob = \"echo\"\nmax = 4\n[steer]\ngroups = 128 # few\n";
    let mut daemon = Daemon::start(bed.server(), config);
    let before = text(&daemon);
    let save = format!("config save {}", file(&daemon).display());
    assert!(daemon.calisto(&save).ends_with("says what is in force: it stays as it is\n"));
    daemon.calisto("workers 2");
    daemon.calisto("steer set modulo");
    daemon.calisto("log sockets debug");
    daemon.calisto("steer pin --group 7 0");
    let target = admin::Target::Flow(FLOW.to_owned());
    wait_for("a second worker to pin a flow to", || {
        let pin = admin::Command::SteerPin { target: target.clone(), worker: 1 };
        match daemon.ask(pin) {
            admin::ReplyBody::Done => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    let keys = "log.sockets, steer.pins, steer.policy, workers.count";
    let said = daemon.calisto(&format!("{save} -n"));
    assert!(said.starts_with("would be written into") && said.contains(keys), "{said}");
    assert_eq!(text(&daemon), before, "nothing was asked for but words");
    let said = daemon.calisto(&save);
    assert!(said.contains(&format!("calisto.toml: {keys}\n")), "{said}");
    assert!(said.contains("not kept: group 7 = 0") && said.contains("steer.seed"), "{said}");
    let saved = text(&daemon);
    for line in ["# the fast one", "groups = 128 # few", &format!("pins = [\"{FLOW} = 1\"]")] {
        assert!(saved.contains(line), "{line} is not in {saved}");
    }
    daemon.signal(Signal::TERM);
    daemon.wait();
    daemon.start_again(bed.server());
    wait_for("the flow pinned to the second worker", || match daemon.steer() {
        steer if steer.pinned == [(FLOW.to_owned(), 1)] && steer.policy == "modulo" => Ok(()),
        other => Err(format!("{other:?}")),
    });
    assert_eq!(daemon.calisto("log sockets"), "sockets  debug\nformat   text\n");
    // The file rules again: what it says no longer is let go.
    write(&daemon, &saved.replace(&format!("{FLOW} = 1"), &format!("{FLOW} = 0")));
    assert_eq!(daemon.calisto("reload"), "changed: steer.pins\n");
    wait_for("the flow pinned to the first worker", || match daemon.steer().pinned {
        pinned if pinned == [(FLOW.to_owned(), 0)] => Ok(()),
        other => Err(format!("{other:?}")),
    });
    write(&daemon, &before);
    daemon.calisto("reload");
    wait_for("nothing pinned", || match daemon.steer() {
        steer if steer.pinned.is_empty() && steer.pinned_flows == 0 => Ok(()),
        other => Err(format!("{other:?}")),
    });
}
