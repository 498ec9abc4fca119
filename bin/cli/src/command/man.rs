//! `calisto man`: a manual page for every command, for the daemon and for its configuration.

mod pages;

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::failure::Failure;
use crate::output;

/// Write manual pages into a directory: one for each command, calistod(8) and calisto.toml(5).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  calisto man /usr/local/share/man/man1 && man calisto-steer")]
pub struct Man {
    /// Where to; made if it is not there.
    directory: PathBuf,
}

impl Man {
    /// Does it, for the command line that `grammar` defines.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn run(&self, grammar: clap::Command, json: bool) -> Result<(), Failure> {
        let Self { directory } = self;
        fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(grammar, directory))
            .and_then(|()| add_others(directory))
            .map_err(|error| {
                let directory = directory.display();
                Failure::new(format!("cannot write manual pages to {directory}: {error}"))
            })?;
        output::done(&format!("the pages are in {}", directory.display()), json)
    }
}

/// What no command line defines.
fn add_others(directory: &Path) -> io::Result<()> {
    fs::write(directory.join("calistod.8"), pages::calistod())?;
    fs::write(directory.join("calisto.toml.5"), pages::configuration())?;
    let mut first = OpenOptions::new().append(true).open(directory.join("calisto.1"))?;
    first.write_all(pages::surroundings().as_bytes())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn every_command_has_a_page() {
        let directory = std::env::temp_dir().join(format!("calisto-man-{}", std::process::id()));
        let man = Man { directory: directory.clone() };
        man.run(Cli::command(), true).expect("the folder for temporary files can be written");
        let pages: Vec<String> = fs::read_dir(&directory)
            .expect("it has been made")
            .map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into_owned())
            .collect();
        let read = |page: &str| fs::read_to_string(directory.join(page)).expect(page);
        let (first, daemon, file) = (read("calisto.1"), read("calistod.8"), read("calisto.toml.5"));
        fs::remove_dir_all(&directory).expect("it is ours");
        for part in [".SH FILES", ".SH ENVIRONMENT", ".SH \"EXIT STATUS\"", "CALISTO_ADMIN"] {
            assert!(first.contains(part), "{part} is not in {first}");
        }
        assert!(daemon.contains("SIGTERM") && daemon.contains(".SH FILES"), "{daemon}");
        for key in config::keys() {
            assert!(file.contains(&format!("\\fB{}\\fR", key.name)), "{}: {file}", key.name);
        }
        for page in ["calisto.1", "calisto-up.1", "calisto-steer-pin.1", "calisto-wire.1"] {
            assert!(pages.iter().any(|name| name == page), "{page} is not in {pages:?}");
        }
    }
}
