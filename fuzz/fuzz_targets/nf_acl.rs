//! A batch of packets against rules and limits: nothing is changed, and what the rules say of a
//! packet is what its own headers say, read once more by another parser.
#![no_main]

use std::sync::{LazyLock, Mutex};

use base::Nanos;
use calisto_nf::acl::{Action, Rule};
use calisto_nf::policer::{Class, PerSource};
use calisto_nf::{Acl, Function, Policer, PortRange, Selector, Verdict, Verdicts};
use fuzz::packets;
use libfuzzer_sys::fuzz_target;
use shm::{Batch, FramePool};
use wire::{Outcome, Protocol, classify};

static HARNESS: LazyLock<Mutex<(Acl, Policer, FramePool)>> =
    LazyLock::new(|| Mutex::new((acl(), policer(), packets::pool())));
static TEMPLATES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(packets::templates);

fuzz_target!(|input: &[u8]| {
    let mut harness = HARNESS.lock().expect("one thread");
    let (acl, policer, pool) = &mut *harness;
    let mut batch = packets::batch(pool, &TEMPLATES, input);
    let before: Vec<Vec<u8>> = batch.iter().map(|frame| frame.bytes().to_vec()).collect();
    let mut verdicts = Verdicts::new();
    acl.process(&mut batch, &mut verdicts, Nanos::ZERO);
    for (index, packet) in before.iter().enumerate() {
        assert!(matches!(verdicts[index], Verdict::Next | Verdict::Drop));
        // Of packets that are whole flows the classifier knows the ports too.
        if let Outcome::Flow(flow) = classify(packet) {
            let to_web = flow.key.protocol() == Protocol::Tcp && flow.key.ports().1 == 80;
            assert_eq!(verdicts[index] == Verdict::Next, to_web, "{:02x?}", packet);
        }
        let mut alone: Batch =
            [packets::frame(pool, packet, batch[index].meta().port)].into_iter().collect();
        let mut verdict = Verdicts::new();
        acl.process(&mut alone, &mut verdict, Nanos::ZERO);
        assert_eq!(verdict[0], verdicts[index]);
        alone.into_iter().for_each(|frame| pool.give(frame));
    }
    verdicts.reset();
    policer.process(&mut batch, &mut verdicts, Nanos::ZERO);
    for (frame, before) in batch.iter().zip(&before) {
        assert_eq!(frame.bytes(), before, "they change no packet");
    }
    batch.into_iter().for_each(|frame| pool.give(frame));
});

/// TCP to port 80 passes.
fn acl() -> Acl {
    let selector = Selector {
        protocol: Some(6),
        destination_ports: PortRange::new(80, 80),
        ..Selector::default()
    };
    let rule = Rule { action: Action::Permit, selector };
    Acl::new(&[rule], Action::Deny, Action::Deny).expect("a rule that packets can match")
}

fn policer() -> Policer {
    let per_source = Some(PerSource { ipv4_bits: 32, ipv6_bits: 64 });
    let all = Selector::default();
    let class = Class { selector: all, bytes_per_second: 1000, burst_bytes: 2000, per_source };
    Policer::new(&[class], 1).expect("a class that packets can be of")
}
