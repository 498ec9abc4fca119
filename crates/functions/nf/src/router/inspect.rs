//! Whether a packet may be forwarded at all, and where it is bound for: the checks of RFC 1812 and
//! RFC 8200 before any route is looked up.

use std::net::{IpAddr, Ipv4Addr};

use super::destination::Destination;
use super::header::LINK;
use super::options;
use super::stop::Stop;
use crate::fib::Fib;
use crate::headers::fixed4;
use shm::Frame;
use wire::checksum::Sum;
use wire::{Malformed, NotOurs, Reject, ethernet, ipv4, ipv6};

/// Checks everything that can be checked without a route.
#[inline]
pub(super) fn inspect(fib: &Fib, frame: &Frame) -> Result<Destination, Stop> {
    let bytes = frame.bytes();
    let link = ethernet::Header::parse(bytes)?;
    let interface = fib.interface(frame.meta().port).ok_or(Stop::NoInterface)?;
    if link.destination != interface.mac {
        let is_group = ethernet::is_group(link.destination);
        // RFC 1812 section 5.3.4: what came to many is not forwarded to one.
        return Err(if is_group { Stop::LinkGroup } else { Stop::NotToUs });
    }
    if frame.meta().vlan_tci != 0 {
        return Err(Stop::Tagged);
    }
    let packet = bytes.get(LINK..).unwrap_or_default();
    match link.ether_type {
        ethernet::IPV4 => inspect4(fib, packet),
        ethernet::IPV6 => inspect6(fib, packet),
        wire::vlan::CUSTOMER | wire::vlan::SERVICE => Err(Stop::Tagged),
        _ => Err(Stop::NotIp),
    }
}

/// The same of a packet that has just come, and was made by no function: nobody outside sends from
/// an address that functions send from.
#[inline]
pub(super) fn inspect_outside(fib: &Fib, frame: &Frame) -> Result<(), Stop> {
    let packet = frame.bytes().get(LINK..).unwrap_or_default();
    let destination = match inspect(fib, frame) {
        // A router that has no other address says from it what its link takes (RFC 4443 section
        // 2.2): what is for functions is not forwarded.
        Err(Stop::LinkLocalSource) if is_for_functions(fib, packet) => return Ok(()),
        inspected => inspected?,
    };
    let is_forged = match destination {
        Destination::Four(_) => {
            let source = address_at::<4>(packet, 12).map(Ipv4Addr::from);
            let protocol = packet.get(9).copied().unwrap_or_default();
            source.is_some_and(|source| {
                fib.is_made(source.into()) && !fib.is_answer(source, protocol)
            })
        }
        Destination::Six(_) => {
            let source = address_at::<16>(packet, 8).map(IpAddr::from);
            source.is_some_and(|source| fib.is_made(source))
        }
    };
    if is_forged { Err(Stop::OwnSource) } else { Ok(()) }
}

fn is_for_functions(fib: &Fib, packet: &[u8]) -> bool {
    let destination = address_at::<16>(packet, 24);
    destination.is_some_and(|destination| fib.is_made(IpAddr::from(destination)))
}

fn address_at<const N: usize>(packet: &[u8], at: usize) -> Option<[u8; N]> {
    packet.get(at..)?.first_chunk().copied()
}

#[inline]
fn inspect4(fib: &Fib, packet: &[u8]) -> Result<Destination, Stop> {
    let header = header4(packet)?;
    header.check_addresses()?;
    let head = packet.get(..usize::from(header.header_bytes)).unwrap_or_default();
    // RFC 1812 section 5.2.2: dropped without a word.
    if Sum::ZERO.bytes(head).fold() != 0xffff {
        return Err(Stop::BadChecksum);
    }
    if fib.is_own4(u32::from_be_bytes(header.source)) {
        return Err(Stop::OwnSource);
    }
    if header.header_bytes > ipv4::MIN_HEADER_BYTES {
        options::judge(head)?;
    }
    Ok(Destination::Four(u32::from_be_bytes(header.destination)))
}

/// The header. Its options are judged apart, once it is known whom to tell.
#[inline]
fn header4(packet: &[u8]) -> Result<ipv4::Header, Reject> {
    match ipv4::Header::parse(packet) {
        Err(
            reject @ (Reject::Malformed(Malformed::Ipv4Option)
            | Reject::NotOurs(NotOurs::SourceRoute)),
        ) => fixed4(packet).ok_or(reject),
        read => read,
    }
}

#[inline]
fn inspect6(fib: &Fib, packet: &[u8]) -> Result<Destination, Stop> {
    let header = ipv6::Header::parse(packet)?;
    header.check_addresses()?;
    if header.payload_bytes == 0 && header.next_header == 0 {
        return Err(Stop::Jumbogram);
    }
    // RFC 4291 section 2.5.6: never forwarded to another link.
    if is_link_local(header.destination) {
        return Err(Stop::LinkLocal);
    }
    if fib.is_own6(u128::from_be_bytes(header.source)) {
        return Err(Stop::OwnSource);
    }
    if is_link_local(header.source) {
        return Err(Stop::LinkLocalSource);
    }
    Ok(Destination::Six(u128::from_be_bytes(header.destination)))
}

const fn is_link_local([first, second, ..]: [u8; 16]) -> bool {
    first == 0xfe && second & 0xc0 == 0x80
}
