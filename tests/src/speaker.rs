//! A process that speaks to the daemon itself: whatever a library would check, it has not.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;

use attach::{AttachError, Call, Link, Reply, SocketsRequest};
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::{Gid, Uid};

use crate::accelerated::Accelerated;

/// A user without rights.
pub const NOBODY: u32 = 65_534;

/// An application in stream mode, and no program around it.
#[derive(Debug)]
pub struct Speaker {
    link: Link,
}

impl Speaker {
    /// Attaches as user `uid`.
    ///
    /// # Errors
    /// The daemon refuses.
    ///
    /// # Panics
    /// Without root.
    pub fn attach(accelerated: &Accelerated, uid: u32) -> Result<Self, AttachError> {
        let daemon = accelerated.daemon();
        // Folders of tests are root's alone.
        let everybody = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(daemon.folder(), everybody).expect("it is ours");
        let path = daemon.apps_socket();
        let link = as_user(uid, || Link::connect(path.as_ref()))?;
        let request = SocketsRequest {
            name: "speaker".to_owned(),
            profile: Default::default(),
            features: 0,
            token_before: None,
        };
        link.stream(&request)?;
        Ok(Self { link })
    }

    /// Asks about a socket.
    ///
    /// # Panics
    /// The daemon does not answer.
    pub fn call(&self, call: &Call, socket: Option<BorrowedFd<'_>>) -> Reply {
        self.link.call(call, socket, drop).expect("the daemon answers").0
    }

    /// Asks for a listener beside the kernel's.
    pub fn listen(&self, socket: impl AsFd) -> Reply {
        self.call(&Call::Listen { backlog: 16 }, Some(socket.as_fd()))
    }

    /// Asks for the datagrams of a socket.
    pub fn udp(&self, socket: impl AsFd) -> Reply {
        self.call(&Call::Udp { remote: None }, Some(socket.as_fd()))
    }
}

/// An IPv4 socket in the daemon's namespace, made by user `uid`.
///
/// # Panics
/// Descriptors are short.
pub fn socket_of(accelerated: &Accelerated, kind: SocketType, uid: u32) -> OwnedFd {
    let make = || as_user(uid, || socket(AddressFamily::INET, kind, None));
    let made = accelerated.here().enter(make).expect("the namespace is there");
    made.expect("descriptors are left")
}

/// Runs `work` on a thread of that user.
///
/// # Panics
/// Without root, or when `work` does.
pub fn as_user<T: Send>(uid: u32, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
            rustix::thread::set_thread_gid(group).expect("this test needs root");
            rustix::thread::set_thread_res_uid(user, user, user).expect("this test needs root");
            work()
        });
        thread.join().expect("it did not panic")
    })
}
