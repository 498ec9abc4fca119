//! Frames into both ends of an ESP tunnel, and texts into the reader of its keys.
//!
//! Encryption would hide everything behind it from a fuzzer, so that it is left out here: what is
//! random stands where the decrypted text would, and one bit of it says whether it verified.
#![no_main]

use std::cell::RefCell;
use std::sync::Arc;

use base::Nanos;
use calisto_nf::esp::{Cipher, Esp, Gateway, Job, Others, Secret, keys};
use calisto_nf::{Function, Verdict, Verdicts};
use libfuzzer_sys::fuzz_target;
use shm::{Batch, FramePool, PoolConfig};

/// Lets every text through as it is; who opens one believes those whose last byte is even.
struct Clear;

impl Cipher for Clear {
    type Key = ();

    fn expand(&mut self, _: &Secret) {}

    fn seal(&mut self, jobs: &mut [Job<'_, ()>]) {
        for job in jobs {
            if let Some(last) = job.packet.last_mut() {
                *last = 0;
            }
            job.is_good = true;
        }
    }

    fn open(&mut self, jobs: &mut [Job<'_, ()>]) {
        for job in jobs {
            job.is_good = job.packet.last().is_some_and(|last| last % 2 == 0);
        }
    }
}

/// Two tunnels between the same gateways: one over IPv4, one over IPv6 with long numbers.
const NEAR: &str = r#"
[[tunnel]]
name = "four"
local = "192.0.2.1"
remote = "192.0.2.2"
local_networks = ["10.1.0.0/16", "fd01::/16"]
remote_networks = ["10.2.0.0/16", "fd02::/16"]
out_spi = 0x1001
out_key = "06a9214036b8a15b512e03d534120006c286711e"
in_spi = 0x1002
in_key = "90d382b410eeba7ad938c46cec1a82bf8c12409a"
[[tunnel]]
name = "six"
local = "2001:db8::1"
remote = "2001:db8::2"
local_networks = ["10.3.0.0/16"]
remote_networks = ["10.4.0.0/16"]
algorithm = "aes-128-cbc-hmac-sha1"
extended = true
replay_window = 64
out_spi = 0x2001
out_key = "56e47a38c5598974bc46903dba290349"
out_auth = "c286696d887c9aa0611bbb3e2025a45a6c3ea047"
in_spi = 0x2002
in_key = "6c3ea0477630ce21a2ce334aa746c2cd"
in_auth = "562e17996d093d28ddb3ba695a2e6f587630ce21"
"#;

/// The other end: what is out there is in here.
fn far() -> String {
    let turned = NEAR.replace("local", "\0").replace("remote", "local").replace('\0', "remote");
    turned.replace("out_", "\0").replace("in_", "out_").replace('\0', "in_")
}

fn gateway(text: &str) -> Gateway {
    let tunnels = keys::parse(text).expect("the file of this target is right");
    Gateway::new(tunnels, Nanos::from_secs(1)).expect("the file of this target is right")
}

thread_local! {
    static POOL: RefCell<FramePool> = RefCell::new(
        FramePool::new(PoolConfig { frames: 64, chunk_bytes: 2048, numa_node: None })
            .expect("a small pool"),
    );
}

fuzz_target!(|input: (bool, Vec<(u8, Vec<u8>)>, &str)| {
    let (passes, packets, text) = input;
    if let Ok(tunnels) = keys::parse(text) {
        let _ = Gateway::new(tunnels, Nanos::ZERO);
    }
    let others = if passes { Others::Pass } else { Others::Drop };
    let gateways = [Arc::new(gateway(NEAR)), Arc::new(gateway(&far()))];
    let mut ends = gateways.clone().map(|gateway| Esp::new(gateway, others, Clear));
    POOL.with_borrow_mut(|pool| {
        let mut batch = Batch::new();
        for (kind, bytes) in packets.iter().take(base::BURST) {
            let mut frame = pool.take().expect("all are given back");
            if frame.fill(&framed(*kind, bytes)) {
                batch.push(frame);
            } else {
                pool.give(frame);
            }
        }
        // What the one end seals, the other one opens; and what it was given besides comes to it
        // too.
        let [near, far] = &mut ends;
        let sealed = run(near, &mut batch);
        let opened = run(far, &mut batch);
        assert_eq!(near.counts().cipher_failed, 0);
        assert!(sealed <= batch.len() && opened <= batch.len());
        let theirs = far.counts();
        let taken = theirs.opened + theirs.replayed + theirs.too_old;
        assert!(near.counts().sealed <= taken, "what was sealed could not be opened");
        for frame in batch {
            pool.give(frame);
        }
    });
});

/// How many packets go on.
fn run(end: &mut Esp<Clear>, batch: &mut Batch) -> usize {
    let mut verdicts = Verdicts::new();
    end.process(batch, &mut verdicts, Nanos::from_secs(1));
    verdicts.of(batch.len()).iter().filter(|verdict| **verdict != Verdict::Drop).count()
}

/// What is random, behind headers of some kind.
fn framed(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    match kind % 6 {
        0 => return bytes.to_vec(),
        // From the one network to the other, or ESP between the gateways.
        1 => ipv4(&mut frame, length, kind, 17, [10, 1, 0, 1], [10, 2, 0, 1]),
        2 => ipv4(&mut frame, length, kind, 6, [10, 3, 0, 1], [10, 4, 0, 1]),
        3 => ipv4(&mut frame, length, kind, 50, [192, 0, 2, 2], [192, 0, 2, 1]),
        4 => ipv6(&mut frame, length, 50, [0x20, 0x01, 0x0d, 0xb8]),
        _ => ipv6(&mut frame, length, kind / 6, [0x20, 0x01, 0x0d, 0xb8]),
    }
    frame.extend(bytes);
    // SPIs are hard to guess.
    let at = if matches!(kind % 6, 3) { 34 } else { 54 };
    if matches!(kind % 6, 3 | 4)
        && let Some(spi) = frame.get_mut(at..at + 4)
    {
        spi.copy_from_slice(if at == 34 { &[0, 0, 0x10, 2] } else { &[0, 0, 0x20, 2] });
    }
    frame
}

fn ipv4(frame: &mut Vec<u8>, length: u16, kind: u8, protocol: u8, from: [u8; 4], to: [u8; 4]) {
    frame.extend([8, 0]);
    let [l0, l1] = length.saturating_add(20).to_be_bytes();
    let ttl = kind / 6;
    let mut header = [0x45, kind, l0, l1, 0, 0, 0, 0, ttl, protocol, 0, 0].to_vec();
    header.extend(from);
    header.extend(to);
    let sum = wire::checksum::of(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(header);
}

fn ipv6(frame: &mut Vec<u8>, length: u16, next: u8, net: [u8; 4]) {
    frame.extend([0x86, 0xdd]);
    let [l0, l1] = length.to_be_bytes();
    frame.extend([0x60, 0, 0, 0, l0, l1, next, 9]);
    for last in [2, 1] {
        frame.extend(net);
        frame.extend([0; 11]);
        frame.push(last);
    }
}
