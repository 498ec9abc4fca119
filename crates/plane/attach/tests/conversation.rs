//! Daemon and application over one connection, honest and not, and no descriptor left behind.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use attach::{
    AttachError, AttachListener, AttachRequest, Attached, Call, DESCRIPTORS_MAX, DetachReason,
    Detached, FallbackReason, JoinRequest, Link, MESSAGE_BYTES_MAX, Peer, Profile, Received, Reply,
    SocketsRequest, Streaming, ToApp, ToDaemon,
};
use base::Nanos;
use proptest::prelude::*;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};

/// Descriptors are counted by process, so one test runs at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const SOON: Nanos = Nanos::from_secs(10);

struct Stage {
    listener: AttachListener,
    folder: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Stage {
    fn new() -> Self {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = std::env::temp_dir().join(format!("calisto-talk-{}", std::process::id()));
        let listener = AttachListener::bind(&folder.join("apps.sock"), 0o600)
            .expect("the temporary folder can be written");
        Self { listener, folder, _alone: alone }
    }

    fn accept(&self) -> Peer {
        self.listener.accept().expect("descriptors are left").expect("one has connected")
    }

    fn both(&self) -> (Link, Peer) {
        let link = Link::connect(self.listener.path()).expect("the listener is there");
        (link, self.accept())
    }

    /// An application that writes what it likes.
    fn hostile(&self) -> (OwnedFd, Peer) {
        let kind = SocketType::SEQPACKET;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
                .expect("descriptors are left");
        let address = SocketAddrUnix::new(self.listener.path()).expect("a short path");
        rustix::net::connect(&socket, &address).expect("the listener is there");
        (socket, self.accept())
    }

    /// A daemon that writes what it likes.
    fn hostile_daemon(&self) -> (Link, OwnedFd) {
        let link = Link::connect(self.listener.path()).expect("the listener is there");
        let socket = rustix::net::accept(&self.listener).expect("one has connected");
        (link, socket)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("proc is mounted").count()
}

fn request() -> ToDaemon {
    ToDaemon::Attach(AttachRequest {
        name: "test".into(),
        listen: vec!["udp:10.0.0.2:53".into()],
        workers: 2,
        frames: None,
        frame_bytes: None,
        cores: None,
        features: 0,
    })
}

fn welcome() -> ToApp {
    ToApp::Attached(Attached {
        id: 3,
        workers: 2,
        ports: Vec::new(),
        on_granted_cores: false,
        features: 0,
    })
}

fn detached() -> ToApp {
    ToApp::Detached(Detached { reason: DetachReason::Operator, message: "bye".into() })
}

/// Sends any bytes with any number of copies of a descriptor; false when the buffer is full.
fn send_raw(socket: &OwnedFd, bytes: &[u8], descriptors: usize) -> bool {
    let copies = vec![socket.as_fd(); descriptors];
    let mut room = vec![std::mem::MaybeUninit::uninit(); 2048];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if descriptors > 0 {
        assert!(control.push(SendAncillaryMessage::ScmRights(&copies)));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let parts = [rustix::io::IoSlice::new(bytes)];
    rustix::net::sendmsg(socket, &parts, &mut control, flags).is_ok()
}

#[test]
fn a_request_is_answered_with_descriptors_that_work() {
    let stage = Stage::new();
    let before = open_descriptors();
    {
        let (link, peer) = stage.both();
        assert_eq!(peer.receive(), Ok(Received::Nothing));
        let who = peer.credentials();
        assert_eq!(who.pid, std::process::id());
        assert_eq!(who.uid, rustix::process::getuid().as_raw());
        assert_eq!(who.gid, rustix::process::getgid().as_raw());

        link.send(&request()).expect("the peer is there");
        assert_eq!(peer.receive(), Ok(Received::Message(request())));
        let none = link.receive(Nanos::from_millis(1)).expect("the peer is there");
        assert!(none.is_none(), "not answered yet");

        let (doorbell, ringer) = rustix::pipe::pipe().expect("descriptors are left");
        assert_eq!(peer.send(&welcome(), &[doorbell.as_fd()]), Ok(true));
        let (message, descriptors) =
            link.receive(SOON).expect("the peer is there").expect("it has answered");
        assert_eq!(message, welcome());
        drop(doorbell);
        rustix::io::write(&ringer, b"!").expect("the application has the other end");
        let mut byte = [0];
        assert_eq!(rustix::io::read(&descriptors[0], &mut byte), Ok(1));
        assert_eq!(descriptors.len(), 1);
        let flags = rustix::io::fcntl_getfd(&descriptors[0]).expect("it is open");
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "a child must not inherit it");
    }
    assert_eq!(open_descriptors(), before);
}

#[test]
fn as_many_descriptors_as_there_may_be_arrive_and_one_more_is_not_sent() {
    let stage = Stage::new();
    let (link, peer) = stage.both();
    let all = vec![peer.as_fd(); DESCRIPTORS_MAX + 1];
    assert!(peer.send(&welcome(), &all).is_err());
    assert_eq!(peer.send(&welcome(), &all[1..]), Ok(true));
    let (_, descriptors) = link.receive(SOON).expect("the peer is there").expect("sent");
    assert_eq!(descriptors.len(), DESCRIPTORS_MAX);
}

#[test]
fn a_daemon_that_closes_is_noticed_after_its_last_words() {
    let stage = Stage::new();
    let (link, peer) = stage.both();
    assert!(!link.is_closed());
    // Unread by the daemon, so the kernel tells the application of a reset first.
    link.send(&request()).expect("the peer is there");
    assert_eq!(peer.send(&detached(), &[]), Ok(true));
    drop(peer);
    assert!(link.is_closed());
    let (message, _) = link.receive(SOON).expect("the words are there").expect("they are");
    assert_eq!(message, detached());
    assert_eq!(link.receive(SOON).expect_err("closed"), AttachError::Closed);
    assert_eq!(link.send(&request()).expect_err("closed"), AttachError::Closed);
}

#[test]
fn an_application_that_leaves_is_noticed_and_answering_it_is_an_error() {
    let stage = Stage::new();
    let (link, peer) = stage.both();
    drop(link);
    assert_eq!(peer.receive(), Ok(Received::Closed));
    assert!(peer.send(&detached(), &[]).is_err());
}

#[test]
fn an_application_that_does_not_read_is_not_waited_for() {
    let stage = Stage::new();
    let (link, peer) = stage.both();
    let mut sent = 0;
    while peer.send(&detached(), &[]).expect("the application is there") {
        sent += 1;
        assert!(sent < 1 << 20, "a socket's buffer ends somewhere");
    }
    assert!(sent > 0);
    for _ in 0..sent {
        let (message, _) = link.receive(SOON).expect("the peer is there").expect("sent");
        assert_eq!(message, detached(), "what was sent is whole");
    }
    assert_eq!(peer.send(&detached(), &[]), Ok(true));
}

#[test]
fn a_request_that_breaks_a_limit_is_not_sent() {
    let stage = Stage::new();
    let (link, peer) = stage.both();
    let ToDaemon::Attach(mut wrong) = request() else { panic!("it is one") };
    wrong.workers = 65;
    let error = link.send(&ToDaemon::Attach(wrong)).expect_err("too many");
    assert!(error.to_string().contains("1 to 64"), "{error}");
    assert_eq!(peer.receive(), Ok(Received::Nothing));
}

#[test]
fn descriptors_from_an_application_never_become_the_daemons() {
    let stage = Stage::new();
    let (socket, peer) = stage.hostile();
    let before = open_descriptors();
    let text = br#"{"v":1,"attach":{"name":"a","workers":1}}"#;
    // Since Linux 6.16 the sender fails, before that they are thrown away.
    let (other, _pair) = std::os::unix::net::UnixStream::pair().expect("descriptors are left");
    let is_taken = !sys::unix_socket::refuse_descriptors(other.as_fd());
    let before = before + 2;
    for descriptors in [1, 66, 67, 250] {
        assert_eq!(send_raw(&socket, text, descriptors), is_taken);
        let expected = if is_taken { "Ok(Message(" } else { "Ok(Nothing" };
        let received = format!("{:?}", peer.receive());
        assert!(received.starts_with(expected), "{received}");
        assert_eq!(open_descriptors(), before);
    }
    assert_eq!(send_raw(&socket, text, 250), is_taken, "not read at all");
    drop((socket, peer));
    assert_eq!(open_descriptors(), before - 2);
}

#[test]
fn messages_of_any_length_are_whole_or_refused() {
    let stage = Stage::new();
    let (socket, peer) = stage.hostile();
    let (link, daemon) = stage.hostile_daemon();
    for len in [1, MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX + 1, 3 * MESSAGE_BYTES_MAX] {
        let bytes = vec![b' '; len];
        assert!(send_raw(&socket, &bytes, 0) && send_raw(&daemon, &bytes, 0));
        let Ok(Received::Bad(sentence)) = peer.receive() else { panic!("blanks are no message") };
        let error = link.receive(SOON).expect_err("blanks are no message").to_string();
        let is_long = len > MESSAGE_BYTES_MAX;
        assert_eq!(sentence.contains("65536 bytes at most"), is_long, "{len}: {sentence}");
        assert_eq!(error.contains("65536 bytes at most"), is_long, "{len}: {error}");
    }
    // The longest that is one.
    let head = r#"{"v":1,"attach":{"name":"a","workers":1}"#;
    let text = format!("{head}{}}}", " ".repeat(MESSAGE_BYTES_MAX - head.len() - 1));
    assert!(send_raw(&socket, text.as_bytes(), 0));
    assert!(matches!(peer.receive(), Ok(Received::Message(_))));
    // An empty one is the end.
    assert!(send_raw(&socket, b"", 0) && send_raw(&daemon, b"", 0));
    assert_eq!(peer.receive(), Ok(Received::Closed));
    assert_eq!(link.receive(SOON).expect_err("closed"), AttachError::Closed);
}

#[test]
fn too_many_descriptors_from_a_daemon_are_all_closed() {
    let stage = Stage::new();
    let (link, daemon) = stage.hostile_daemon();
    let before = open_descriptors();
    for descriptors in [67, 250] {
        assert!(send_raw(&daemon, br#"{"v":1,"refused":{"message":"no"}}"#, descriptors));
        let error = link.receive(SOON).expect_err("too many");
        assert!(error.to_string().contains("ulimit"), "{error}");
        assert_eq!(open_descriptors(), before);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes_with_any_descriptors_leave_nothing_behind(
        messages in proptest::collection::vec((any::<Vec<u8>>(), 0..=253_usize), 1..6),
    ) {
        let stage = Stage::new();
        let (socket, peer) = stage.hostile();
        let (link, daemon) = stage.hostile_daemon();
        let before = open_descriptors();
        for (bytes, descriptors) in &messages {
            // The kernel may have refused the descriptors, and the message with them.
            let is_taken = send_raw(&socket, bytes, *descriptors);
            let received = peer.receive().expect("the kernel is well");
            prop_assert_eq!(received == Received::Closed, is_taken && bytes.is_empty());
            prop_assert_eq!(received == Received::Nothing, !is_taken);
            prop_assert!(!matches!(received, Received::Message(_)));
            prop_assert!(send_raw(&daemon, bytes, *descriptors));
            prop_assert!(link.receive(SOON).is_err());
            prop_assert_eq!(open_descriptors(), before);
            // An empty message says the same as the end, and nothing is read behind it.
            if bytes.is_empty() {
                break;
            }
        }
    }
}

#[test]
fn a_borrowed_descriptor_is_sent_and_stays() {
    let stage = Stage::new();
    let (link, peer) = stage.both();
    let own: BorrowedFd<'_> = peer.as_fd();
    assert_eq!(peer.send(&welcome(), &[own]), Ok(true));
    let (_, descriptors) = link.receive(SOON).expect("the peer is there").expect("sent");
    drop(descriptors);
    assert_eq!(peer.receive(), Ok(Received::Nothing), "the peer's own end is still open");
}

fn streaming() -> Streaming {
    Streaming {
        app: 4,
        region: 9,
        token: "0f".repeat(16),
        ticket: "f0".repeat(16),
        pollers: 256,
        join_listener: None,
        features: 0,
    }
}

/// What the application says next, with a descriptor if it needs one.
fn next(peer: &Peer) -> (Received, Option<OwnedFd>) {
    let (said, descriptors) = next_with_all(peer);
    (said, descriptors.into_iter().next())
}

/// The same with everything that came beside it.
fn next_with_all(peer: &Peer) -> (Received, Vec<OwnedFd>) {
    for _ in 0..10_000 {
        match peer.receive_call().expect("the kernel is well") {
            (Received::Nothing, _) => std::thread::sleep(std::time::Duration::from_millis(1)),
            said => return said,
        }
    }
    panic!("it says nothing");
}

/// Answers the next call by what `answer` makes of it.
fn answer(peer: &Peer, answer: impl FnOnce(Call, Option<OwnedFd>) -> Reply) -> u64 {
    let (Received::Message(ToDaemon::Call { id, call }), descriptor) = next(peer) else {
        panic!("that is no call");
    };
    assert_eq!(peer.send(&ToApp::Reply { id, reply: answer(call, descriptor) }, &[]), Ok(true));
    id
}

#[test]
fn an_application_enters_sockets_mode_another_process_joins_and_a_stranger_is_told_no() {
    let stage = Stage::new();
    let request = SocketsRequest {
        name: "redis".into(),
        profile: Profile::Safe,
        features: 0,
        token_before: None,
    };
    let join = JoinRequest { app: 4, token: "0f".repeat(16) };
    let (link, peer) = stage.both();
    let (child, child_peer) = stage.both();
    std::thread::scope(|scope| {
        let served = scope.spawn(|| {
            let said = next(&peer).0;
            assert_eq!(said, Received::Message(ToDaemon::Stream(request.clone())));
            assert_eq!(peer.send(&ToApp::Streaming(streaming()), &[peer.as_fd()]), Ok(true));
            assert_eq!(next(&child_peer).0, Received::Message(ToDaemon::Join(join.clone())));
            child_peer.send(&ToApp::Refused { message: "no".into() }, &[])
        });
        let (got, descriptors) = link.stream(&request).expect("it is answered");
        assert_eq!((got, descriptors.len()), (streaming(), 1));
        let refused = child.join(&join).expect_err("it is refused");
        assert_eq!(refused, AttachError::Refused("no".into()));
        assert_eq!(served.join().expect("no assertion failed"), Ok(true));
    });
    let wrong = JoinRequest { app: 4, token: "0g".repeat(16) };
    assert!(link.join(&wrong).is_err_and(|error| error.to_string().contains("hexadecimal")));
}

#[test]
fn a_call_brings_its_socket_and_its_answer_is_told_from_a_late_one() {
    let stage = Stage::new();
    let (link, peer) = stage.both();
    peer.accept_descriptors();
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = socket.local_addr().expect("it is bound").port();
    let before = open_descriptors();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            answer(&peer, |call, descriptor| {
                assert_eq!(call, Call::Listen { backlog: 5 });
                let copy = std::net::TcpListener::from(descriptor.expect("it came beside"));
                assert_eq!(copy.local_addr().expect("it is bound").port(), port);
                // What was asked before anybody listened comes first.
                let late = ToApp::Reply { id: u64::MAX, reply: Reply::Done };
                assert_eq!(peer.send(&late, &[peer.as_fd()]), Ok(true));
                Reply::Slot { region: 9, slot: 1 }
            });
            answer(&peer, |call, descriptor| {
                assert_eq!(call, Call::Poller);
                assert!(descriptor.is_none());
                Reply::Kernel { reason: FallbackReason::NoMemory }
            });
            assert!(matches!(next(&peer).0, Received::Message(ToDaemon::Call { .. })));
            peer.send(&detached(), &[])
        });
        let listen = link.call(&Call::Listen { backlog: 5 }, Some(socket.as_fd()), drop);
        let (reply, descriptors) = listen.expect("it is answered");
        assert_eq!((reply, descriptors.len()), (Reply::Slot { region: 9, slot: 1 }, 0));
        let (reply, _) = link.call(&Call::Poller, None, drop).expect("it is answered");
        assert_eq!(reply, Reply::Kernel { reason: FallbackReason::NoMemory });
        let gone = link.call(&Call::Adopt, Some(socket.as_fd()), drop).expect_err("it is out");
        let AttachError::Detached(gone) = gone else { panic!("{gone}") };
        assert_eq!(gone.reason, DetachReason::Operator);
    });
    assert_eq!(open_descriptors(), before, "every copy of the socket is closed");
}

/// What a program is given without having asked comes whenever the daemon likes.
#[test]
fn a_connection_that_is_the_kernels_is_heard_of_beside_an_answer_and_after_the_daemons_end() {
    let stage = Stage::new();
    let (link, peer) = stage.both();
    peer.accept_descriptors();
    let given = |cookie| {
        assert_eq!(peer.send(&ToApp::Given { cookie }, &[stage.listener.as_fd()]), Ok(true));
    };
    let mut heard = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            answer(&peer, |_, _| {
                given(7);
                Reply::Done
            });
        });
        let answered = link.call(&Call::Poller, None, |given| heard.push(given.cookie));
        assert_eq!(answered.expect("it is answered").0, Reply::Done);
    });
    assert_eq!(heard, [7]);
    assert!(link.given(Nanos::ZERO).is_ok_and(|given| given.is_none()), "not yet");
    given(8);
    given(9);
    drop(peer);
    for cookie in [8, 9] {
        let given = link.given(SOON).expect("it was sent before the end");
        assert_eq!(given.expect("it has come").cookie, cookie);
    }
    assert!(link.given(SOON).is_err(), "the end");
}

#[test]
fn descriptors_are_taken_one_by_one_and_only_once_the_daemon_wants_them() {
    let stage = Stage::new();
    let (socket, peer) = stage.hostile();
    let text = br#"{"v":1,"call":{"id":1,"call":{"listen":{"backlog":1}}}}"#;
    let is_taken = send_raw(&socket, text, 1);
    if is_taken {
        assert_eq!(next(&peer).1.map(drop), None, "the kernel had no room for it");
    }
    peer.accept_descriptors();
    let before = open_descriptors();
    for (descriptors, is_call) in [(0, true), (1, true), (2, false), (3, false), (253, false)] {
        assert!(send_raw(&socket, text, descriptors));
        let (received, came) = next_with_all(&peer);
        assert_eq!(matches!(received, Received::Message(_)), is_call, "{received:?}");
        assert_eq!(came.len(), descriptors, "whoever reads decides where all of them are closed");
        drop(came);
        assert_eq!(open_descriptors(), before, "{descriptors}");
    }
}

#[test]
fn a_call_whose_descriptor_does_not_fit_into_the_daemon_comes_without_it() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let stage = Stage::new();
    let (link, peer) = stage.both();
    peer.accept_descriptors();
    std::thread::scope(|scope| {
        let called = scope.spawn(|| link.call(&Call::Adopt, Some(stage.listener.as_fd()), drop));
        assert!(sys::poll::wait_readable(peer.as_fd(), SOON));
        let old = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..old }).expect("less is allowed");
        let (said, descriptor) = next(&peer);
        setrlimit(Resource::Nofile, old).expect("as much as before");
        let Received::Message(ToDaemon::Call { id, .. }) = said else { panic!("{said:?}") };
        assert!(descriptor.is_none());
        let reply = Reply::Kernel { reason: FallbackReason::DaemonBusy };
        assert_eq!(peer.send(&ToApp::Reply { id, reply: reply.clone() }, &[]), Ok(true));
        let (got, _) = called.join().expect("no assertion failed").expect("answered");
        assert_eq!(got, reply);
    });
}
