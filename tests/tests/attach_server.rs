//! Programs' sockets at the daemon's attach server: served, refused with a reason, and nothing left
//! when they end.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use admin::{Command, FallbackRow, ReplyBody, SocketRow, SocketState};
use calisto_client::sockets::{Session, SessionOptions, TcpListener, TcpStream, UdpSocket};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::Signal;
use testbed::Testbed;
use whole::{Daemon, bed, wait_for};

fn start(bed: &Testbed, more: &str) -> Daemon {
    Daemon::start(bed.server(), &format!("ports = [\"xdp:veth0\"]\n{more}"))
}

fn session(daemon: &Daemon, name: &str) -> Session {
    let options =
        SessionOptions { socket: Some(daemon.apps_socket()), ..SessionOptions::new(name) };
    Session::attach(&options).expect("the daemon serves sockets")
}

fn address(bed: &Testbed, port: u16) -> SocketAddr {
    SocketAddr::new(bed.server().ipv4().into(), port)
}

fn rows(daemon: &Daemon) -> Vec<SocketRow> {
    match daemon.ask(Command::Sockets { from: 0, count: 4096 }) {
        ReplyBody::Sockets { sockets, next: None } => sockets,
        other => panic!("{other:?}"),
    }
}

fn fallbacks(daemon: &Daemon) -> Vec<FallbackRow> {
    match daemon.ask(Command::Fallbacks) {
        ReplyBody::Fallbacks { sockets, .. } => sockets,
        other => panic!("{other:?}"),
    }
}

fn wait_for_rows(daemon: &Daemon, count: usize) {
    wait_for("sockets to come or go", || match rows(daemon) {
        rows if rows.len() == count => Ok(()),
        rows => Err(format!("{rows:?}")),
    });
}

/// Sends bytes and reads them back.
fn echo(stream: &mut (impl Read + Write), bytes: &[u8]) {
    // No more at once than the shortest of all buffers takes, since nobody reads meanwhile.
    for piece in bytes.chunks(16_384) {
        stream.write_all(piece).expect("the peer reads");
        let mut back = vec![0; piece.len()];
        stream.read_exact(&mut back).expect("the peer writes");
        assert!(back == piece, "what came back is not what was sent");
    }
}

/// Serves one connection until its peer closes.
fn serve(mut stream: impl Read + Write) {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(count) => stream.write_all(&bytes[..count]).expect("the peer reads"),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
            Err(error) => panic!("{error}"),
        }
    }
}

fn connect(bed: &Testbed, to: SocketAddr) -> std::net::TcpStream {
    let connect = || {
        let stream = std::net::TcpStream::connect_timeout(&to, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok::<_, std::io::Error>(stream)
    };
    bed.client().enter(connect).expect("the namespace is there").expect("somebody listens")
}

#[test]
fn a_program_serves_peers_on_the_wire_and_its_sockets_end_with_their_descriptors() {
    let bed = bed();
    let daemon = start(&bed, "");
    bed.server()
        .enter(|| {
            let session = session(&daemon, "server");
            let any = "0.0.0.0:7".parse().expect("an address");
            let listener = TcpListener::bind(&session, any).expect("the port is free");
            assert!(listener.is_accelerated(), "{:?}", fallbacks(&daemon));
            let mut peer = connect(&bed, address(&bed, 7));
            let (stream, from) = listener.accept().expect("one has connected");
            assert!(stream.is_accelerated());
            assert_eq!(from, peer.local_addr().expect("it is connected"));
            let served = std::thread::spawn(move || serve(stream));
            echo(&mut peer, &vec![7; 300_000]);
            let all = rows(&daemon);
            let states: Vec<_> = all.iter().map(|row| row.state).collect();
            assert_eq!(states, [SocketState::Listen, SocketState::Estab], "{all:?}");
            assert!(all.iter().all(|row| row.cookie != 0), "{all:?}");
            assert_eq!(all[1].remote.as_deref(), Some(from.to_string().as_str()));
            assert_eq!(all[1].bytes_received, 300_000);
            drop(peer);
            served.join().expect("no assertion failed");
            wait_for_rows(&daemon, 1);
            drop(listener);
            wait_for_rows(&daemon, 0);
            drop(session);
            let again = self::session(&daemon, "server");
            let listener = TcpListener::bind(&again, any).expect("the port is free again");
            assert!(listener.is_accelerated());
        })
        .expect("the namespace is there");
}

#[test]
fn a_program_connects_to_peers_on_the_wire_from_an_address_that_is_reserved_in_the_kernel_too() {
    let bed = bed();
    let daemon = start(&bed, "[tcp]\ntime_wait_ms = 100");
    let at = SocketAddr::new(bed.client().ipv4().into(), 9);
    let listener =
        bed.client().enter(|| std::net::TcpListener::bind(at)).expect("a namespace").expect("free");
    let server = std::thread::spawn(move || serve(listener.accept().expect("one comes").0));
    bed.server()
        .enter(|| {
            let session = session(&daemon, "client");
            let mut stream = TcpStream::connect(&session, at).expect("it listens");
            assert!(stream.is_accelerated(), "{:?}", fallbacks(&daemon));
            echo(&mut stream, &vec![9; 100_000]);
            let local = stream.local_addr().expect("it is connected");
            assert_eq!(local.ip(), address(&bed, 0).ip());
            // Not by std, which sets SO_REUSEADDR and so may bind beside it.
            let other = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
            let taken = rustix::net::bind(other.expect("descriptors are left"), &local);
            assert_eq!(taken, Err(rustix::io::Errno::ADDRINUSE));
            let all = rows(&daemon);
            assert_eq!(all.len(), 1, "{all:?}");
            assert_eq!(all[0].local, local.to_string());
            assert!(all[0].inode != 0);
        })
        .expect("the namespace is there");
    server.join().expect("no assertion failed");
    wait_for_rows(&daemon, 0);
}

#[test]
fn two_programs_on_the_host_talk_past_the_wire_and_one_that_listens_in_the_kernel_is_left_to_it() {
    let bed = bed();
    let daemon = start(&bed, "");
    bed.server()
        .enter(|| {
            sys::interface::set_up(1, true).expect("the loopback interface is the first");
            let (one, other) = (session(&daemon, "one"), session(&daemon, "other"));
            for (at, to) in [("0.0.0.0:7", "127.0.0.1:7"), ("[::]:8", "127.0.0.1:8")] {
                let at = at.parse().expect("an address");
                let listener = TcpListener::bind(&one, at).expect("the port is free");
                let to = to.parse().expect("an address");
                let mut stream = TcpStream::connect(&other, to).expect("it listens");
                assert!(stream.is_accelerated(), "{:?}", fallbacks(&daemon));
                let (accepted, from) = listener.accept().expect("one has connected");
                let local = stream.local_addr().expect("it is connected");
                assert_eq!((from.ip().to_canonical(), from.port()), (local.ip(), local.port()));
                let served = std::thread::spawn(move || serve(accepted));
                echo(&mut stream, &vec![1; 500_000]);
                let all = rows(&daemon);
                assert_eq!(all.iter().filter(|row| row.is_local).count(), 2, "{all:?}");
                drop(stream);
                served.join().expect("no assertion failed");
                wait_for_rows(&daemon, 1);
                drop(listener);
                wait_for_rows(&daemon, 0);
            }
            let kernel = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
            let to = kernel.local_addr().expect("it is bound");
            let stream = TcpStream::connect(&other, to).expect("it listens");
            assert!(!stream.is_accelerated());
            match daemon.ask(Command::Fallbacks) {
                ReplyBody::Fallbacks { totals, .. } => {
                    assert_eq!((totals.len(), totals[0].count), (1, 1), "{totals:?}");
                    assert_eq!(totals[0].reason, "loopback_peer_not_accelerated");
                }
                other => panic!("{other:?}"),
            }
        })
        .expect("the namespace is there");
}

#[test]
fn datagrams_come_and_go() {
    let bed = bed();
    let daemon = start(&bed, "");
    bed.server()
        .enter(|| {
            let session = session(&daemon, "datagrams");
            let at = "0.0.0.0:53".parse().expect("an address");
            let socket = UdpSocket::bind(&session, at).expect("the port is free");
            assert!(socket.is_accelerated(), "{:?}", fallbacks(&daemon));
            let peer = bed.client().enter(|| {
                let peer = std::net::UdpSocket::bind("0.0.0.0:0").expect("a port is free");
                peer.connect(address(&bed, 53)).expect("there is a way");
                peer.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
                peer
            });
            let peer = peer.expect("the namespace is there");
            let mut bytes = [0; 2000];
            for length in [1, 100, 1472] {
                peer.send(&bytes[..length]).expect("there is a way");
                let (count, from) = socket.recv_from(&mut bytes).expect("it came");
                assert_eq!(count, length);
                socket.send_to(&bytes[..count], from).expect("there is a way");
                assert_eq!(peer.recv(&mut bytes).expect("it came"), length);
            }
            drop(socket);
            wait_for_rows(&daemon, 0);
        })
        .expect("the namespace is there");
}

#[test]
fn a_tenant_may_do_what_its_rule_says_and_gets_an_error_for_the_rest() {
    let bed = bed();
    let rule = "[[tenant]]\nuid = 0\nlisten = [\"*:1-100\"]\nconnect = [\"10.0.0.0/8:9\"]\nrate_mbit = 8\n";
    let daemon = start(&bed, rule);
    let listen = |address: &str| {
        let at: SocketAddr = address.parse().expect("an address");
        bed.client().enter(|| std::net::TcpListener::bind(at)).expect("a namespace").expect("free")
    };
    let peers = [listen("0.0.0.0:9"), listen("0.0.0.0:10")];
    bed.server()
        .enter(|| {
            let session = session(&daemon, "tenant");
            let bind = |port| {
                let at = SocketAddr::new([0, 0, 0, 0].into(), port);
                TcpListener::bind(&session, at).map_err(|error| error.kind())
            };
            assert!(bind(100).expect("it may").is_accelerated());
            assert_eq!(bind(101).err(), Some(ErrorKind::PermissionDenied));
            let to = |port| SocketAddr::new(bed.client().ipv4().into(), port);
            let refused = TcpStream::connect(&session, to(10)).map_err(|error| error.kind());
            assert_eq!(refused.err(), Some(ErrorKind::PermissionDenied));
            let stream = TcpStream::connect(&session, to(9)).expect("it may");
            assert!(stream.is_accelerated(), "{:?}", fallbacks(&daemon));
        })
        .expect("the namespace is there");
    drop(peers);
}

#[test]
fn a_daemon_that_is_asked_to_end_gives_connections_time_and_resets_what_is_left() {
    let bed = bed();
    let mut daemon = start(&bed, "[sockets]\ndrain_ms = 5000");
    let (listener, mut stream, mut peer) = bed
        .server()
        .enter(|| {
            let session = session(&daemon, "server");
            let any = "0.0.0.0:7".parse().expect("an address");
            let listener = TcpListener::bind(&session, any).expect("the port is free");
            let peer = connect(&bed, address(&bed, 7));
            let (stream, _) = listener.accept().expect("one has connected");
            (listener, stream, peer)
        })
        .expect("the namespace is there");
    daemon.signal(Signal::TERM);
    peer.write_all(b"still here").expect("it is");
    let mut bytes = [0; 10];
    stream.read_exact(&mut bytes).expect("the connection lives on");
    assert!(daemon.wait().success());
    assert!(stream.read(&mut bytes).is_err(), "the daemon is gone");
    let end = peer.read(&mut bytes).map_err(|error| error.kind());
    assert!(matches!(end, Ok(0) | Err(ErrorKind::ConnectionReset)), "{end:?}");
    drop(listener);
}
