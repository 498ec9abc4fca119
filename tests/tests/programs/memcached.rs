//! memcached, which drops its rights and serves by four threads of libevent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use testbed::Side;
use whole::{Accelerated, Carried, TIMEOUT};

use crate::install;

const PORT: u16 = 11211;

/// A client that counts.
struct Client {
    stream: BufReader<TcpStream>,
    carried: Carried,
}

impl Client {
    fn connect(from: &Side, to: SocketAddr) -> Self {
        let stream = from.enter(|| TcpStream::connect_timeout(&to, TIMEOUT));
        let stream = stream.expect("the namespace is there").expect("memcached listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("no zero");
        Self { stream: BufReader::new(stream), carried: Carried { received: 0, sent: 0 } }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.carried.received += bytes.len() as u64;
        self.stream.get_mut().write_all(bytes).expect("it is connected");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.carried.sent += self.stream.read_line(&mut line).expect("it answers") as u64;
        line.trim_end().to_owned()
    }

    fn set(&mut self, key: &str, value: &[u8]) {
        self.send(format!("set {key} 0 0 {}\r\n", value.len()).as_bytes());
        self.send(value);
        self.send(b"\r\n");
        assert_eq!(self.line(), "STORED");
    }

    fn get(&mut self, key: &str) -> Option<Vec<u8>> {
        self.send(format!("get {key}\r\n").as_bytes());
        let head = self.line();
        if head == "END" {
            return None;
        }
        let bytes = head.rsplit_once(' ').and_then(|(_, bytes)| bytes.parse().ok());
        let mut value = vec![0_u8; bytes.unwrap_or_else(|| panic!("{head}"))];
        self.stream.read_exact(&mut value).expect("it answers");
        self.carried.sent += value.len() as u64;
        assert_eq!((self.line(), self.line()), (String::new(), "END".to_owned()));
        Some(value)
    }
}

#[test]
fn memcached_that_has_dropped_its_rights_serves_many_clients_by_its_threads() {
    install();
    let accelerated = Accelerated::start();
    let words =
        ["memcached", "-u", "nobody", "-p", "11211", "-U", "0", "-l", "0.0.0.0", "-I", "4m"];
    let server = accelerated.run(&words);
    let here = (accelerated.here().ipv4(), PORT).into();
    whole::wait_for("its listener", || {
        let rows = accelerated.sockets();
        if rows.is_empty() { Err("no sockets".to_owned()) } else { Ok(()) }
    });
    let mut clients: Vec<Client> =
        (0..20).map(|_| Client::connect(accelerated.there(), here)).collect();
    let large: Vec<u8> = (0..2 << 20).map(|at: u32| (at % 253) as u8).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.set(&format!("key{number}"), format!("value{number}").as_bytes());
    }
    clients[0].set("large", &large);
    for (number, client) in clients.iter_mut().enumerate() {
        let other = (number + 7) % 20;
        assert_eq!(client.get(&format!("key{other}")), Some(format!("value{other}").into_bytes()));
        assert_eq!(client.get("nothing"), None);
    }
    assert!(clients[19].get("large") == Some(large), "every byte came back");
    let sum = |of: fn(&Carried) -> u64| clients.iter().map(|client| of(&client.carried)).sum();
    let carried = Carried { received: sum(|at| at.received), sent: sum(|at| at.sent) };
    accelerated.carried_exactly(carried);
    drop(clients);
    server.stop();
    accelerated.nothing_is_left();
}
