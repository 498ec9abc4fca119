//! Takes down every packet that passes an interface, with its time, until it is told to end.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use base::Nanos;
use testbed::Side;

use crate::sniffer::Sniffer;

/// Room for what comes between two looks.
const BUFFER_BYTES: usize = 64 << 20;

/// A sniffer and a thread that empties it.
#[derive(Debug)]
pub struct Recorder {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Heard>>>,
}

/// A packet and when it was heard.
#[derive(Debug)]
struct Heard {
    at: Nanos,
    packet: Vec<u8>,
}

impl Recorder {
    /// Listens at `side` from now on.
    ///
    /// # Panics
    /// The kernel gives no packet socket: this needs root.
    pub fn new(side: &Side) -> Self {
        let sniffer = Sniffer::with_buffer(side, BUFFER_BYTES);
        let stop = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut packets = Vec::new();
            loop {
                // What was sent before it was told to stop is there by then.
                let is_last = stops.load(Ordering::Relaxed);
                let now = sys::clock::now();
                let heard = sniffer.packets().into_iter().zip(0..);
                packets
                    .extend(heard.map(|(packet, after)| Heard { at: now + Nanos(after), packet }));
                if is_last {
                    return packets;
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        Self { stop, thread: Some(thread) }
    }

    /// Ends it and writes what was heard to a capture file; how many packets.
    ///
    /// # Panics
    /// The file cannot be written.
    pub fn end(mut self, path: &Path) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is ended once");
        let packets = thread.join().expect("it does not panic");
        let file = std::fs::File::create(path).expect("the folder is ours");
        let mut writer = port::pcap::PcapWriter::new(std::io::BufWriter::new(file))
            .expect("there is room for a header");
        for Heard { at, packet } in &packets {
            writer.write(*at, packet).expect("there is room");
        }
        writer.flush().expect("there is room");
        packets.len()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
