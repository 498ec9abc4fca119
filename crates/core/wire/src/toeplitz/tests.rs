//! What `wire::toeplitz` promises, case by case.

use super::*;
use crate::Protocol;
use crate::samples::any_flow;
use proptest::prelude::*;
use std::net::SocketAddr;

/// Destination, source, hash of the addresses, hash of addresses and ports; from "Verifying the
/// RSS Hash Calculation" of the Windows driver documentation.
const VECTORS: [(&str, &str, u32, u32); 8] = [
    ("161.142.100.80:1766", "66.9.149.187:2794", 0x323e_8fc2, 0x51cc_c178),
    ("65.69.140.83:4739", "199.92.111.2:14230", 0xd718_262a, 0xc626_b0ea),
    ("12.22.207.184:38024", "24.19.198.95:12898", 0xd2d0_a5de, 0x5c2b_394a),
    ("209.142.163.6:2217", "38.27.205.30:48228", 0x8298_9176, 0xafc7_327f),
    ("202.188.127.2:1303", "153.39.163.191:44251", 0x5d18_09c5, 0x10e8_28a2),
    ("[3ffe:2501:200:3::1]:1766", "[3ffe:2501:200:1fff::7]:2794", 0x2cc1_8cd5, 0x4020_7d3d),
    ("[ff02::1]:4739", "[3ffe:501:8::260:97ff:fe40:efab]:14230", 0x0f0c_461c, 0xdde5_1bbf),
    (
        "[fe80::200:f8ff:fe21:67cf]:38024",
        "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
        0x4b61_e985,
        0x02d1_feef,
    ),
];

#[test]
fn published_vectors_hash_to_their_published_values() {
    let toeplitz = Toeplitz::new(Toeplitz::MICROSOFT_KEY);
    for (destination, source, of_addresses, of_all) in VECTORS {
        let end = |text: &str| text.parse::<SocketAddr>().expect("an address with a port");
        let (source, destination) = (end(source), end(destination));
        let flow = FlowKey::new(Protocol::Tcp, source, destination).expect("one IP version");
        assert_eq!(toeplitz.hash(&flow), FlowHash(of_all), "{flow}");
        let found = toeplitz.hash_addresses(source.ip(), destination.ip());
        assert_eq!(found, Some(FlowHash(of_addresses)), "{flow}");
    }
}

#[test]
fn addresses_of_different_versions_have_no_hash() {
    let toeplitz = Toeplitz::new(Toeplitz::MICROSOFT_KEY);
    let (four, six) = (IpAddr::from([1, 2, 3, 4]), IpAddr::from([1; 16]));
    assert_eq!(toeplitz.hash_addresses(four, six), None);
    assert_eq!(toeplitz.hash_addresses(six, four), None);
}

#[test]
fn key_of_a_seed_is_stable_and_seeds_give_different_keys() {
    // First output of SplitMix64 from state zero, as in its reference implementation.
    assert_eq!(Toeplitz::key_from_seed(0)[..8], 0xe220_a839_7b1d_cdaf_u64.to_be_bytes());
    assert_ne!(Toeplitz::key_from_seed(1), Toeplitz::key_from_seed(2));
}

/// One bit after the other, with the key as one long number: the definition.
fn bit_by_bit(key: &[u8; 40], input: &[u8]) -> u32 {
    let key_bit = |bit: usize| u32::from(key[bit / 8] >> (7 - bit % 8) & 1);
    let mut sum = 0;
    for bit in (0..input.len() * 8).filter(|bit| input[bit / 8] >> (7 - bit % 8) & 1 == 1) {
        sum ^= (bit..bit + 32).fold(0, |window, bit| window << 1 | key_bit(bit));
    }
    sum
}

fn bytes(flow: &FlowKey) -> Vec<u8> {
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let (source, destination) = (flow.source(), flow.destination());
    let ports = [source.port().to_be_bytes(), destination.port().to_be_bytes()].concat();
    [octets(source.ip()), octets(destination.ip()), ports].concat()
}

proptest! {
    #[test]
    fn tables_agree_with_the_definition(seed: u64, flow in any_flow()) {
        let key = Toeplitz::key_from_seed(seed);
        prop_assert_eq!(Toeplitz::new(key).hash(&flow).0, bit_by_bit(&key, &bytes(&flow)));
    }

    #[test]
    fn symmetric_key_gives_both_directions_one_hash(seed: u16, flow in any_flow()) {
        let toeplitz = Toeplitz::new(Toeplitz::symmetric(seed));
        prop_assert_eq!(toeplitz.hash(&flow), toeplitz.hash(&flow.reversed()));
    }
}

#[test]
fn symmetric_key_of_the_paper_still_tells_flows_apart() {
    let toeplitz = Toeplitz::new(Toeplitz::symmetric(0x6d5a));
    let hash = |text: &str| toeplitz.hash(&text.parse().expect("a flow"));
    assert_ne!(hash("udp 10.0.0.1:5000 -> 10.0.0.2:7"), hash("udp 10.0.0.1:5001 -> 10.0.0.2:7"));
}
