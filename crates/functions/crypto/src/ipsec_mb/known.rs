//! Known answers that the library is held to before anybody relies on it.
//!
//! They were computed by OpenSSL: one packet for each algorithm, with short and with long sequence
//! numbers. A library whose structures are not laid out as ours does not get this far unnoticed.

use calisto_nf::esp::{Algorithm, Cipher, Job, Secret};

use super::{ESP_BYTES, IpsecMb};
use crate::{CryptoError, Key};

/// What a packet must end with, and how its text must begin.
struct Known {
    algorithm: Algorithm,
    sequence_high: Option<u32>,
    text: [u8; 8],
    icv: &'static [u8],
}

const CBC_TEXT: [u8; 8] = [0xc1, 0x3a, 0x5d, 0xb4, 0xbd, 0xc2, 0xa0, 0x5e];
const GCM_TEXT: [u8; 8] = [0xfc, 0x41, 0x0e, 0x86, 0xef, 0x9d, 0xe6, 0xbc];

const KNOWN: [Known; 6] = [
    Known {
        algorithm: Algorithm::CbcSha1,
        sequence_high: None,
        text: CBC_TEXT,
        icv: b"\x22\x6c\x5c\x82\x3d\x5a\x9a\x7d\xb9\x2f\xdb\xfb",
    },
    Known {
        algorithm: Algorithm::CbcSha1,
        sequence_high: Some(9),
        text: CBC_TEXT,
        icv: b"\xcd\x60\x2c\x40\xfa\x9c\x23\x94\x34\x7c\x13\x6e",
    },
    Known {
        algorithm: Algorithm::CbcSha256,
        sequence_high: None,
        text: CBC_TEXT,
        icv: b"\xa4\x5c\x53\xbc\x75\xd0\xf9\x14\x83\xb5\x45\x58\xa7\x52\x5c\x9e",
    },
    Known {
        algorithm: Algorithm::CbcSha256,
        sequence_high: Some(9),
        text: CBC_TEXT,
        icv: b"\xb2\xf4\x8c\x19\xc0\xcc\x09\xb0\x4b\xa5\x21\xf1\x2b\xf8\x5d\x8a",
    },
    Known {
        algorithm: Algorithm::Gcm,
        sequence_high: None,
        text: GCM_TEXT,
        icv: b"\xed\x8f\x15\x0c\xb4\x15\xf8\x31\x7f\xce\xe9\xfc\x70\xf3\x79\xd1",
    },
    Known {
        algorithm: Algorithm::Gcm,
        sequence_high: Some(9),
        text: GCM_TEXT,
        icv: b"\xac\xac\xd2\x3e\x99\x4b\x8a\x29\x63\x23\x6e\xb0\x1b\xd0\x57\x95",
    },
];

/// A key, and for GCM the salt behind it.
const KEY: [u8; 20] =
    *b"\x06\xa9\x21\x40\x36\xb8\xa1\x5b\x51\x2e\x03\xd5\x34\x12\x00\x06\xc2\x86\x71\x1e";
const TEXT_BYTES: usize = 48;

/// Seals and opens every known packet, several at once, and one that was tampered with.
pub(super) fn check(cipher: &mut IpsecMb) -> Result<(), CryptoError> {
    for known in &KNOWN {
        let wrong = || CryptoError::SelfTest(known.algorithm.name());
        let algorithm = known.algorithm;
        let auth: [u8; 32] = std::array::from_fn(|at| (at * at * 11 + 5) as u8);
        let secret =
            Secret::new(algorithm, &KEY[..algorithm.key_bytes()], &auth[..algorithm.auth_bytes()])
                .map_err(|_| wrong())?;
        let key = cipher.expand(&secret);
        let plain = packet(algorithm);
        let mut packets = [const { Vec::new() }; 3];
        packets.fill_with(|| plain.clone());
        let sequence_high = known.sequence_high;
        cipher.seal(&mut jobs(&mut packets, &key, sequence_high));
        let text = ESP_BYTES + algorithm.iv_bytes();
        let is_known = |packet: &Vec<u8>| {
            packet.ends_with(known.icv) && packet[text..].starts_with(&known.text)
        };
        if !packets.iter().all(is_known) {
            return Err(wrong());
        }
        packets[1][text] ^= 1;
        let mut jobs = jobs(&mut packets, &key, sequence_high);
        cipher.open(&mut jobs);
        let are_good = jobs.map(|job| job.is_good);
        let opened = |packet: &Vec<u8>| packet[text..][..TEXT_BYTES] == plain[text..][..TEXT_BYTES];
        if are_good != [true, false, true] || !opened(&packets[0]) || !opened(&packets[2]) {
            return Err(wrong());
        }
    }
    Ok(())
}

fn jobs<'a>(
    packets: &'a mut [Vec<u8>; 3],
    key: &'a Key,
    sequence_high: Option<u32>,
) -> [Job<'a, Key>; 3] {
    packets.each_mut().map(|packet| Job { packet, key, sequence_high, is_good: false })
}

fn packet(algorithm: Algorithm) -> Vec<u8> {
    let mut packet = b"\x11\x22\x33\x44\x00\x00\x00\x05".to_vec();
    if algorithm != Algorithm::Gcm {
        packet.extend(b"\x11\x22\x33\x44\x00\x00\x00\x00");
    }
    packet.extend(b"\x01\x02\x03\x04\x05\x06\x07\x08");
    packet.extend((0..TEXT_BYTES).map(|at| (at * 7 + 3) as u8));
    packet.resize(packet.len() + algorithm.icv_bytes(), 0);
    packet
}
