//! The process that goes on with connections when the daemon is dead: what takes it from programs,
//! and what it can carry.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::net::AddressFamily;
use rustix::net::sockopt::socket_domain;
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Resource, Rlimit, Signal, getrlimit, kill_process,
    pidfd_getfd, pidfd_open, prlimit,
};
use testbed::Side;
use whole::{
    Accelerated, Program, Random, TIMEOUT, Talks, binary, install, kernel_retransmissions, project,
    run, wait_for,
};

use crate::sockets_death::{PORT, end_by, guardian_of, kill, serve, start_again, starter_of};

const PYTHON: &str = "/usr/bin/python3";

#[test]
fn a_program_that_is_put_out_takes_the_guardian_from_nobody() {
    let mut accelerated = Accelerated::with_workers("arrangement = \"threads\"\ncount = 1", "");
    let script = project().join("tests/programs/asyncio_server.py").display().to_string();
    for _ in 0..3 {
        let mut other = accelerated.run(&[PYTHON, &script, "0.0.0.0", "9000"]);
        other.wait_until_it_says("listening");
        accelerated.daemon().calisto("detach python3");
        other.kill();
        accelerated.nothing_is_left();
    }
    assert_eq!(accelerated.daemon().counter("attach_guardian_ended"), 0);
    let server = serve(&accelerated, "epoll");
    let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
    let mut talks = Talks::connect(accelerated.there(), 5, here);
    talks.echo(1000);
    kill(&mut accelerated, 5);
    talks.echo(1000);
    talks.end();
    server.kill();
}

#[test]
fn a_program_that_sleeps_for_as_long_as_the_guardian_works_keeps_hundreds_of_connections() {
    let mut accelerated = Accelerated::start();
    let server = serve(&accelerated, "epoll");
    let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
    let mut talks = Talks::connect(accelerated.there(), 600, here);
    talks.echo(100);
    // It takes none of the sockets that it is sent before all of them are there.
    server.signal(Signal::STOP);
    kill(&mut accelerated, 600);
    server.signal(Signal::CONT);
    talks.echo(1000);
    talks.end();
    let said = server.kill().said;
    assert!(!said.contains("Error"), "{said}");
}

/// Waits for another guardian, with which all is well.
fn await_another(accelerated: &Accelerated) {
    wait_for("another guardian", || {
        match accelerated.daemon().counter("attach_guardian_started") {
            0 => Err("there is none".to_owned()),
            _ => Ok(()),
        }
    });
    wait_for("a status that says nothing of it", || {
        match accelerated.daemon().try_calisto("status") {
            (status, ..) if status.success() => Ok(()),
            (_, said, error) => Err(format!("{said}{error}")),
        }
    });
}

#[test]
fn another_guardian_takes_the_place_of_one_that_was_killed_and_knows_all_that_it_knew() {
    let mut accelerated = Accelerated::start();
    let server = serve(&accelerated, "epoll_edge");
    let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
    let mut talks = Talks::connect(accelerated.there(), 200, here);
    talks.echo(1000);
    let daemon = accelerated.daemon().pid();
    // As a shell may have it; it is to take what it may.
    let few = Rlimit { current: Some(64), ..getrlimit(Resource::Nofile) };
    prlimit(Some(starter_of(daemon)), Resource::Nofile, few).expect("root may");
    kill_process(guardian_of(daemon), Signal::KILL).expect("it lives");
    await_another(&accelerated);
    talks.echo(1000);
    server.signal(Signal::STOP);
    kill(&mut accelerated, 200);
    server.signal(Signal::CONT);
    talks.echo(5000);
    talks.end();
    let said = server.kill().said;
    assert!(!said.contains("Error"), "{said}");
}

/// Forks so often that a guardian which does not read has no room for the next word.
const FORKS: &str = "
import os, socket
own = socket.socket()
own.bind(('0.0.0.0', 9000))
own.listen()
for _ in range(400):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
";

#[test]
fn a_guardian_that_is_stopped_is_ended_and_another_takes_its_place() {
    let mut accelerated = Accelerated::start();
    let server = serve(&accelerated, "epoll");
    let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
    let mut talks = Talks::connect(accelerated.there(), 5, here);
    talks.echo(1000);
    let stopped = guardian_of(accelerated.daemon().pid());
    kill_process(stopped, Signal::STOP).expect("it lives");
    accelerated.run(&[PYTHON, "-c", FORKS]).succeed();
    await_another(&accelerated);
    assert!(kill_process(stopped, Signal::CONT).is_err(), "it is no more");
    kill(&mut accelerated, 5);
    talks.echo(1000);
    talks.end();
    server.kill();
}

#[test]
fn a_daemon_that_hangs_is_ended_and_its_connections_go_on() {
    let mut accelerated = Accelerated::with("[sockets]\nhang_ms = 3000\n");
    let server = serve(&accelerated, "epoll");
    let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
    let mut talks = Talks::connect(accelerated.there(), 5, here);
    talks.echo(1000);
    end_by(&mut accelerated, Signal::STOP, "goes on with 5 connections; 0 are lost");
    assert!(accelerated.daemon().said().contains("the daemon hangs"));
    talks.echo(1000);
    talks.end();
    server.kill();
}

#[test]
fn twenty_deaths_at_any_time_break_no_connection() {
    let mut accelerated = Accelerated::start();
    let server = serve(&accelerated, "epoll_edge");
    let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
    let mut random = Random::new(20);
    let mut all: Vec<Talks> = Vec::new();
    for _ in 0..20 {
        let mut talks = Talks::connect(accelerated.there(), 6, here);
        talks.echo(100);
        let stop = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let busy = threads.spawn(|| talks.echo_until(&stop));
            std::thread::sleep(Duration::from_micros(random.any() % 50_000));
            kill(&mut accelerated, 6);
            stop.store(true, Ordering::Relaxed);
            busy.join().expect("the echo goes on");
        });
        all.push(talks);
        start_again(&mut accelerated);
    }
    for mut talks in all {
        talks.echo(2000);
        talks.end();
    }
    let said = server.kill().said;
    assert!(!said.contains("Error"), "{said}");
}

#[test]
fn a_guardian_that_cannot_be_started_is_tried_again_although_nothing_else_happens() {
    let accelerated = Accelerated::start();
    let daemon = accelerated.daemon().pid();
    for process in [guardian_of(daemon), starter_of(daemon)] {
        kill_process(process, Signal::KILL).expect("it lives");
    }
    wait_for("the second try", || match accelerated.daemon().counter("attach_guardian_ended") {
        tries @ 0..3 => Err(format!("{tries}")),
        _ => Ok(()),
    });
    assert_eq!(accelerated.daemon().counter("attach_guardian_started"), 0);
}

/// Changes the rules for packets of a namespace.
fn nft(side: &Side, rules: &str) {
    let (status, _, said) = run(side.command("nft").arg(rules));
    assert!(status.success(), "{said}");
}

#[test]
fn what_died_on_its_way_to_a_peer_is_sent_again_at_once_and_not_by_a_timer_of_the_kernel() {
    install(&["nft=nftables"]);
    for is_v4 in [true, false] {
        let mut accelerated = Accelerated::start();
        let server = serve(&accelerated, "epoll");
        let here = match is_v4 {
            true => SocketAddr::from((accelerated.here().ipv4(), PORT)),
            false => SocketAddr::from((accelerated.here().ipv6(), PORT)),
        };
        let stream = accelerated.there().enter(|| TcpStream::connect_timeout(&here, TIMEOUT));
        let mut stream = stream.expect("the namespace is there").expect("it listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("no zero");
        let echo = |stream: &mut TcpStream| {
            let mut back = [0; 5000];
            stream.read_exact(&mut back).expect("it is answered");
            assert!(back.iter().all(|byte| *byte == 7));
        };
        stream.write_all(&[7; 5000]).expect("it is connected");
        echo(&mut stream);
        // From here on nothing comes to the caller.
        nft(
            accelerated.there(),
            "add table inet deaf; add chain inet deaf in { type filter hook input priority 0; }; \
             add rule inet deaf in tcp sport 8000 drop",
        );
        let sent = accelerated.carried().sent;
        stream.write_all(&[7; 5000]).expect("it is connected");
        wait_for("the answer on its way", || match accelerated.carried().sent - sent {
            5000 => Ok(()),
            less => Err(format!("{less}")),
        });
        let (daemon, _) = accelerated.daemon_mut();
        daemon.signal(Signal::STOP);
        nft(accelerated.there(), "delete table inet deaf");
        kill(&mut accelerated, 1);
        echo(&mut stream);
        assert_eq!(kernel_retransmissions(accelerated.here()), 0);
        stream.write_all(&[7; 5000]).expect("it is connected");
        echo(&mut stream);
        server.kill();
    }
}

/// Copies of what keeps the interfaces' programs and queues: links, maps, and sockets of AF_XDP.
fn keeping_interfaces(guardian: Pid) -> Vec<OwnedFd> {
    let process = pidfd_open(guardian, PidfdFlags::empty()).expect("it lives");
    let folder = format!("/proc/{}/fd", guardian.as_raw_nonzero());
    let is_meant = |target: &str, copy: &OwnedFd| {
        let is_xdp = || socket_domain(copy).is_ok_and(|domain| domain == AddressFamily::XDP);
        target.starts_with("anon_inode:bpf") || (target.starts_with("socket:") && is_xdp())
    };
    let entries = std::fs::read_dir(folder).expect("it lives").flatten();
    let copies = entries.filter_map(|entry| {
        let target = std::fs::read_link(entry.path()).ok()?;
        let number = entry.file_name().to_str()?.parse().ok()?;
        let copy = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok()?;
        is_meant(target.to_str()?, &copy).then_some(copy)
    });
    copies.collect()
}

#[test]
fn new_connections_are_the_kernels_although_an_interface_cannot_be_let_go_of() {
    let mut accelerated = Accelerated::start();
    let server = serve(&accelerated, "epoll");
    let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
    let mut talks = Talks::connect(accelerated.there(), 5, here);
    talks.echo(1000);
    // As if the kernel were slow to detach the program.
    let kept = keeping_interfaces(guardian_of(accelerated.daemon().pid()));
    assert!(kept.len() >= 4, "a link, three maps and sockets: {kept:?}");
    kill(&mut accelerated, 5);
    let mut more = Talks::connect(accelerated.there(), 5, here);
    more.echo(1000);
    talks.echo(1000);
    drop(kept);
    more.end();
    talks.end();
    server.kill();
}

#[test]
fn a_daemon_that_cannot_begin_has_not_died() {
    let accelerated = Accelerated::start();
    let folder = accelerated.daemon().folder().to_owned();
    accelerated.daemon().calisto("down");
    let file = folder.join("no-socket");
    std::fs::write(&file, "").expect("the folder is ours");
    let mut command: Command = accelerated.here().command(binary("calistod"));
    command.arg("--config").arg(folder.join("calisto.toml"));
    command.args(["--set", &format!("admin_socket={:?}", file.display().to_string())]);
    let ended = Program::spawn(&mut command).end();
    assert!(!ended.status.success() && ended.said.contains("is no socket"), "{}", ended.said);
    assert!(!ended.said.contains("has died"), "{}", ended.said);
}
