//! What may be sent, and what is named spoofed.

use base::FrameMeta;
use proptest::prelude::*;
use shm::{FramePool, PoolConfig};
use wire::build::UdpPacket;

use super::*;
use crate::counters::DispatchEvent;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn rules(listen: &[&str], host: &[&str]) -> Egress {
    let listeners = listen.iter().map(|text| text.parse().expect("the test writes a listener"));
    let host = host.iter().map(|text| text.parse().expect("the test writes an address"));
    Egress::new(listeners.collect(), vec![MAC], host.collect())
}

/// A packet from `source`, changed by `change`, as the rules see it.
fn verdict(
    rules: &Egress,
    source: &str,
    change: impl FnOnce(&mut Vec<u8>, &mut FrameMeta),
) -> Result<(), DispatchEvent> {
    let source: std::net::SocketAddr = source.parse().expect("the test writes an address");
    let destination = if source.is_ipv4() { "10.0.0.1:999" } else { "[fd00::1]:999" };
    let packet = UdpPacket {
        source_mac: MAC,
        destination_mac: PEER,
        source,
        destination: destination.parse().expect("the test writes an address"),
        payload: b"hello",
        vlan: None,
    };
    let mut bytes = vec![0; packet.len()];
    packet.write(&mut bytes).expect("it is as long as it says");
    let mut pool = FramePool::new(PoolConfig { frames: 1, chunk_bytes: 2048, numa_node: None })
        .expect("one frame fits anywhere");
    let mut frame = pool.take().expect("one is free");
    let mut meta = FrameMeta::UNKNOWN;
    change(&mut bytes, &mut meta);
    assert!(frame.fill(&bytes));
    *frame.meta_mut() = meta;
    let verdict = rules.check(&mut frame);
    pool.give(frame);
    verdict
}

const SPOOFED: Result<(), DispatchEvent> = Err(DispatchEvent::Spoofed);

#[test]
fn only_registered_addresses_and_ports_may_be_named_as_the_sender() {
    let rules = rules(&["udp:10.0.0.2:53", "udp:[fd00::2]:0"], &[]);
    let from = |source| verdict(&rules, source, |_, _| ());
    assert_eq!(from("10.0.0.2:53"), Ok(()));
    assert_eq!(from("10.0.0.2:54"), SPOOFED);
    assert_eq!(from("10.0.0.3:53"), SPOOFED);
    assert_eq!(from("[fd00::2]:4242"), Ok(()));
    assert_eq!(from("[fd00::3]:4242"), SPOOFED);
    let tcp = self::rules(&["tcp:10.0.0.2:53"], &[]);
    assert_eq!(verdict(&tcp, "10.0.0.2:53", |_, _| ()), SPOOFED, "another protocol");
}

#[test]
fn who_listens_everywhere_may_be_every_address_of_the_host_and_no_other() {
    let rules = rules(&["udp:0.0.0.0:53"], &["10.0.0.2", "10.1.0.2", "fd00::2"]);
    let from = |source| verdict(&rules, source, |_, _| ());
    assert_eq!(from("10.0.0.2:53"), Ok(()));
    assert_eq!(from("10.1.0.2:53"), Ok(()));
    assert_eq!(from("10.1.0.3:53"), SPOOFED);
    assert_eq!(from("[fd00::2]:53"), SPOOFED, "it listens on IPv4 only");
    let nobody_knows = self::rules(&["udp:0.0.0.0:53"], &[]);
    assert_eq!(verdict(&nobody_knows, "192.0.2.1:53", |_, _| ()), SPOOFED);
}

#[test]
fn a_foreign_link_address_or_port_is_spoofed() {
    let rules = rules(&["udp:10.0.0.2:53"], &[]);
    assert_eq!(
        verdict(&rules, "10.0.0.2:53", |bytes, _| bytes[6..12].copy_from_slice(&PEER)),
        SPOOFED
    );
    assert_eq!(verdict(&rules, "10.0.0.2:53", |_, meta| meta.port.0 = 1), SPOOFED);
}

#[test]
fn a_tag_is_allowed_when_a_packet_with_it_was_delivered() {
    let mut rules = rules(&["udp:10.0.0.2:53"], &[]);
    let tag = |bytes: &mut Vec<u8>, tci: u16| {
        let [high, low] = tci.to_be_bytes();
        bytes.splice(12..12, [0x81, 0x00, high, low]);
    };
    let in_meta =
        |rules: &Egress, tci| verdict(rules, "10.0.0.2:53", |_, meta| meta.vlan_tci = tci);
    let inside = |rules: &Egress, tci| verdict(rules, "10.0.0.2:53", |bytes, _| tag(bytes, tci));
    assert_eq!([in_meta(&rules, 7), inside(&rules, 7)], [SPOOFED, SPOOFED]);
    let mut pool = FramePool::new(PoolConfig { frames: 1, chunk_bytes: 2048, numa_node: None })
        .expect("one frame fits anywhere");
    let mut delivered = pool.take().expect("one is free");
    delivered.meta_mut().vlan_tci = 0x2007;
    rules.saw_tag_of(&delivered);
    pool.give(delivered);
    assert_eq!([in_meta(&rules, 7), inside(&rules, 7)], [Ok(()), Ok(())]);
    assert_eq!([in_meta(&rules, 8), inside(&rules, 8)], [SPOOFED, SPOOFED]);
    let both = verdict(&rules, "10.0.0.2:53", |bytes, meta| {
        tag(bytes, 7);
        meta.vlan_tci = 7;
    });
    assert_eq!(both, SPOOFED, "two tags");
}

proptest! {
    #[test]
    fn no_bytes_pass_that_name_another_sender(
        noise in proptest::collection::vec((0..60_usize, any::<u8>()), 0..8),
    ) {
        let rules = rules(&["udp:10.0.0.2:53"], &[]);
        let mut sent = Vec::new();
        let verdict = verdict(&rules, "10.0.0.2:53", |bytes, _| {
            for (at, byte) in noise {
                if let Some(place) = bytes.get_mut(at) { *place = byte; }
            }
            sent.clone_from(bytes);
        });
        if verdict.is_ok() {
            prop_assert_eq!(&sent[6..12], &MAC);
            prop_assert_eq!(&sent[12..14], &[8, 0]);
            prop_assert_eq!(&sent[26..30], &[10, 0, 0, 2]);
            let header = usize::from(sent[14] & 0xf) * 4;
            prop_assert_eq!(&sent[14 + header..][..2], &[0, 53]);
        }
    }
}
