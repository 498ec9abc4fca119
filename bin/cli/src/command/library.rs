//! `calisto library`: puts the library for programs where a container can see it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::run::library::find_ours;
use crate::failure::Failure;
use crate::output;

/// Copy the library that `calisto run` loads into programs to a folder, for containers that have no
/// Calisto inside.
///
/// A program in a container is served when it is started with LD_PRELOAD set to the path that is
/// printed, as the container sees it, and sees the daemon's folder (/run/calisto). The image must
/// be one of glibc, and the container share the daemon's network namespace. The file is replaced
/// as a whole, so that programs which have loaded the one before go on with that.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  \
    calisto library /run/calisto/lib\n  \
    podman run --network host -v /run/calisto:/run/calisto \\\n    \
        -e LD_PRELOAD=/run/calisto/lib/libcalisto_preload.so redis")]
pub(crate) struct Library {
    /// The folder; it is made if it is not there.
    folder: PathBuf,
}

#[derive(Debug, Serialize)]
struct Copied<'a> {
    library: &'a Path,
}

impl Library {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let library = find_ours().map_err(Failure::new)?;
        let copy = copy(&library, &self.folder)?;
        match json {
            true => output::json(&Copied { library: &copy }),
            false => output::text(&format!("{}\n", copy.display())),
        }
    }
}

/// Copies it, and gives the path.
fn copy(library: &Path, folder: &Path) -> Result<PathBuf, Failure> {
    let cannot = |path: &Path, error: &std::io::Error| {
        Failure::new(format!("cannot copy the library to {}: {error}", path.display()))
    };
    fs::create_dir_all(folder).map_err(|error| cannot(folder, &error))?;
    let to = folder.join(library.file_name().unwrap_or_default());
    // Writing into a file that programs have mapped would change them while they run.
    let beside = folder.join(format!(".libcalisto_preload.so.{}", std::process::id()));
    let copied = fs::copy(library, &beside)
        .and_then(|_| fs::set_permissions(&beside, fs::Permissions::from_mode(0o644)))
        .and_then(|()| fs::rename(&beside, &to));
    copied.map_err(|error| {
        let _ = fs::remove_file(&beside);
        cannot(&to, &error)
    })?;
    Ok(to)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_library_that_is_there_already_is_replaced_and_not_written_into() {
        let folder = std::env::temp_dir().join(format!("calisto-copy-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
        let (library, into) = (folder.join("libcalisto_preload.so"), folder.join("a/b"));
        fs::write(&library, "one").expect("it can be written");
        let copied = copy(&library, &into).expect("it can be copied");
        assert_eq!(copied, into.join("libcalisto_preload.so"));
        let mapped = fs::File::open(&copied).expect("it is there");
        fs::write(&library, "two").expect("it can be written");
        copy(&library, &into).expect("it can be copied again");
        assert_eq!(fs::read(&copied).expect("it is there"), b"two");
        let numbers = [mapped.metadata(), fs::metadata(&copied)].map(|of| of.expect("is").ino());
        assert_ne!(numbers[0], numbers[1], "programs keep the file that they have loaded");
        assert_eq!(fs::read_dir(&into).expect("it is there").count(), 1, "nothing stays beside");
        fs::write(folder.join("file"), "").expect("it can be written");
        let wrong = copy(&library, &folder.join("file")).expect_err("that is no folder");
        assert!(wrong.to_string().contains("cannot copy the library to"), "{wrong}");
        fs::remove_dir_all(folder).expect("it is ours");
    }
}
