//! The XDP program: ours or not ours, and nothing else.
//!
//! An interface has one program and may have several owners, who share nothing else: each has
//! queues of its own. So the program first looks in a map whether somebody has put a program of its
//! own there for the packet's queue, and goes on with that ([`super::host`]). What follows is for
//! all other queues.
//!
//! It finds {family, protocol, destination address, destination port} of a packet and looks it up
//! in the map of what is ours, and with the source in that of connections that are ours; a hit goes
//! to the AF_XDP socket of the packet's queue, everything else to the kernel. So ssh keeps working
//! and ARP is answered. Which worker gets a packet is not decided here: the owner table lives in
//! user space.
//!
//! An ICMP error is about the packet that it quotes. If that came from what is ours, so is the
//! error: the kernel knows nothing of the connection.
//!
//! At a port that was the kernel's before, the kernel may still have connections. While it may, it
//! is asked for each packet, and those of a connection of its own stay with it.
//!
//! Where every address is ours, a packet of another host is none: that of a container behind the
//! same interface has a link address of its own.
//!
//! Passed to the kernel untouched: fragments, the first ones too (the later ones have no ports, and
//! whoever puts them together needs all), IPv6 extension headers, more than two VLAN tags, anything
//! cut short, and packets of a queue without a socket.

use super::asm::{Alu, Assembler, If, Instruction, Label, Register, Size};
use super::flows;
use super::if_xdp::XDP_PASS;
use super::ours::key;

mod beside_kernel;
pub(super) mod filter;
pub(super) mod hook;
mod other_hosts;
mod packet;

use packet::{CTX_DATA, CTX_DATA_END, ETHERNET_BYTES, KEY, MAP_LOOKUP_ELEM, look, need};

use Register::{R0, R1, R2, R3, R6, R7, R8, R9, R10};

/// What the program takes from the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Take {
    /// Packets whose destination is in [`super::Ours`], and ICMP errors about packets from there.
    #[default]
    Ours,
    /// Every packet, ARP and all: the kernel sees nothing any more. For wires and slices.
    Everything,
}

/// Helper functions of the kernel, by number (linux/bpf.h).
const TAIL_CALL: i32 = 12;
const REDIRECT_MAP: i32 = 51;

/// Offsets in struct xdp_md (linux/bpf.h).
const CTX_RX_QUEUE_INDEX: i16 = 16;

const TAG_BYTES: i32 = 4;
const IPV4_BYTES_MIN: i32 = 20;
const IPV4_LENGTH: i16 = 2;
const IPV4_PROTOCOL: i16 = 9;
const IPV4_SOURCE: i16 = 12;
const IPV4_DESTINATION: i16 = 16;
const IPV6_BYTES: i32 = 40;
const IPV6_LENGTH: i16 = 4;
const IPV6_NEXT: i16 = 6;
const IPV6_SOURCE: i16 = 8;
const IPV6_DESTINATION: i16 = 24;
/// A UDP header; of a TCP header as much as there must be to have ports, which is also what an
/// error quotes of it at least (RFC 792).
const L4_BYTES_MIN: i32 = 8;
/// What stands before the quote in an error of either kind of ICMP.
const ICMP_BYTES: i32 = 8;

const TCP: i32 = 6;
const UDP: i32 = 17;
const ICMP: i32 = 1;
const ICMPV6: i32 = 58;

/// A number of two bytes as a little- or big-endian machine loads it from a packet.
const fn wire(value: u16) -> i32 {
    u16::from_be(value) as i32
}

/// The maps of what is ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// Of [`super::Ours`].
    pub(super) ours_fd: i32,
    /// Of [`super::Flows`].
    pub(super) flows_fd: i32,
    /// Of the link addresses that are this host's.
    pub(super) stations_fd: i32,
}

/// The program over the maps of what is ours and the map of sockets by queue; `owners_fd` is the
/// map of others' programs by queue, when it has to look there first. Where packets may come that
/// are longer than the link takes, `mtu` says how much that is: nobody can tell the datagrams in
/// one but the kernel, which gets those.
pub(super) fn assemble(
    take: Take,
    taken: Taken,
    sockets_fd: i32,
    owners_fd: Option<i32>,
    mtu: Option<u32>,
) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    let pass = asm.label();
    let hit = asm.label();
    // R6: context. R7: where parsing is. R8: one past the packet. R9: transport protocol.
    asm.alu_register(Alu::Move, R6, R1);
    if let Some(fd) = owners_fd {
        asm.load_map(R2, fd);
        asm.load(Size::Word, R3, R6, CTX_RX_QUEUE_INDEX);
        // Returns only when the queue has no entry.
        asm.call(TAIL_CALL);
    }
    if take == Take::Ours {
        parse_and_look_up(&mut asm, taken, mtu, hit, pass);
    }
    asm.bind(hit);
    redirect(&mut asm, sockets_fd);
    asm.bind(pass);
    if take == Take::Ours {
        asm.alu(Alu::Move, R0, XDP_PASS);
        asm.exit();
    }
    asm.finish()
}

/// Ends: the packet goes to the socket of its queue. R6 is the context.
fn redirect(asm: &mut Assembler, sockets_fd: i32) {
    asm.load(Size::Word, R2, R6, CTX_RX_QUEUE_INDEX);
    asm.load_map(R1, sockets_fd);
    // The low bits of the flags are the answer when the queue has no socket.
    asm.alu(Alu::Move, R3, XDP_PASS);
    asm.call(REDIRECT_MAP);
    asm.exit();
}

fn parse_and_look_up(asm: &mut Assembler, taken: Taken, mtu: Option<u32>, hit: Label, pass: Label) {
    let Taken { ours_fd, flows_fd, stations_fd } = taken;
    let (ipv4, ipv6, transport) = (asm.label(), asm.label(), asm.label());
    let (destination_port, look_up) = (asm.label(), asm.label());
    let (exact, wildcard) = (asm.label(), asm.label());
    asm.load(Size::Word, R7, R6, CTX_DATA);
    asm.load(Size::Word, R8, R6, CTX_DATA_END);
    for part in [0, 8, 16, 24, 32] {
        asm.store_value(Size::Double, R10, KEY + part, 0);
    }

    // Ethernet and up to two tags (IEEE 802.1Q, 802.1ad): R2 becomes the type of what follows.
    need(asm, ETHERNET_BYTES, pass);
    asm.load(Size::Half, R2, R7, 12);
    asm.alu(Alu::Add, R7, ETHERNET_BYTES);
    for _ in 0..2 {
        let (tagged, untagged) = (asm.label(), asm.label());
        asm.jump_if(R2, If::Equal, wire(0x8100), tagged);
        asm.jump_if(R2, If::NotEqual, wire(0x88a8), untagged);
        asm.bind(tagged);
        need(asm, TAG_BYTES, pass);
        asm.load(Size::Half, R2, R7, 2);
        asm.alu(Alu::Add, R7, TAG_BYTES);
        asm.bind(untagged);
    }
    asm.jump_if(R2, If::Equal, wire(0x0800), ipv4);
    asm.jump_if(R2, If::Equal, wire(0x86dd), ipv6);
    asm.jump(pass);

    // RFC 791 3.1: more fragments to come, or an offset: one part of a larger packet.
    asm.bind(ipv4);
    need(asm, IPV4_BYTES_MIN, pass);
    asm.load(Size::Half, R3, R7, 6);
    asm.alu(Alu::And, R3, wire(0x3fff));
    asm.jump_if(R3, If::NotEqual, 0, pass);
    long_datagram(asm, mtu, [IPV4_LENGTH, IPV4_PROTOCOL], pass);
    ipv4_header(asm, [IPV4_DESTINATION, IPV4_SOURCE], pass);
    asm.store_value(Size::Byte, R10, KEY + key::FAMILY, 4);
    asm.jump(transport);

    asm.bind(ipv6);
    need(asm, IPV6_BYTES, pass);
    long_datagram(asm, mtu.map(|mtu| mtu.saturating_sub(40)), [IPV6_LENGTH, IPV6_NEXT], pass);
    ipv6_header(asm, [IPV6_DESTINATION, IPV6_SOURCE]);
    asm.store_value(Size::Byte, R10, KEY + key::FAMILY, 6);

    // TCP and UDP have their ports in the same place (RFC 9293 3.1, RFC 768).
    asm.bind(transport);
    asm.jump_if(R9, If::Equal, UDP, destination_port);
    asm.jump_if(R9, If::Equal, TCP, destination_port);
    quote(asm, look_up, pass);
    asm.bind(destination_port);
    need(asm, L4_BYTES_MIN, pass);
    asm.load(Size::Half, R3, R7, 0);
    // The packet is not needed any more: R7 keeps the port.
    asm.load(Size::Half, R7, R7, 2);

    asm.bind(look_up);
    asm.store(Size::Half, R10, KEY + key::PORT, R7);
    asm.store(Size::Byte, R10, KEY + key::PROTOCOL, R9);
    asm.store(Size::Half, R10, KEY + flows::key::REMOTE_PORT, R3);
    // Packets for listeners and UDP sockets of ours need one look, those of connections that were
    // opened here two, the kernel's five.
    look(asm, ours_fd, exact);
    look(asm, flows_fd, hit);
    asm.store_value(Size::Half, R10, KEY + key::PORT, 0);
    look(asm, ours_fd, hit);
    for part in [0, 8] {
        asm.store_value(Size::Double, R10, KEY + key::ADDRESS + part, 0);
    }
    asm.store_value(Size::Byte, R10, KEY + key::FAMILY, 0);
    look(asm, ours_fd, wildcard);
    asm.store(Size::Half, R10, KEY + key::PORT, R7);
    look(asm, ours_fd, wildcard);
    asm.jump(pass);

    asm.bind(exact);
    beside_kernel::leave_to_kernel(asm, hit, pass);

    asm.bind(wildcard);
    other_hosts::leave(asm, stations_fd, hit, pass);
}

/// Steps over the ICMP error at R7 into the packet that it quotes, and goes to `look_up` with the
/// source of that as the own end, in the key with its destination as the other end, its protocol in
/// R9, the own port in R7 and the other in R3; to `pass` if there is no such error.
fn quote(asm: &mut Assembler, look_up: Label, pass: Label) {
    let (icmp, icmpv6) = (asm.label(), asm.label());
    let (ipv4, source_port) = (asm.label(), asm.label());
    asm.load(Size::Byte, R2, R10, KEY + key::FAMILY);
    asm.jump_if(R2, If::Equal, 6, icmpv6);
    asm.jump_if(R9, If::Equal, ICMP, icmp);
    asm.jump(pass);

    // RFC 792: unreachable, time exceeded, parameter problem. The other errors (source quench,
    // redirect) are none that a connection heeds (RFC 6633, RFC 1122 3.2.2.2).
    asm.bind(icmp);
    need(asm, ICMP_BYTES + IPV4_BYTES_MIN, pass);
    asm.load(Size::Byte, R2, R7, 0);
    asm.jump_if(R2, If::Equal, 3, ipv4);
    asm.jump_if(R2, If::Equal, 11, ipv4);
    asm.jump_if(R2, If::NotEqual, 12, pass);
    asm.bind(ipv4);
    asm.alu(Alu::Add, R7, ICMP_BYTES);
    // Of the quoted packet, the first part has the ports.
    asm.load(Size::Half, R3, R7, 6);
    asm.alu(Alu::And, R3, wire(0x1fff));
    asm.jump_if(R3, If::NotEqual, 0, pass);
    ipv4_header(asm, [IPV4_SOURCE, IPV4_DESTINATION], pass);
    asm.jump(source_port);

    // RFC 4443 2.1 and 3: unreachable, too big, time exceeded, parameter problem are types 1 to 4.
    asm.bind(icmpv6);
    asm.jump_if(R9, If::NotEqual, ICMPV6, pass);
    need(asm, ICMP_BYTES + IPV6_BYTES, pass);
    asm.load(Size::Byte, R2, R7, 0);
    asm.jump_if(R2, If::Equal, 0, pass);
    asm.jump_if(R2, If::Greater, 4, pass);
    asm.alu(Alu::Add, R7, ICMP_BYTES);
    asm.load(Size::Byte, R2, R7, 0);
    asm.alu(Alu::ShiftRight, R2, 4);
    asm.jump_if(R2, If::NotEqual, 6, pass);
    ipv6_header(asm, [IPV6_SOURCE, IPV6_DESTINATION]);

    // Of a protocol without ports there, nothing is in the map.
    asm.bind(source_port);
    need(asm, L4_BYTES_MIN, pass);
    asm.load(Size::Half, R3, R7, 2);
    asm.load(Size::Half, R7, R7, 0);
    asm.jump(look_up);
}

/// Where the two addresses are in the key.
const ADDRESSES: [i16; 2] = [key::ADDRESS, flows::key::REMOTE_ADDRESS];

/// Reads the IPv4 header at R7, of which [`IPV4_BYTES_MIN`] are there (RFC 791 3.1): puts the
/// addresses at `ends`, the own one first, into the key and the protocol into R9, and R7 behind the
/// header. Uses R2 and R3.
fn ipv4_header(asm: &mut Assembler, ends: [i16; 2], pass: Label) {
    asm.load(Size::Byte, R2, R7, 0);
    asm.alu_register(Alu::Move, R3, R2);
    asm.alu(Alu::ShiftRight, R3, 4);
    asm.jump_if(R3, If::NotEqual, 4, pass);
    asm.alu(Alu::And, R2, 15);
    asm.alu(Alu::ShiftLeft, R2, 2);
    asm.jump_if(R2, If::Less, IPV4_BYTES_MIN, pass);
    asm.load(Size::Byte, R9, R7, IPV4_PROTOCOL);
    for (from, to) in ends.into_iter().zip(ADDRESSES) {
        asm.load(Size::Word, R3, R7, from);
        asm.store(Size::Word, R10, KEY + to, R3);
    }
    asm.alu_register(Alu::Add, R7, R2);
}

/// The same for the IPv6 header at R7 (RFC 8200 3). Uses R3.
fn ipv6_header(asm: &mut Assembler, ends: [i16; 2]) {
    asm.load(Size::Byte, R9, R7, IPV6_NEXT);
    for (from, to) in ends.into_iter().zip(ADDRESSES) {
        for part in [0, 4, 8, 12] {
            asm.load(Size::Word, R3, R7, from + part);
            asm.store(Size::Word, R10, KEY + to + part, R3);
        }
    }
    asm.alu(Alu::Add, R7, IPV6_BYTES);
}

/// Goes to `pass` if the header at R7, which has the length and the protocol at these places, says
/// that more than `max` bytes come and that they are not TCP's. Uses R2.
fn long_datagram(asm: &mut Assembler, max: Option<u32>, [length, protocol]: [i16; 2], pass: Label) {
    let Some(max) = max.and_then(|max| i32::try_from(max).ok()) else { return };
    let goes_on = asm.label();
    asm.load(Size::Byte, R2, R7, protocol);
    asm.jump_if(R2, If::Equal, TCP, goes_on);
    asm.load(Size::Half, R2, R7, length);
    asm.turn_big_endian(R2, 16);
    asm.jump_if(R2, If::Greater, max, pass);
    asm.bind(goes_on);
}

#[cfg(test)]
mod tests;
