//! `calisto try`: what Calisto does for a program here, by a run of it.

mod daemon_side;
mod report;
mod turn;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use self::daemon_side::Watch;
use self::report::Report;
use self::turn::Turns;
use super::run::accelerate::{Plan, Profile};
use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::target::Admin;

/// Try a program: say what would be accelerated here and what not, run it, and say what it had.
///
/// Before the run it says what `calisto run -n` says: whether the library can be loaded into the
/// program, whether a daemon serves this network namespace, and which packet filters keep sockets
/// with the kernel. Then the program runs as under `calisto run`, until it ends or is ended (Ctrl-C
/// reaches it and not this command). At the end stands what went through the data plane, which
/// sockets were left to the kernel and why, and the CPU time of program and daemon.
///
/// With --kernel-too it runs twice, on the kernel's stack first, and both stand side by side: for
/// programs that end by themselves, such as a load generator or a transfer. What a socket option or
/// an address does to a socket is not known before the program asks for it, so only a run tells.
///
/// All that this command says is on standard error, with -j too, so that the program's output stays
/// its own. What the program says there comes in between: -o has the report in a file.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    calisto try -- redis-server --port 6379               ask it something, then press Ctrl-C\n  \
    calisto try --kernel-too -- curl -sSo /dev/null http://10.0.0.2/large\n  \
    calisto try -j -o figures.json -- ./client")]
pub(crate) struct Try {
    /// Run it on the kernel's stack first, for comparison.
    #[arg(short, long)]
    kernel_too: bool,
    /// How its sockets are served [default: what CALISTO_PROFILE says, or latency].
    #[arg(long, value_enum)]
    profile: Option<Profile>,
    /// Socket of the daemon for applications [default: what CALISTO_APPS says, or
    /// /run/calisto/apps.sock].
    #[arg(long = "socket", value_name = "PATH")]
    apps_socket: Option<PathBuf>,
    /// Where the report goes, instead of standard error.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    admin: Admin,
    /// The program, and what it is to be told.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Try {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let code = self.try_it(json)?;
        // As with `calisto run`: the program has said what there was to say.
        std::process::exit(i32::from(code))
    }

    fn try_it(&self, json: bool) -> Result<u8, Failure> {
        let profile = Profile::of_environment(self.profile)?;
        let plan = match Plan::make(&self.command, profile, self.apps_socket.as_deref()) {
            Ok(plan) => plan.on_this_machine(),
            Err(none) => return Ok(none.say()),
        };
        if !json {
            eprint!("{}", plan.render());
        }
        if !plan.is_accelerated() {
            if json {
                let plan = serde_json::to_string(&plan).map_err(Failure::new)?;
                self.report(&format!("{plan}\n"))?;
            }
            return Err(Failure::new(
                "there is nothing to try until what stands in the way is mended; \
                 `calisto doctor` tells more",
            ));
        }
        let daemon = Daemon::at(&self.admin.socket);
        // Before any other thread: they inherit what is held back.
        let turns = Turns::new()?;
        let kernel = match self.kernel_too {
            true => Some(turns.play(Plan::command_on_kernel(&self.command)?, || ())?),
            false => None,
        };
        let mut watch = Watch::begin(daemon)?;
        let accelerated = turns.play(plan.command(&self.command)?, || watch.look())?;
        let code = accelerated.exit_code;
        let report = Report::new(plan, kernel, accelerated, watch.end()?);
        self.report(&report.render(json)?)?;
        Ok(code)
    }

    /// To where it was asked for, or to standard error: the program's output is its own.
    fn report(&self, text: &str) -> Result<(), Failure> {
        let Some(file) = &self.output else {
            eprint!("{text}");
            return Ok(());
        };
        sys::whole_file::write(file, text)
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", file.display())))
    }
}
