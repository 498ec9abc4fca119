//! Finds the project's programs, and hands a configuration to the daemon.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use config::Config;
use rustix::fs::MemfdFlags;

use crate::failure::Failure;

/// The daemon's program.
pub const DAEMON: &str = "calistod";
/// The operator's command.
pub const COMMAND: &str = "calisto";
/// The program that measures, simulates and shows.
pub const LABORATORY: &str = "calisto-lab";

/// The program `name`: beside this one, else on the PATH; never from the current directory, unless
/// that is one of the two.
///
/// # Errors
///
/// It is in neither; the sentence says how it gets there.
pub fn find(name: &str) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent);
    let path = std::env::var_os("PATH").unwrap_or_default();
    find_among(name, beside, &path).ok_or_else(|| {
        let place = beside.map_or_else(|| Path::new("this program").display(), Path::display);
        Failure::new(format!(
            "the program `{name}` is neither in {place} nor on the PATH: build it with \
             `cargo build --release -p {name}` or install it beside `calisto`"
        ))
    })
}

fn find_among(name: &str, beside: Option<&Path>, path: &OsStr) -> Option<PathBuf> {
    let is_program = |file: &PathBuf| {
        file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    let folders = beside.map(Path::to_owned).into_iter();
    folders
        .chain(std::env::split_paths(path).filter(|folder| folder.is_absolute()))
        .map(|folder| folder.join(name))
        .find(is_program)
}

/// A configuration in a file without a name, which processes that we start inherit and which is
/// gone when the last of them is.
#[derive(Debug)]
pub struct ConfigFile {
    file: File,
}

impl ConfigFile {
    /// Writes `config`.
    pub fn new(config: &Config) -> Result<Self, Failure> {
        let failed = |error: io::Error| {
            Failure::new(format!("cannot hand the configuration to {DAEMON}: {error}"))
        };
        // Without CLOEXEC: the daemon reads it after exec.
        let memory = rustix::fs::memfd_create("calisto-config", MemfdFlags::empty());
        let mut file = File::from(memory.map_err(|error| failed(error.into()))?);
        file.write_all(config.to_toml().as_bytes()).map_err(failed)?;
        Ok(Self { file })
    }

    /// The path by which a process that we start (and only such a one) opens it. Opened by path,
    /// it is read from its beginning.
    pub fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("calisto-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
        folder
    }

    fn program(folder: &Path, mode: u32) {
        let file = folder.join(DAEMON);
        fs::write(&file, "").expect("it can be written");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("it is ours");
    }

    #[test]
    fn the_daemon_beside_us_is_preferred_to_one_on_the_path() {
        let (beside, path) = (folder("beside"), folder("path"));
        assert_eq!(find_among(DAEMON, Some(&beside), path.as_os_str()), None);
        program(&path, 0o755);
        let found = find_among(DAEMON, Some(&beside), path.as_os_str());
        assert_eq!(found, Some(path.join(DAEMON)));
        program(&beside, 0o644);
        let found = find_among(DAEMON, Some(&beside), path.as_os_str());
        assert_eq!(found, Some(path.join(DAEMON)), "a file that cannot run is no program");
        program(&beside, 0o755);
        let found = find_among(DAEMON, Some(&beside), path.as_os_str());
        assert_eq!(found, Some(beside.join(DAEMON)));
        for folder in [beside, path] {
            fs::remove_dir_all(folder).expect("it is ours");
        }
    }

    #[test]
    fn a_part_of_the_path_that_depends_on_where_we_are_is_left_out() {
        let program = std::env::current_exe().expect("proc is mounted");
        let name = program.file_name().and_then(OsStr::to_str).expect("cargo's names are text");
        let folder = program.parent().expect("it is in a folder");
        assert_eq!(find_among(name, None, folder.as_os_str()).as_ref(), Some(&program));
        // The same folder, as seen from the one in which this process runs.
        let here = std::env::current_dir().expect("it is there");
        let up = here.components().skip(1).map(|_| "..").collect::<PathBuf>();
        let relative = up.join(folder.strip_prefix("/").expect("an absolute path"));
        assert!(relative.join(name).exists());
        assert_eq!(find_among(name, None, relative.as_os_str()), None);
    }

    #[test]
    fn a_child_reads_the_whole_configuration() {
        let mut config = Config::default();
        config.set("steer.policy=modulo").expect("it is a policy");
        let file = ConfigFile::new(&config).expect("memory is left");
        for _ in 0..2 {
            let output = Command::new("cat").arg(file.path()).output().expect("cat is there");
            let text = String::from_utf8(output.stdout).expect("it is text");
            assert_eq!(Config::parse(&text), Ok(config.clone()));
        }
    }
}
