//! A kernel client that sends small packets at a steady pace and expects no answers.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use testbed::Side;

use crate::error::{Error, OrNeeds};

/// Sends until it is dropped.
pub(super) struct Stream {
    stop: Arc<AtomicBool>,
    sending: Option<JoinHandle<()>>,
}

impl Stream {
    /// A packet to `target` each `interval`, from `side`, by a thread on `cpu`.
    pub(super) fn start(
        side: &Side,
        target: SocketAddr,
        interval: Duration,
        cpu: usize,
    ) -> Result<Self, Error> {
        let socket = connected(side, target)?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let send = move || {
            // On any CPU it is the same stream.
            let _ = sys::thread::pin(cpu);
            let mut due = Instant::now();
            while !seen.load(Ordering::Relaxed) {
                // Before anybody listens the kernel says so here; the next packet is as good.
                let _ = socket.send(&[0; 18]);
                // Late packets are made up for, but not the whole past.
                due = (due + interval).max(Instant::now() - 16 * interval);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        };
        let sending = std::thread::Builder::new().name("stream".to_owned()).spawn(send);
        Ok(Self { stop, sending: Some(sending.or_needs("thread")?) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(sending) = self.sending.take() {
            // It only sends and sleeps: there is nothing to hear of its end.
            let _ = sending.join();
        }
    }
}

/// A socket of `side` whose packets go to `target`; it never blocks.
pub(super) fn connected(side: &Side, target: SocketAddr) -> Result<UdpSocket, Error> {
    let local = SocketAddr::from((side.ipv4(), 0));
    let socket = side.enter(|| {
        let socket = UdpSocket::bind(local)?;
        socket.connect(target)?;
        socket.set_nonblocking(true)?;
        Ok::<_, std::io::Error>(socket)
    });
    socket.or_needs("thread in a namespace")?.or_needs("client socket")
}
