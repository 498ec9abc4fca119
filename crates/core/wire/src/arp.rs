//! ARP: IPv4 addresses over Ethernet, and the answer built where the request stands (RFC 826).

use std::net::Ipv4Addr;

use crate::bytes::put;
use crate::{Malformed, ethernet, ipv4, vlan};

/// Bytes of a packet of IPv4 addresses over Ethernet.
pub const PACKET_BYTES: u16 = 28;
/// Who has this address?
pub const REQUEST: u16 = 1;
/// I have it.
pub const REPLY: u16 = 2;

/// Hardware type Ethernet, protocol type IPv4, and the lengths of their addresses.
const FORMAT: [u8; 6] = [0, 1, 0x08, 0x00, 6, 4];

/// A packet in the one format that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// [`REQUEST`], [`REPLY`] or something historic.
    pub operation: u16,
    /// Link address of who sends this.
    pub sender_mac: [u8; 6],
    /// Its IPv4 address; zero in a probe (RFC 5227).
    pub sender: Ipv4Addr,
    /// Link address of who is meant; nothing in a request.
    pub target_mac: [u8; 6],
    /// The address in question.
    pub target: Ipv4Addr,
}

impl Packet {
    /// Reads the packet at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let Some((format, rest)) = bytes.split_first_chunk::<6>() else {
            return Err(Malformed::ArpTruncated);
        };
        if *format != FORMAT {
            return Err(Malformed::ArpFormat);
        }
        let Some(&[o0, o1, m0, m1, m2, m3, m4, m5, a, b, c, d, t0, t1, t2, t3, t4, t5, e, f, g, h]) =
            rest.first_chunk::<22>()
        else {
            return Err(Malformed::ArpTruncated);
        };
        Ok(Self {
            operation: u16::from_be_bytes([o0, o1]),
            sender_mac: [m0, m1, m2, m3, m4, m5],
            sender: Ipv4Addr::new(a, b, c, d),
            target_mac: [t0, t1, t2, t3, t4, t5],
            target: Ipv4Addr::new(e, f, g, h),
        })
    }

    /// Its 28 bytes.
    pub fn to_bytes(&self) -> [u8; 28] {
        let mut bytes = [0; 28];
        let (format, rest) = bytes.split_at_mut(FORMAT.len());
        format.copy_from_slice(&FORMAT);
        let fields = (self.operation.to_be_bytes().into_iter())
            .chain(self.sender_mac)
            .chain(self.sender.octets())
            .chain(self.target_mac)
            .chain(self.target.octets());
        for (place, byte) in rest.iter_mut().zip(fields) {
            *place = byte;
        }
        bytes
    }
}

/// Turns the ARP request in `frame` for an address of ours into its reply, in place, and returns
/// the reply's length; nothing, and the frame as it was, when there is nothing to answer.
///
/// VLAN tags stay. A request from a group address, or one whose sender claims the very address it
/// asks for (an announcement, RFC 5227 section 3), gets no answer.
pub fn answer(
    frame: &mut [u8],
    our_address: impl Fn(Ipv4Addr) -> bool,
    our_mac: [u8; 6],
) -> Option<usize> {
    let network = vlan::network(frame)?;
    if network.ether_type != ethernet::ARP {
        return None;
    }
    let at = usize::from(network.offset);
    let request = Packet::parse(frame.get(at..)?).ok()?;
    let is_probe = request.sender.is_unspecified();
    if request.operation != REQUEST
        || !(is_probe || ipv4::is_host(request.sender.octets()))
        || request.sender == request.target
        || ethernet::is_group(request.sender_mac)
        || request.sender_mac == [0; 6]
        || !our_address(request.target)
    {
        return None;
    }
    let reply = Packet {
        operation: REPLY,
        sender_mac: our_mac,
        sender: request.target,
        target_mac: request.sender_mac,
        target: request.sender,
    };
    let is_written = put(frame, at, reply.to_bytes())
        && put(frame, 0, request.sender_mac)
        && put(frame, 6, our_mac);
    is_written.then_some(at + usize::from(PACKET_BYTES))
}

#[cfg(test)]
mod tests;
