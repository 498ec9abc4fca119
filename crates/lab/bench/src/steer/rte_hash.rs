//! The C program over librte_hash: compiled where it runs, and absent where DPDK is.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use testbed::ScratchDir;

const SOURCE: &str = include_str!("rte_hash.c");

/// The compiled program; gone with this value.
pub(super) struct RteHash {
    _dir: ScratchDir,
    program: PathBuf,
}

impl RteHash {
    /// Compiles it, or says why not.
    pub(super) fn compile() -> Result<Self, String> {
        let flags = |which| {
            let mut pkg_config = Command::new("pkg-config");
            let output = run(pkg_config.args([which, "libdpdk"]))?;
            Ok(String::from_utf8_lossy(&output.stdout)
                .split_ascii_whitespace()
                .map(str::to_owned)
                .collect::<Vec<String>>())
        };
        let absent = |why: String| format!("absent (apt-get install libdpdk-dev): {why}");
        let (cflags, libs) = (flags("--cflags").map_err(absent)?, flags("--libs").map_err(absent)?);
        let dir = ScratchDir::new("rte_hash").map_err(|error| format!("no directory: {error}"))?;
        let (source, program) = (dir.path().join("rte_hash.c"), dir.path().join("rte_hash"));
        std::fs::write(&source, SOURCE).map_err(|error| format!("no source file: {error}"))?;
        let mut cc = Command::new("cc");
        cc.args(["-O3", "-march=native"]).arg(&source).arg("-o").arg(&program).args(cflags);
        // Of the hundred libraries that pkg-config names two are needed.
        run(cc.arg("-Wl,--as-needed").args(libs)).map_err(absent)?;
        Ok(Self { _dir: dir, program })
    }

    /// Nanoseconds of CPU time per packet: first ones, later ones.
    pub(super) fn run(
        &self,
        cpu: usize,
        seed: u64,
        flows: usize,
        later: usize,
    ) -> Result<(f64, f64), String> {
        let mut program = Command::new(&self.program);
        program.args(["-l", &cpu.to_string(), "--no-huge", "-m", "512", "--no-pci"]);
        program.args(["--no-telemetry", "--no-shconf", "--log-level", "error", "--"]);
        program.args([seed.to_string(), flows.to_string(), later.to_string()]);
        let output = run(&mut program)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().find_map(|line| line.strip_prefix("rte_hash "));
        let mut words = line.unwrap_or_default().split(' ').map(str::parse::<f64>);
        match (words.next(), words.next()) {
            (Some(Ok(first)), Some(Ok(later))) => Ok((first, later)),
            _ => Err(format!("it printed no figures: {text}")),
        }
    }
}

/// Runs a command to its end; its output, or what went wrong.
fn run(command: &mut Command) -> Result<Output, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let tail: Vec<&str> = said.lines().rev().take(3).collect();
    let tail: Vec<&str> = tail.into_iter().rev().collect();
    Err(format!("{name} failed ({}): {}", output.status, tail.join(" / ")))
}
