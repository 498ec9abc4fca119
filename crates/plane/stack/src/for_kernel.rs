//! ICMP errors about datagrams that are for the kernel: its half of the socket has the queue of
//! errors, and what it sends itself has to fit through the same path.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use base::SlotId;

use crate::app_sockets::AppSockets;

/// Errors that wait for the slow side, at most.
const WAITING_MAX: usize = 128;

/// Those about one user's sockets.
const WAITING_OF_USER_MAX: usize = 32;

/// One of them.
#[derive(Debug)]
pub struct ForKernel {
    /// Whose socket it is about.
    pub app: Arc<AppSockets>,
    /// Its slot.
    pub slot: SlotId,
    /// The own address that it has come to.
    pub to: IpAddr,
    /// The IP packet, as it came.
    pub packet: Box<[u8]>,
}

/// All that wait.
#[derive(Debug, Default)]
pub(crate) struct AllForKernel {
    waiting: Vec<ForKernel>,
    of_user: BTreeMap<u32, usize>,
}

impl AllForKernel {
    /// Has one wait that `make` makes; false: too many do already, of this user or in all.
    pub(crate) fn add(&mut self, user: u32, make: impl FnOnce() -> ForKernel) -> bool {
        let of_user = self.of_user.entry(user).or_default();
        if self.waiting.len() >= WAITING_MAX || *of_user >= WAITING_OF_USER_MAX {
            return false;
        }
        *of_user += 1;
        self.waiting.push(make());
        true
    }

    pub(crate) fn take(&mut self) -> Vec<ForKernel> {
        self.of_user.clear();
        std::mem::take(&mut self.waiting)
    }
}
