//! Whose a port is when several may have it, and that nobody waits for who only says so.

use std::fs::Permissions;
use std::io::Read;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use attach::{FallbackReason, Reply};
use rustix::net::{SocketType, sockopt};
use shm::sockets::Asks;
use whole::{Accelerated, Application, NOBODY, Speaker, StreamLiar, as_user, socket_of, wait_for};

const TAKEN: Reply = Reply::Kernel { reason: FallbackReason::PortInUse };

/// A UDP socket of a user at a port, which others may have, too.
fn shared(accelerated: &Accelerated, uid: u32, port: u16) -> OwnedFd {
    let socket = socket_of(accelerated, SocketType::DGRAM, uid);
    sockopt::set_socket_reuseaddr(&socket, true).expect("a socket");
    let everywhere = SocketAddr::from(([0, 0, 0, 0], port));
    rustix::net::bind(&socket, &everywhere).expect("all others share it");
    socket
}

/// The same, connected to a port at the other end.
fn connected(accelerated: &Accelerated, uid: u32, port: u16, remote: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::from(shared(accelerated, uid, port));
    socket.connect(remote).expect("a route leads there");
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("no zero");
    socket
}

#[test]
fn what_the_peer_of_anothers_connected_socket_sends_stays_that_ones() {
    let accelerated = Accelerated::start();
    let speaker = Speaker::attach(&accelerated, NOBODY).expect("anybody may");
    let remote = SocketAddr::from((accelerated.there().ipv4(), 9000));
    let peer = accelerated.there().enter(|| UdpSocket::bind(remote));
    let peer = peer.expect("the namespace is there").expect("the port is free");
    let comes = |port: u16, to: &UdpSocket| {
        peer.send_to(b"yours", (accelerated.here().ipv4(), port)).expect("there is a route");
        to.recv(&mut [0; 16]).map(drop).map_err(|error| error.to_string())
    };
    // Whoever comes later is left to the kernel.
    let first = connected(&accelerated, 0, 8000, remote);
    assert_eq!(speaker.udp(shared(&accelerated, NOBODY, 8000)), TAKEN);
    wait_for("what is the connected one's", || comes(8000, &first));
    // And whoever was first is, as soon as it is seen.
    let served = shared(&accelerated, NOBODY, 8001);
    assert!(matches!(speaker.udp(&served), Reply::Slot { .. }));
    let second = connected(&accelerated, 0, 8001, remote);
    wait_for("what is the connected one's", || comes(8001, &second));
    assert_eq!(accelerated.daemon().counter("attach_rights_lost"), 1);
    // One's own is no reason.
    let own = connected(&accelerated, NOBODY, 8002, remote);
    assert!(matches!(speaker.udp(shared(&accelerated, NOBODY, 8002)), Reply::Slot { .. }));
    drop((first, second, own, served, speaker));
    accelerated.nothing_is_left();
}

#[test]
fn a_socket_that_says_it_is_closed_and_tells_no_worker_is_closed_for_whoever_comes_next() {
    let accelerated = Accelerated::start();
    let liar = StreamLiar::datagrams(&accelerated, ([0, 0, 0, 0], 8000).into());
    liar.words().asks.fetch_or(Asks::CLOSE, Ordering::Release);
    let speaker = Speaker::attach(&accelerated, 0).expect("anybody may");
    let next = shared(&accelerated, 0, 8000);
    // The call waits only a while for the worker, who may run later than that.
    wait_for("the port", || match speaker.udp(&next) {
        Reply::Slot { .. } => Ok(()),
        answer => Err(format!("{answer:?}")),
    });
    drop((liar, next, speaker));
    accelerated.nothing_is_left();
}

#[test]
fn packet_mode_takes_no_port_at_which_others_are_served_or_have_the_kernel_and_none_is_served_at_its()
 {
    let accelerated = Accelerated::start();
    let host = accelerated.here().ipv4();
    let speaker = Speaker::attach(&accelerated, NOBODY).expect("anybody may");
    let served = shared(&accelerated, NOBODY, 8000);
    assert!(matches!(speaker.udp(&served), Reply::Slot { .. }));
    let _kernels = shared(&accelerated, NOBODY, 8001);
    let start = |listen: String| {
        let words = format!("udp-echo --name echo --listen {listen}");
        Application::try_start(accelerated.daemon(), &words)
    };
    for (listen, why) in [
        (format!("udp:{host}:8000"), "sockets of programs are served at"),
        ("udp:0.0.0.0:8000".to_owned(), "sockets of programs are served at"),
        (format!("udp:{host}:0"), "sockets of programs are served at"),
        (format!("udp:{host}:8001"), "user 65534 has a socket of the kernel at"),
        ("udp:0.0.0.0:8001".to_owned(), "user 65534 has a socket of the kernel at"),
    ] {
        let ended = start(listen.clone()).expect_err("it is another's");
        assert!(ended.said.contains(why), "{listen}: {ended:?}");
    }
    let application = start(format!("udp:{host}:8002")).expect("the port is free");
    assert_eq!(speaker.udp(shared(&accelerated, NOBODY, 8002)), TAKEN);
    drop(application);
    accelerated.daemon().wait_until_gone("echo");
    let application = start(format!("tcp:{host}:8003")).expect("the port is free");
    let listener = socket_of(&accelerated, SocketType::STREAM, NOBODY);
    rustix::net::bind(&listener, &SocketAddr::from(([0, 0, 0, 0], 8003))).expect("it is free");
    assert_eq!(speaker.listen(&listener), TAKEN);
    drop((application, listener, served, speaker));
    accelerated.daemon().wait_until_gone("echo");
    accelerated.nothing_is_left();
}

#[test]
fn who_is_neither_root_nor_the_daemons_user_is_no_operator_whatever_the_files_mode_is() {
    let accelerated = Accelerated::start();
    let daemon = accelerated.daemon();
    std::fs::set_permissions(daemon.folder(), Permissions::from_mode(0o755)).expect("it is ours");
    std::fs::set_permissions(daemon.socket(), Permissions::from_mode(0o666)).expect("it is ours");
    let socket = daemon.socket();
    let answer = as_user(NOBODY, || {
        let mut stream = UnixStream::connect(&socket).expect("the mode lets it");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("no zero");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it is told");
        answer
    });
    assert!(answer.contains("only root and the daemon's own user"), "{answer}");
    assert!(!daemon.calisto("stats").is_empty(), "root is");
}
