//! Against real sockets of loopback: every answer counts once, and a wrong one is no answer.

use std::net::TcpListener;

use super::*;

/// Does `work` with a server of that answer for each 64 bytes.
fn with(answer: &'static [u8], work: impl FnOnce(SocketAddr)) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("it is bound");
    let serve = move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let mut request = [0; 64];
                // In two pieces, as a wire may cut it.
                let (first, second) = answer.split_at(answer.len() / 2);
                while stream.read_exact(&mut request).is_ok() {
                    let sent = stream.write_all(first).and_then(|()| stream.write_all(second));
                    if sent.is_err() {
                        break;
                    }
                }
            });
        }
    };
    // It ends with the process.
    std::thread::spawn(serve);
    work(address);
}

fn clients(server: SocketAddr, count: usize) -> Clients {
    let connect = |_| {
        let stream = TcpStream::connect(server).expect("it listens");
        stream.set_nonblocking(true).expect("it is a socket");
        stream
    };
    Clients::new((0..count).map(connect).collect()).expect("there is epoll")
}

#[test]
fn as_many_are_asked_at_a_time_as_wanted_and_all_of_them_in_turn() {
    with(&[0x5a; 64], |server| {
        let mut clients = clients(server, 5);
        for under_way in [2, 5] {
            let answers = clients
                .ask(&mut Dialogue::Echo, under_way, Nanos::from_secs(2))
                .expect("it answers");
            assert!(answers.per_second * 2.0 > 5.0, "{answers:?}");
            assert!(answers.p50_us > 0.0 && answers.p95_us >= answers.p50_us, "{answers:?}");
            assert_eq!((answers.lost, clients.outstanding), (0, 0));
        }
    });
}

#[test]
fn an_answer_that_begins_otherwise_is_an_error_that_quotes_it() {
    with(&[b'!'; 64], |server| {
        let told = clients(server, 1)
            .ask(&mut Dialogue::Echo, 1, Nanos::from_secs(5))
            .expect_err("it is another")
            .to_string();
        assert!(told.contains("!!!!"), "{told}");
    });
}

#[test]
fn several_answers_in_one_piece_are_several_and_half_a_one_is_none() {
    with(&[0; 64], |server| {
        let mut clients = clients(server, 1);
        let connection = &mut clients.connections[0];
        for from in [1, 2, 3] {
            connection.awaited.push_back(Awaited { from: Nanos(from), bytes: 4, begins: b"ok" });
        }
        let mut seen = Vec::new();
        assert_eq!(connection.hear(b"ok..ok", |from| seen.push(from.0)).expect("right"), 1);
        assert_eq!(connection.hear(b"..ok..", |from| seen.push(from.0)).expect("right"), 2);
        assert_eq!(seen, [1, 2, 3]);
        assert!(connection.hear(b"x", |_| ()).is_err(), "nobody has asked for more");
    });
}

#[test]
fn a_percentile_among_lost_requests_is_no_good_one() {
    let mut latencies = Latencies::default();
    (0..90).for_each(|_| latencies.record(Nanos::from_micros(10)));
    let span = Nanos::from_secs(1);
    let (none, some) = (Answers::new(&latencies, 0, span), Answers::new(&latencies, 10, span));
    assert!(none.p95_us < 11.0 && some.p95_us > 1e6, "{none:?} {some:?}");
    assert!(some.p50_us < 11.0, "{some:?}");
}
