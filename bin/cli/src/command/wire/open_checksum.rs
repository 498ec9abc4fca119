//! Completes the checksums that a kernel sender left open for hardware that is not there.
//!
//! A veth or tap peer that offloads checksums writes only the sum of the pseudo-header into the
//! field (CHECKSUM_PARTIAL of Linux) and trusts that the packet never leaves the machine. On a wire
//! it does: there the field must be complete.

use std::net::SocketAddr;

use ::wire::checksum::Sum;
use ::wire::{Flow, Outcome, Protocol};

/// Completes the checksum of a UDP or TCP packet if it is open; whether it was.
pub(super) fn complete(frame: &mut [u8]) -> bool {
    let Outcome::Flow(flow) = ::wire::classify(frame) else {
        return false;
    };
    let field_offset = match flow.key.protocol() {
        Protocol::Udp => 6,
        Protocol::Tcp => 16,
    };
    let (start, end) = (
        usize::from(flow.l4_offset),
        usize::from(flow.payload_offset) + usize::from(flow.payload_len),
    );
    let Some(segment) = frame.get_mut(start..end) else {
        return false;
    };
    let Some(&[high, low]) = segment.get(field_offset..field_offset + 2) else {
        return false;
    };
    let written = u16::from_be_bytes([high, low]);
    let Some(pseudo) = pseudo_header(&flow, segment.len()) else {
        return false;
    };
    // One complete checksum in 65 536 looks like an open one; whether it is right decides.
    if written != pseudo.fold() || pseudo.bytes(segment).fold() == 0xffff {
        return false;
    }
    // The field holds the pseudo-header's sum, so the sum of the segment alone is that of both.
    let sum = Sum::ZERO.bytes(segment);
    let complete = match flow.key.protocol() {
        Protocol::Udp => sum.udp_checksum(),
        Protocol::Tcp => sum.checksum(),
    };
    segment[field_offset..field_offset + 2].copy_from_slice(&complete.to_be_bytes());
    true
}

fn pseudo_header(flow: &Flow, len: usize) -> Option<Sum> {
    let len = u16::try_from(len).ok()?;
    let protocol = flow.key.protocol().number();
    match (flow.key.source(), flow.key.destination()) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => {
            let (from, to) = (from.ip().octets(), to.ip().octets());
            Some(Sum::ZERO.pseudo_ipv4(from, to, protocol, len))
        }
        (SocketAddr::V6(from), SocketAddr::V6(to)) => {
            let (from, to) = (from.ip().octets(), to.ip().octets());
            Some(Sum::ZERO.pseudo_ipv6(from, to, protocol, len))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use ::wire::build::{TcpSegment, UdpPacket};
    use ::wire::checksum;

    use super::*;

    const MACS: ([u8; 6], [u8; 6]) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("it is an address")
    }

    fn udp(source: &str, destination: &str, payload: &[u8]) -> Vec<u8> {
        let packet = UdpPacket {
            source_mac: MACS.0,
            destination_mac: MACS.1,
            source: address(source),
            destination: address(destination),
            payload,
            vlan: None,
        };
        let mut frame = vec![0; packet.len()];
        packet.write(&mut frame).expect("it fits");
        frame
    }

    fn flow(frame: &[u8]) -> Flow {
        match ::wire::classify(frame) {
            Outcome::Flow(flow) => flow,
            other => panic!("{other:?}"),
        }
    }

    /// What a kernel sender that offloads writes.
    fn leave_open(frame: &mut [u8], field_offset: usize) {
        let flow = flow(frame);
        let start = usize::from(flow.l4_offset);
        let end = usize::from(flow.payload_offset) + usize::from(flow.payload_len);
        let sum = pseudo_header(&flow, end - start).expect("one IP version").fold();
        frame[start + field_offset..][..2].copy_from_slice(&sum.to_be_bytes());
    }

    #[test]
    fn an_open_checksum_is_completed_to_what_it_would_have_been() {
        for (source, destination) in
            [("10.0.0.1:5000", "10.0.0.2:7"), ("[fd77::1]:5000", "[fd77::2]:7")]
        {
            for payload in [&b"even"[..], b"odd", b""] {
                let whole = udp(source, destination, payload);
                let mut frame = whole.clone();
                leave_open(&mut frame, 6);
                assert!(!checksum::verify(&frame, &flow(&frame)));
                assert!(complete(&mut frame));
                assert_eq!(frame, whole);
            }
        }
        let segment = TcpSegment {
            source_mac: MACS.0,
            destination_mac: MACS.1,
            source: address("10.0.0.1:5000"),
            destination: address("10.0.0.2:80"),
            sequence: 7,
            acknowledgement: 9,
            flags: 0x10,
            window: 100,
            payload: b"hello",
            vlan: None,
        };
        let mut whole = vec![0; 200];
        let len = segment.write(&mut whole).expect("it fits");
        whole.truncate(len);
        let mut frame = whole.clone();
        leave_open(&mut frame, 16);
        assert!(complete(&mut frame));
        assert_eq!(frame, whole);
    }

    #[test]
    fn right_and_plainly_wrong_checksums_stay_as_they_are() {
        let right = udp("10.0.0.1:5000", "10.0.0.2:7", b"payload");
        let mut frame = right.clone();
        assert!(!complete(&mut frame));
        assert_eq!(frame, right);
        let mut wrong = right.clone();
        *wrong.last_mut().expect("it has bytes") ^= 1;
        let mut frame = wrong.clone();
        assert!(!complete(&mut frame), "a damaged packet must arrive damaged");
        assert_eq!(frame, wrong);
        for mut other in [vec![], vec![0; 14], right[..30].to_vec()] {
            assert!(!complete(&mut other));
        }
    }
}
