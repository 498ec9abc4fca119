//! What `barrier` promises, case by case.

use std::sync::Mutex;
use std::thread;

use super::*;

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("it is bound");
    (listener, address)
}

fn soon() -> Nanos {
    now() + Nanos::from_secs(20)
}

#[test]
fn nobody_begins_before_the_last_one_is_there_and_each_has_a_number_of_its_own() {
    let (listener, address) = listener();
    let arrived = Mutex::new(Vec::new());
    let goes = thread::scope(|scope| {
        let followers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    arrived.lock().expect("nobody panics").push(now());
                    follow(address, soon())
                })
            })
            .collect();
        let mut goes = vec![lead(&listener, 4, soon())];
        goes.extend(followers.into_iter().map(|one| one.join().expect("no assertion failed")));
        goes
    });
    let goes: Vec<Go> = goes.into_iter().map(|go| go.expect("all came")).collect();
    let last = arrived.lock().expect("nobody panics").iter().copied().max();
    assert!(goes.iter().all(|go| Some(go.at) > last), "{goes:?} {last:?}");
    let mut numbers: Vec<_> = goes.iter().map(|go| go.client).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 3]);
}

#[test]
fn strangers_at_the_leaders_port_are_let_go_and_the_others_begin() {
    let (listener, address) = listener();
    thread::scope(|scope| {
        let leader = scope.spawn(|| lead(&listener, 2, soon()));
        for words in ["GET / HTTP/1.1\r\n\r\n", "calisto-barrier 9\n", &"x".repeat(1000), ""] {
            let mut stranger = TcpStream::connect(address).expect("it listens");
            stranger.write_all(words.as_bytes()).expect("it is connected");
        }
        let follower = follow(address, soon()).expect("the leader is there");
        assert_eq!(follower.client, 1);
        assert_eq!(leader.join().expect("no assertion failed").map(|go| go.client), Ok(0));
    });
}

#[test]
fn who_does_not_come_or_leaves_ends_the_wait_of_all_with_a_sentence() {
    let (alone, address) = listener();
    let in_a_moment = now() + Nanos::from_millis(50);
    let error = lead(&alone, 3, in_a_moment).expect_err("nobody came");
    assert!(error.to_string().contains("0 of 2 clients came"), "{error}");
    drop(alone);
    let error = follow(address, now() + Nanos::from_millis(50)).expect_err("nobody leads");
    assert!(error.to_string().contains("does not listen"), "{error}");

    let (left, address) = listener();
    thread::scope(|scope| {
        let leader = scope.spawn(|| lead(&left, 3, soon()));
        let waiting = scope.spawn(|| follow(address, soon()));
        let mut gone = TcpStream::connect(address).expect("it listens");
        gone.write_all(format!("{HELLO}\n").as_bytes()).expect("it is connected");
        drop(gone);
        let error = leader.join().expect("no assertion failed").expect_err("one has left");
        assert!(error.to_string().contains("left before the start"), "{error}");
        let error = waiting.join().expect("no assertion failed").expect_err("it was called off");
        assert!(error.to_string().contains("called it off"), "{error}");
    });
}

#[test]
fn a_leader_that_talks_nonsense_is_not_followed() {
    for words in ["go 5 2 1\n", "go 1 2 99999999999999\n", "go 1 2\n", "hello\n", "ping\n", ""] {
        let (listener, address) = listener();
        thread::scope(|scope| {
            let follower = scope.spawn(|| follow(address, soon()));
            let (mut stream, _) = listener.accept().expect("it comes");
            stream.write_all(words.as_bytes()).expect("it is connected");
            drop(stream);
            let result = follower.join().expect("no assertion failed");
            assert!(result.is_err(), "{words:?}: {result:?}");
        });
    }
}
