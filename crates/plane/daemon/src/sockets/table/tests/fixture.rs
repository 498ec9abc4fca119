//! A socket table to ask, and who asks.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use attach::{Call, JoinRequest, PeerCredentials, Profile, Reply, SocketsRequest};
use base::{RegionId, SlotId};
use config::Config;
use rustix::net::{AddressFamily, SocketType, sockopt};
use shm::sockets::SocketMemory;
use stack::CommandQueue;
use sys::clock;
use sys::eventfd::EventFd;

use super::super::super::{Answer, Link, Member, SocketTable, SocketTableConfig};
use crate::apps::Claims;
use crate::doorbells::Doorbells;
use crate::open_sockets::OpenSockets;

/// A socket table in this test's network namespace, which has no ports of ours.
pub(super) struct Fixture {
    pub(super) socket_table: SocketTable,
    pub(super) claims: Claims,
}

impl Fixture {
    pub(super) fn new(config: &str) -> Self {
        Self::with_links(config, Vec::new())
    }

    /// The same, and packets of these links are taken from the kernel.
    pub(super) fn with_links(config: &str, links: Vec<Link>) -> Self {
        // Whatever rules this machine has.
        let config = format!("[sockets]\nignore_firewall = true\n{config}");
        let config = Config::parse(&config).expect("well formed");
        let socket_table = SocketTable::new(SocketTableConfig {
            flow: crate::engine::flow(&config),
            config: Arc::new(config),
            command_queue: CommandQueue::new(|| (), || ()),
            workers_doorbell: Arc::new(EventFd::new().expect("descriptors are left")),
            doorbells: Doorbells::default(),
            links,
            names: Vec::new(),
            mtu: 1500,
            counters: Arc::default(),
            open_sockets: OpenSockets::here(),
            guardian: None,
        });
        let socket_table = socket_table.expect("netlink is there");
        Self { socket_table, claims: Claims::new(Vec::new(), Vec::new()) }
    }

    pub(super) fn attach(&mut self, name: &str) -> Result<(Process, JoinRequest), String> {
        self.attach_as(name, me())
    }

    pub(super) fn attach_as(
        &mut self,
        name: &str,
        who: PeerCredentials,
    ) -> Result<(Process, JoinRequest), String> {
        let request = SocketsRequest {
            name: name.to_owned(),
            profile: Profile::Safe,
            features: 0,
            token_before: None,
        };
        let (member, streaming, answer) = self.socket_table.attach(&request, who, clock::now())?;
        assert_eq!(answer.descriptors.len(), 2, "memory and a doorbell");
        let memory = map(answer);
        let join = JoinRequest { app: streaming.app, token: streaming.token };
        Ok((Process { member, memory, region: RegionId(streaming.region) }, join))
    }

    pub(super) fn call(
        &mut self,
        process: &mut Process,
        call: &Call,
        socket: Option<&dyn AsFd>,
    ) -> Answer {
        let copy =
            socket.map(|socket| socket.as_fd().try_clone_to_owned().expect("descriptors are left"));
        self.socket_table.call(&mut process.member, call, copy, &mut self.claims, clock::now())
    }

    /// Hears of what has ended until `holds`.
    pub(super) fn wait_until(&mut self, mut holds: impl FnMut(&mut SocketTable) -> bool) {
        let begun = std::time::Instant::now();
        loop {
            self.socket_table.tend(&mut self.claims, clock::now());
            if holds(&mut self.socket_table) {
                return;
            }
            assert!(begun.elapsed() < std::time::Duration::from_secs(10), "it does not come true");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

/// An application's only process.
pub(super) struct Process {
    pub(super) member: Member,
    pub(super) memory: SocketMemory,
    pub(super) region: RegionId,
}

pub(super) fn me() -> PeerCredentials {
    user(0)
}

pub(super) fn user(uid: u32) -> PeerCredentials {
    PeerCredentials { pid: std::process::id(), uid, gid: 0 }
}

pub(super) fn map(answer: Answer) -> SocketMemory {
    let memory = answer.descriptors.into_iter().next().expect("it comes first");
    SocketMemory::open(memory).expect("the daemon made it")
}

pub(super) fn slot(answer: &Answer) -> (RegionId, SlotId) {
    match answer.reply {
        Reply::Slot { region, slot } => (RegionId(region), SlotId(slot)),
        ref other => panic!("{other:?}"),
    }
}

pub(super) fn socket() -> OwnedFd {
    rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("descriptors")
}

/// A UDP socket whose port others may have, too.
pub(super) fn shared(at: SocketAddr) -> (OwnedFd, SocketAddr) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None);
    let socket = socket.expect("descriptors are left");
    sockopt::set_socket_reuseaddr(&socket, true).expect("a socket");
    let at = sys::socket::bind(socket.as_fd(), at).expect("all of them share it");
    (socket, at)
}

pub(super) fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    (listener, address)
}

/// Runs `ip` with these words.
pub(super) fn ip(words: &str) {
    let output = std::process::Command::new("ip").args(words.split(' ')).output();
    let output = output.expect("iproute2 is there");
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs `work` in a network namespace of its own, where loopback is up.
pub(super) fn in_namespace(name: &str, work: impl FnOnce() + Send + 'static) {
    let name = format!("{name}-{}", std::process::id());
    ip(&format!("netns add {name}"));
    let inside = {
        let name = name.clone();
        move || {
            sys::netns::enter(&name).expect("it was made");
            ip("link set lo up");
            work();
        }
    };
    let ended = std::thread::spawn(inside).join();
    ip(&format!("netns del {name}"));
    ended.expect("no assertion failed");
}
