//! What must hold whoever made the input: shared by the fuzz targets.
#![forbid(unsafe_code)]

/// An application against the daemon.
pub mod hostile_app;
/// Peers against the TCP engine.
pub mod hostile_peer;
/// A chain of network functions, its hosts and strangers.
pub mod nf_chain;
/// Packets for network functions.
pub mod packets;
/// A recording to be damaged.
pub mod recording;
/// Programs with sockets and their peers.
pub mod sockets;

use wire::{Flow, Outcome};

/// The parts of a flow stand in order and within its frame.
pub fn check_flow(frame: &[u8], flow: &Flow) {
    assert!(14 <= flow.l3_offset && flow.l3_offset < flow.l4_offset, "{flow:?}");
    assert!(flow.l4_offset < flow.payload_offset, "{flow:?}");
    let end = usize::from(flow.payload_offset) + usize::from(flow.payload_len);
    assert!(end <= frame.len(), "{flow:?} in {} bytes", frame.len());
    assert_eq!(flow.key.to_string().parse(), Ok(flow.key));
    assert_eq!(flow.key.reversed().reversed(), flow.key);
}

/// The flow of `frame`, if it has one.
pub fn flow(frame: &[u8]) -> Option<Flow> {
    match wire::classify(frame) {
        Outcome::Flow(flow) => {
            check_flow(frame, &flow);
            Some(flow)
        }
        Outcome::NotOurs(reason) => {
            assert!(!reason.help().is_empty());
            None
        }
        Outcome::Malformed(reason) => {
            assert!(!reason.help().is_empty());
            None
        }
    }
}

/// Short, on one line, and safe to print on a terminal, whatever was in the input.
pub fn is_one_sentence(sentence: &str) {
    assert!(!sentence.is_empty() && sentence.len() < 2000, "{sentence}");
    assert!(!sentence.contains(char::is_control), "{sentence:?}");
}
