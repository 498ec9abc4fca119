//! Sockets of this process and of another, found by whichever process looks.

use std::net::UdpSocket;

use super::*;

#[test]
fn an_open_socket_is_found_and_a_closed_one_is_not() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is up");
    let cookie = sys::socket::cookie_of(socket.as_fd()).expect("every socket has one");
    assert!(OpenSockets::Here.cookies([]).expect("it is here").contains(&cookie));
    drop(socket);
    assert!(!OpenSockets::Here.cookies([]).expect("it is here").contains(&cookie));
}

#[test]
fn each_question_has_its_answer_in_the_order_of_questions() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is up");
    let cookie = sys::socket::cookie_of(socket.as_fd()).expect("every socket has one");
    let mut answers = Vec::new();
    let none = |_, _| panic!("nobody has asked for copies");
    answer([QUESTION; 2].as_slice(), &mut answers, none).expect("memory is written");
    let mut answers = answers.as_slice();
    for _ in 0..2 {
        let cookies = words(&mut answers).expect("they come first");
        let unseen = words(&mut answers).expect("and who could not be looked at");
        assert!(!unseen.contains(&u64::from(std::process::id())));
        assert!(cookies.contains(&cookie));
    }
    assert!(answers.is_empty());
}

#[test]
fn a_process_that_has_ended_is_an_error_and_not_an_empty_answer() {
    let mut gone = OpenSockets::start("/bin/true".into()).expect("there is a program that ends");
    assert!(gone.cookies([]).is_err());
    let begun = std::time::Instant::now();
    while !gone.has_just_ended() {
        assert!(begun.elapsed().as_secs() < 10, "its end is seen");
    }
    assert!(!gone.has_just_ended() && gone.descriptor().is_none(), "it is said once");
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
            calls: &[confine::Calls::Files, confine::Calls::Descriptors],
            reads: &["/proc"],
            ..confine::Rights::NOTHING
        })
        .expect("root may give up rights");
        look().map(|looked| looked.cookies)
    });
    let looked = looked.join().expect("it does not panic");
    other.kill().and_then(|()| other.wait()).expect("it is ours");
    assert_eq!(looked.map_err(|error| error.kind()), Err(ErrorKind::PermissionDenied));
}

#[test]
fn an_attached_process_that_may_not_be_looked_at_leaves_everything_open() {
    let (mut here, first) = (OpenSockets::Here, 1);
    let is_unseen = look().expect("root may").unseen.contains(&u64::from(first));
    assert_eq!(here.cookies([first]).is_err(), is_unseen);
}

#[test]
fn a_copy_of_a_socket_comes_with_its_process_and_is_that_socket() {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        None,
    );
    let socket = socket.expect("descriptors are left");
    let cookie = |socket: &OwnedFd| sys::socket::cookie_of(socket.as_fd()).expect("a socket");
    let own = std::process::id();
    let (ours, theirs) = UnixStream::pair().expect("descriptors are left");
    let asked_for = |milliseconds: u64| {
        let words = [milliseconds, 1, own.into()].map(u64::to_le_bytes);
        [[COPIES].as_slice(), words.as_flattened()].concat()
    };
    let mut late = Vec::new();
    let none = |_, _| panic!("its time is over");
    answer(asked_for(0).as_slice(), &mut late, none).expect("memory is written");
    assert_eq!(late, NO_MORE.to_le_bytes(), "no more than that there are none");
    let question = asked_for(10_000);
    let out = theirs.try_clone().expect("descriptors are left");
    let asked = std::thread::spawn(move || {
        let give = |pid, copy: OwnedFd| send_copy(theirs.as_fd(), pid, copy.as_fd());
        answer(question.as_slice(), out, give)
    });
    let mut found = false;
    while let Some((pid, copy)) = receive_copy(&ours).expect("an answer") {
        found |= pid == own && cookie(&copy) == cookie(&socket);
    }
    asked.join().expect("it does not panic").expect("it is answered");
    assert!(found);
    let mut here = 0;
    OpenSockets::Here
        .copies(&[own], Instant::now() + WITHIN_MAX, |_, _| {
            here += 1;
            false
        })
        .expect("it is here");
    assert_eq!(here, 1, "who has enough gets no more");
}
