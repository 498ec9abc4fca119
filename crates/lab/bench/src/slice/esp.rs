//! Encryption on one core: through function esp on a slice, and by programs that only encrypt.

use base::Nanos;
use calisto_nf::esp::Algorithm;
use calisto_nf::esp::load::Load;
use crypto::IpsecMb;
use sys::clock::{TscRate, now};

use super::absent::in_turns_if_there;
use super::ciphers::{Suite, dpdk, openssl};
use super::memory;
use super::works::{TEXT_BYTES, seal};
use crate::cases::Plan;
use crate::error::{Error, OrNeeds, unless_interrupted};
use crate::figure::{Figure, Target};
use crate::place::on_cpu;
use crate::report::Report;

/// Tries of everybody in each round, of which the fastest counts.
const TRIES: u32 = 3;

/// Batches of packets that are decrypted in turn.
const BATCHES: usize = 4;

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let cpu = plan.cpus.server;
    let length = plan.pick(Nanos::from_millis(400), Nanos::from_millis(50));
    let packets = plan.pick(1_000_000, 200_000);
    report.begin(
        "esp",
        &format!(
            "{TEXT_BYTES} B of text a packet, one key, on CPU {cpu}. Ours: a slice of two wires in \
             memory, all of RFC 4303 (tunnel headers, padding, sequence, ICV) by function esp over \
             libipsec-mb; opening: the same function without a slice. dpdk-test-crypto-perf with \
             driver aesni_mb and openssl speed encrypt and authenticate, and do nothing else. Of each \
             one the fastest of {TRIES} tries in a round"
        ),
    )?;
    let rate = TscRate::calibrate(Nanos::from_millis(20));
    for (suite, target) in [(Suite::Gcm, 0.8), (Suite::CbcSha1, 0.6)] {
        let algorithm = suite.algorithm();
        let work = seal(algorithm);
        let ways = ["ours, seal", "ours, open", "dpdk aesni_mb", "openssl"];
        let samples =
            in_turns_if_there(plan, report, suite.name(), ways.len(), |which| match which {
                0 => fastest(plan, || {
                    let spent = on_cpu(cpu, || memory::run(&work, length, rate))?;
                    Ok(spent.by_the_clock(rate) * bits() / 1e9)
                }),
                1 => fastest(plan, || on_cpu(cpu, || open(algorithm, length))),
                2 => fastest(plan, || dpdk(suite, plan.cpus, packets)),
                _ => fastest(plan, || openssl(suite, plan.cpus)),
            })?;
        for (at, (way, own)) in ways.iter().zip(&samples).enumerate() {
            let metric = format!("{}: {way}", suite.name());
            let own = match own {
                Ok(own) => own,
                Err(why) => {
                    report.figure(Figure::missing(metric, why))?;
                    continue;
                }
            };
            let mut figure = Figure::new(metric, "Gb/s", own);
            if let (0, Ok(dpdk)) = (at, &samples[2]) {
                figure = figure.against(ways[2], own, dpdk).target(Target::RatioAtLeast(target));
            }
            report.figure(figure)?;
        }
    }
    Ok(())
}

/// The fastest of some tries: others run to their end whoever else has the CPU, and so do ours
/// here.
fn fastest(plan: &Plan, mut once: impl FnMut() -> Result<f64, Error>) -> Result<f64, Error> {
    let mut most = 0.0_f64;
    for _ in 0..plan.pick(TRIES, 1) {
        unless_interrupted()?;
        most = most.max(once()?);
    }
    Ok(most)
}

fn bits() -> f64 {
    TEXT_BYTES as f64 * 8.0
}

/// Gb/s of packets that come sealed.
fn open(algorithm: Algorithm, length: Nanos) -> Result<f64, Error> {
    let cipher = || IpsecMb::open().or_needs("library that encrypts");
    let load = Load::new(algorithm, TEXT_BYTES, BATCHES, [cipher()?, cipher()?]);
    let mut load = load.ok_or("its packets cannot be made").or_needs("tunnel")?;
    let (mut spent, mut packets) = (Nanos::ZERO, 0);
    while spent < length {
        load.refill();
        load.seal();
        let began = now();
        packets += load.open();
        spent += now().since(began);
    }
    Ok(packets as f64 * bits() / spent.0 as f64)
}
