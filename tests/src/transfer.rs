//! TCP of two kernels: that many bytes from one host to another, checked one by one.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::line::Host;
use crate::process::TIMEOUT;

/// A transfer that goes on.
#[derive(Debug)]
pub struct Transfer {
    sender: JoinHandle<()>,
    receiver: JoinHandle<()>,
}

impl Transfer {
    /// Begins to send `bytes` bytes from `from` to `address`, which is one of `to`.
    ///
    /// # Panics
    /// They cannot connect.
    pub fn start(from: &Host, to: &Host, address: IpAddr, bytes: usize) -> Self {
        let listener = to.enter(|| TcpListener::bind((address, 0)).expect("it is its address"));
        let at = listener.local_addr().expect("it listens");
        let receiver = std::thread::spawn(move || receive(&listener, bytes));
        let stream = from.enter(|| connect(at));
        let sender = std::thread::spawn(move || send(stream, bytes));
        Self { sender, receiver }
    }

    /// Waits until all has come.
    ///
    /// # Panics
    /// A byte is another one, or it stands still.
    pub fn finish(self) {
        self.sender.join().expect("everything was sent");
        self.receiver.join().expect("everything came as it was sent");
    }

    /// Whether the receiver has had everything.
    pub fn is_over(&self) -> bool {
        self.receiver.is_finished()
    }
}

fn connect(at: SocketAddr) -> TcpStream {
    // The first packets of a route may be lost while link addresses are asked for.
    let stream = TcpStream::connect_timeout(&at, TIMEOUT).expect("there is a way");
    stream.set_write_timeout(Some(TIMEOUT)).expect("a socket has one");
    stream
}

/// Byte `at` of every transfer.
fn byte(at: usize) -> u8 {
    (at.wrapping_mul(0x9e37_79b1) >> 16) as u8
}

fn send(mut stream: TcpStream, bytes: usize) {
    let mut sent = 0;
    while sent < bytes {
        let part: Vec<u8> = (sent..bytes.min(sent + (64 << 10))).map(byte).collect();
        stream.write_all(&part).expect("the peer reads");
        sent += part.len();
    }
}

fn receive(listener: &TcpListener, bytes: usize) {
    let (mut stream, _) = listener.accept().expect("somebody connects");
    stream.set_read_timeout(Some(TIMEOUT + Duration::from_secs(20))).expect("a socket has one");
    let mut part = vec![0; 64 << 10];
    let mut received = 0;
    loop {
        let count = stream.read(&mut part).expect("the peer sends");
        if count == 0 {
            break;
        }
        for (at, &found) in part[..count].iter().enumerate() {
            assert_eq!(found, byte(received + at), "byte {}", received + at);
        }
        received += count;
    }
    assert_eq!(received, bytes);
}
