//! Files that are replaced atomically.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

/// Writes a file whole or not at all: beside its place first, so that a full disk leaves what was
/// there before, and nobody ever reads half of it.
///
/// What is there and no file (a pipe, a terminal) is written to as it is. A link to a file stays
/// one, and the file its owner's and group's, with the same mode. On return it is on the disk, or
/// at least the file before is whole.
///
/// # Errors
/// The file cannot be written, or would be another's.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    // What is not there yet has no other name.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let known = fs::metadata(path);
    let is_other = known.as_ref().is_ok_and(|known| !known.is_file());
    let Some(name) = path.file_name().filter(|_| !is_other) else {
        return fs::write(path, text);
    };
    let mut beside = OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(beside);
    // Only a process of our number that was ended while it wrote has left one.
    let _ = fs::remove_file(&beside);
    let written = File::create_new(&beside)
        .and_then(|mut file| {
            if let Ok(known) = known {
                let made = file.metadata()?;
                if (made.uid(), made.gid()) != (known.uid(), known.gid()) {
                    fchown(&file, Some(known.uid()), Some(known.gid()))?;
                }
                // Afterwards: to give a file away takes bits of its mode.
                file.set_permissions(known.permissions())?;
            }
            file.write_all(text.as_bytes())?;
            // Else a crash could leave a file of the name without anything in it.
            file.sync_all()
        })
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // What is left of it is of no use, and the first error says why.
        let _ = fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    /// A folder of its own, which goes with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("calisto-whole-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).expect("the temporary folder is ours");
            Self(path)
        }

        fn names(&self) -> Vec<OsString> {
            let entries = fs::read_dir(&self.0).expect("the folder is ours");
            let mut names: Vec<_> =
                entries.map(|entry| entry.expect("it is readable").file_name()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn text(path: &Path) -> String {
        fs::read_to_string(path).expect("it was written")
    }

    #[test]
    fn who_reads_the_file_while_it_is_replaced_reads_the_old_one_to_its_end() {
        let folder = Folder::new("old");
        let path = folder.0.join("page");
        write(&path, "the old page").expect("the folder is ours");
        let mut reader = File::open(&path).expect("it was written");
        write(&path, "new").expect("the folder is ours");
        let mut read = String::new();
        reader.read_to_string(&mut read).expect("it is open");
        assert_eq!((read.as_str(), text(&path).as_str()), ("the old page", "new"));
        assert_eq!(folder.names(), ["page"], "and nothing is left beside it");
    }

    #[test]
    fn a_link_stays_one_and_the_file_keeps_who_may_read_it() {
        let folder = Folder::new("link");
        let (file, link) = (folder.0.join("file"), folder.0.join("link"));
        fs::write(&file, "old").expect("the folder is ours");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is ours");
        symlink("file", &link).expect("the folder is ours");
        write(&link, "new").expect("the folder is ours");
        assert_eq!(text(&file), "new");
        let mode = fs::metadata(&file).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
    }

    #[test]
    fn a_file_that_is_written_by_root_stays_its_owners_and_groups() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = Folder::new("owner");
        let path = folder.0.join("file");
        fs::write(&path, "old").expect("the folder is ours");
        std::os::unix::fs::chown(&path, Some(65_534), Some(65_533)).expect("root may");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("root may");
        write(&path, "new").expect("root may");
        let known = fs::metadata(&path).expect("it is there");
        assert_eq!((known.uid(), known.gid(), known.mode() & 0o7777), (65_534, 65_533, 0o640));
        assert_eq!(text(&path), "new");
    }

    #[test]
    fn who_may_not_leave_it_its_owners_leaves_the_file_as_it_is() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = Folder::new("others");
        let path = folder.0.join("file");
        fs::write(&path, "old").expect("the folder is ours");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("root may");
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).expect("root may");
        let other = path.clone();
        // Of this thread only, which may not give a file to root any more.
        let written = std::thread::spawn(move || {
            let nobody = rustix::process::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("root may");
            write(&other, "new")
        });
        let error = written.join().expect("it does not panic").expect_err("it would be another's");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!((text(&path).as_str(), folder.names()), ("old", vec!["file".into()]));
    }

    #[test]
    fn a_pipe_is_written_to_and_stays_a_pipe() {
        let folder = Folder::new("pipe");
        let pipe = folder.0.join("pipe");
        let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there");
        assert!(made.success());
        let other = pipe.clone();
        let reader = std::thread::spawn(move || text(&other));
        write(&pipe, "page").expect("somebody reads");
        let kind = fs::symlink_metadata(&pipe).expect("it is there").file_type();
        assert!(kind.is_fifo(), "its reader would wait for ever");
        assert_eq!(reader.join().expect("it ends"), "page");
    }

    #[test]
    fn where_no_file_can_be_the_error_says_so_and_nothing_is_made() {
        let folder = Folder::new("nowhere");
        let error = write(&folder.0.join("none/page"), "x").expect_err("there is no such folder");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(write(&folder.0, "x").is_err(), "it is a folder");
        assert!(folder.names().is_empty());
    }
}
