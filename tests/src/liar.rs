//! An application that writes into its shared memory what no honest one does.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;

use attach::{AttachError, AttachRequest, Link, ToApp, ToDaemon};
use base::Nanos;
use shm::Frame;
use shm::packets::{PacketEnd, PacketMemory};

use crate::daemon::Daemon;

/// An attachment without a program around it: every word of its memory can be written.
#[derive(Debug)]
pub struct Liar {
    /// The connection; it ends the attachment when it drops.
    pub link: Link,
    /// The end of its only worker.
    pub end: PacketEnd,
    memory: OwnedFd,
    daemon: OwnedFd,
}

/// Longer than the daemon takes to let anybody in.
const TIMEOUT: Nanos = Nanos::from_secs(20);

/// A request as honest as any.
pub fn request(name: &str, listen: &str) -> AttachRequest {
    AttachRequest {
        name: name.to_owned(),
        listen: vec![listen.to_owned()],
        workers: 1,
        frames: Some(16),
        frame_bytes: None,
        cores: None,
        features: 0,
    }
}

impl Liar {
    /// Attaches with one worker.
    ///
    /// # Errors
    /// The daemon refuses.
    pub fn attach(daemon: &Daemon, name: &str, listen: &str) -> Result<Self, AttachError> {
        let link = Link::connect(&daemon.apps_socket())?;
        link.send(&ToDaemon::Attach(request(name, listen)))?;
        let (answer, descriptors) = link.receive(TIMEOUT)?.ok_or(AttachError::TimedOut)?;
        match answer {
            ToApp::Attached(_) => {}
            ToApp::Refused { message } => return Err(AttachError::Refused(message)),
            ToApp::Detached(detached) => return Err(AttachError::Refused(detached.message)),
            ToApp::Streaming(_) | ToApp::Reply { .. } | ToApp::Given { .. } => {
                panic!("nobody asked for sockets")
            }
        }
        let mut descriptors = descriptors.into_iter();
        let (Some(memory), Some(wakes)) = (descriptors.next(), descriptors.next()) else {
            panic!("a welcome comes with memory and an eventfd")
        };
        let copy = memory.try_clone().expect("descriptors are left");
        let mut map = PacketMemory::open(copy).expect("the daemon sends a region");
        let end = map.end(0).expect("the first end is given out once");
        Ok(Self { link, end, memory, daemon: wakes })
    }

    /// Sends eight words as a message and wakes the daemon.
    pub fn say(&mut self, words: [u64; 8]) {
        self.end.forge(words);
        self.ring();
    }

    /// Wakes the daemon, whether it sleeps or not.
    ///
    /// # Panics
    /// The eventfd refuses.
    pub fn ring(&self) {
        rustix::io::write(&self.daemon, &1_u64.to_ne_bytes())
            .expect("its counter is far from full");
    }

    /// Overwrites a part of its memory.
    ///
    /// # Panics
    /// The part is outside of it.
    pub fn write(&self, at: u64, bytes: &[u8]) {
        let written = rustix::io::pwrite(&self.memory, bytes, at);
        assert_eq!(written, Ok(bytes.len()), "it is its own memory");
    }

    /// Sends a packet, whatever is in it.
    ///
    /// # Panics
    /// All of its frames are under way.
    pub fn send(&mut self, packet: &[u8]) {
        let mut frame: Frame = self.end.take().expect("the rings are whole").expect("a free frame");
        assert!(frame.set_len(packet.len()), "it fits");
        frame.bytes_mut().copy_from_slice(packet);
        assert!(self.end.send(frame).is_ok(), "the ring has room");
        let _ = self.end.publish();
        self.ring();
    }

    /// The daemon's last words.
    ///
    /// # Panics
    /// It says nothing.
    pub fn last_words(&self) -> attach::Detached {
        match self.link.receive(TIMEOUT) {
            Ok(Some((ToApp::Detached(detached), _))) => detached,
            other => panic!("no last words but {other:?}"),
        }
    }
}

/// A connection to the daemon's socket for applications that keeps to no protocol.
///
/// # Panics
/// Nobody listens.
pub fn stranger(daemon: &Daemon) -> OwnedFd {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
    let kind = SocketType::SEQPACKET;
    let socket = socket(AddressFamily::UNIX, kind, None).expect("descriptors are left");
    let address = SocketAddrUnix::new(daemon.apps_socket()).expect("a short path");
    connect(&socket, &address).expect("the daemon listens");
    socket
}

/// Sends bytes over such a connection; a daemon that has closed it already is fine.
///
/// # Panics
/// The kernel refuses for another reason.
pub fn babble(stranger: &OwnedFd, bytes: &[u8]) {
    if let Err(errno) = rustix::net::send(stranger, bytes, rustix::net::SendFlags::NOSIGNAL) {
        let error = std::io::Error::from(errno);
        assert!(
            matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
            "{error}"
        );
    }
}
