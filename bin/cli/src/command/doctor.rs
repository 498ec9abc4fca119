//! `calisto doctor`: whether this machine is fit, and what mends it.

use crate::failure::Failure;
use crate::output;
use crate::target::Admin;

/// Look at this machine: what is fine, what is missing, what it costs, what mends it.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  calisto doctor\n  calisto doctor --nic eth1 --quick -j")]
pub(crate) struct Doctor {
    #[command(flatten)]
    args: doctor::Args,
    #[command(flatten)]
    admin: Admin,
}

impl Doctor {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let report = doctor::run(&self.args, &self.admin.socket).map_err(|error| {
            if error.is_usage() { Failure::usage(error) } else { Failure::new(error) }
        })?;
        if json {
            output::json(&report)?;
        } else {
            output::text(&report.table())?;
        }
        if report.exit_ok() {
            return Ok(());
        }
        Err(Failure::new(
            "no port of an interface can be opened here: see the lines that say missing",
        ))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::Cli;
    use crate::command::Command;

    #[test]
    fn an_interface_that_nobody_has_is_wrong_usage() {
        let words = ["calisto", "doctor", "--quick", "--nic", "none-such0"];
        let cli = Cli::try_parse_from(words).expect("well formed");
        let Command::Doctor(doctor) = cli.command else { panic!("{:?}", cli.command) };
        let failure = doctor.run(false).expect_err("there is no such interface");
        assert_eq!(failure.exit_code(), 2);
        assert!(failure.to_string().contains("none-such0"), "{failure}");
    }
}
