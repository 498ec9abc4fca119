//! A small daemon: the real memory and the real socket, an echo of whatever the application sends
//! instead of ports. On a thread of the test, turn by turn, or in a process that can be killed.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use attach::{AttachListener, Attached, Peer, PortInfo, Received, ToApp, ToDaemon};
use base::Nanos;
use calisto_client::{App, AttachOptions, Worker};
use shm::packets::{Delivery, FromApp, PacketQueue, PacketServer, PacketSizes};
use shm::{Frame, FramePool, PoolConfig};
use sys::eventfd::EventFd;
use sys::poll;

pub(crate) const RING_SLOTS: u32 = 16;

/// Names the socket of the daemon that a test binary is to be, see [`DaemonProcess`].
const SOCKET: &str = "CALISTO_TEST_SOCKET";
const BEHAVIOUR: &str = "CALISTO_TEST_MANNER";

pub(crate) const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// A folder of this test's own, gone at its end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("calisto-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
        Self(folder)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("apps.sock")
    }

    pub(crate) fn options(&self) -> AttachOptions {
        AttachOptions::new("test").socket(self.socket())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One application, as the daemon has it.
pub(crate) struct Served {
    pub(crate) peer: Peer,
    pub(crate) server: PacketServer,
    pub(crate) worker_queues: Vec<PacketQueue>,
    pub(crate) wake: EventFd,
    /// A byte in here wakes a worker.
    pub(crate) doorbells: Vec<OwnedFd>,
    pub(crate) pool: FramePool,
}

impl Served {
    /// Waits for the application's request and answers it; nothing when it leaves instead.
    pub(crate) fn welcome(peer: Peer) -> Option<Self> {
        let request = loop {
            assert!(poll::wait_readable(peer.as_fd(), Nanos::from_secs(10)), "it says nothing");
            match peer.receive().expect("the kernel is well") {
                Received::Message(ToDaemon::Attach(request)) => break request,
                Received::Message(other) => panic!("{other:?}"),
                Received::Nothing => {}
                Received::Closed => return None,
                Received::Bad(sentence) => panic!("{sentence}"),
            }
        };
        let sizes = PacketSizes {
            workers: request.workers,
            ring_slots: RING_SLOTS,
            chunk_bytes: request.frame_bytes.unwrap_or(2048),
            receive_chunks: request.frames.unwrap_or(32),
            send_chunks: 2 * RING_SLOTS,
            handovers: 4,
        };
        let sizes = sizes.checked().expect("tests ask for what can be");
        let (server, worker_queues) = PacketServer::create(sizes).expect("it fits anywhere");
        let wake = EventFd::new().expect("descriptors are left");
        let flags = rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK;
        let pipes = (0..request.workers).map(|_| rustix::pipe::pipe_with(flags));
        let (pollers, doorbells): (Vec<_>, Vec<_>) =
            pipes.map(|pipe| pipe.expect("descriptors are left")).unzip();
        let mut descriptors = vec![server.as_fd(), wake.as_fd()];
        descriptors.extend(pollers.iter().map(AsFd::as_fd));
        let port = PortInfo { port: "test".into(), mac: Some(MAC), mtu: 1500 };
        let workers = request.workers;
        let attached =
            Attached { id: 7, workers, ports: vec![port], on_granted_cores: false, features: 0 };
        let sent = peer.send(&ToApp::Attached(attached), &descriptors);
        assert_eq!(sent, Ok(true));
        let pool = FramePool::new(PoolConfig { frames: 8, chunk_bytes: 4096, numa_node: None });
        let pool = pool.expect("it fits anywhere");
        Some(Self { peer, server, worker_queues, wake, doorbells, pool })
    }

    /// Delivers a packet to a worker and wakes it.
    pub(crate) fn deliver(&mut self, worker: usize, packet: &[u8]) -> Delivery {
        self.deliver_as(worker, packet, |_| ())
    }

    /// The same with the meta data that a classified packet has.
    pub(crate) fn deliver_as(
        &mut self,
        worker: usize,
        packet: &[u8],
        meta: impl FnOnce(&mut Frame),
    ) -> Delivery {
        let mut frame = self.pool.take().expect("one is always home");
        assert!(frame.fill(packet));
        meta(&mut frame);
        let delivery =
            self.server.deliver(&mut self.worker_queues[worker], &frame).expect("honest");
        self.pool.give(frame);
        self.publish(worker);
        delivery
    }

    pub(crate) fn publish(&mut self, worker: usize) {
        let worker_queue = &mut self.worker_queues[worker];
        if worker_queue.publish()
            && let Some(sleeper) = worker_queue.ring()
        {
            let _ = rustix::io::write(&self.doorbells[sleeper as usize], &[1]);
        }
    }

    /// The next packet that a worker wants sent, if there is one; other frames go home.
    pub(crate) fn sent(&mut self, worker: usize) -> Option<Vec<u8>> {
        loop {
            let message = self.server.collect(&mut self.worker_queues[worker]).expect("honest");
            self.worker_queues[worker].release();
            let FromApp::Packet(packet) = message? else { continue };
            if !packet.0.meta.transmit {
                continue;
            }
            let mut frame = self.pool.take().expect("one is always home");
            assert!(self.server.copy_out(&packet, &mut frame));
            let bytes = frame.bytes().to_vec();
            self.pool.give(frame);
            return Some(bytes);
        }
    }

    /// Echoes whatever the workers send; whether there was anything.
    pub(crate) fn echo(&mut self) -> bool {
        let mut worked = false;
        for worker in 0..self.worker_queues.len() {
            for _ in 0..RING_SLOTS {
                let Some(packet) = self.sent(worker) else { break };
                worked = true;
                self.deliver(worker, &packet);
            }
        }
        worked
    }
}

/// A daemon on this thread and its application.
pub(crate) fn attached(folder: &Folder, options: &AttachOptions) -> (Served, App, Vec<Worker>) {
    let listener = AttachListener::bind(&folder.socket(), 0o600).expect("the folder is ours");
    std::thread::scope(|scope| {
        let app = scope.spawn(|| App::attach(options));
        assert!(poll::wait_readable(listener.as_fd(), Nanos::from_secs(10)), "it does not come");
        let peer = listener.accept().expect("descriptors are left").expect("one has connected");
        let served = Served::welcome(peer).expect("it asks");
        let (app, workers) =
            app.join().expect("attaching does not panic").unwrap_or_else(|error| panic!("{error}"));
        (served, app, workers)
    })
}

/// What a daemon in a process of its own does after attaching.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Echoes every packet.
    Echo,
    /// Takes nothing.
    Deaf,
}

/// This test binary once more, as a daemon that can be killed.
pub(crate) struct DaemonProcess(Child);

impl DaemonProcess {
    /// Starts it and waits until it listens. `entry` is the test that calls
    /// [`become_daemon_if_asked`] first.
    pub(crate) fn start(entry: &str, socket: &Path, behaviour: Behaviour) -> Self {
        let binary = std::env::current_exe().expect("proc is mounted");
        let child = Command::new(binary)
            .args(["--exact", entry, "--nocapture"])
            .env(SOCKET, socket)
            .env(BEHAVIOUR, if behaviour == Behaviour::Echo { "echo" } else { "deaf" })
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("this binary can be run");
        Self(child)
    }

    /// SIGKILL: it says nothing more to anybody.
    pub(crate) fn kill(mut self) -> Instant {
        let killed = Instant::now();
        self.0.kill().expect("it is ours");
        killed
    }
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// In the child process, this is a daemon until it is killed; elsewhere it does nothing.
pub(crate) fn become_daemon_if_asked() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let is_echo = std::env::var_os(BEHAVIOUR).is_some_and(|behaviour| behaviour == "echo");
    // A test that dies takes it along.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let listener = AttachListener::bind(Path::new(&socket), 0o600).expect("the folder is ours");
    let mut served: Vec<Served> = Vec::new();
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        if let Some(peer) = listener.accept().expect("descriptors are left") {
            served.extend(Served::welcome(peer));
        }
        served.retain(|app| app.peer.receive() == Ok(Received::Nothing));
        if is_echo && served.iter_mut().any(Served::echo) {
            continue;
        }
        served.iter().for_each(|app| app.server.arm());
        if !(is_echo && served.iter_mut().any(Served::echo)) {
            let mut waiter = poll::Waiter::new();
            assert!(waiter.add(listener.as_fd()));
            for app in &served {
                assert!(waiter.add(app.wake.as_fd()) && waiter.add(app.peer.as_fd()));
            }
            waiter.wait(Nanos::from_secs(1));
        }
        for app in &served {
            app.server.disarm();
            app.wake.drain();
        }
    }
    std::process::exit(1);
}
