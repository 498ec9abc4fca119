//! What the interfaces' programs take from the kernel after the daemon's death: at first less, then
//! nothing.

use std::sync::Arc;

use port::xdp::Protocol;

use super::held::Held;
use crate::apps::Claims;

/// Destinations are no longer taken blindly: datagrams are the kernel's at once, and of a TCP
/// destination each packet for which it has a connection. The rest is dropped by queues that nobody
/// empties, until all connections stand.
pub(super) fn leave_to_kernel(held: &Held) {
    for interface in &held.interfaces {
        let Ok(all) = interface.ours().list() else { continue };
        let (udp, tcp) = all.into_iter().partition(|one| one.protocol == Protocol::Udp);
        Claims::new(vec![Arc::clone(interface)], tcp).leave_connections();
        for destination in Vec::from_iter(udp) {
            // An interface that is gone takes nothing any more.
            let _ = interface.ours().remove(destination);
        }
    }
}

/// Nothing is taken any more: what comes from now on is the kernel's, connections that are lost
/// among it.
pub(super) fn leave_all_to_kernel(held: &Held) {
    for interface in &held.interfaces {
        // What cannot be given back is the kernel's when the program is gone.
        for destination in interface.ours().list().into_iter().flatten() {
            let _ = interface.ours().remove(destination);
        }
        let _ = interface.flows().clear();
        // A program that takes everything asks for nothing but the socket of a queue.
        let _ = interface.leave_queues();
    }
}
