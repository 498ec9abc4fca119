//! What a call costs more that has nothing to do with us: reads of one byte of /dev/zero.

use std::path::Path;

use super::accelerated::Profile;
use super::programs::{Compiled, READ_ZERO};
use super::tested_stack::{Offloads, TestedStack};
use crate::cases::{Plan, in_turns};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::process::Process;
use crate::report::Report;

const PORT: u16 = 7005;

/// Medians of one program in a round.
const REPEATS: usize = 5;

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let cpu = plan.cpus.server;
    report.begin(
        "passthrough",
        &format!(
            "read(2) of one byte of /dev/zero by a program that also listens, on CPU {cpu}: under \
             `calisto run` and without, the two in turns; medians of batches of 500 reads."
        ),
    )?;
    let program = Compiled::new(READ_ZERO)?;
    let tested_stacks =
        [TestedStack::calisto(plan)?, TestedStack::linux(plan.cpus, Offloads::Default)?];
    let mut readers = Vec::new();
    for tested_stack in &tested_stacks {
        readers.push(Reader::start(tested_stack, program.path(), cpu)?);
    }
    if !plan.is_rehearsal && !readers[0].is_interposed()? {
        return Err("it runs without the library").or_needs("program under `calisto run`");
    }
    let samples = in_turns(plan, report, "reads", 2, |which| readers[which].measure())?;
    let more: Vec<f64> =
        samples[0].iter().zip(&samples[1]).map(|(with, without)| with - without).collect();
    let figure =
        Figure::new(format!("{}: more than without", tested_stacks[0].name()), "ns", &more);
    report.figure(figure.target(Target::AtMost(30.0)))?;
    for (tested_stack, samples) in tested_stacks.iter().zip(&samples) {
        report.figure(Figure::new(format!("{}: a read", tested_stack.name()), "ns", samples))?;
    }
    Ok(())
}

/// The program, waiting for a line; ended when dropped.
struct Reader(Process);

impl Reader {
    fn start(tested_stack: &TestedStack, program: &Path, cpu: usize) -> Result<Self, Error> {
        let mut command = tested_stack.command(Profile::Latency, program)?;
        command.args([tested_stack.address(PORT).ip().to_string(), PORT.to_string()]);
        let mut reader = Self(Process::talk(command, cpu)?);
        // The first one finds everything cold.
        reader.once()?;
        Ok(reader)
    }

    /// Whether our library is mapped into it.
    fn is_interposed(&self) -> Result<bool, Error> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.0.pid()));
        Ok(maps.or_needs("look into /proc")?.contains("libcalisto_preload"))
    }

    /// The least of several medians: what others had of the CPU is no cost of the measured one.
    fn measure(&mut self) -> Result<f64, Error> {
        let mut least = f64::INFINITY;
        for _ in 0..REPEATS {
            least = least.min(self.once()?);
        }
        Ok(least)
    }

    fn once(&mut self) -> Result<f64, Error> {
        self.0.say("")?;
        let line = self.0.line()?;
        line.parse().map_err(|_| format!("it says {line:?}")).or_needs("program that reads")
    }
}
