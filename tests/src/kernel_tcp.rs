//! A TCP echo of the Linux kernel, to compare with.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use testbed::Side;

/// A listener with a thread for each connection; dropped, it accepts no more.
#[derive(Debug)]
pub struct KernelTcp {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl KernelTcp {
    /// Listens at `address` of `side`.
    ///
    /// # Panics
    /// The port is taken.
    pub fn echo(side: &Side, address: SocketAddr) -> Self {
        let listener = side.enter(|| TcpListener::bind(address).expect("the port is free"));
        let listener = listener.expect("the namespace is there");
        listener.set_nonblocking(true).expect("a listener can be");
        let stop = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stops.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => _ = std::thread::spawn(move || serve(stream)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Err(error) => panic!("cannot accept: {error}"),
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for KernelTcp {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Until the peer has ended or broken the connection.
fn serve(mut stream: TcpStream) {
    let mut bytes = vec![0; 1 << 14];
    let is_set = stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true));
    is_set.expect("a TCP socket can be told");
    while let Ok(len) = stream.read(&mut bytes) {
        if len == 0 || stream.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    // A peer that has gone has no use for it.
    let _ = stream.shutdown(Shutdown::Write);
}

/// Segments that the kernel of `side` has sent again so far.
///
/// # Panics
/// The kernel does not tell.
pub fn kernel_retransmissions(side: &Side) -> u64 {
    kernel_tcp(side, "RetransSegs")
}

/// What the kernel of `side` counts of its own TCP, by the name in /proc/net/snmp.
///
/// # Panics
/// The kernel does not tell.
pub fn kernel_tcp(side: &Side, name: &str) -> u64 {
    count(side, "Tcp: ", name)
}

/// The same of its own UDP over IPv4.
///
/// # Panics
/// The kernel does not tell.
pub fn kernel_udp(side: &Side, name: &str) -> u64 {
    count(side, "Udp: ", name)
}

fn count(side: &Side, protocol: &str, name: &str) -> u64 {
    // /proc/net shows the namespace of the thread that looks.
    let read = || std::fs::read_to_string("/proc/thread-self/net/snmp").expect("it is there");
    let text = side.enter(read).expect("the namespace is there");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let mut fields = names.split(' ').zip(values.split(' '));
    let (_, value) = fields.find(|(field, _)| *field == name).expect("it is counted");
    value.parse().expect("a number")
}
