//! The folder of the daemon's sockets.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Makes the folder of the file `path`, with those above it, so that only the daemon's user can put
/// files there, whatever the umask is: who can replace a socket's file is taken for the daemon.
pub(crate) fn make_for(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => {
            std::fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::Mode;

    use super::*;

    #[test]
    fn nobody_else_may_write_into_a_new_folder_though_the_umask_lets_everybody() {
        let above = std::env::temp_dir().join(format!("calisto-folder-{}", std::process::id()));
        let before = rustix::process::umask(Mode::empty());
        let made = make_for(&above.join("below/apps.sock"));
        rustix::process::umask(before);
        made.expect("the folder of temporary files is anybody's");
        for folder in [&above, &above.join("below")] {
            let metadata = std::fs::metadata(folder).expect("it was made");
            assert_eq!(metadata.permissions().mode() & 0o777, 0o755, "{}", folder.display());
        }
        std::fs::remove_dir_all(&above).expect("it is ours");
        make_for(Path::new("apps.sock")).expect("there is nothing to make");
    }
}
