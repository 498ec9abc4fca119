//! The socket's file: whose it is, who may use it, and what connecting to it says.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use attach::{AttachError, AttachListener, JoinListener, Link};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// A folder of this test's own, gone at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("calisto-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
        Self(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.join("deep").join("apps.sock")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn bind(path: &Path) -> AttachListener {
    AttachListener::bind(path, 0o660).expect("the folder is ours")
}

/// A socket file as a killed daemon leaves it.
fn leave_over(path: &Path) {
    std::fs::create_dir_all(path.parent().expect("it has one")).expect("it is ours");
    drop(UnixListener::bind(path).expect("the folder is ours"));
}

#[test]
fn the_folder_is_made_the_mode_is_set_and_the_file_goes_with_the_listener() {
    let folder = Folder::new("mode");
    let path = folder.path();
    let listener = AttachListener::bind(&path, 0o620).expect("the folder is ours");
    let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o620);
    assert!(listener.accept().expect("descriptors are left").is_none(), "nobody has come");
    drop(listener);
    assert!(!path.exists());
}

#[test]
fn a_socket_that_nobody_answers_is_replaced() {
    let folder = Folder::new("left-over");
    leave_over(&folder.path());
    let _listener = bind(&folder.path());
    assert!(Link::connect(&folder.path()).is_ok());
}

#[test]
fn a_socket_that_is_answered_is_left_alone() {
    let folder = Folder::new("answered");
    let listener = bind(&folder.path());
    let error = AttachListener::bind(&folder.path(), 0o600).expect_err("one is there");
    assert!(error.to_string().contains("answers there already"), "{error}");
    assert!(listener.accept().expect("descriptors are left").is_some(), "that was the question");
    assert!(Link::connect(&folder.path()).is_ok(), "the first still answers");
}

#[test]
fn a_socket_of_another_kind_and_a_plain_file_are_left_alone() {
    let folder = Folder::new("others");
    let path = folder.path();
    leave_over(&path);
    std::fs::remove_file(&path).expect("it is ours");
    let stream = UnixListener::bind(&path).expect("the folder is ours");
    let error = AttachListener::bind(&path, 0o600).expect_err("another program's");
    assert!(error.to_string().contains("no calistod"), "{error}");
    assert_eq!(
        Link::connect(&path).expect_err("a stream"),
        AttachError::NotTheDaemon(path.clone())
    );
    drop(stream);

    std::fs::remove_file(&path).expect("it is ours");
    std::fs::write(&path, "precious").expect("the folder is ours");
    let error = AttachListener::bind(&path, 0o600).expect_err("a file");
    assert!(error.to_string().contains("no socket"), "{error}");
    assert_eq!(Link::connect(&path).expect_err("a file"), AttachError::NotTheDaemon(path.clone()));
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "precious");
}

#[test]
fn a_file_that_another_daemon_has_put_there_since_stays() {
    let folder = Folder::new("successor");
    let first = bind(&folder.path());
    // The new file must not get the inode number of the old one.
    std::fs::rename(folder.path(), folder.path().with_extension("old")).expect("it is ours");
    let second = bind(&folder.path());
    drop(first);
    assert!(Link::connect(second.path()).is_ok());
}

#[test]
fn each_way_not_to_connect_has_its_sentence() {
    let folder = Folder::new("connect");
    let path = folder.path();
    let error = Link::connect(&path).expect_err("nothing is there");
    assert_eq!(error, AttachError::NoSocket(path.clone()));
    assert!(error.to_string().contains("is the daemon running?"), "{error}");
    assert!(error.may_pass());

    leave_over(&path);
    let error = Link::connect(&path).expect_err("nobody listens");
    assert_eq!(error, AttachError::NobodyAnswers(path.clone()));
    assert!(error.may_pass());
    std::fs::remove_file(&path).expect("it is ours");

    let _listener = AttachListener::bind(&path, 0o000).expect("the folder is ours");
    let asked = path.clone();
    let error = std::thread::spawn(move || {
        // Root may do anything unless it gives that up, here for this thread only.
        let mut sets = capabilities(None).expect("a thread may ask for its own");
        sets.effective.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
        set_capabilities(None, sets).expect("a thread may give up its own");
        Link::connect(&asked).expect_err("nobody may")
    });
    let error = error.join().expect("no assertion failed");
    assert_eq!(error, AttachError::NotPermitted(path));
    assert!(!error.may_pass());

    let long = PathBuf::from("x".repeat(200));
    let error = Link::connect(&long).expect_err("108 bytes at most");
    assert!(matches!(error, AttachError::System(_)), "{error}");
}

#[test]
fn a_join_listener_is_found_by_its_name_alone_and_has_another_name_each_time() {
    let (join_listener, other) =
        (JoinListener::open().expect("it opens"), JoinListener::open().expect("it opens"));
    assert_ne!(join_listener.name(), other.name());
    let own = rustix::process::geteuid().as_raw();
    let others = Link::connect_aside(join_listener.name(), own + 1);
    assert!(others.is_err(), "somebody else has the name by now");
    let _gone = join_listener.accept();
    let _link = Link::connect_aside(join_listener.name(), own).expect("somebody listens there");
    let peer = join_listener.accept().expect("descriptors are left").expect("one has come");
    assert_eq!(peer.credentials().pid, std::process::id());
    assert!(other.accept().expect("descriptors are left").is_none(), "nobody has come");
    let name = join_listener.name().to_owned();
    drop(join_listener);
    assert!(Link::connect_aside(&name, own).is_err());
}
