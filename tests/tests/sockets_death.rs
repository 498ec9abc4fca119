//! The daemon is killed and the kernel goes on with the connections: programs and peers notice
//! nothing.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use shm::sockets::SlotState;
use testbed::Side;
use whole::{
    Accelerated, KernelTcp, Program, Random, StreamLiar, TIMEOUT, Talks, beside, install, project,
    wait_for, wait_within,
};

const PYTHON: &str = "/usr/bin/python3";
pub(crate) const PORT: u16 = 8000;

fn script(name: &str) -> String {
    project().join("tests/programs").join(name).display().to_string()
}

/// An echo under `calisto run`, at port 8000 of all addresses, that waits in the way that is named.
pub(crate) fn serve(accelerated: &Accelerated, way: &str) -> Program {
    let mut server = accelerated.run(&[PYTHON, &script("echo_ways.py"), way, "::", "8000"]);
    server.wait_until_it_says("listening");
    await_answer(accelerated);
    server
}

pub(crate) fn await_answer(accelerated: &Accelerated) {
    let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
    // A worker of a busy machine may not have heard of the listener yet.
    wait_for("an answer", || {
        let asked = accelerated.there().enter(|| TcpStream::connect(here));
        asked.expect("the namespace is there").map(drop).map_err(|error| error.to_string())
    });
}

fn connect(from: &Side, to: SocketAddr) -> TcpStream {
    let stream = from.enter(|| TcpStream::connect_timeout(&to, TIMEOUT));
    let stream = stream.expect("the namespace is there").expect("somebody listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("no zero");
    stream
}

/// Ends the daemon by a signal, and waits until its guardian has said what became of its
/// connections.
pub(crate) fn end_by(accelerated: &mut Accelerated, signal: Signal, says: &str) {
    let (daemon, _) = accelerated.daemon_mut();
    daemon.signal(signal);
    daemon.wait();
    // How long it took is in what it says. On a busy machine it was once as much as a test waits.
    wait_within(3 * TIMEOUT, "what the guardian says", || {
        let said = daemon.said();
        if said.contains(says) { Ok(()) } else { Err(said) }
    });
}

/// Starts the next daemon, and waits until it serves a listener.
pub(crate) fn start_again(accelerated: &mut Accelerated) {
    let (daemon, side) = accelerated.daemon_mut();
    daemon.start_again(side);
    wait_for("the listener at the new daemon", || {
        let rows = accelerated.sockets();
        match rows.iter().filter(|row| row.remote.is_none()).count() {
            0 => Err(format!("{rows:?}")),
            _ => Ok(()),
        }
    });
}

/// Kills the daemon; the kernel goes on with `connections` of its connections, and loses none.
pub(crate) fn kill(accelerated: &mut Accelerated, connections: usize) {
    let says = format!("goes on with {connections} connections; 0 are lost");
    end_by(accelerated, Signal::KILL, &says);
}

/// The child of a process that was started with that argument.
fn child_of(parent: u32, argument: &str) -> Pid {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let children = std::fs::read_to_string(path).expect("its parent is there");
    let is_meant = |pid: &i32| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
        line.is_ok_and(|line| line.split('\0').any(|word| word == argument))
    };
    let mut pids = children.split_whitespace().map(|pid| pid.parse().expect("a number"));
    let child = pids.find(is_meant).unwrap_or_else(|| panic!("{parent} has no {argument}"));
    Pid::from_raw(child).expect("no zero")
}

/// The process that starts a daemon's guardians.
pub(crate) fn starter_of(daemon: u32) -> Pid {
    child_of(daemon, "--start-guardians")
}

pub(crate) fn guardian_of(daemon: u32) -> Pid {
    child_of(starter_of(daemon).as_raw_nonzero().get().cast_unsigned(), "--guard")
}

#[test]
fn an_echo_of_many_connections_goes_on_over_the_death_of_the_daemon_however_its_server_waits() {
    for way in ["thread", "epoll_edge", "epoll", "poll", "fork"] {
        let mut accelerated = Accelerated::start();
        let server = serve(&accelerated, way);
        let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
        let here_v6 = SocketAddr::from((accelerated.here().ipv6(), PORT));
        let mut talks = Talks::connect(accelerated.there(), 20, here);
        let mut talks_v6 = Talks::connect(accelerated.there(), 10, here_v6);
        talks.echo(30_000);
        talks_v6.echo(1000);
        let talking = |stop: &AtomicBool| talks.echo_until(stop);
        beside(talking, || {
            std::thread::sleep(Duration::from_millis(200));
            kill(&mut accelerated, 30);
            std::thread::sleep(Duration::from_millis(200));
        });
        talks_v6.echo(50_000);
        talks.echo(50_000);
        talks.end();
        talks_v6.end();
        let said = server.kill().said;
        assert!(!said.contains("Error"), "{way}: {said}");
    }
}

#[test]
fn connections_live_through_several_deaths_and_the_next_daemons_serve_what_comes_then() {
    let mut accelerated = Accelerated::start();
    let server = serve(&accelerated, "epoll_edge");
    let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
    let mut all = Vec::new();
    for signal in [Signal::KILL, Signal::ABORT, Signal::KILL] {
        let mut talks = Talks::connect(accelerated.there(), 50, here);
        talks.echo(20_000);
        all.push(talks);
        let busy = all.last_mut().expect("there is one");
        let talking = |stop: &AtomicBool| busy.echo_until(stop);
        beside(talking, || {
            std::thread::sleep(Duration::from_millis(100));
            end_by(&mut accelerated, signal, "goes on with 50 connections; 0 are lost");
        });
        start_again(&mut accelerated);
        all.iter_mut().for_each(|talks| talks.echo(5000));
    }
    all.into_iter().for_each(|talks| _ = talks.end());
    let said = server.kill().said;
    assert!(!said.contains("Error"), "{said}");
}

#[test]
fn a_client_lives_on_as_a_server_does() {
    let mut accelerated = Accelerated::start();
    let address = SocketAddr::from((accelerated.there().ipv4(), PORT));
    let (name, ip) = (script("echo_ways.py"), address.ip().to_string());
    let mut server = accelerated.run_there(&[PYTHON, &name, "thread", &ip, "8000"]);
    server.wait_until_it_says("listening");
    let steady = script("steady_client.py");
    let mut client = accelerated.run(&[PYTHON, &steady, &ip, "8000", "10"]);
    client.wait_until_it_says("begun");
    kill(&mut accelerated, 10);
    client.signal(Signal::USR1);
    assert!(client.succeed().contains("all is right"));
}

#[test]
fn redis_goes_on_with_all_its_callers() {
    install(&["redis-server=redis-server"]);
    let mut accelerated = Accelerated::start();
    let words = ["redis-server", "--port", "6379", "--bind", "0.0.0.0", "--save", ""];
    let more = ["--protected-mode", "no"];
    let mut server = accelerated.run(&[words.as_slice(), &more].concat());
    server.wait_until_it_says("Ready to accept connections");
    let here = SocketAddr::from((accelerated.here().ipv4(), 6379));
    let mut callers: Vec<TcpStream> = (0..20).map(|_| connect(accelerated.there(), here)).collect();
    let mut count = 0;
    let mut increase = |callers: &mut Vec<TcpStream>| {
        for caller in callers {
            count += 1;
            caller.write_all(b"INCR count\r\n").expect("it is connected");
            let answer = format!(":{count}\r\n");
            let mut said = vec![0; answer.len()];
            caller.read_exact(&mut said).expect("it is answered");
            assert_eq!(String::from_utf8_lossy(&said), answer);
        }
    };
    increase(&mut callers);
    kill(&mut accelerated, 20);
    increase(&mut callers);
    start_again(&mut accelerated);
    callers.extend((0..20).map(|_| connect(accelerated.there(), here)));
    increase(&mut callers);
    kill(&mut accelerated, 20);
    increase(&mut callers);
    server.stop();
}

/// Waits until a connection is reset, or ends.
fn hears_the_end(stream: &mut TcpStream) {
    let _ = stream.write(b"x");
    let mut bytes = [0; 1024];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
            Err(error) => panic!("the connection neither ends nor is reset: {error}"),
        }
    }
}

#[test]
fn a_daemon_says_that_it_has_no_guardian_any_more_and_its_death_ends_connections_then() {
    for is_at_once in [false, true] {
        let mut accelerated = Accelerated::start();
        let words = [PYTHON, &script("asyncio_server.py"), "0.0.0.0", "8000"];
        let mut server = accelerated.run(&words);
        server.wait_until_it_says("listening");
        await_answer(&accelerated);
        let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
        let mut caller = connect(accelerated.there(), here);
        let daemon = accelerated.daemon().pid();
        for process in [guardian_of(daemon), starter_of(daemon)] {
            kill_process(process, Signal::KILL).expect("it lives");
        }
        if !is_at_once {
            wait_for("a daemon that has noticed", || {
                match accelerated.daemon().counter("attach_guardian_ended") {
                    0 => Err("it has not".to_owned()),
                    _ => Ok(()),
                }
            });
            // What it says comes behind what it counts.
            wait_for("a word of it", || match accelerated.daemon().said() {
                said if said.contains("the guardian has ended") => Ok(()),
                said => Err(said),
            });
            wait_for("a status that leads with it", || {
                match accelerated.daemon().try_calisto("status") {
                    (status, said, _)
                        if status.code() == Some(1) && said.starts_with("NO GUARDIAN: ") =>
                    {
                        Ok(())
                    }
                    (status, said, error) => Err(format!("{status}: {said}{error}")),
                }
            });
            // It serves as before.
            let mut back = [0; 5];
            caller.write_all(b"hello").expect("it is connected");
            caller.read_exact(&mut back).expect("it is answered");
        }
        let (daemon, _) = accelerated.daemon_mut();
        daemon.kill();
        hears_the_end(&mut caller);
        await_answer(&accelerated);
        server.kill();
    }
}

#[test]
fn a_program_that_lies_at_the_death_of_the_daemon_harms_nobody_else() {
    let mut accelerated = Accelerated::start();
    let server = serve(&accelerated, "epoll");
    let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
    let mut talks = Talks::connect(accelerated.there(), 10, here);
    talks.echo(3000);
    let remote = SocketAddr::from((accelerated.there().ipv4(), 7));
    let _echo = KernelTcp::echo(accelerated.there(), remote);
    let liars = [0, 1, 2, 3].map(|_| StreamLiar::connect(&accelerated, remote));
    for liar in &liars {
        wait_for("a connection", || {
            let state = liar.words().state();
            if state.has(SlotState::CONNECTED) { Ok(()) } else { Err(format!("{state:?}")) }
        });
        // It says that its library follows, and where it has read and written what never was.
        liar.words().follows.store(1, Ordering::Relaxed);
        liar.words().rx_head.store(1 << 40, Ordering::Relaxed);
        liar.words().tx_tail.store(u64::MAX, Ordering::Relaxed);
    }
    let mut random = Random::new(54);
    liars[1].overwrite(|| random.any());
    liars[2].overwrite(|| u64::MAX);
    end_by(&mut accelerated, Signal::KILL, "goes on with 10 connections; ");
    talks.echo(30_000);
    talks.end();
    let said = server.kill().said;
    assert!(!said.contains("Error"), "{said}");
}

/// What `held_callers.py` tells its callers.
fn text(count: usize) -> Vec<u8> {
    let at = |at: usize| ((at % (1 << 16)) * 7 + (at % (1 << 16)) / 251) as u8;
    (0..count).map(at).collect()
}

#[test]
fn what_a_program_has_said_before_it_closed_comes_to_its_peer_after_the_death_of_the_daemon() {
    let mut accelerated = Accelerated::start();
    let (name, count) = (script("held_callers.py"), 2 << 20);
    let words = [PYTHON, &name, "leaver", &count.to_string(), "::", "8000"];
    let mut server = accelerated.run(&words);
    server.wait_until_it_says("listening");
    let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
    let here_v6 = SocketAddr::from((accelerated.here().ipv6(), PORT));
    let mut callers = [here, here_v6].map(|end| connect(accelerated.there(), end));
    wait_for("two that were left", || {
        let said = server.so_far();
        if said.matches("left").count() == callers.len() { Ok(()) } else { Err(said) }
    });
    wait_for("nobody but the listener", || {
        let rows = accelerated.sockets();
        if rows.len() == 1 { Ok(()) } else { Err(format!("{rows:?}")) }
    });
    kill(&mut accelerated, callers.len());
    for caller in &mut callers {
        let mut told = Vec::new();
        caller.read_to_end(&mut told).expect("an end and no reset");
        assert!(told == text(count), "{} bytes", told.len());
    }
    server.kill();
}
