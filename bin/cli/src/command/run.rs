//! `calisto run`: a program with its sockets in the data plane, or on cores that nobody else needs
//! now.

pub(in crate::command) mod accelerate;
mod attached;
pub(in crate::command) mod elf;
mod grants;
mod guardian;
mod job;
pub(in crate::command) mod library;
pub(crate) mod obstacle;
mod pace;
mod program_file;
mod report;
mod runner;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use self::accelerate::{Plan, Profile};
use self::attached::{Attached, CORES_MAX};
use self::guardian::Guardian;
use self::runner::Runner;
use crate::failure::Failure;
use crate::output;

/// Run a program, unmodified, with its sockets in the data plane.
///
/// The program is started with a library that hands its TCP and UDP sockets to the daemon, as far
/// as their packets lead through an interface of Calisto. All else stays the kernel's. What
/// cannot be helped by that (a static or Go program, one of musl, one with set-user-id or file
/// capabilities) is said in a sentence, and it runs on the kernel's stack; with --strict it does
/// not run. Process id, terminal, signals and exit code are the program's own.
///
/// With --batch it runs on the cores that no latency-critical application holds now: it gets idle
/// cores of those that the daemon gives out (`calisto up --cores LIST`), and loses one the moment
/// somebody with a deadline wants it: it is SCHED_IDLE, so it is preempted at once, and is moved
/// off right after. With no core left it stands still until there is one again. When it ends, what
/// it left running goes on as if started without this. If the daemon ends, the program goes on
/// where it could run before, still SCHED_IDLE.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    calisto run -- redis-server --port 6379\n  \
    calisto run --profile throughput --strict -- nginx -g 'daemon off;'\n  \
    calisto run -n -- ./server                            only say what would happen\n  \
    calisto run --batch -- make -j8\n  \
    calisto run --batch --cores 2 --verbose -- ffmpeg -i in.mkv out.mp4\n  \
    calisto run --batch -j -- ./simulate --steps 1000 2>figures.json")]
pub(crate) struct Run {
    /// How its sockets are served [default: what CALISTO_PROFILE says, or latency].
    #[arg(long, value_enum, conflicts_with = "batch")]
    profile: Option<Profile>,
    /// Do not run it (exit code 1) unless it can be accelerated.
    #[arg(long, conflicts_with = "batch")]
    strict: bool,
    /// Only say what would happen, and why; with -j as JSON. Packet filters and the network
    /// namespace are looked at too.
    #[arg(short = 'n', long, conflicts_with = "batch")]
    dry_run: bool,
    /// Take what cores are left over, and give them back at once when they are wanted.
    #[arg(long)]
    batch: bool,
    /// With --batch: cores that it may have at a time, at most [default: as many as there are
    /// CPUs].
    #[arg(long, value_name = "N", requires = "batch")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(CORES_MAX)))]
    cores: Option<u32>,
    /// With --batch: what `calisto apps` calls it [default: the program's name and a process id].
    #[arg(long, requires = "batch")]
    name: Option<String>,
    /// Socket of the daemon for applications [default: what CALISTO_APPS says, or
    /// /run/calisto/apps.sock].
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// With --batch: say at the end what it had, on standard error; with -j as JSON.
    #[arg(short, long, requires = "batch")]
    verbose: bool,
    /// Be the parent of the program for a runner: its cores, what to give back, the group to enter.
    #[arg(long, hide = true, num_args = 3, value_names = ["CPUS", "CPUS", "GROUP"])]
    guardian: Option<Vec<String>>,
    /// The program, and what it is to be told.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Run {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let code = match &self.guardian {
            Some(words) => Guardian::new(words, &self.command)?.run()?,
            None if self.batch => self.run_batch(json)?,
            None => self.run_accelerated(json)?,
        };
        // The program has said what there was to say; everything of ours is dropped.
        std::process::exit(i32::from(code))
    }

    /// Comes back only when the program was not started.
    fn run_accelerated(&self, json: bool) -> Result<u8, Failure> {
        let profile = Profile::of_environment(self.profile)?;
        let plan = match Plan::make(&self.command, profile, self.socket.as_deref()) {
            Ok(plan) => plan,
            Err(none) => return Ok(none.say()),
        };
        if self.dry_run {
            let plan = plan.on_this_machine();
            if json {
                output::json(&plan)?
            } else {
                output::text(&plan.render())?
            }
            return Ok(u8::from(self.strict && !plan.is_accelerated()));
        }
        if self.strict && !plan.is_accelerated() {
            plan.complain("not started (--strict)");
            return Ok(1);
        }
        plan.complain("it runs on the kernel's stack");
        Ok(plan.exec(&self.command).say())
    }

    fn run_batch(&self, json: bool) -> Result<u8, Failure> {
        // Before any other thread: they inherit what is held back.
        let runner = Runner::new(&self.command)?;
        let name = self.name.clone().unwrap_or_else(|| default_name(&self.command));
        let mut grants = Attached::attach(self.socket.as_deref(), &name, self.cores)?;
        let (code, report) = runner.run(&name, &mut grants)?;
        grants.leave();
        if let Some(report) = report
            && (self.verbose || json)
        {
            report.print(json);
        }
        Ok(code)
    }
}

/// The program's name as far as the daemon takes it (1 to 32 letters, digits, `-`, `_` and `.`),
/// and our process id, so that two of them can run.
fn default_name(command: &[OsString]) -> String {
    let program = command.first().map(PathBuf::from);
    let file = program.as_deref().and_then(|path| path.file_name());
    let file = file.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = file.chars().filter(fits).take(20).collect();
    let name = if name.is_empty() { "batch" } else { &name };
    format!("{name}-{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;
    use crate::command::Command;

    fn parse(line: &str) -> Result<(Run, bool), clap::Error> {
        let words = ["calisto", "run"].into_iter().chain(line.split_whitespace());
        let cli = Cli::try_parse_from(words)?;
        match cli.command {
            Command::Run(run) => Ok((run, cli.json)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_programs_words_are_its_own_with_and_without_dashes() {
        for line in ["--batch -v -- make -j8 --batch", "--batch --verbose make -j8 --batch"] {
            let (run, json) = parse(line).expect(line);
            assert_eq!(run.command, ["make", "-j8", "--batch"], "{line}");
            assert!(run.batch && run.verbose && !json, "{line}");
        }
        let (run, json) = parse("-j --batch --cores 3 -- -x").expect("a name may be anything");
        assert_eq!((run.cores, json, run.command), (Some(3), true, vec!["-x".into()]));
    }

    #[test]
    fn without_a_program_or_with_no_cores_it_is_wrong_usage() {
        for line in ["--batch", "--batch --", "--batch --cores 0 -- x", "--batch --cores 65 -- x"] {
            assert_eq!(parse(line).expect_err(line).exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn a_program_for_the_data_plane_takes_its_own_options_and_not_those_of_a_batch_job() {
        let (run, _) = parse("--profile throughput --strict -- nginx -n").expect("a program");
        assert_eq!((run.profile, run.strict), (Some(Profile::Throughput), true));
        assert_eq!(run.command, ["nginx", "-n"]);
        let (run, json) = parse("-n -j redis-server --strict").expect("a program");
        assert!(run.dry_run && json && !run.strict);
        for line in [
            "--batch --profile safe -- x",
            "--batch --strict -- x",
            "--batch -n -- x",
            "--cores 2 -- x",
            "--name a -- x",
            "-v -- x",
            "--profile fast -- x",
        ] {
            assert_eq!(parse(line).expect_err(line).exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn a_job_is_called_after_its_program_as_far_as_the_daemon_takes_it() {
        let own = std::process::id();
        for (program, name) in [
            ("/usr/bin/make", "make"),
            ("./über-job", "ber-job"),
            ("日本", "batch"),
            ("a-name-longer-than-twenty-letters", "a-name-longer-than-t"),
        ] {
            assert_eq!(default_name(&[program.into()]), format!("{name}-{own}"));
        }
        assert_eq!(default_name(&[]), format!("batch-{own}"));
    }
}
