//! The folder of the daemon's sockets.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::log;

/// Makes the folder of the file `path`, and none above it, so that only the daemon's user can put
/// files there, whatever the umask is: who can replace a socket's file is taken for the daemon. At
/// its first start the daemon makes /run/calisto so; a mistyped path leaves nothing behind.
///
/// # Errors
/// What it would lie in is not there, or the kernel refuses.
pub(crate) fn make_for(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => return Ok(()),
    };
    match DirBuilder::new().mode(0o755).create(folder) {
        Ok(()) => {
            let path = folder.display();
            tracing::info!(target: log::DAEMON, %path, "made the folder of the sockets");
            Ok(())
        }
        Err(_) if folder.is_dir() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let (folder, above) = (folder.display(), folder.parent().unwrap_or(folder).display());
            let says =
                format!("there is no folder {above}: name another path, or `mkdir -p {folder}`");
            Err(io::Error::new(io::ErrorKind::NotFound, says))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::Mode;

    use super::*;

    #[test]
    fn nobody_else_may_write_into_a_new_folder_though_the_umask_lets_everybody() {
        let folder = std::env::temp_dir().join(format!("calisto-folder-{}", std::process::id()));
        let before = rustix::process::umask(Mode::empty());
        let made = make_for(&folder.join("apps.sock"));
        rustix::process::umask(before);
        made.expect("the folder of temporary files is anybody's");
        let mode = std::fs::metadata(&folder).expect("it was made").permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        make_for(&folder.join("apps.sock")).expect("it is there");
        std::fs::remove_dir_all(&folder).expect("it is ours");
        make_for(Path::new("apps.sock")).expect("there is nothing to make");
    }

    #[test]
    fn a_folder_in_one_that_is_not_there_is_refused_and_nothing_is_made() {
        let above = std::env::temp_dir().join(format!("calisto-no-folder-{}", std::process::id()));
        let error = make_for(&above.join("deep/admin.sock")).expect_err("there is none");
        let says = format!("there is no folder {}: ", above.display());
        assert!(error.to_string().starts_with(&says), "{error}");
        assert!(!above.exists());
    }
}
