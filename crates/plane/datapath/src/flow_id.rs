//! Which flow a packet belongs to.

use shm::Frame;
use wire::icmp::ErrorMessage;
use wire::{NotOurs, Outcome};

/// Finds the id of a packet's flow in its bytes; `None`: it has none.
pub type FlowId = fn(&Frame) -> Option<u64>;

/// The flow of a packet, or that of the packet which an ICMP error is about.
pub(crate) fn flow_id(frame: &Frame) -> Option<u64> {
    match wire::classify(frame.bytes()) {
        Outcome::Flow(flow) => Some(flow.key.id()),
        Outcome::NotOurs(NotOurs::IcmpError) => Some(ErrorMessage::parse(frame.bytes())?.key.id()),
        Outcome::NotOurs(_) | Outcome::Malformed(_) => None,
    }
}
