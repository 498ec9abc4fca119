//! The table of states and calls, and the kernel's own answers beside it.

use super::*;

const QUIET: SocketView = SocketView {
    phase: Phase::Open,
    unread: 0,
    low_water: 1,
    is_peer_done: false,
    is_read_shut: false,
    is_write_shut: false,
    room: 1000,
    queued: 0,
    is_backlogged: false,
    error: None,
    is_urgent: false,
};

const IN: Readiness = Readiness::IN;
const OUT: Readiness = Readiness::OUT;
const ERR: Readiness = Readiness::ERR;
const HUP: Readiness = Readiness::HUP;
const RDHUP: Readiness = Readiness::RDHUP;

#[test]
fn each_state_has_the_answers_that_linux_gives() {
    use Verdict::{Copy, End, Error, Fail, Wait};
    let piped = Fail(Errno::PIPE);
    let closed = SocketView { phase: Phase::Closed, ..QUIET };
    let connecting = SocketView { phase: Phase::Connecting, room: 0, ..QUIET };
    let refused = SocketView { error: Some(Errno::CONNREFUSED), ..closed };
    let reset = SocketView { error: Some(Errno::CONNRESET), ..closed };
    let half = SocketView { is_peer_done: true, ..QUIET };
    let shut = SocketView { is_write_shut: true, ..QUIET };
    let table = [
        ("connecting", connecting, Wait, Wait, Readiness::EMPTY),
        ("idle", QUIET, Wait, Copy, OUT),
        ("data", SocketView { unread: 5, ..QUIET }, Copy, Copy, IN | OUT),
        ("full", SocketView { room: 0, queued: 9, ..QUIET }, Wait, Wait, Readiness::EMPTY),
        ("peer closed, data left", SocketView { unread: 5, ..half }, Copy, Copy, IN | OUT | RDHUP),
        ("peer closed", half, End, Copy, IN | OUT | RDHUP),
        ("write shut", shut, Wait, piped, OUT),
        ("read shut", SocketView { is_read_shut: true, ..QUIET }, End, Copy, IN | OUT | RDHUP),
        (
            "write shut, peer closed",
            SocketView { is_peer_done: true, ..shut },
            End,
            piped,
            IN | OUT | RDHUP | HUP,
        ),
        ("refused", refused, Error, Error, IN | OUT | RDHUP | HUP | ERR),
        ("reset", reset, Error, Error, IN | OUT | RDHUP | HUP | ERR),
        (
            "reset, data left",
            SocketView { unread: 5, ..reset },
            Copy,
            Error,
            IN | OUT | RDHUP | HUP | ERR,
        ),
        (
            "reset after the peer closed",
            SocketView { is_peer_done: true, error: Some(Errno::PIPE), ..closed },
            End,
            Error,
            IN | OUT | RDHUP | HUP | ERR,
        ),
        ("reset, and said so", closed, End, piped, IN | OUT | RDHUP | HUP),
    ];
    for (state, view, receive, send, readiness) in table {
        assert_eq!(view.receive(), receive, "recv, {state}");
        assert_eq!(view.send(), send, "send, {state}");
        assert_eq!(view.readiness(), readiness, "poll, {state}");
    }
}

#[test]
fn a_connect_ends_with_the_connection_or_the_error_and_aborted_when_somebody_has_taken_it() {
    let connecting = SocketView { phase: Phase::Connecting, ..QUIET };
    assert_eq!(connecting.connect(), Verdict::Wait);
    assert_eq!(QUIET.connect(), Verdict::Copy);
    let closed = SocketView { phase: Phase::Closed, ..QUIET };
    let refused = SocketView { error: Some(Errno::CONNREFUSED), ..closed };
    assert_eq!(refused.connect(), Verdict::Error);
    assert_eq!(closed.connect(), Verdict::Fail(Errno::CONNABORTED));
}

#[test]
fn a_listener_accepts_what_it_has_and_wakes_who_waits_when_it_is_shut_down() {
    let listener = SocketView { phase: Phase::Listening, room: 0, ..QUIET };
    assert_eq!(listener.accept(), Verdict::Wait);
    assert_eq!(listener.readiness(), Readiness::EMPTY);
    let full = SocketView { unread: 1, ..listener };
    assert_eq!((full.accept(), full.readiness()), (Verdict::Copy, IN));
    let shut = SocketView { is_read_shut: true, ..listener };
    assert_eq!(shut.accept(), Verdict::Fail(Errno::INVAL));
    assert_eq!(shut.readiness(), IN | RDHUP | HUP);
    assert_eq!(listener.receive(), Verdict::Fail(Errno::NOTCONN));
    assert_eq!(listener.send(), Verdict::Fail(Errno::PIPE));
    assert_eq!(QUIET.accept(), Verdict::Fail(Errno::INVAL));
}

#[test]
fn low_water_marks_hold_readiness_back_and_not_the_calls() {
    let some = SocketView { unread: 5, low_water: 10, ..QUIET };
    assert_eq!((some.receive(), some.readiness()), (Verdict::Copy, OUT));
    let end = SocketView { is_peer_done: true, ..some };
    assert!(end.readiness().contains(IN));
    let nearly_full = SocketView { room: 100, queued: 900, ..QUIET };
    assert_eq!((nearly_full.send(), nearly_full.readiness()), (Verdict::Copy, Readiness::EMPTY));
    let third_free = SocketView { room: 334, queued: 666, ..QUIET };
    assert_eq!(third_free.readiness(), OUT);
    let backlogged = SocketView { is_backlogged: true, ..QUIET };
    assert_eq!((backlogged.send(), backlogged.readiness()), (Verdict::Copy, Readiness::EMPTY));
}

#[test]
fn the_kernel_says_the_same_of_its_own_sockets() {
    use rustix::event::{PollFd, PollFlags, poll};
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};

    let ask = |socket: &TcpStream| {
        let wanted = PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP | PollFlags::PRI;
        let mut fds = [PollFd::new(socket, wanted)];
        poll(&mut fds, None).expect("one is ready");
        Readiness::from_bits(u32::from(fds[0].revents().bits()))
    };
    let wait_for = |socket: &TcpStream, wanted| {
        let mut fds = [PollFd::new(socket, wanted)];
        poll(&mut fds, None).expect("it comes");
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is up");
    let pair = || {
        let address = listener.local_addr().expect("it is bound");
        let ours = TcpStream::connect(address).expect("it listens");
        (ours, listener.accept().expect("it has connected").0)
    };

    let (mut ours, mut peer) = pair();
    assert_eq!(ask(&ours), QUIET.readiness());
    peer.write_all(b"hello").expect("there is room");
    peer.shutdown(Shutdown::Write).expect("it is connected");
    wait_for(&ours, PollFlags::RDHUP);
    let half = SocketView { unread: 5, is_peer_done: true, ..QUIET };
    assert_eq!(ask(&ours), half.readiness());
    assert_eq!(ours.read(&mut [0; 9]).expect("data comes before the end"), 5);
    assert_eq!(ours.read(&mut [0; 9]).expect("the end"), 0);
    ours.shutdown(Shutdown::Write).expect("it is connected");
    let over = SocketView { unread: 0, is_write_shut: true, ..half };
    assert_eq!(ask(&ours), over.readiness());

    // A peer that closes with data unread resets.
    let (mut ours, mut peer) = pair();
    peer.write_all(b"hello").expect("there is room");
    wait_for(&ours, PollFlags::IN);
    ours.write_all(b"ignored").expect("there is room");
    wait_for(&peer, PollFlags::IN);
    drop(peer);
    wait_for(&ours, PollFlags::RDHUP);
    let reset =
        SocketView { phase: Phase::Closed, error: Some(Errno::CONNRESET), unread: 5, ..QUIET };
    assert_eq!(ask(&ours), reset.readiness());
    assert_eq!(ours.read(&mut [0; 9]).expect("data comes before the error"), 5);
    let error = ours.read(&mut [0; 9]).expect_err("it was reset");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(ours.read(&mut [0; 9]).expect("the error is said once"), 0);
    let error = ours.write(b"more").expect_err("nobody is there");
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    let said = SocketView { error: None, unread: 0, ..reset };
    assert_eq!(ask(&ours), said.readiness());
}

const DATAGRAMS: DatagramView = DatagramView {
    has_datagram: false,
    has_room: true,
    is_read_shut: false,
    is_write_shut: false,
    is_closed: false,
    error: None,
};

#[test]
fn a_datagram_socket_says_its_error_before_its_data_and_once() {
    let refused = DatagramView { has_datagram: true, error: Some(Errno::CONNREFUSED), ..DATAGRAMS };
    assert_eq!((refused.receive(), refused.send()), (Verdict::Error, Verdict::Error));
    assert_eq!(refused.readiness(), IN | OUT | ERR);
    let said = DatagramView { error: None, ..refused };
    assert_eq!((said.receive(), said.send()), (Verdict::Copy, Verdict::Copy));
}

#[test]
fn a_datagram_socket_without_a_daemon_leaves_all_to_the_kernel() {
    let gone = DatagramView { is_closed: true, has_room: false, ..DATAGRAMS };
    assert_eq!(gone.receive(), Verdict::Fail(Errno::NETDOWN));
    assert_eq!(gone.send(), Verdict::Fail(Errno::NETDOWN));
    assert_eq!(gone.readiness(), OUT, "what comes is the kernel's to tell");
    let shut = DatagramView { is_read_shut: true, is_write_shut: true, ..gone };
    assert_eq!(shut.readiness(), IN | OUT | RDHUP | HUP);
    let full = DatagramView { has_room: false, ..DATAGRAMS };
    assert_eq!((full.receive(), full.send()), (Verdict::Wait, Verdict::Wait));
    assert_eq!(full.readiness(), Readiness::EMPTY);
}
