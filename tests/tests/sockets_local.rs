//! Connections between two accelerated programs of one host, and datagrams.

use admin::SocketRow;
use testbed::Side;
use whole::{Accelerated, Program, kernel_udp, project};

const PYTHON: &str = "/usr/bin/python3";

fn script(name: &str) -> String {
    project().join("tests/programs").join(name).display().to_string()
}

fn addresses(side: &Side) -> [String; 4] {
    ["127.0.0.1".to_owned(), "::1".to_owned(), side.ipv4().to_string(), side.ipv6().to_string()]
}

#[test]
fn two_programs_of_one_host_talk_without_a_packet() {
    let accelerated = Accelerated::start();
    for address in addresses(accelerated.here()) {
        let server = [PYTHON, &script("asyncio_server.py"), &address, "8000"];
        let mut server = accelerated.run(&server);
        server.wait_until_it_says("listening");
        for (count, size) in [("20", "100000"), ("1", "20000000"), ("1", "0")] {
            let client = [PYTHON, &script("asyncio_client.py"), &address, "8000", count, size];
            let said = accelerated.run(&client).succeed();
            assert!(said.ends_with("are right\n"), "{address}: {said}");
        }
        server.kill();
    }
    accelerated.all_was_accelerated();
    accelerated.nothing_is_left();
}

#[test]
fn a_connection_within_the_host_is_shown_from_both_ends_and_ends_with_either() {
    let accelerated = Accelerated::start();
    let server = [PYTHON, &script("asyncio_server.py"), "127.0.0.1", "8000"];
    let mut server = accelerated.run(&server);
    server.wait_until_it_says("listening");
    let hold = [PYTHON, &script("hold.py"), "127.0.0.1", "8000"];
    let mut client: Program = accelerated.run(&hold);
    client.wait_until_it_says("6 bytes");
    let rows = accelerated.sockets();
    let ends: Vec<_> = rows.iter().filter(|row| row.is_local).collect();
    let [one, other] = &ends[..] else { panic!("{rows:?}") };
    assert_eq!(
        (Some(&one.local), Some(&other.local)),
        (other.remote.as_ref(), one.remote.as_ref())
    );
    // Who connects says something, and is answered with the same.
    let carried = |row: &SocketRow| (row.bytes_sent, row.bytes_received);
    assert_eq!((carried(one), carried(other)), ((6, 6), (6, 6)), "{rows:?}");
    server.kill();
    let said = client.succeed();
    assert!(said.contains("ended") || said.contains("ECONNRESET"), "{said}");
    accelerated.all_was_accelerated();
    accelerated.nothing_is_left();
}

#[test]
fn datagrams_are_echoed_by_an_accelerated_server_and_to_an_accelerated_client() {
    let accelerated = Accelerated::start();
    let before = kernel_udp(accelerated.here(), "InDatagrams");
    for family in 0..2 {
        let of = |side: &Side| [side.ipv4().to_string(), side.ipv6().to_string()][family].clone();
        for is_served_here in [true, false] {
            let (here, there) = (accelerated.here(), accelerated.there());
            let address = of(if is_served_here { here } else { there });
            let run = |words: &[&str], is_here: bool| match is_here {
                true => accelerated.run(words),
                false => accelerated.run_there(words),
            };
            let datagrams = script("datagrams.py");
            let mut server = run(&[PYTHON, &datagrams, &address, "9000"], is_served_here);
            server.wait_until_it_says("listening");
            let client = run(&[PYTHON, &datagrams, &address, "9000", "1000"], !is_served_here);
            assert_eq!(client.succeed(), "1000 datagrams are right\n", "{address}");
            server.kill();
        }
    }
    assert_eq!(kernel_udp(accelerated.here(), "InDatagrams"), before, "the kernel has seen some");
    accelerated.all_was_accelerated();
    accelerated.nothing_is_left();
}

/// Whoever gets a listener of another program takes all its callers: those of this host, who come
/// by memory that the first program shares with theirs, and those of the wire.
#[test]
fn a_listener_that_was_passed_to_another_program_has_all_its_callers_there() {
    let accelerated = Accelerated::start();
    let host = accelerated.here().ipv4().to_string();
    let socket = accelerated.daemon().folder().join("passing").display().to_string();
    let passing = script("passed_listener.py");
    for giver_ends in [false, true] {
        let mut giver = accelerated.run(&[PYTHON, &passing, "give", &socket, &host, "8000"]);
        giver.wait_until_it_says("listening");
        let mut taker = accelerated.run(&[PYTHON, &passing, "take", &socket, "4"]);
        taker.wait_until_it_says("taken");
        giver.wait_until_it_says("passed");
        let giver = if giver_ends {
            giver.kill();
            None
        } else {
            Some(giver)
        };
        for is_here in [true, false, true, false] {
            let words = [PYTHON, &script("echoed.py"), &host, "8000", "100000"];
            let client =
                if is_here { accelerated.run(&words) } else { accelerated.run_there(&words) };
            assert_eq!(client.succeed(), "100000 bytes came back\n", "{is_here} {giver_ends}");
        }
        assert!(taker.succeed().ends_with("4 callers had their words back\n"));
        giver.map(Program::kill);
        std::fs::remove_file(&socket).expect("the giver has made it");
    }
    accelerated.all_was_accelerated();
    accelerated.nothing_is_left();
}
