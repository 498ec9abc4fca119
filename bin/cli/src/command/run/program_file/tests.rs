//! Against files of a folder of our own.

use std::fs;

use super::super::elf::tests::{ANYWHERE, FIXED, GLIBC, OURS, program};
use super::*;

/// A folder of programs, which is the PATH.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = format!("calisto-programs-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
        Self(folder)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let file = self.0.join(name);
        fs::write(&file, bytes).expect("it can be written");
        self.mode(name, 0o755);
        file
    }

    fn dynamic(&self, name: &str) -> PathBuf {
        self.file(name, program(ANYWHERE, OURS, Some(GLIBC), None))
    }

    fn mode(&self, name: &str, mode: u32) {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(self.0.join(name), mode).expect("it is ours");
    }

    fn look(&self, words: &[&str]) -> Result<Looked, NotRun> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        look(&words, Some(self.0.as_os_str()), Runner { uid: 0, gid: 0 })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("it is ours");
    }
}

fn looked<const N: usize>(files: [&PathBuf; N], flaw: Option<Flaw>) -> Looked {
    let files = files.map(PathBuf::clone).to_vec();
    let last = files.last().cloned().expect("some file");
    Looked { files, obstacle: flaw.map(|flaw| Obstacle::File(last, flaw)) }
}

#[test]
fn a_script_is_what_its_interpreter_is() {
    let folder = Folder::new("script");
    let (good, bad) =
        (folder.dynamic("good"), folder.file("bad", program(FIXED, OURS, None, None)));
    let line = |interpreter: &Path| format!("#! {} -x\nexit\n", interpreter.display());
    let script = folder.file("script", line(&good));
    assert_eq!(folder.look(&["script"]).expect("it is there"), looked([&script, &good], None));
    let of_static = folder.file("of-static", line(&bad));
    let of_script = folder.file("of-script", line(&of_static));
    assert_eq!(
        folder.look(&["of-script"]).expect("it is there"),
        looked([&of_script, &of_static, &bad], Some(Flaw::Static))
    );
    let plain = folder.file("plain", "echo no first line\n");
    let seen = folder.look(&["plain"]).expect("it is there");
    assert_eq!(seen.files[..2], [plain, SHELL.into()]);
}

#[test]
fn env_is_seen_through_in_scripts_and_in_commands() {
    let folder = Folder::new("env");
    let (env, node) =
        (folder.dynamic("env"), folder.file("node", program(FIXED, OURS, None, None)));
    let flaw = || Some(Flaw::Static);
    for words in ["node", "-S node --flag", "-S -i A=1 node"] {
        let script = folder.file("script", format!("#!{} {words}\n", env.display()));
        let expected = looked([&script, &env, &node], flaw());
        assert_eq!(folder.look(&["script", "x"]).expect("it is there"), expected, "{words}");
    }
    let expected = looked([&env, &node], flaw());
    let words = ["env", "A=b c", "-i", "node", "x"];
    assert_eq!(folder.look(&words).expect("it is there"), expected);
    assert_eq!(folder.look(&["env", "gone"]).expect("env says so"), looked([&env], None));
    assert_eq!(folder.look(&["env"]).expect("it prints"), looked([&env], None));
}

#[test]
fn scripts_that_run_each_other_for_ever_are_given_up() {
    let folder = Folder::new("circle");
    let file = folder.0.join("circle");
    folder.file("circle", format!("#!{}\n", file.display()));
    assert_eq!(folder.look(&["circle"]).expect("it is there").files.len(), DEPTH_MAX);
}

fn kind_of(why: &NotRun) -> io::ErrorKind {
    match why {
        NotRun::Program(error) => error.kind(),
        NotRun::Interpreter { .. } => panic!("{why:?}"),
    }
}

#[test]
fn a_program_is_looked_up_as_exec_does_it() {
    let folder = Folder::new("path");
    let kind = |words: &[&str]| kind_of(&folder.look(words).expect_err("it cannot run"));
    assert_eq!(kind(&["gone"]), io::ErrorKind::NotFound);
    folder.dynamic("data");
    folder.mode("data", 0o644);
    assert_eq!(kind(&["data"]), io::ErrorKind::PermissionDenied);
    let path = folder.0.join("data");
    assert_eq!(kind(&[path.to_str().expect("text")]), io::ErrorKind::PermissionDenied);
    fs::create_dir(folder.0.join("folder")).expect("it can be made");
    assert_eq!(kind(&["folder"]), io::ErrorKind::PermissionDenied);
    let nothing = look(&[], None, Runner { uid: 0, gid: 0 }).expect_err("nothing");
    assert_eq!(kind_of(&nothing), io::ErrorKind::InvalidInput);
}

#[test]
fn rights_that_a_program_gains_keep_the_library_out_and_others_do_not() {
    let folder = Folder::new("rights");
    let file = folder.dynamic("program");
    let own = fs::metadata(&file).expect("it is there");
    let owner = Runner { uid: own.uid(), gid: own.gid() };
    let stranger = Runner { uid: own.uid() + 1, gid: own.gid() + 1 };
    for (mode, caps, runner, flaw) in [
        (0o755, false, stranger, None),
        (0o4755, false, owner, None),
        (0o4755, false, stranger, Some(Flaw::SetUser)),
        (0o2755, false, owner, None),
        (0o2755, false, stranger, Some(Flaw::SetGroup)),
        (0o2745, false, stranger, None),
        (0o755, true, Runner { uid: 0, gid: 0 }, None),
        (0o755, true, Runner { uid: 7, gid: 7 }, Some(Flaw::Capabilities)),
    ] {
        folder.mode("program", mode);
        let data = fs::metadata(&file).expect("it is there");
        assert_eq!(privilege(&data, caps, runner), flaw, "{mode:o} {runner:?}");
    }
    folder.mode("program", 0o4755);
    let Next::Flaw(flaw) = look_into(&file, stranger) else { panic!("it is set-user-id") };
    assert_eq!(flaw, Flaw::SetUser);
}
