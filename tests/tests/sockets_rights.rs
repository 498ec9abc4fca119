//! A port's packets are whose the kernel says, whatever the daemon was told before.

use std::io::Read;
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

use admin::SocketState;
use attach::{Call, FallbackReason, Link, Reply};
use rustix::net::{Shutdown, SocketType, sockopt};
use whole::{
    Accelerated, Forged, Intruder, KernelTcp, NOBODY, Speaker, as_user, project, run, socket_of,
    wait_for,
};

fn kept(reason: FallbackReason) -> Reply {
    Reply::Kernel { reason }
}

fn bind(socket: &OwnedFd, port: u16) {
    let everywhere = SocketAddr::from(([0, 0, 0, 0], port));
    rustix::net::bind(socket, &everywhere).expect("nobody in this namespace has it");
}

/// Binds a socket to a device, as any user may once.
fn bind_to_device(accelerated: &Accelerated, socket: &OwnedFd, name: &str) {
    let number = accelerated.here().enter(|| sys::interface::index_of(name));
    let number = number.expect("the namespace is there").expect("the device is there");
    sys::socket::bind_to_interface(socket.as_fd(), number).expect("it had none");
}

/// Says something from the other end to a port of this one.
fn say(accelerated: &Accelerated, port: u16, text: &[u8]) {
    let to = SocketAddr::from((accelerated.here().ipv4(), port));
    let send = || UdpSocket::bind("0.0.0.0:0")?.send_to(text, to);
    accelerated.there().enter(send).expect("the namespace is there").expect("there is a route");
}

/// Connects from the other end to a port of this one, within a moment.
fn call(accelerated: &Accelerated, port: u16) -> std::io::Result<TcpStream> {
    let to = SocketAddr::from((accelerated.here().ipv4(), port));
    let connect = || TcpStream::connect_timeout(&to, Duration::from_secs(2));
    accelerated.there().enter(connect).expect("the namespace is there")
}

#[test]
fn a_socket_of_another_device_is_left_to_the_kernel_though_no_library_says_so() {
    let accelerated = Accelerated::start();
    let speaker = Speaker::attach(&accelerated, NOBODY).expect("anybody may");
    for kind in [SocketType::STREAM, SocketType::DGRAM] {
        let theirs = socket_of(&accelerated, kind, NOBODY);
        bind_to_device(&accelerated, &theirs, "lo");
        bind(&theirs, 8000);
        let reply = match kind {
            SocketType::STREAM => speaker.listen(&theirs),
            _ => speaker.udp(&theirs),
        };
        assert_eq!(reply, kept(FallbackReason::BoundToDevice), "{kind:?}");
    }
    drop(speaker);
    accelerated.nothing_is_left();
}

#[test]
fn a_datagram_goes_to_whom_the_kernel_gives_it_when_a_socket_was_bound_to_another_device() {
    let accelerated = Accelerated::start();
    let speaker = Speaker::attach(&accelerated, NOBODY).expect("anybody may");
    let theirs = socket_of(&accelerated, SocketType::DGRAM, NOBODY);
    bind(&theirs, 8000);
    assert!(matches!(speaker.udp(&theirs), Reply::Slot { .. }));
    // Its port on our interface is anybody's from now on.
    bind_to_device(&accelerated, &theirs, "lo");
    let ours = socket_of(&accelerated, SocketType::DGRAM, 0);
    bind_to_device(&accelerated, &ours, accelerated.here().interface());
    bind(&ours, 8000);
    let ours = UdpSocket::from(ours);
    ours.set_read_timeout(Some(Duration::from_millis(50))).expect("no zero");
    wait_for("a datagram for who has the port", || {
        say(&accelerated, 8000, b"for you");
        let mut bytes = [0; 16];
        ours.recv(&mut bytes).map_err(|error| error.to_string())
    });
    assert_eq!(accelerated.daemon().counter("attach_rights_lost"), 1);
    drop(theirs);
    drop(speaker);
    accelerated.nothing_is_left();
}

#[test]
fn callers_come_to_whom_the_kernel_gives_them_after_a_listener_was_shut_down() {
    let accelerated = Accelerated::start();
    let speaker = Speaker::attach(&accelerated, NOBODY).expect("anybody may");
    let theirs = socket_of(&accelerated, SocketType::STREAM, NOBODY);
    sockopt::set_socket_reuseaddr(&theirs, true).expect("a socket");
    bind(&theirs, 8000);
    rustix::net::listen(&theirs, 16).expect("it is bound");
    assert!(matches!(speaker.listen(&theirs), Reply::Slot { .. }));
    // A caller that stays: its connection must not keep the port.
    let _stays = call(&accelerated, 8000).expect("it listens");
    rustix::net::shutdown(&theirs, Shutdown::Both).expect("it listens");
    let ours = socket_of(&accelerated, SocketType::STREAM, 0);
    sockopt::set_socket_reuseaddr(&ours, true).expect("a socket");
    bind(&ours, 8000);
    rustix::net::listen(&ours, 16).expect("it is bound, and nobody listens");
    let ours = TcpListener::from(ours);
    ours.set_nonblocking(true).expect("a listener can be");
    wait_for("a caller for who has the port", || {
        let caller = call(&accelerated, 8000).map_err(|error| error.to_string())?;
        std::thread::sleep(Duration::from_millis(20));
        let came = ours.accept().map_err(|error| error.to_string());
        drop(caller);
        came.map(drop)
    });
    assert_eq!(accelerated.daemon().counter("attach_rights_lost"), 1);
    drop(theirs);
    drop(speaker);
}

#[test]
fn a_listener_that_is_served_goes_on_being_served() {
    let accelerated = Accelerated::start();
    let speaker = Speaker::attach(&accelerated, NOBODY).expect("anybody may");
    let theirs = socket_of(&accelerated, SocketType::STREAM, NOBODY);
    bind(&theirs, 8000);
    assert!(matches!(speaker.listen(&theirs), Reply::Slot { .. }));
    // Longer than several checks take.
    for _ in 0..10 {
        let mut caller = call(&accelerated, 8000).expect("it listens");
        caller.set_read_timeout(Some(Duration::from_millis(100))).expect("no zero");
        let nothing = caller.read(&mut [0; 1]).expect_err("nobody answers");
        assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock, "and nobody resets");
    }
    assert_eq!(accelerated.daemon().counter("attach_rights_lost"), 0);
    drop(theirs);
}

#[test]
fn a_connection_takes_what_its_peer_sends_and_not_the_callers_of_its_port() {
    let accelerated = Accelerated::start();
    let remote = SocketAddr::from((accelerated.there().ipv4(), 7));
    let _echo = KernelTcp::echo(accelerated.there(), remote);
    let speaker = Speaker::attach(&accelerated, NOBODY).expect("anybody may");
    let theirs = socket_of(&accelerated, SocketType::STREAM, NOBODY);
    sockopt::set_socket_reuseaddr(&theirs, true).expect("a socket");
    bind(&theirs, 8000);
    let reply = speaker.call(&Call::Connect { remote }, Some(theirs.as_fd()));
    assert!(matches!(reply, Reply::Slot { .. }), "{reply:?}");
    wait_for("a connection", || match accelerated.sockets() {
        all if all.iter().any(|one| one.state == SocketState::Estab) => Ok(()),
        all => Err(format!("{all:?}")),
    });
    let ours = socket_of(&accelerated, SocketType::STREAM, 0);
    sockopt::set_socket_reuseaddr(&ours, true).expect("a socket");
    bind(&ours, 8000);
    rustix::net::listen(&ours, 16).expect("nobody listens");
    call(&accelerated, 8000).expect("the kernel's listener has the port");
    drop((theirs, speaker));
    accelerated.nothing_is_left();
}

#[test]
fn one_user_leaves_places_to_others_and_all_users_leave_some_to_root() {
    let accelerated = Accelerated::with("[apps]\nmax = 16\n");
    let as_many_as_it_may = |uid| {
        let mut speakers = Vec::new();
        while let Ok(speaker) = Speaker::attach(&accelerated, uid) {
            speakers.push(speaker);
            assert!(speakers.len() <= 16);
        }
        speakers
    };
    let all = [NOBODY, 1000, 1001].map(as_many_as_it_may);
    assert_eq!(all.each_ref().map(Vec::len), [8, 6, 0]);
    assert_eq!(accelerated.daemon().counter("attach_place_share_used_up"), 3);
    let roots = as_many_as_it_may(0);
    assert_eq!(roots.len(), 2);
    drop((all, roots));
    accelerated.nothing_is_left();
}

#[test]
fn connections_that_say_nothing_give_way_to_who_speaks() {
    let accelerated = Accelerated::start();
    // So that others than root find the socket.
    drop(Speaker::attach(&accelerated, 0).expect("anybody may"));
    let path = accelerated.daemon().apps_socket();
    let silent = |uid| as_user(uid, || Link::connect(path.as_ref()).expect("the daemon listens"));
    let silent: Vec<Link> = (0..64).map(|number| silent(2000 + number / 8)).collect();
    Speaker::attach(&accelerated, NOBODY).expect("it speaks");
    assert!(accelerated.daemon().counter("attach_strangers_evicted") > 0, "nobody had to wait");
    drop(silent);
    accelerated.nothing_is_left();
}

#[test]
fn rules_that_come_later_hold_for_what_is_served_already() {
    let mut install = Command::new(project().join("script/install-missing"));
    let (status, _, said) = run(install.arg("nft=nftables"));
    assert!(status.success(), "{said}");
    let accelerated = Accelerated::start();
    let speaker = Speaker::attach(&accelerated, NOBODY).expect("anybody may");
    let theirs = socket_of(&accelerated, SocketType::STREAM, NOBODY);
    bind(&theirs, 8000);
    assert!(matches!(speaker.listen(&theirs), Reply::Slot { .. }));
    let mut caller = call(&accelerated, 8000).expect("it listens");
    let mut nft = accelerated.here().command("nft");
    // No rule: what it does not accept it drops.
    let (status, _, said) = run(nft.arg(
        "add table inet guard; add chain inet guard in { type filter hook input priority 0; policy drop; }",
    ));
    assert!(status.success(), "{said}");
    wait_for("an end of what would pass by the rules", || match accelerated.sockets() {
        all if all.is_empty() => Ok(()),
        all => Err(format!("{all:?}")),
    });
    caller.set_read_timeout(Some(Duration::from_secs(10))).expect("no zero");
    assert!(caller.read(&mut [0; 1]).is_err(), "its connection is reset");
    assert_eq!(accelerated.daemon().counter("attach_firewall_appeared"), 1);
    let speaker = Speaker::attach(&accelerated, NOBODY).expect("anybody may");
    assert_eq!(speaker.listen(&theirs), kept(FallbackReason::FirewallRules));
    drop((theirs, speaker));
    accelerated.nothing_is_left();
}

#[test]
fn callers_from_where_the_kernel_would_not_answer_them_are_dropped_until_a_route_leads_there() {
    let accelerated = Accelerated::start();
    let speaker = Speaker::attach(&accelerated, NOBODY).expect("anybody may");
    let theirs = socket_of(&accelerated, SocketType::STREAM, NOBODY);
    bind(&theirs, 8000);
    assert!(matches!(speaker.listen(&theirs), Reply::Slot { .. }));
    let here = accelerated.here().ipv4();
    let intruder = Intruder::new(accelerated.there());
    // Of no connection: whom it is believed gets a reset.
    let say = |source: [u8; 4]| {
        let source = SocketAddrV4::new(source.into(), 4000);
        let forged = Forged::between(source, SocketAddrV4::new(here, 8000));
        intruder.send(&Forged { flags: wire::tcp::ACK, acknowledgement: 77, ..forged });
    };
    let counts = |name: &str, source: [u8; 4]| {
        let before = accelerated.daemon().counter(name);
        wait_for(&format!("{name} for {source:?}"), || {
            say(source);
            match accelerated.daemon().counter(name) {
                count if count > before => Ok(()),
                count => Err(format!("{count}")),
            }
        });
    };
    counts("tcp_bad_source", [198, 18, 0, 1]);
    counts("tcp_bad_source", here.octets());
    assert_eq!(accelerated.daemon().counter("tcp_resets_sent"), 0);
    drop(call(&accelerated, 8000).expect("its address is on the link"));
    let mut ip = accelerated.here().command("ip");
    let (status, _, said) = run(ip.args(["route", "add", "198.18.0.0/24", "dev", "veth0"]));
    assert!(status.success(), "{said}");
    counts("tcp_resets_sent", [198, 18, 0, 1]);
    assert_eq!(accelerated.daemon().counter("attach_sources_unchecked"), 0);
    drop((theirs, speaker));
}
