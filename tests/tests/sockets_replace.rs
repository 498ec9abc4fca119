//! Another daemon takes the place of the one that runs (`calisto up --replace`): no connection
//! breaks, and programs go on at the new one.

use std::fs::File;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use admin::ReplyBody;
use whole::{Accelerated, Program, Talks, beside, binary, wait_for};

use crate::sockets_death::{PORT, serve};

fn pid_of_daemon(accelerated: &Accelerated) -> u32 {
    match accelerated.daemon().ask(admin::Command::Status) {
        ReplyBody::Status(status) => status.pid,
        other => panic!("{other:?} is no status"),
    }
}

/// `calisto up --replace` with the configuration of the daemon that runs, and more settings.
fn replace(accelerated: &Accelerated, settings: &[&str]) -> Command {
    let mut command = accelerated.here().command(binary("calisto"));
    command.args(["up", "--replace", "--config"]);
    command.arg(accelerated.daemon().folder().join("calisto.toml"));
    settings.iter().for_each(|set| _ = command.args(["--set", set]));
    command
}

/// Waits until the daemon that answers serves the program's listener.
fn await_listener(accelerated: &Accelerated) {
    wait_for("the listener at the new daemon", || {
        let rows = accelerated.sockets();
        match rows.iter().filter(|row| row.remote.is_none()).count() {
            0 => Err(format!("{rows:?}")),
            _ => Ok(()),
        }
    });
}

#[test]
fn a_daemon_is_replaced_again_and_again_under_callers_of_whom_none_notices() {
    let accelerated = Accelerated::start();
    let server = serve(&accelerated, "epoll_edge");
    let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
    let (mut all, mut before): (Vec<Talks>, Option<Program>) = Default::default();
    for _ in 0..3 {
        let old = pid_of_daemon(&accelerated);
        let mut talks = Talks::connect(accelerated.there(), 20, here);
        talks.echo(5000);
        let served = accelerated.sockets().iter().filter(|row| row.remote.is_some()).count();
        assert_eq!(served, 20, "those from before are the kernel's");
        let talking = |stop: &AtomicBool| talks.echo_until(stop);
        let (_, mut next) = beside(talking, || {
            let mut next = Program::spawn(&mut replace(&accelerated, &[]));
            next.wait_until_it_says(&format!("serves in place of {old}"));
            await_listener(&accelerated);
            next
        });
        assert_ne!(pid_of_daemon(&accelerated), old);
        assert!(next.ended().is_none(), "it stays, as `calisto up` does");
        // Whoever had started the one before sees it end in order.
        before.replace(next).into_iter().for_each(|ended| _ = ended.succeed());
        all.push(talks);
        all.iter_mut().for_each(|talks| talks.echo(3000));
    }
    all.into_iter().for_each(|talks| _ = talks.end());
    let last = before.expect("there was a last one").stop();
    assert!(last.status.success(), "{}", last.said);
    let said = server.kill().said;
    assert!(!said.contains("Error"), "{said}");
}

#[test]
fn a_replacement_that_is_wrong_or_does_not_come_up_leaves_the_daemon_before_at_work() {
    let accelerated = Accelerated::start();
    let server = serve(&accelerated, "epoll_edge");
    let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
    let mut talks = Talks::connect(accelerated.there(), 10, here);
    talks.echo(5000);
    let first = pid_of_daemon(&accelerated);
    for wrong in ["workers.jbo=\"sockets\"", "steer.policy=\"nope\"", "ports=[\"xdp:veth9\"]"] {
        let refused = Program::spawn(&mut replace(&accelerated, &[wrong])).end();
        assert_eq!(refused.status.code(), Some(2), "{wrong}: {}", refused.said);
        assert_eq!(pid_of_daemon(&accelerated), first);
    }
    let rows = accelerated.sockets();
    assert_eq!(rows.iter().filter(|row| row.remote.is_some()).count(), 10, "they are served still");
    // No check beforehand can know that.
    let set = "apps.socket=\"/proc/nowhere/apps.sock\"";
    let mut failed = Program::spawn(&mut replace(&accelerated, &[set]));
    // Not until nothing more is said: the daemon before has its output now.
    failed.wait_until_it_says("the one before serves again");
    let status = wait_for("its end", || failed.ended().ok_or("it runs".to_owned()));
    assert_eq!(status.code(), Some(1));
    assert_ne!(pid_of_daemon(&accelerated), first);
    await_listener(&accelerated);
    talks.echo(5000);
    let mut more = Talks::connect(accelerated.there(), 5, here);
    more.echo(5000);
    assert_eq!(accelerated.sockets().iter().filter(|row| row.remote.is_some()).count(), 5);
    more.end();
    talks.end();
    // No process here is its parent.
    accelerated.daemon().calisto("down");
    let said = server.kill().said;
    assert!(!said.contains("Error"), "{said}");
}

#[test]
fn of_two_replacements_at_once_one_is_refused_and_no_connection_breaks() {
    let accelerated = Accelerated::start();
    let server = serve(&accelerated, "epoll_edge");
    let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
    let mut talks = Talks::connect(accelerated.there(), 20, here);
    talks.echo(5000);
    let old = pid_of_daemon(&accelerated);
    // Another one that is at work, for as long as this test likes.
    let turn = accelerated.daemon().folder().join("admin.sock.replace");
    let turn = File::create(turn).expect("the folder is ours");
    turn.lock().expect("nobody else replaces");
    let refused = Program::spawn(&mut replace(&accelerated, &[])).end();
    assert_eq!(refused.status.code(), Some(1), "{}", refused.said);
    assert!(refused.said.contains("another `calisto up --replace`"), "{}", refused.said);
    assert_eq!(pid_of_daemon(&accelerated), old);
    let served = accelerated.sockets().iter().filter(|row| row.remote.is_some()).count();
    assert_eq!(served, 20, "the daemon has not begun to end");
    drop(turn);
    let mut next = Program::spawn(&mut replace(&accelerated, &[]));
    next.wait_until_it_says(&format!("serves in place of {old}"));
    await_listener(&accelerated);
    talks.echo(5000);
    talks.end();
    let last = next.stop();
    assert!(last.status.success(), "{}", last.said);
    let said = server.kill().said;
    assert!(!said.contains("Error"), "{said}");
}
