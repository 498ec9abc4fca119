//! The file by which programs find the attach server: when somebody has removed it, it is made
//! anew.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use attach::AttachListener;

use crate::log;

/// Time between two looks.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Who may connect is decided by `apps.allow`, not by the file.
pub(crate) const MODE: u32 = 0o666;

/// The file, as it was made.
pub(super) struct SocketFile {
    /// Device and inode. The listener keeps the inode, so that it is nobody else's meanwhile.
    file: Option<(u64, u64)>,
    looked: Instant,
    /// It was said that it cannot be made anew.
    has_complained: bool,
}

impl SocketFile {
    pub(super) fn of(listener: &AttachListener) -> Self {
        Self { file: identity(listener.path()), looked: Instant::now(), has_complained: false }
    }

    /// Looks whether the file is still there, if it is time to. A new listener, if there had to be
    /// one; the old one still has its callers.
    pub(super) fn look(&mut self, listener: &AttachListener) -> Option<AttachListener> {
        if self.looked.elapsed() < LOOK_EVERY {
            return None;
        }
        self.look_now(listener)
    }

    fn look_now(&mut self, listener: &AttachListener) -> Option<AttachListener> {
        self.looked = Instant::now();
        let path = listener.path();
        if identity(path) == self.file {
            self.has_complained = false;
            return None;
        }
        match AttachListener::bind_in_folder(path, MODE) {
            Ok(new) => {
                let path = path.display();
                tracing::warn!(target: log::APPS, %path, "it was removed, and is made anew");
                *self = Self::of(&new);
                Some(new)
            }
            Err(error) => {
                if !std::mem::replace(&mut self.has_complained, true) {
                    let path = path.display();
                    tracing::warn!(target: log::APPS, %path, "it is gone: no program finds us; {error}");
                }
                None
            }
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use attach::Link;

    use super::*;

    #[test]
    fn a_file_that_was_removed_is_made_anew_and_found() {
        let folder = std::env::temp_dir().join(format!("calisto-file-{}", std::process::id()));
        let path = folder.join("apps.sock");
        let mut listener = AttachListener::bind(&path, MODE).expect("nobody is there");
        let mut file = SocketFile::of(&listener);
        assert!(file.look_now(&listener).is_none());
        std::fs::remove_file(&path).expect("it is ours");
        assert!(Link::connect(&path).is_err());
        listener = file.look_now(&listener).expect("it was removed");
        assert!(path.exists(), "the end of the old listener leaves the new file alone");
        Link::connect(&path).expect("somebody listens");
        assert!(listener.accept().expect("descriptors are left").is_some());
        assert!(file.look_now(&listener).is_none());
        // What is not ours is left alone, and said once.
        std::fs::remove_file(&path).expect("it is ours");
        std::fs::write(&path, "a file").expect("it is ours");
        assert!(file.look_now(&listener).is_none() && file.has_complained);
        drop(listener);
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }
}
