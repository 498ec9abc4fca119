//! When programs that are served, or the daemon that serves them, end: nobody hangs, and nothing
//! stays.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testbed::Side;
use whole::{Accelerated, Program, TIMEOUT, kernel_udp, project, wait_for};

const PYTHON: &str = "/usr/bin/python3";
const PORT: u16 = 8000;

/// How soon peers hear of a program's end.
const HEARD_WITHIN: Duration = Duration::from_millis(100);

/// A busy machine may need more of these to keep that once.
const ROUNDS_MAX: usize = 30;

fn script(name: &str) -> String {
    project().join("tests/programs").join(name).display().to_string()
}

/// An echo under `calisto run`, at port 8000.
fn echo(accelerated: &Accelerated) -> Program {
    let words = [PYTHON, &script("asyncio_server.py"), "0.0.0.0", "8000"];
    let mut server = accelerated.run(&words);
    server.wait_until_it_says("listening");
    server
}

fn connect(from: &Side, to: SocketAddr) -> TcpStream {
    let stream = from.enter(|| TcpStream::connect_timeout(&to, TIMEOUT));
    let stream = stream.expect("the namespace is there").expect("somebody listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("no zero");
    stream
}

/// Says something, and hears it again.
fn talk(stream: &mut TcpStream) {
    let mut back = [0; 5];
    stream.write_all(b"hello").expect("it is connected");
    stream.read_exact(&mut back).expect("it is answered");
    assert_eq!(&back, b"hello");
}

/// Waits for the end of a connection: in order, or by a reset.
fn hears_the_end(stream: &mut TcpStream) {
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
fn peers_of_a_killed_program_hear_of_it_and_it_can_start_again_at_once() {
    let accelerated = Accelerated::start();
    let here = (accelerated.here().ipv4(), PORT).into();
    let mut rounds = Vec::new();
    while rounds.len() < 3 || rounds.iter().min() > Some(&HEARD_WITHIN) {
        let server = echo(&accelerated);
        let mut streams: Vec<TcpStream> =
            (0..20).map(|_| connect(accelerated.there(), here)).collect();
        streams.iter_mut().for_each(talk);
        server.kill();
        let killed = Instant::now();
        streams.iter_mut().for_each(hears_the_end);
        rounds.push(killed.elapsed());
        assert!(rounds.len() < ROUNDS_MAX, "{rounds:?}");
    }
    accelerated.all_was_accelerated();
    accelerated.nothing_is_left();
}

#[test]
fn a_program_that_is_killed_in_a_transfer_leaves_nothing() {
    let accelerated = Accelerated::start();
    let address = SocketAddr::from((accelerated.there().ipv4(), PORT));
    let listener = accelerated.there().enter(|| TcpListener::bind(address));
    let listener = listener.expect("the namespace is there").expect("the port is free");
    // It is told more than it reads, and stopped in the middle of it.
    let words = [PYTHON, &script("hold.py"), &address.ip().to_string(), "8000"];
    let program = accelerated.run(&words);
    let (mut stream, _) = listener.accept().expect("it comes");
    stream.set_write_timeout(Some(TIMEOUT)).expect("no zero");
    let mut hello = [0; 6];
    stream.read_exact(&mut hello).expect("it says so");
    stream.write_all(&vec![7; 1 << 20]).expect("it reads");
    program.signal(Signal::STOP);
    stream.set_nonblocking(true).expect("a TCP socket can be");
    while stream.write(&[7; 1 << 16]).is_ok() {}
    stream.set_nonblocking(false).expect("a TCP socket can be");
    program.kill();
    hears_the_end(&mut stream);
    accelerated.nothing_is_left();
}

#[test]
fn programs_of_a_killed_daemon_get_errors_and_the_kernel_gets_the_traffic_until_there_is_a_new_one()
{
    // With one the kernel would go on: see sockets_death.rs.
    let mut accelerated = Accelerated::with("[sockets]\nguardian = false\n");
    let address = SocketAddr::from((accelerated.there().ipv4(), PORT));
    let listener = accelerated.there().enter(|| TcpListener::bind(address));
    let listener = listener.expect("the namespace is there").expect("the port is free");
    let words = [PYTHON, &script("hold.py"), &address.ip().to_string(), "8000"];
    let mut waiting = accelerated.run(&words);
    let (mut stream, _) = listener.accept().expect("it comes");
    stream.set_read_timeout(Some(TIMEOUT)).expect("no zero");
    waiting.wait_until_it_says("connected");
    let server = echo(&accelerated);
    let here: SocketAddr = (accelerated.here().ipv4(), PORT).into();
    let mut before = connect(accelerated.there(), here);
    talk(&mut before);
    let (daemon, _) = accelerated.daemon_mut();
    daemon.kill();
    let said = waiting.succeed();
    assert!(
        ["ECONNRESET", "ECONNABORTED", "EPIPE"].iter().any(|word| said.contains(word)),
        "{said}"
    );
    // Neither the program that ended nor the daemon answers for what it had: Linux does.
    stream.write_all(b"x").expect("it is connected");
    hears_the_end(&mut stream);
    // The listener is a real one too, and has the kernel's callers now.
    let mut after = connect(accelerated.there(), here);
    talk(&mut after);
    let _ = before.write(b"x");
    hears_the_end(&mut before);
    let (daemon, side) = accelerated.daemon_mut();
    daemon.start_again(side);
    drop(after);
    server.kill();
    let server = echo(&accelerated);
    let mut again = connect(accelerated.there(), here);
    talk(&mut again);
    wait_for("a connection of the new daemon's", || match accelerated.carried().received {
        5 => Ok(()),
        other => Err(format!("{other} bytes")),
    });
    server.kill();
}

/// Waits until the daemon serves just one listener at the port, whatever processes share it.
fn await_listener(accelerated: &Accelerated) {
    wait_for("the listener at the new daemon", || {
        let rows = accelerated.sockets();
        let at_port =
            rows.iter().filter(|row| row.local.ends_with(":8000") && row.remote.is_none());
        match at_port.count() {
            1 => Ok(()),
            _ => Err(format!("{rows:?}")),
        }
    });
}

#[test]
fn servers_find_the_next_daemon_by_themselves_however_they_wait() {
    for (way, is_killed) in [("thread", true), ("poll", false), ("fork", true), ("fork", false)] {
        let mut accelerated = Accelerated::start();
        let here: SocketAddr = (accelerated.here().ipv4(), PORT).into();
        let words = [PYTHON, &script("accepting.py"), way, "0.0.0.0", "8000"];
        let mut server = accelerated.run(&words);
        server.wait_until_it_says("listening");
        let mut before = connect(accelerated.there(), here);
        talk(&mut before);
        for round in 0..2 {
            let (daemon, side) = accelerated.daemon_mut();
            if is_killed {
                daemon.kill();
            } else {
                daemon.signal(Signal::TERM);
                daemon.wait();
            }
            // Nobody calls in between: whoever waits finds the daemon.
            daemon.start_again(side);
            await_listener(&accelerated);
            let mut streams: Vec<TcpStream> =
                (0..12).map(|_| connect(accelerated.there(), here)).collect();
            streams.iter_mut().for_each(talk);
            wait_for("the bytes of the new connections", || match accelerated.carried().received {
                60 => Ok(()),
                other => Err(format!("{way}, round {round}: {other} bytes")),
            });
            assert_eq!(accelerated.fallbacks(), [], "{way}, round {round}");
        }
        let said = server.kill().said;
        assert!(!said.contains("Error"), "{way}: {said}");
    }
}

#[test]
fn connections_that_the_kernel_took_while_there_was_no_daemon_go_on_beside_those_of_the_next() {
    let mut accelerated = Accelerated::start();
    let here: SocketAddr = (accelerated.here().ipv4(), PORT).into();
    let words = [PYTHON, &script("accepting.py"), "poll", "0.0.0.0", "8000"];
    let mut server = accelerated.run(&words);
    server.wait_until_it_says("listening");
    await_listener(&accelerated);
    let (daemon, _) = accelerated.daemon_mut();
    daemon.signal(Signal::TERM);
    daemon.wait();
    let mut of_kernel: Vec<TcpStream> =
        (0..3).map(|_| connect(accelerated.there(), here)).collect();
    of_kernel.iter_mut().for_each(talk);
    let (daemon, side) = accelerated.daemon_mut();
    daemon.start_again(side);
    await_listener(&accelerated);
    let mut accelerated_one = connect(accelerated.there(), here);
    for _ in 0..3 {
        of_kernel.iter_mut().for_each(talk);
        talk(&mut accelerated_one);
    }
    wait_for("the bytes of the new connection", || match accelerated.carried().received {
        15 => Ok(()),
        other => Err(format!("{other} bytes")),
    });
    // It ends in order, too.
    for mut stream in of_kernel {
        stream.shutdown(std::net::Shutdown::Write).expect("it is connected");
        assert_eq!(stream.read(&mut [0; 8]).expect("no reset"), 0);
    }
    assert_eq!(accelerated.fallbacks(), []);
    server.kill();
}

#[test]
fn a_server_of_datagrams_is_accelerated_again_by_the_next_daemon() {
    let mut accelerated = Accelerated::start();
    let host = accelerated.here().ipv4().to_string();
    let datagrams = script("datagrams.py");
    let server = accelerated.run(&[PYTHON, &datagrams, &host, "8000"]);
    let ask = |accelerated: &Accelerated| {
        let client = accelerated.run_there(&[PYTHON, &datagrams, &host, "8000", "20"]);
        assert_eq!(client.succeed(), "20 datagrams are right\n");
    };
    await_listener(&accelerated);
    ask(&accelerated);
    let (daemon, _) = accelerated.daemon_mut();
    daemon.kill();
    // Until its guardian has seen that, datagrams are lost.
    wait_for("what the guardian says", || {
        let said = daemon.said();
        if said.contains("the daemon has died") { Ok(()) } else { Err(said) }
    });
    ask(&accelerated);
    let (daemon, side) = accelerated.daemon_mut();
    daemon.start_again(side);
    await_listener(&accelerated);
    let before = kernel_udp(accelerated.here(), "InDatagrams");
    ask(&accelerated);
    assert_eq!(kernel_udp(accelerated.here(), "InDatagrams"), before, "the kernel has seen some");
    server.kill();
}

#[test]
fn a_server_that_has_cleared_its_environment_finds_the_daemon_and_the_next_one() {
    let mut accelerated = Accelerated::start();
    let host = accelerated.here().ipv4().to_string();
    let datagrams = script("datagrams.py");
    let clears = "import os, runpy, sys; os.environ.clear(); sys.argv = sys.argv[1:]; \
                  runpy.run_path(sys.argv[0], run_name='__main__')";
    let server = accelerated.run(&[PYTHON, "-c", clears, &datagrams, &host, "8000"]);
    let ask = |accelerated: &Accelerated| {
        let before = kernel_udp(accelerated.here(), "InDatagrams");
        let client = accelerated.run_there(&[PYTHON, &datagrams, &host, "8000", "20"]);
        assert_eq!(client.succeed(), "20 datagrams are right\n");
        let after = kernel_udp(accelerated.here(), "InDatagrams");
        assert_eq!(after, before, "the kernel has seen some");
    };
    await_listener(&accelerated);
    ask(&accelerated);
    let (daemon, _) = accelerated.daemon_mut();
    daemon.kill();
    let (daemon, side) = accelerated.daemon_mut();
    daemon.start_again(side);
    await_listener(&accelerated);
    ask(&accelerated);
    server.kill();
}

#[test]
fn a_daemon_that_is_told_to_end_lets_connections_end_first_and_leaves_listeners_to_the_kernel() {
    let mut accelerated = Accelerated::with("[sockets]\ndrain_ms = 20000\n");
    let here: SocketAddr = (accelerated.here().ipv4(), PORT).into();
    let _server = echo(&accelerated);
    let mut before = connect(accelerated.there(), here);
    talk(&mut before);
    let (daemon, _) = accelerated.daemon_mut();
    daemon.signal(Signal::TERM);
    // It is served to its end.
    for _ in 0..20 {
        talk(&mut before);
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(before);
    let (daemon, _) = accelerated.daemon_mut();
    assert!(daemon.wait().success(), "{}", daemon.said());
    let mut after = connect(accelerated.there(), here);
    talk(&mut after);
}

#[test]
fn a_program_that_an_operator_detaches_goes_on_with_the_kernel() {
    let accelerated = Accelerated::start();
    let server = echo(&accelerated);
    let here: SocketAddr = (accelerated.here().ipv4(), PORT).into();
    let mut before = connect(accelerated.there(), here);
    talk(&mut before);
    let name = accelerated.sockets().first().expect("it listens").app_name.clone();
    let (status, _, said) = accelerated.daemon().try_calisto("detach nobody-of-that-name");
    assert!(!status.success() && said.contains("no application"), "{said}");
    accelerated.daemon().calisto(&format!("detach {name}"));
    assert_eq!(accelerated.sockets(), []);
    let mut after = connect(accelerated.there(), here);
    talk(&mut after);
    let _ = before.write(b"x");
    hears_the_end(&mut before);
    server.kill();
}
