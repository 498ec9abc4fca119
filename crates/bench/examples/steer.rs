//! `calisto bench steer` without the rest of the program.

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Cli {
    /// One JSON object a line.
    #[arg(short, long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure.
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Subcommand)]
enum Bench {
    /// Steering.
    Steer(bench::steer::Args),
}

#[global_allocator]
static ALLOCATOR: sys::counting_alloc::CountingAllocator =
    sys::counting_alloc::CountingAllocator::new();

fn main() -> Result<(), bench::Error> {
    let Cli { json, command: Command::Bench(Bench::Steer(args)) } = Cli::parse();
    bench::steer::run(&args, json)
}
