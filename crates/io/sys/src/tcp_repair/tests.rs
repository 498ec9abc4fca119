//! Against Linux's own TCP: one end of a connection is taken from its socket, as if another TCP had
//! had it, and another socket goes on. In namespaces of their own; they need root.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};

use super::*;
use crate::testing::{in_fresh_namespace, ip};

/// How long an end may be silent.
const TIMEOUT: Duration = Duration::from_secs(20);

fn up() {
    ip("link set lo up");
}

fn sysctl(name: &str, value: &str) {
    std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value).expect("root may");
}

/// A connection by loopback: its listener, the end that is taken over, and its peer.
fn connection(ip: IpAddr) -> (TcpListener, TcpStream, TcpStream) {
    let listener = TcpListener::bind((ip, 0)).expect("a port is free");
    let peer = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    let (own, _) = listener.accept().expect("it is connected");
    peer.set_read_timeout(Some(TIMEOUT)).expect("a socket");
    peer.set_write_timeout(Some(TIMEOUT)).expect("a socket");
    peer.set_nodelay(true).expect("a socket");
    (listener, own, peer)
}

/// A socket that was never connected.
fn fresh(ip: IpAddr) -> OwnedFd {
    let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    rustix::net::socket(family, SocketType::STREAM, None).expect("descriptors are left")
}

/// Reads an option that is a plain struct of `T`.
fn get<T: Copy + Default>(socket: BorrowedFd<'_>, name: libc::c_int) -> T {
    let mut value = T::default();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` has room for `length` bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    assert_eq!(result, 0, "{}", last_errno());
    value
}

/// Takes the connection off its socket: what must be known of it, and what was not read. Nothing is
/// on its way.
fn freeze(own: TcpStream) -> (Record, Vec<u8>) {
    let fd = own.as_fd();
    let local = own.local_addr().expect("it is connected");
    let remote = own.peer_addr().expect("it is connected");
    let tcp = |name, value| set_int(fd, libc::IPPROTO_TCP, name, value).expect("root may");
    tcp(libc::TCP_REPAIR, REPAIR_ON);
    tcp(libc::TCP_REPAIR_QUEUE, SEND_QUEUE);
    let send_first = get(fd, libc::TCP_QUEUE_SEQ);
    tcp(libc::TCP_REPAIR_QUEUE, RECEIVE_QUEUE);
    let rcv_nxt: u32 = get(fd, libc::TCP_QUEUE_SEQ);
    let mut unread = vec![0; 1 << 20];
    own.set_nonblocking(true).expect("a socket");
    let bytes = own.peek(&mut unread).unwrap_or(0);
    unread.truncate(bytes);
    // struct tcp_info: the options in its sixth byte, both shifts in the seventh.
    let info: [u8; 8] = get(fd, libc::TCP_INFO);
    let (options, shifts) = (info[5], info[6]);
    let timestamp = (options & 1 != 0).then(|| get::<u32>(fd, libc::TCP_TIMESTAMP) & !1);
    let record = Record {
        local,
        remote,
        send_first,
        receive_first: rcv_nxt.wrapping_sub(bytes as u32),
        mss: u16::try_from(get::<u32>(fd, libc::TCP_MAXSEG)).unwrap_or(u16::MAX),
        shifts: if options & 4 != 0 { [shifts & 15, shifts >> 4] } else { [0, 0] },
        sack: options & 2 != 0,
        timestamp,
        window: get_window(fd),
        room: [1 << 16, 1 << 16],
        reuses_address: true,
    };
    (record, unread)
}

fn get_window(fd: BorrowedFd<'_>) -> Window {
    let [snd_wl1, snd_wnd, max_window, rcv_wnd, rcv_wup] = get::<[u32; 5]>(fd, TCP_REPAIR_WINDOW);
    Window { snd_wl1, snd_wnd, max_window, rcv_wnd, rcv_wup }
}

fn stream_of(socket: OwnedFd) -> TcpStream {
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(TIMEOUT)).expect("a socket");
    stream.set_write_timeout(Some(TIMEOUT)).expect("a socket");
    stream
}

fn expect(stream: &mut TcpStream, bytes: &[u8]) {
    let mut got = vec![0; bytes.len()];
    stream.read_exact(&mut got).expect("it comes");
    assert!(got == bytes, "another byte than was written");
}

/// A stretch in which no two parts are alike.
fn stretch(seed: u32, bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|at| (at ^ at >> 8 ^ at >> 16 ^ seed).wrapping_mul(37) as u8).collect()
}

/// Everything that can be under way is, and much goes both ways afterwards.
fn goes_on(ip: IpAddr) {
    let (_listener, own, mut peer) = connection(ip);
    peer.write_all(b"unread").expect("it is connected");
    while own.peek(&mut [0; 16]).expect("it comes") < 6 {}
    let (mut record, unread) = freeze(own);
    assert_eq!(unread, b"unread");
    let (sent, unsent) = (stretch(1, 20_000), stretch(2, 300_000));
    record.room[1] = sent.len() + unsent.len();
    let socket = fresh(ip);
    // No hindrance to what was written before, and a limit again afterwards.
    set_int(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, 1).expect("a number");
    let repaired = Repaired::begin(socket.as_fd(), &record, &unread, &sent).expect("root may");
    repaired.go_on(&unsent).expect("there is room");
    assert_eq!(get::<i32>(socket.as_fd(), libc::TCP_NOTSENT_LOWAT), 1);
    let mut own = stream_of(socket);
    assert_eq!(own.peer_addr().expect("it stands"), record.remote);
    expect(&mut own, b"unread");
    let there = stretch(3, 3_000_000);
    let writer = {
        let (mut peer, there) = (peer.try_clone().expect("descriptors"), there.clone());
        std::thread::spawn(move || peer.write_all(&there))
    };
    expect(&mut own, &there);
    writer.join().expect("it ends").expect("it stands");
    expect(&mut peer, &sent);
    expect(&mut peer, &unsent);
    let mut back = own.try_clone().expect("descriptors");
    let (sender, expected) = (there.clone(), there);
    let writer = std::thread::spawn(move || back.write_all(&sender));
    expect(&mut peer, &expected);
    writer.join().expect("it ends").expect("it stands");
    drop(own);
    assert_eq!(peer.read(&mut [0; 1]).expect("an end and no reset"), 0);
}

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

#[test]
fn a_connection_goes_on_with_everything_that_was_under_way() {
    in_fresh_namespace(|| {
        up();
        goes_on(V4);
        goes_on(V6);
    });
}

#[test]
fn it_goes_on_whatever_was_not_agreed_on() {
    for without in ["tcp_timestamps", "tcp_window_scaling", "tcp_sack"] {
        in_fresh_namespace(move || {
            up();
            sysctl(without, "0");
            goes_on(V4);
        });
    }
}

#[test]
fn a_timestamp_never_goes_back_and_no_clock_is_taken_for_another() {
    in_fresh_namespace(|| {
        up();
        for odd in [0, 1] {
            let (_listener, own, mut peer) = connection(V4);
            let (mut record, _) = freeze(own);
            record.timestamp = record.timestamp.map(|now| (now & !1).wrapping_add(100 + odd));
            let least = record.timestamp.expect("they were agreed on");
            let socket = fresh(V4);
            let repaired = Repaired::begin(socket.as_fd(), &record, b"", b"").expect("root may");
            let now: u32 = get(socket.as_fd(), libc::TCP_TIMESTAMP);
            // The lowest bit says whether it counts microseconds.
            assert_eq!(now & 1, 0, "milliseconds, as before");
            assert!(now.wrapping_sub(least & !1) < 10_000, "{least} became {now}");
            repaired.go_on(b"after").expect("there is room");
            expect(&mut peer, b"after");
        }
    });
}

#[test]
fn a_socket_of_both_versions_goes_on_with_an_ipv4_connection_beside_its_listener() {
    in_fresh_namespace(|| {
        up();
        let (listener, own, mut peer) = connection(V4);
        let (record, _) = freeze(own);
        let socket = fresh(V6);
        let repaired = Repaired::begin(socket.as_fd(), &record, b"", b"").expect("root may");
        repaired.go_on(b"mapped").expect("there is room");
        expect(&mut peer, b"mapped");
        // Who came before does not keep others out, nor a listener that comes after.
        TcpStream::connect(record.local).expect("it listens still");
        drop(listener);
        TcpListener::bind(record.local).expect("as beside any connection of a server");
    });
}

#[test]
fn what_is_undone_leaves_a_socket_that_was_never_connected() {
    in_fresh_namespace(|| {
        up();
        let (_listener, own, mut peer) = connection(V4);
        let (record, _) = freeze(own);
        let socket = fresh(V4);
        Repaired::begin(socket.as_fd(), &record, b"x", b"y").expect("root may").undo();
        assert!(can_begin(socket.as_fd()));
        // It can go on later as if nothing had been: the peer has heard of nothing.
        let repaired = Repaired::begin(socket.as_fd(), &record, b"", b"").expect("root may");
        repaired.go_on(b"later").expect("there is room");
        expect(&mut peer, b"later");
    });
}

#[test]
fn only_a_socket_without_a_connection_is_given_one_and_only_what_can_be() {
    in_fresh_namespace(|| {
        up();
        let (listener, own, peer) = connection(V4);
        let (mut record, _) = freeze(own);
        let begin = |fd, record: &Record| {
            Repaired::begin(fd, record, b"", b"").map(Repaired::undo).map_err(|error| error.errno())
        };
        assert_eq!(begin(listener.as_fd(), &record), Err(Errno::ISCONN));
        assert_eq!(begin(peer.as_fd(), &record), Err(Errno::ISCONN));
        let udp = std::net::UdpSocket::bind((V4, 0)).expect("a port is free");
        assert_eq!(begin(udp.as_fd(), &record), Err(Errno::ISCONN));
        // Bound elsewhere: the connection would have another name.
        let elsewhere = fresh(V4);
        let other = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        rustix::net::bind(&elsewhere, &other).expect("a port is free");
        assert_eq!(begin(elsewhere.as_fd(), &record), Err(Errno::ADDRNOTAVAIL));
        // A window that cannot be.
        record.window.max_window = 0;
        record.window.snd_wnd = 1;
        let socket = fresh(V4);
        assert_eq!(begin(socket.as_fd(), &record), Err(Errno::INVAL));
        assert!(can_begin(socket.as_fd()), "and it is as it was");
    });
}
