//! How fast ESP is here, on one core, over packets in memory: prints gigabits of text in a second.
//!
//! Run it as `cargo run --release -p crypto --example esp_speed [TEXT_BYTES [BATCHES]]`.

use std::time::{Duration, Instant};

use calisto_nf::esp::Algorithm;
use calisto_nf::esp::load::Load;
use crypto::IpsecMb;

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(200);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let text_bytes = numbers.next().transpose()?.unwrap_or(1408);
    let batches = numbers.next().transpose()?.unwrap_or(4);
    println!("{}, {text_bytes} bytes of text, {batches} batches", IpsecMb::open()?.describe());
    for algorithm in Algorithm::ALL {
        let ciphers = [IpsecMb::open()?, IpsecMb::open()?];
        let load = Load::new(algorithm, text_bytes, batches, ciphers);
        let mut load = load.ok_or("these bytes are no multiple of the block")?;
        let mut best = [f64::INFINITY; 2];
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let (mut spent, mut packets) = ([Duration::ZERO; 2], [0; 2]);
            while start.elapsed() < ROUND {
                load.refill();
                let begun = Instant::now();
                packets[0] += load.seal();
                let sealed = Instant::now();
                packets[1] += load.open();
                spent[0] += sealed - begun;
                spent[1] += sealed.elapsed();
            }
            for ((best, spent), packets) in best.iter_mut().zip(spent).zip(packets) {
                *best = best.min(spent.as_secs_f64() * 1e9 / packets as f64);
            }
        }
        let [seal, open] = best;
        let rate = |nanos: f64| text_bytes as f64 * 8.0 / nanos;
        println!(
            "{:24} seal {:6.1} Gb/s ({seal:5.0} ns a packet), open {:6.1} Gb/s ({open:5.0} ns)",
            algorithm.name(),
            rate(seal),
            rate(open)
        );
    }
    Ok(())
}
