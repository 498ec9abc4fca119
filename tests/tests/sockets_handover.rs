//! The daemon ends and the kernel goes on with the connections: programs and peers notice nothing.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::process::Signal;
use testbed::Side;
use whole::{Accelerated, Program, TIMEOUT, Talks, beside, binary, install, project, wait_for};

const PYTHON: &str = "/usr/bin/python3";
const PORT: u16 = 8000;

fn script(name: &str) -> String {
    project().join("tests/programs").join(name).display().to_string()
}

/// A server of `tests/programs` under `calisto run`, at port 8000 of all addresses.
fn serve(accelerated: &Accelerated, name: &str, way: &[&str]) -> Program {
    let name = script(name);
    let words = [&[PYTHON, &name], way, &["::", "8000"]].concat();
    let mut server = accelerated.run(&words);
    server.wait_until_it_says("listening");
    server
}

/// Ends the daemon in order, with `connections` open: the kernel goes on with all, so that nobody
/// waits for the time that others would get to close.
fn end(accelerated: &mut Accelerated, connections: usize) {
    let (daemon, side) = accelerated.daemon_mut();
    let (before, said) = (kernel_connections(side), daemon.said());
    daemon.signal(Signal::TERM);
    assert!(daemon.wait().success(), "{}", daemon.said());
    assert_eq!(daemon.said(), said, "it complains of nothing");
    assert_eq!(kernel_connections(side), before + connections);
}

/// Connections that the kernel of an end has: each line of /proc/net/tcp but those of listeners
/// (0A) and of TIME-WAIT (06).
fn kernel_connections(side: &Side) -> usize {
    let read = |path| std::fs::read_to_string(path).expect("procfs is there");
    let tables =
        side.enter(|| ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"].map(read));
    let tables = tables.expect("the namespace is there");
    let rows = tables.iter().flat_map(|table| table.lines().skip(1));
    let states = rows.filter_map(|row| row.split_whitespace().nth(3));
    states.filter(|state| !["0A", "06"].contains(state)).count()
}

fn v6(side: &Side) -> SocketAddr {
    (side.ipv6(), PORT).into()
}

#[test]
fn an_echo_of_many_connections_goes_on_over_the_end_of_the_daemon_however_its_server_waits() {
    for way in ["thread", "epoll_edge", "epoll", "poll", "fork"] {
        let mut accelerated = Accelerated::with("[sockets]\ndrain_ms = 60000\n");
        let server = serve(&accelerated, "echo_ways.py", &[way]);
        let here: SocketAddr = (accelerated.here().ipv4(), PORT).into();
        // A worker of a busy machine may not have heard of the listener yet.
        for end in [here, v6(accelerated.here())] {
            wait_for("an answer", || {
                let asked = accelerated.there().enter(|| TcpStream::connect(end));
                asked.expect("the namespace is there").map(drop).map_err(|error| error.to_string())
            });
        }
        let mut talks = Talks::connect(accelerated.there(), 20, here);
        let mut talks_v6 = Talks::connect(accelerated.there(), 10, v6(accelerated.here()));
        talks.echo(30_000);
        talks_v6.echo(1000);
        let talking = |stop: &AtomicBool| talks.echo_until(stop);
        beside(talking, || {
            std::thread::sleep(Duration::from_millis(200));
            end(&mut accelerated, 30);
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

fn connect(from: &Side, to: SocketAddr) -> TcpStream {
    let stream = from.enter(|| TcpStream::connect_timeout(&to, TIMEOUT));
    let stream = stream.expect("the namespace is there").expect("somebody listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("no zero");
    stream.set_write_timeout(Some(TIMEOUT)).expect("no zero");
    stream
}

/// What `held_callers.py` tells its callers.
fn text(count: usize) -> Vec<u8> {
    let at = |at: usize| ((at % (1 << 16)) * 7 + (at % (1 << 16)) / 251) as u8;
    (0..count).map(at).collect()
}

/// Waits until a program has said something so often.
fn says_so_often(program: &Program, what: &str, count: usize) {
    wait_for(what, || {
        let said = program.so_far();
        if said.matches(what).count() == count { Ok(()) } else { Err(said) }
    });
}

#[test]
fn what_was_not_read_is_read_afterwards_also_when_the_peer_has_said_its_last() {
    let mut accelerated = Accelerated::with("[sockets]\ndrain_ms = 60000\n");
    let server = serve(&accelerated, "held_callers.py", &["reader", "0"]);
    let here: SocketAddr = (accelerated.here().ipv4(), PORT).into();
    let ends = [here, v6(accelerated.here())];
    // Few bytes, whose end has come with them; and more than any ring takes.
    let texts = [text(10_000), text(6_000_000)];
    let mut callers: Vec<(TcpStream, usize)> = Vec::new();
    let mut writers = Vec::new();
    for end in ends {
        for (which, text) in texts.iter().enumerate() {
            let mut stream = connect(accelerated.there(), end);
            callers.push((stream.try_clone().expect("descriptors are left"), which));
            let text = text.clone();
            writers.push(std::thread::spawn(move || {
                stream.write_all(&text).expect("it is read some time");
                stream.shutdown(Shutdown::Write).expect("it is connected");
            }));
        }
    }
    says_so_often(&server, "accepted", callers.len());
    wait_for("what the small ones have said", || match accelerated.carried().received {
        bytes if bytes > 100_000 => Ok(()),
        bytes => Err(format!("{bytes} bytes")),
    });
    std::thread::sleep(Duration::from_millis(200));
    end(&mut accelerated, callers.len());
    server.signal(Signal::USR1);
    for (mut stream, which) in callers {
        let mut back = Vec::new();
        stream.read_to_end(&mut back).expect("an end and no reset");
        assert!(back == texts[which], "{} bytes came back", back.len());
    }
    writers.into_iter().for_each(|writer| writer.join().expect("all was taken"));
    server.kill();
}

#[test]
fn a_write_that_the_end_of_the_daemon_interrupts_goes_on_and_so_does_an_end_after_it() {
    let mut accelerated = Accelerated::with("[sockets]\ndrain_ms = 60000\n");
    let (small, large) = (1 << 16, 9 << 20);
    for count in [small, large] {
        let server = serve(&accelerated, "held_callers.py", &["writer", &count.to_string()]);
        let here: SocketAddr = (accelerated.here().ipv4(), PORT).into();
        let ends = [here, v6(accelerated.here())];
        let mut callers = ends.map(|end| connect(accelerated.there(), end));
        says_so_often(&server, "accepted", callers.len());
        for caller in &mut callers {
            let mut first = [0; 1];
            caller.peek(&mut first).expect("it is told something");
        }
        std::thread::sleep(Duration::from_millis(300));
        // One that is stopped in the middle of a write is no hindrance, and goes on when it may.
        server.signal(Signal::STOP);
        end(&mut accelerated, callers.len());
        server.signal(Signal::CONT);
        for caller in &mut callers {
            let mut told = Vec::new();
            caller.read_to_end(&mut told).expect("an end and no reset");
            assert!(told == text(count), "{} bytes", told.len());
            // The other way is open still.
            caller.write_all(&[7; 30_000]).expect("it is connected");
            caller.shutdown(Shutdown::Write).expect("it is connected");
        }
        server.signal(Signal::USR1);
        says_so_often(&server, "30000 bytes", callers.len());
        server.kill();
        let (daemon, side) = accelerated.daemon_mut();
        daemon.start_again(side);
    }
}

#[test]
fn what_a_program_has_said_before_it_closed_comes_to_its_peer_after_the_end_of_the_daemon() {
    let mut accelerated = Accelerated::with("[sockets]\ndrain_ms = 60000\n");
    let count = 2 << 20;
    let server = serve(&accelerated, "held_callers.py", &["leaver", &count.to_string()]);
    let here: SocketAddr = (accelerated.here().ipv4(), PORT).into();
    let ends = [here, v6(accelerated.here())];
    let mut callers = ends.map(|end| connect(accelerated.there(), end));
    says_so_often(&server, "left", callers.len());
    wait_for("nobody but the listener", || {
        let rows = accelerated.sockets();
        if rows.len() == 1 { Ok(()) } else { Err(format!("{rows:?}")) }
    });
    end(&mut accelerated, callers.len());
    for caller in &mut callers {
        let mut told = Vec::new();
        caller.read_to_end(&mut told).expect("an end and no reset");
        assert!(told == text(count), "{} bytes", told.len());
    }
    server.kill();
}

#[test]
fn the_next_daemon_leaves_them_to_the_kernel_and_serves_what_comes_then() {
    let mut accelerated = Accelerated::with("[sockets]\ndrain_ms = 60000\n");
    let server = serve(&accelerated, "echo_ways.py", &["epoll_edge"]);
    let here: SocketAddr = (accelerated.here().ipv4(), PORT).into();
    let mut before = Talks::connect(accelerated.there(), 5, here);
    before.echo(1000);
    end(&mut accelerated, 5);
    before.echo(1000);
    let (daemon, side) = accelerated.daemon_mut();
    daemon.start_again(side);
    wait_for("the listener at the new daemon", || {
        let rows = accelerated.sockets();
        match rows.iter().filter(|row| row.remote.is_none()).count() {
            1 => Ok(()),
            _ => Err(format!("{rows:?}")),
        }
    });
    let mut after = Talks::connect(accelerated.there(), 3, here);
    before.echo(40_000);
    after.echo(1000);
    wait_for("the bytes of the new ones alone", || match accelerated.carried().received {
        3000 => Ok(()),
        bytes => Err(format!("{bytes} bytes")),
    });
    end(&mut accelerated, 3);
    before.echo(1000);
    after.echo(1000);
    before.end();
    after.end();
    server.kill();
}

#[test]
fn a_client_goes_on_as_a_server_does() {
    let mut accelerated = Accelerated::with("[sockets]\ndrain_ms = 60000\n");
    let address = SocketAddr::from((accelerated.there().ipv4(), PORT));
    let name = script("echo_ways.py");
    let ip = address.ip().to_string();
    let mut server = accelerated.run_there(&[PYTHON, &name, "thread", &ip, "8000"]);
    server.wait_until_it_says("listening");
    let held = script("steady_client.py");
    let mut client = accelerated.run(&[PYTHON, &held, &ip, "8000", "10"]);
    client.wait_until_it_says("begun");
    end(&mut accelerated, 10);
    client.signal(Signal::USR1);
    assert!(client.succeed().contains("all is right"));
}

#[test]
fn redis_goes_on_with_all_its_callers() {
    install(&["redis-server=redis-server"]);
    let mut accelerated = Accelerated::with("[sockets]\ndrain_ms = 60000\n");
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
    end(&mut accelerated, 20);
    increase(&mut callers);
    increase(&mut callers);
    server.stop();
}

/// A server of `tests/programs` of another user than root, under `calisto run`.
fn serve_as_nobody(accelerated: &Accelerated, name: &str, words: &[&str]) -> Program {
    let name = script(name);
    let calisto = binary("calisto").display().to_string();
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups", &calisto, "run", "--strict"];
    let mut command = accelerated.here().command("setpriv");
    command.args(user).args(["--", PYTHON, &name]).args(words);
    command.env("CALISTO_APPS", accelerated.daemon().apps_socket());
    let mut server = Program::spawn(&mut command);
    server.wait_until_it_says("listening");
    server
}

/// The user whom the kernel tells of each connection at a port of this end (proc(5): net/tcp).
fn users_at(side: &Side, port: u16) -> Vec<String> {
    let read = |path| std::fs::read_to_string(path).expect("procfs is there");
    let tables =
        side.enter(|| ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"].map(read));
    let tables = tables.expect("the namespace is there");
    let rows = tables.iter().flat_map(|table| table.lines().skip(1));
    let fields = rows.map(|row| row.split_whitespace().collect::<Vec<_>>());
    let ours = fields.filter(|row| row[1].ends_with(&format!(":{port:04X}")) && row[3] == "01");
    ours.map(|row| row[7].to_owned()).collect()
}

#[test]
fn connections_of_another_users_program_go_on_and_are_its_own_still() {
    let mut accelerated = Accelerated::with("[sockets]\ndrain_ms = 60000\n");
    let server = serve_as_nobody(&accelerated, "echo_ways.py", &["epoll_edge", "::", "8000"]);
    let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
    let mut talks = Talks::connect(accelerated.there(), 10, here);
    talks.echo(30_000);
    end(&mut accelerated, 10);
    assert_eq!(users_at(accelerated.here(), PORT), ["65534"; 10]);
    talks.echo(30_000);
    talks.end();
    let said = server.kill().said;
    assert!(!said.contains("Error"), "{said}");
}

#[test]
fn numbers_keep_their_settings_and_children_their_parents_connections() {
    let mut accelerated = Accelerated::with("[sockets]\ndrain_ms = 60000\n");
    let mut server = serve_as_nobody(&accelerated, "keeper.py", &["0.0.0.0", "8000"]);
    let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
    let callers = [0, 1].map(|_| connect(accelerated.there(), here));
    server.wait_until_it_says("accepted");
    end(&mut accelerated, 2);
    server.signal(Signal::USR1);
    server.wait_until_it_says("all is right");
    for (mut caller, expected) in callers.into_iter().zip(["onetwo", "child"]) {
        let mut told = String::new();
        // Its program lives still: nothing is left that keeps the connection open.
        caller.read_to_string(&mut told).expect("an end and no reset");
        assert_eq!(told, expected);
    }
    server.kill();
}

#[test]
fn numbers_that_are_made_and_passed_before_the_old_one_was_used_again_have_the_connection() {
    let mut accelerated = Accelerated::with("[sockets]\ndrain_ms = 60000\n");
    let mut server = serve_as_nobody(&accelerated, "duplicator.py", &["0.0.0.0", "8000"]);
    let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
    let callers = [0; 4].map(|_| connect(accelerated.there(), here));
    server.wait_until_it_says("accepted");
    end(&mut accelerated, callers.len());
    server.signal(Signal::USR1);
    let mut passed = 0;
    for mut caller in callers {
        let mut told = [0; 6];
        caller.read_exact(&mut told[..4]).expect("it speaks by the new number");
        let count = if &told[..4] == b"made" { 4 } else { 6 };
        passed += usize::from(count == 6);
        caller.read_exact(&mut told[4..count]).expect("it speaks by the new number");
        assert!([b"made".as_slice(), b"passed"].contains(&&told[..count]));
        caller.write_all(&told[..count]).expect("it is connected");
        assert_eq!(caller.read(&mut told).expect("an end and no reset"), 0);
    }
    assert_eq!(passed, 1);
    server.wait_until_it_says("all is right");
    server.kill();
}

#[test]
fn a_program_that_has_as_many_files_open_as_it_may_keeps_its_connections() {
    let mut accelerated = Accelerated::with("[sockets]\ndrain_ms = 60000\n");
    let words = ["20", "0.0.0.0", "8000"];
    let mut server = serve_as_nobody(&accelerated, "full_table.py", &words);
    let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
    let callers = [0; 20].map(|_| connect(accelerated.there(), here));
    server.wait_until_it_says("accepted");
    end(&mut accelerated, callers.len());
    for mut caller in &callers {
        caller.write_all(b"hello").expect("it is connected");
    }
    server.signal(Signal::USR1);
    for mut caller in callers {
        let mut told = String::new();
        caller.read_to_string(&mut told).expect("an end and no reset");
        assert_eq!(told, "hello");
    }
    server.wait_until_it_says("all is right");
    server.kill();
}

/// Whoever has a socket while it is repaired could bind it to any address, connect it to anybody
/// without a handshake, and listen beside anybody.
#[test]
fn a_program_that_plays_with_its_descriptors_meanwhile_gets_no_name_that_is_not_its_own() {
    let mut accelerated = Accelerated::with("[sockets]\ndrain_ms = 2000\n");
    let peer = accelerated.there().ipv4().to_string();
    let mut server = serve_as_nobody(&accelerated, "robber.py", &["8000", "8001", &peer]);
    let here = SocketAddr::from((accelerated.here().ipv4(), PORT));
    let mut callers: Vec<TcpStream> = (0..40).map(|_| connect(accelerated.there(), here)).collect();
    for caller in &mut callers {
        caller.write_all(b"hello").expect("it is connected");
        caller.read_exact(&mut [0; 5]).expect("it is answered");
    }
    server.signal(Signal::USR1);
    says_so_often(&server, "robbing", 1);
    let (daemon, side) = accelerated.daemon_mut();
    daemon.signal(Signal::TERM);
    assert!(daemon.wait().success(), "{}", daemon.said());
    server.signal(Signal::USR2);
    server.wait_until_it_says("done");
    let given = users_at(side, PORT);
    let said = server.so_far();
    assert!(said.contains("\n0 robbed"), "{said}");
    assert!(users_at(side, 8001).is_empty());
    assert!(!given.is_empty(), "some were given away meanwhile: {}", daemon.said());
    server.kill();
}

#[test]
fn nginx_goes_on_with_connections_that_are_kept_alive() {
    install(&["nginx=nginx"]);
    let mut accelerated = Accelerated::with("[sockets]\ndrain_ms = 60000\n");
    let folder = accelerated.daemon().folder().to_owned();
    std::fs::create_dir_all(folder.join("www")).expect("the folder is ours");
    std::fs::write(folder.join("www/small"), "a small file\n").expect("the folder is ours");
    let shown = folder.display();
    let config = format!(
        "worker_processes 2;\ndaemon off;\nuser root;\npid {shown}/nginx.pid;\n\
         error_log stderr notice;\nevents {{ worker_connections 1024; }}\nhttp {{\n\
         access_log off;\nsendfile on;\nclient_body_temp_path {shown}/bodies;\n\
         proxy_temp_path {shown}/proxy;\nfastcgi_temp_path {shown}/fastcgi;\n\
         uwsgi_temp_path {shown}/uwsgi;\nscgi_temp_path {shown}/scgi;\n\
         server {{ listen 8080; root {shown}/www; }} }}\n"
    );
    let path = folder.join("nginx.conf");
    std::fs::write(&path, config).expect("the folder is ours");
    let path = path.display().to_string();
    let mut server = accelerated.run(&["/usr/sbin/nginx", "-c", &path]);
    server.wait_until_it_says("start worker processes");
    let here = SocketAddr::from((accelerated.here().ipv4(), 8080));
    let mut callers: Vec<TcpStream> = (0..20).map(|_| connect(accelerated.there(), here)).collect();
    let ask = |caller: &mut TcpStream| {
        caller.write_all(b"GET /small HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is connected");
        let mut said = Vec::new();
        let mut part = [0; 4096];
        while !said.ends_with(b"a small file\n") {
            match caller.read(&mut part) {
                Ok(0) => panic!("ended behind {}", String::from_utf8_lossy(&said)),
                Ok(count) => said.extend(&part[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("{error} behind {}", String::from_utf8_lossy(&said)),
            }
        }
        assert!(said.starts_with(b"HTTP/1.1 200"));
    };
    callers.iter_mut().for_each(ask);
    end(&mut accelerated, 20);
    callers.iter_mut().for_each(ask);
    callers.iter_mut().for_each(ask);
    server.stop();
}
