//! The library against published vectors, and against itself.

use calisto_nf::esp::Algorithm;

use super::*;
use crate::key::Hmac;
use crate::layout::{self, GCM_KEY_BYTES, GcmContext, GcmKeys};

fn opened() -> IpsecMb {
    IpsecMb::open().expect("apt-get install libipsec-mb1")
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits: Vec<u8> = hexadecimal.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(|pair| byte(pair).expect("two digits")).collect()
}

/// RFC 3602 section 4, cases 1 to 4: key, IV, text, what it is encrypted to.
const RFC_3602: [[&str; 4]; 4] = [
    [
        "06a9214036b8a15b512e03d534120006",
        "3dafba429d9eb430b422da802c9fac41",
        "53696e676c6520626c6f636b206d7367",
        "e353779c1079aeb82708942dbe77181a",
    ],
    [
        "c286696d887c9aa0611bbb3e2025a45a",
        "562e17996d093d28ddb3ba695a2e6f58",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "d296cd94c2cccf8a3a863028b5e1dc0a7586602d253cfff91b8266bea6d61ab1",
    ],
    [
        "6c3ea0477630ce21a2ce334aa746c2cd",
        "c782dc4c098c66cbd9cd27d825682c81",
        "546869732069732061203438 2d62797465206d657373616765202865786163746c79203320414553 20626c6f636b7329",
        "d0a02b3836451753d493665d33f0e8862dea54cdb293abc7506939276772f8d5021c19216bad525c8579695d83ba2684",
    ],
    [
        "56e47a38c5598974bc46903dba290349",
        "8ce82eefbea0da3c44699ed7db51b7d9",
        "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf",
        "c30e32ffedc0774e6aff6af0869f71aa0f3af07a9a31a9c684db207eb0ef8e4e35907aa632c3ffdf868bb7b29d3d46ad83ce9f9a102ee99d49a53e87f4c3da55",
    ],
];

const AUTH: &[u8; 20] =
    b"\x90\xd3\x82\xb4\x10\xee\xba\x7a\xd9\x38\xc4\x6c\xec\x1a\x82\xbf\x01\x02\x03\x07";

#[test]
fn cbc_is_that_of_rfc_3602_both_ways() {
    let mut cipher = opened();
    for case in RFC_3602 {
        let [key, iv, text, encrypted] = case.map(bytes);
        let secret = Secret::new(Algorithm::CbcSha1, &key, AUTH).expect("a good key");
        let key = cipher.expand(&secret);
        let mut run = |iv: &[u8], text: &[u8], is_sealing| {
            let mut packet = [&[0, 0, 1, 0, 0, 0, 0, 1], iv, text, &[0; 12]].concat();
            let job = Job { packet: &mut packet, key: &key, sequence_high: None, is_good: false };
            if is_sealing {
                cipher.seal(&mut [job])
            } else {
                cipher.open(&mut [job])
            }
            packet[8..packet.len() - 12].to_vec()
        };
        assert_eq!(run(&iv, &encrypted, false)[16..], text);
        // The block that this IV is the encryption of: decrypted as a text behind an IV of zero.
        let before = run(&[0; 16], &iv, false).split_off(16);
        assert_eq!(run(&before, &text, true), [iv, encrypted].concat());
    }
}

/// The whole HMAC of `data`, by the library's own job without a cipher.
fn hmac(cipher: &mut IpsecMb, algorithm: Algorithm, key: &[u8], data: &[u8]) -> Vec<u8> {
    let hmac = Hmac::new(&cipher.instance, algorithm, key);
    let mut tag = vec![0; if algorithm == Algorithm::CbcSha1 { 20 } else { 32 }];
    let manager = cipher.instance.manager();
    // SAFETY: the queue is empty, and all that the job points to lives until it is flushed.
    unsafe {
        let job = &mut *(cipher.instance.get_next_job)(manager);
        (job.src, job.hash_start, job.hash_len) = (data.as_ptr(), 0, data.len() as u64);
        (job.tag, job.tag_len) = (tag.as_mut_ptr(), tag.len() as u64);
        (job.ipad, job.opad) = (hmac.inner.0.as_ptr(), hmac.outer.0.as_ptr());
        const CIPHER_NULL: u32 = 3;
        (job.cipher_mode, job.hash_alg) = (CIPHER_NULL, hmac.algorithm);
        (job.direction, job.chain_order) = (layout::ENCRYPT, layout::HASH_CIPHER);
        let mut done = (cipher.instance.submit_job)(manager);
        if done.is_null() {
            done = (cipher.instance.flush_job)(manager);
        }
        assert_eq!((*done).status, layout::COMPLETED);
    }
    tag
}

#[test]
fn hmac_is_that_of_rfc_2202_and_rfc_4231() {
    let mut cipher = opened();
    let counted: Vec<u8> = (1..=25).collect();
    for (key, data, sha1, sha256) in [
        (
            [0x0b; 20].as_slice(),
            b"Hi There".as_slice(),
            "b617318655057264e28bc0b6fb378c8ef146be00",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        ),
        (
            b"Jefe",
            b"what do ya want for nothing?",
            "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            &[0xaa; 20],
            &[0xdd; 50],
            "125d7342b9ac11cd91a39af48aa17b4f63f175d3",
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
        ),
        (
            &counted,
            &[0xcd; 50],
            "4c9007f4026250c6bc8414f9bf50c86c2d7235da",
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
        ),
    ] {
        assert_eq!(hmac(&mut cipher, Algorithm::CbcSha1, key, data), bytes(sha1));
        assert_eq!(hmac(&mut cipher, Algorithm::CbcSha256, key, data), bytes(sha256));
    }
}

#[test]
fn gcm_is_that_of_its_specification() {
    // McGrew and Viega, test case 4: 60 bytes of text, 20 of AAD.
    let cipher = opened();
    let key = bytes("feffe9928665731c6d6a8f9467308308");
    let nonce = bytes("cafebabefacedbaddecaf888");
    let aad = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
    let mut text = bytes(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72 \
         1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
    );
    let plain = text.clone();
    let mut keys = GcmKeys([0; GCM_KEY_BYTES]);
    let mut context = GcmContext([0; 128]);
    let mut run = |function: layout::Gcm, text: &mut [u8]| {
        let mut tag = [0; 16];
        let place = text.as_mut_ptr();
        // SAFETY: lengths are those of what is pointed to.
        unsafe {
            (cipher.instance.expand_gcm)(key.as_ptr(), &mut keys);
            function(
                &keys,
                &mut context,
                place,
                place,
                text.len() as u64,
                nonce.as_ptr(),
                aad.as_ptr(),
                aad.len() as u64,
                tag.as_mut_ptr(),
                16,
            );
        }
        tag
    };
    let tag = bytes("5bc94fbc3221a5db94fae95ae7121a47");
    assert_eq!(run(cipher.instance.gcm_seal, &mut text).to_vec(), tag);
    let encrypted = bytes(
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e \
         21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
    );
    assert_eq!(text, encrypted);
    assert_eq!(run(cipher.instance.gcm_open, &mut text).to_vec(), tag);
    assert_eq!(text, plain);
}

#[test]
fn batch_of_many_lengths_and_keys_comes_back_as_it_was() {
    let mut cipher = opened();
    let keys: Vec<(Algorithm, Key)> = (0..9)
        .map(|number| {
            let algorithm = Algorithm::ALL[number % 3];
            let drawn = |len: usize, salt: usize| -> Vec<u8> {
                (0..len).map(|at| (at * at * 13 + number * 31 + salt) as u8).collect()
            };
            let key = drawn(algorithm.key_bytes(), 1);
            let secret = Secret::new(algorithm, &key, &drawn(algorithm.auth_bytes(), 7));
            (algorithm, cipher.expand(&secret.expect("bytes enough of all kinds")))
        })
        .collect();
    let plain: Vec<Vec<u8>> = (0..200)
        .map(|number| {
            let algorithm = keys[number % 9].0;
            let blocks = 1 + number * 7 % 90;
            let text = blocks * algorithm.block_bytes();
            (0..8 + algorithm.iv_bytes() + text + algorithm.icv_bytes())
                .map(|at| (at * 3 + number) as u8)
                .collect()
        })
        .collect();
    let mut packets = plain.clone();
    let both = |packets: &mut [Vec<u8>], run: &mut dyn FnMut(&mut [Job<'_, Key>])| {
        let mut jobs: Vec<_> = packets
            .iter_mut()
            .enumerate()
            .map(|(number, packet)| Job {
                packet: packet.as_mut_slice(),
                key: &keys[number % 9].1,
                sequence_high: (number % 2 == 0).then_some(number as u32),
                is_good: false,
            })
            .collect();
        run(&mut jobs);
        jobs.iter().map(|job| job.is_good).collect::<Vec<bool>>()
    };
    let sealed = both(&mut packets, &mut |jobs| cipher.seal(jobs));
    assert!(sealed.iter().all(|is_good| *is_good));
    for (number, (packet, plain)) in packets.iter_mut().zip(&plain).enumerate() {
        let text = 8 + keys[number % 9].0.iv_bytes();
        assert_ne!(packet[text..], plain[text..]);
        if number % 5 == 0 {
            let at = number * 37 % packet.len();
            packet[at] ^= 1 << (number % 8);
        }
    }
    let opened = both(&mut packets, &mut |jobs| cipher.open(jobs));
    for (number, (packet, plain)) in packets.iter().zip(&plain).enumerate() {
        assert_eq!(opened[number], number % 5 != 0, "packet {number}");
        let algorithm = keys[number % 9].0;
        let text = 8 + algorithm.iv_bytes()..plain.len() - algorithm.icv_bytes();
        if opened[number] {
            assert_eq!(packet[text.clone()], plain[text], "packet {number}");
        }
    }
}

#[test]
fn other_half_of_a_long_number_is_found_out() {
    let mut cipher = opened();
    for algorithm in Algorithm::ALL {
        let key: Vec<u8> = (0..algorithm.key_bytes()).map(|at| (at * at * 5 + 3) as u8).collect();
        let auth: Vec<u8> = (0..algorithm.auth_bytes()).map(|at| (at * at * 3 + 1) as u8).collect();
        let secret = Secret::new(algorithm, &key, &auth).expect("good keys");
        let key = cipher.expand(&secret);
        let mut packet = vec![1; 8 + algorithm.iv_bytes() + 32 + algorithm.icv_bytes()];
        let mut high = |packet: &mut Vec<u8>, sequence_high, is_sealing| {
            let mut jobs = [Job { packet, key: &key, sequence_high, is_good: false }];
            if is_sealing {
                cipher.seal(&mut jobs)
            } else {
                cipher.open(&mut jobs)
            }
            jobs[0].is_good
        };
        assert!(high(&mut packet, Some(7), true));
        assert!(!high(&mut packet.clone(), Some(8), false), "{algorithm}");
        assert!(!high(&mut packet.clone(), None, false), "{algorithm}");
        assert!(high(&mut packet, Some(7), false), "{algorithm}");
    }
}

#[test]
fn job_that_is_no_packet_is_not_good_and_harms_nothing() {
    let mut cipher = opened();
    let secret = Secret::new(Algorithm::CbcSha1, &bytes(RFC_3602[0][0]), AUTH).expect("good");
    let cbc = cipher.expand(&secret);
    let salted = bytes("c286696d887c9aa0611bbb3e2025a45a00000000");
    let gcm = cipher.expand(&Secret::new(Algorithm::Gcm, &salted, &[]).expect("good"));
    for len in 0..60 {
        let mut packet = vec![0; len];
        for key in [&cbc, &gcm] {
            for is_sealing in [false, true] {
                let mut jobs = [Job {
                    packet: packet.as_mut_slice(),
                    key,
                    sequence_high: None,
                    is_good: true,
                }];
                if is_sealing {
                    cipher.seal(&mut jobs)
                } else {
                    cipher.open(&mut jobs)
                }
                let may_be = is_sealing && len >= 32;
                assert!(!jobs[0].is_good || may_be, "{len} bytes");
            }
        }
    }
}
