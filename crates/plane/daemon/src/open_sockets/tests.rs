//! Sockets of this process and of another, found by whichever process looks.

use std::fs;
use std::net::UdpSocket;

use super::*;

/// A process that looks, as a thread of this one: `act` does what that does with its channel.
fn beside(
    act: impl FnOnce(OwnedFd) + Send + 'static,
) -> (OpenSockets, std::thread::JoinHandle<()>) {
    let (channel, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .expect("descriptors are left");
    let asked = std::thread::spawn(move || act(theirs));
    (OpenSockets::Process(Process { channel, asked: 0, late: Vec::new() }), asked)
}

fn tcp_socket() -> OwnedFd {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
    socket.expect("descriptors are left")
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[test]
fn an_open_socket_is_found_and_a_closed_one_is_not() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is up");
    let cookie = sys::socket::cookie_of(socket.as_fd()).expect("every socket has one");
    assert!(OpenSockets::here().cookies([]).expect("it is here").contains(&cookie));
    drop(socket);
    assert!(!OpenSockets::here().cookies([]).expect("it is here").contains(&cookie));
}

#[test]
fn each_question_has_its_answer_in_the_order_of_questions() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is up");
    let cookie = sys::socket::cookie_of(socket.as_fd()).expect("every socket has one");
    let (mut asked, answering) = beside(|channel| answer(channel).expect("it is asked"));
    for _ in 0..2 {
        let cookies = asked.cookies([]).expect("they are all here");
        assert!(cookies.contains(&cookie));
    }
    assert!(!asked.hear().0, "nothing is left of the answers");
    drop(asked);
    answering.join().expect("it ends when nobody asks any more");
}

#[test]
fn an_answer_that_comes_too_late_is_not_taken_for_the_next_one() {
    let (late, go) = channel::<()>();
    let (mut asked, answering) = beside(move |channel| {
        let question = || Question::receive(channel.as_fd()).expect("a question");
        let first = question().expect("the first");
        go.recv().expect("the test goes on");
        let to = channel.as_fd();
        Part::Cookies(vec![1]).send(to, first.number).expect("it is heard");
        Part::Copy(7, tcp_socket()).send(to, first.number).expect("it is heard");
        Part::End.send(to, first.number).expect("it is heard");
        let second = question().expect("the second");
        Part::Cookies(vec![2]).send(to, second.number).expect("it is heard");
        Part::End.send(to, second.number).expect("it is heard");
        assert!(question().is_none(), "nobody asks any more");
    });
    let OpenSockets::Process(process) = &mut asked else { panic!("it is one") };
    process.ask(What::Cookies, Duration::ZERO).expect("it is asked");
    let late_part = process.next_part(Instant::now() + Duration::from_millis(20));
    assert_eq!(late_part.expect_err("none is there").kind(), ErrorKind::TimedOut);
    late.send(()).expect("it waits");
    assert_eq!(asked.cookies([]).expect("the second answer"), BTreeSet::from([2]));
    drop(asked);
    answering.join().expect("it does not panic");
}

#[test]
fn what_nobody_waits_for_is_no_end_and_is_thrown_away() {
    let (mut asked, answering) = beside(|channel| {
        Part::End.send(channel.as_fd(), 7).expect("there is room");
        Part::Copy(7, tcp_socket()).send(channel.as_fd(), 7).expect("there is room");
        assert!(Question::receive(channel.as_fd()).expect("an end").is_none());
    });
    let readable = asked.descriptor().expect("it lives").try_clone_to_owned();
    let readable = readable.expect("descriptors are left");
    assert!(sys::poll::wait_readable(readable.as_fd(), Nanos::FAR_FUTURE));
    let begun = Instant::now();
    let mut is_quiet = false;
    while !is_quiet {
        assert!(!asked.hear().0 && begun.elapsed() < Duration::from_secs(60));
        is_quiet = !sys::poll::wait_readable(readable.as_fd(), Nanos::from_millis(10));
    }
    drop((asked, readable));
    answering.join().expect("it does not panic");
}

#[test]
fn a_process_that_does_not_answer_keeps_nobody_for_ever_and_is_asked_again() {
    let (mut asked, answering) = beside(|channel| {
        while Question::receive(channel.as_fd()).expect("a question or the end").is_some() {}
    });
    let OpenSockets::Process(process) = &mut asked else { panic!("it is one") };
    for _ in 0..2 {
        let until = Instant::now() + Duration::from_millis(10);
        let failed = process.copies(&[1], until, |_, _| panic!("nobody gives any"));
        assert_eq!(failed.map_err(|error| error.kind()), Err(ErrorKind::TimedOut));
    }
    let failed = process.cookies(Duration::ZERO).expect_err("it says nothing");
    assert_eq!(failed.kind(), ErrorKind::TimedOut);
    drop(asked);
    answering.join().expect("it does not panic");
}

#[test]
fn a_process_that_has_ended_is_an_error_and_not_an_empty_answer() {
    let mut gone = OpenSockets::start("/bin/true".into()).expect("there is a program that ends");
    assert!(gone.cookies([]).is_err());
    let begun = std::time::Instant::now();
    while !gone.hear().0 {
        assert!(begun.elapsed().as_secs() < 10, "its end is seen");
    }
    assert!(!gone.hear().0 && gone.descriptor().is_none(), "it is said once");
    assert!(gone.cookies([]).is_err());
}

#[test]
fn who_may_not_look_at_a_younger_process_knows_of_no_socket_that_it_is_closed() {
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sleep", "600"]);
    let mut other = other.spawn().expect("setpriv is installed");
    let pid = other.id();
    let is_others = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
        status.contains("Uid:\t65534")
    };
    while !is_others() {
        std::thread::yield_now();
    }
    let looked = std::thread::spawn(|| {
        confine::enter(&confine::Rights {
            calls: &[confine::Calls::Files, confine::Calls::Descriptors, confine::Calls::Threads],
            reads: &["/proc"],
            ..confine::Rights::NOTHING
        })
        .expect("root may give up rights");
        look(&Threads::default(), soon()).map(|looked| looked.cookies)
    });
    let looked = looked.join().expect("it does not panic");
    other.kill().and_then(|()| other.wait()).expect("it is ours");
    assert_eq!(looked.map_err(|error| error.kind()), Err(ErrorKind::PermissionDenied));
}

#[test]
fn an_attached_process_that_may_not_be_looked_at_leaves_everything_open() {
    let (mut here, first) = (OpenSockets::here(), 1);
    let is_unseen =
        look(&Threads::default(), soon()).expect("root may").unseen.contains(&u64::from(first));
    assert_eq!(here.cookies([first]).is_err(), is_unseen);
}

#[test]
fn a_copy_of_a_socket_comes_with_its_process_and_is_that_socket() {
    let socket = tcp_socket();
    let cookie = |socket: &OwnedFd| sys::socket::cookie_of(socket.as_fd()).expect("a socket");
    let own = std::process::id();
    let (mut process, answering) = beside(|channel| answer(channel).expect("it is asked"));
    for asked in [&mut process, &mut OpenSockets::here()] {
        let late = asked.copies(&[own], Instant::now(), |_, _| panic!("its time is over"));
        late.expect("nobody is asked");
        let mut found = 0;
        let given = asked.copies(&[own], soon(), |pid, copy| {
            found += usize::from(pid == own && cookie(&copy) == cookie(&socket));
        });
        given.expect("an answer");
        assert_eq!(found, 1);
    }
    drop(process);
    answering.join().expect("it does not panic");
}

#[test]
fn copies_that_come_too_late_are_closed_by_whoever_hears_of_them_and_by_no_thread_of_their_own() {
    let (mut asked, other) = beside(|channel| {
        for pid in 1..=40 {
            Part::Copy(pid, tcp_socket()).send(channel.as_fd(), 0).expect("somebody listens");
        }
    });
    other.join().expect("it does not panic");
    let (has_ended, late) = asked.hear();
    assert!(has_ended, "its channel is closed");
    assert!(late.iter().map(|(pid, _)| *pid).eq(1..=40));
    assert!(late.iter().all(|(_, copy)| sys::socket::cookie_of(copy.as_fd()).is_ok()));
    assert!(asked.hear().1.is_empty());
}
