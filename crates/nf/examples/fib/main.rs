//! Prints what the forwarding tables cost over a whole Internet table, beside other crates.
//!
//! `cargo run --release -p nf --example fib -- TABLE [ROUNDS]`, where TABLE has lines of a prefix and a
//! number, such as benches/bgpas.lpm of the crate iptrie in the registry's source folder.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "what measures reads the clock and a file, in a crate that else does neither"
)]

mod figures;
mod peers;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(table) = arguments.next() else {
        eprintln!("usage: fib TABLE [ROUNDS]; TABLE: lines of a prefix and a number");
        return ExitCode::FAILURE;
    };
    let rounds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(5);
    match figures::measure(table.as_ref(), rounds, &mut |line| eprintln!("{line}")) {
        Ok(figures) => {
            println!("{figures}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{table}: {error}");
            ExitCode::FAILURE
        }
    }
}
