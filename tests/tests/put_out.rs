//! A program that is put out says so, once; whoever asks is told why and when; and it is served
//! again.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use whole::{Accelerated, Program, project, wait_for};

const PYTHON: &str = "/usr/bin/python3";

/// What the library says on standard error.
const SAID: &str = "calisto: the daemon has put this program out";

fn start(accelerated: &Accelerated) -> Program {
    let script = project().join("tests/programs/put_out_server.py").display().to_string();
    let mut server = accelerated.run(&[PYTHON, &script, "8000"]);
    server.wait_until_it_says("listening");
    server
}

fn call(accelerated: &Accelerated) -> TcpStream {
    let address = SocketAddr::from((accelerated.here().ipv4(), 8000));
    let called = accelerated.there().enter(|| TcpStream::connect(address));
    let called = called.expect("the namespace is there").expect("it listens");
    called.set_read_timeout(Some(Duration::from_secs(20))).expect("no zero");
    called
}

fn echoes(caller: &mut TcpStream) {
    caller.write_all(b"hello").expect("it stands");
    let mut heard = [0; 5];
    caller.read_exact(&mut heard).expect("it echoes");
    assert_eq!(&heard, b"hello");
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

/// Waits until the program has begun to listen that many times.
fn listens(server: &Program, times: usize) {
    wait_for("a listener", || match server.so_far() {
        said if count(&said, "listening") >= times => Ok(()),
        said => Err(said),
    });
}

#[test]
fn a_program_that_an_operator_puts_out_says_so_once_and_is_served_again() {
    let accelerated = Accelerated::start();
    let server = start(&accelerated);
    for round in 1..=2 {
        let mut caller = call(&accelerated);
        echoes(&mut caller);
        let sockets = accelerated.sockets();
        assert_eq!(sockets.len(), 2, "a listener and a connection: {sockets:?}");
        accelerated.daemon().calisto(&format!("detach {}", sockets[0].app));
        assert!(caller.read(&mut [0; 1]).is_err(), "its connection is reset");
        listens(&server, 1 + round);
        assert_eq!(accelerated.daemon().counter("attach_programs_put_out"), round as u64);
        let explained = accelerated.daemon().calisto(&format!("explain {}", server.pid()));
        assert!(explained.contains(" s ago: ") && explained.contains("operator"), "{explained}");
    }
    let said = server.so_far();
    assert_eq!(count(&said, SAID), 1, "{said}");
    assert!(said.contains("an operator has detached the application"), "{said}");
    wait_for("a listener that is served", || match accelerated.sockets().len() {
        1 => Ok(()),
        all => Err(format!("{all} sockets")),
    });
    echoes(&mut call(&accelerated));
    accelerated.all_was_accelerated();
    server.kill();
    accelerated.nothing_is_left();
}
