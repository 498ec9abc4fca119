//! A program of `async fn` on threads of its own, and a small daemon on the test's.

use std::future::Future;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use attach::AttachListener;
use base::FlowGroup;
use calisto_client::Nanos;
use calisto_client::rt::{self, Ended, RunError, Runtime, Settings};
use shm::packets::Delivery;
use sys::poll;
use wire::build::UdpPacket;

use crate::common::{Folder, MAC, Served};

pub(crate) const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const LISTEN: &str = "udp:10.0.0.9:7";
pub(crate) const SERVER: &str = "10.0.0.9:7";
pub(crate) const CLIENT: &str = "10.0.0.1:4000";

/// A daemon on this thread and a program on its own ones.
pub(crate) struct Rig<T> {
    pub(crate) served: Served,
    pub(crate) program: JoinHandle<Result<Ended<T>, RunError>>,
    pub(crate) rt: Runtime,
    _folder: Folder,
}

pub(crate) fn start<M, F>(test: &str, workers: u32, settings: Settings, main: M) -> Rig<F::Output>
where
    M: Fn(Runtime) -> F + Send + Sync + 'static,
    F: Future + 'static,
    F::Output: Send + 'static,
{
    let folder = Folder::new(&format!("rt-{test}"));
    let listener = AttachListener::bind(&folder.socket(), 0o600).expect("the folder is ours");
    let options = folder.options().listen(LISTEN).listen("udp:[fd00::9]:7").workers(workers);
    let (tell, told) = channel::<Runtime>();
    let tell = Mutex::new(tell);
    let program = std::thread::spawn(move || {
        rt::run_with(options, settings, |rt| {
            let _ = tell.lock().expect("nobody panics with it").send(rt.clone());
            main(rt)
        })
    });
    assert!(poll::wait_readable(listener.as_fd(), Nanos::from_secs(10)), "it does not come");
    let peer = listener.accept().expect("descriptors are left").expect("one has connected");
    let served = Served::welcome(peer).expect("it asks");
    let rt = told.recv_timeout(Duration::from_secs(20)).expect("it begins");
    Rig { served, program, rt, _folder: folder }
}

pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

pub(crate) fn packet(macs: [[u8; 6]; 2], from: &str, to: &str, payload: &[u8]) -> Vec<u8> {
    let (source, destination) = (address(from), address(to));
    let [source_mac, destination_mac] = macs;
    let packet =
        UdpPacket { source_mac, destination_mac, source, destination, payload, vlan: None };
    let mut bytes = vec![0; packet.len()];
    packet.write(&mut bytes).expect("it fits");
    bytes
}

/// Waits for a condition, bounded.
#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "{what} does not come");
        std::thread::sleep(Duration::from_micros(200));
    }
}

impl<T> Rig<T> {
    /// A packet of the group to a worker.
    pub(crate) fn ask(&mut self, worker: usize, group: u32, from: &str, payload: &[u8]) {
        let to = if address(from).is_ipv4() { SERVER } else { "[fd00::9]:7" };
        let bytes = packet([PEER_MAC, MAC], from, to, payload);
        let group = FlowGroup(group);
        let delivery = self.served.deliver_as(worker, &bytes, |f| f.meta_mut().group = group);
        assert_eq!(delivery, Delivery::Staged);
    }

    /// The next packet that a worker sends.
    #[track_caller]
    pub(crate) fn answer(&mut self, worker: usize) -> Vec<u8> {
        let mut answer = None;
        until("an answer", || {
            answer = self.served.sent(worker);
            answer.is_some()
        });
        answer.expect("it has come")
    }

    /// Stops it, and waits for its end.
    #[track_caller]
    pub(crate) fn stop(self) -> Ended<T> {
        self.rt.shutdown();
        self.end().expect("it was attached")
    }

    #[track_caller]
    pub(crate) fn end(self) -> Result<Ended<T>, RunError> {
        until("its end", || self.program.is_finished());
        self.program.join().expect("it does not panic")
    }
}

pub(crate) fn answered(from: &str, payload: &[u8]) -> Vec<u8> {
    let server = if address(from).is_ipv4() { SERVER } else { "[fd00::9]:7" };
    packet([MAC, PEER_MAC], server, from, payload)
}
