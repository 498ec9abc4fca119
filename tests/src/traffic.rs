//! Requests that go on in the background, some flows heavier than others.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use testbed::{Side, Testbed};

use crate::client::Flows;

/// Requests from the client's end until it drops.
#[derive(Debug)]
pub struct Traffic {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Flows>>,
}

impl Traffic {
    /// Begins to send to the server's `port` over `flows` flows.
    ///
    /// # Panics
    /// The sockets cannot be made.
    pub fn start(bed: &Testbed, port: u16, flows: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stop);
        let server = SocketAddr::from((bed.server().ipv4(), port));
        let mut flows =
            bed.client().enter(|| open(bed.client(), flows, server)).expect("it is there");
        let thread = std::thread::spawn(move || {
            while !stops.load(Ordering::Relaxed) {
                flows.run(1, 1);
                // It is to be seen, not to fill two cores.
                std::thread::sleep(Duration::from_micros(500));
            }
            flows
        });
        Self { stop, thread: Some(thread) }
    }

    /// Ends it; every request must have been answered, in order.
    ///
    /// # Panics
    /// One was not.
    pub fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is ended once");
        thread.join().expect("it does not panic").assert_perfect();
    }
}

fn open(client: &Side, flows: usize, server: SocketAddr) -> Flows {
    Flows::new(flows, (client.ipv4(), 0).into(), server)
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
