//! A wire with an echo server over AF_XDP at one end, and one kernel socket that asks at the other.

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{Nanos, PortId, QueueId};
use port::xdp::{AttachMode, Destination, Protocol, Take, Umem, XdpInterface, XdpOptions, XdpPort};
use shm::{FramePool, PoolConfig};
use sys::clock::now;
use testbed::{Side, Testbed, TestbedConfig};

use crate::cases::Plan;
use crate::error::{Error, OrNeeds};
use crate::figure::median;
use crate::flows::SERVER;
use crate::place::on_cpu;

/// A request that has not been answered for this long is sent again.
pub(crate) const TIMEOUT: Nanos = Nanos::from_millis(20);

/// Of a request, and of its answer.
pub(crate) const PAYLOAD_BYTES: usize = 18;

/// What one run of the client gives.
pub(crate) struct Answers {
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) resent: u64,
}

/// What a server and its client say to each other across threads.
#[derive(Default)]
pub(crate) struct Signals {
    /// The client is through.
    pub(crate) stop: AtomicBool,
    /// The server answers from now on.
    pub(crate) ready: AtomicBool,
}

/// A wire whose server's end gives us what is sent to [`SERVER`].
pub(crate) struct EchoWire {
    bed: Testbed,
    interface: Arc<XdpInterface>,
}

impl EchoWire {
    /// Two namespaces, and the program on the server's end.
    pub(crate) fn new() -> Result<Self, Error> {
        let config = TestbedConfig::default();
        let bed = Testbed::new(config).or_needs("pair of namespaces")?;
        let interface = bed
            .server()
            .enter(|| XdpInterface::attach(bed.server().interface(), AttachMode::Probe, Take::Ours))
            .or_needs("thread in a namespace")?
            .or_needs("XDP program on the veth")?;
        let (address, port) = (Some(IpAddr::V4(SERVER.0)), Some(SERVER.1));
        let echo = Destination { protocol: Protocol::Udp, address, port };
        interface.ours().add(echo).or_needs("entry in the map of what is ours")?;
        Ok(Self { bed, interface: Arc::new(interface) })
    }

    /// What a client gets in `length` of a server that `serve` is until it is told to stop, each on
    /// its CPU.
    pub(crate) fn measure(
        &self,
        plan: &Plan,
        outstanding: usize,
        length: Nanos,
        serve: impl FnOnce(XdpPort, FramePool, &Signals) -> Result<(), Error> + Send,
    ) -> Result<Answers, Error> {
        let cpus = plan.cpus;
        let signals = &Signals::default();
        std::thread::scope(|scope| {
            let serving = scope.spawn(move || {
                on_cpu(cpus.server, || {
                    let result = self.open().and_then(|(port, pool)| serve(port, pool, signals));
                    signals.ready.store(true, Ordering::Release);
                    result
                })
            });
            while !signals.ready.load(Ordering::Acquire) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            let asking = on_cpu(cpus.client, || {
                let socket = socket(self.bed.client())?;
                // What comes first finds everything cold.
                ask(&socket, outstanding, Nanos(length.0 / 5))?;
                ask(&socket, outstanding, length)
            });
            signals.stop.store(true, Ordering::Relaxed);
            serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            asking
        })
    }

    fn open(&self) -> Result<(XdpPort, FramePool), Error> {
        let pool = FramePool::new(PoolConfig { frames: 4096, chunk_bytes: 2048, numa_node: None });
        let mut pool = pool.or_needs("pool of frames")?;
        let (umem, options) = (Umem::new(&pool), XdpOptions::default());
        let opened =
            XdpPort::open(&self.interface, PortId(0), QueueId(0), &umem, &mut pool, &options);
        Ok((opened.or_needs("AF_XDP socket")?, pool))
    }
}

fn socket(client: &Side) -> Result<UdpSocket, Error> {
    let address = client.ipv4();
    let socket = client.enter(|| {
        let socket = UdpSocket::bind((address, 0))?;
        socket.connect(SERVER)?;
        socket.set_nonblocking(true)?;
        Ok::<_, std::io::Error>(socket)
    });
    socket.or_needs("thread in a namespace")?.or_needs("client socket")
}

/// Keeps `outstanding` requests under way for `length`.
fn ask(socket: &UdpSocket, outstanding: usize, length: Nanos) -> Result<Answers, Error> {
    let mut sent_at = vec![Nanos::ZERO; outstanding];
    let mut number = vec![0_u32; outstanding];
    let mut request = [0; PAYLOAD_BYTES];
    let mut send = |slot: usize, number: u32| {
        request[0] = slot as u8;
        request[1..5].copy_from_slice(&number.to_be_bytes());
        match socket.send(&request) {
            Ok(_) => Ok(()),
            // A full queue is a loss like others: patience sends it again.
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    };
    let (mut delays, mut resent) = (Vec::with_capacity(1 << 18), 0);
    let start = now();
    for (slot, sent_at) in sent_at.iter_mut().enumerate() {
        *sent_at = now();
        send(slot, 0).or_needs("way to send")?;
    }
    let mut answer = [0; 64];
    let mut idle = 0_u32;
    let mut time = start;
    while time.since(start) < length {
        match socket.recv(&mut answer) {
            Ok(PAYLOAD_BYTES) => {
                let slot = usize::from(answer[0]);
                let [_, a, b, c, d, ..] = answer;
                time = now();
                // An answer to a request that was sent again is old.
                if number.get(slot) != Some(&u32::from_be_bytes([a, b, c, d])) {
                    continue;
                }
                delays.push(time.since(sent_at[slot]).as_micros_f64());
                number[slot] += 1;
                sent_at[slot] = time;
                send(slot, number[slot]).or_needs("way to send")?;
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                idle = idle.wrapping_add(1);
                if !idle.is_multiple_of(64) {
                    continue;
                }
                time = now();
                for slot in 0..outstanding {
                    if time.since(sent_at[slot]) > TIMEOUT {
                        resent += 1;
                        number[slot] += 1;
                        sent_at[slot] = time;
                        send(slot, number[slot]).or_needs("way to send")?;
                    }
                }
            }
            Err(error) => return Err(error).or_needs("way to receive"),
        }
    }
    let per_second = delays.len() as f64 / time.since(start).as_secs_f64();
    Ok(Answers { per_second, p50_us: median(&delays).unwrap_or(f64::NAN), resent })
}
