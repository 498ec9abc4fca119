//! `calisto` hands the laboratory's commands over to `calisto-lab`, and says so when it is not
//! there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use whole::binary;

/// A folder of ours; gone with this value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("calisto-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the folder for temporary files can be written");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a script that writes programs. A process of its own does it: a program that a thread of
/// ours writes may be open in a child that another thread starts, and cannot be run until that has
/// gone.
fn shell(script: &str, words: &[&Path]) {
    let status = Command::new("sh").args(["-ec", script, "sh"]).args(words).status();
    assert!(status.expect("sh is there").success(), "{script}");
}

fn program_that_says(word: &str, path: &Path) {
    let script = format!("printf '#!/bin/sh\\necho {word}\\n' > \"$1\"; chmod +x \"$1\"");
    shell(&script, &[path]);
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn calisto(words: &str) -> Output {
    let mut command = Command::new(binary("calisto"));
    assert!(binary("calisto-lab").exists());
    command.args(words.split(' ')).output().expect("calisto is there")
}

#[test]
fn words_options_and_exit_codes_pass_through() {
    let list = calisto("sim --list");
    assert!(list.status.success() && text(&list.stdout).contains("calisto-6"), "{list:?}");
    for words in ["-j sim --list", "sim --list -j"] {
        let list = text(&calisto(words).stdout);
        assert!(list.starts_with(['{', '[']), "{words}: {list}");
    }
    let refused = calisto("load udp 127.0.0.1:0");
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).starts_with("calisto: "), "{refused:?}");
}

#[test]
fn help_and_completions_know_the_options_of_both() {
    for words in ["help bench steer", "bench steer --help", "bench help steer"] {
        let help = text(&calisto(words).stdout);
        assert!(help.contains("bench steer [OPTIONS]") && help.contains("--quick"), "{help}");
    }
    let list = text(&calisto("--help").stdout);
    assert!(list.contains("  bench ") && list.contains("  steer "), "{list}");
    let script = text(&calisto("completions bash").stdout);
    assert!(script.contains("--print-config") && script.contains("--shard"), "both have theirs");
}

#[test]
fn without_it_the_message_says_how_to_get_it_and_the_current_directory_is_not_asked() {
    let (alone, here) = (Folder::new("alone"), Folder::new("here"));
    let program = alone.0.join("calisto");
    shell("cp \"$1\" \"$2\"", &[&binary("calisto"), &program]);
    program_that_says("trapped", &here.0.join("calisto-lab"));
    let run = |path: &str| {
        let mut command = Command::new(&program);
        command.args(["bench", "steer"]).current_dir(&here.0).env("PATH", path);
        command.output().expect("calisto is there")
    };
    for path in ["", ".", ":."] {
        let output = run(path);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("`cargo build --release -p calisto-lab`"), "{said}");
    }
    // The same folder under its full name is one that somebody chose.
    let output = run(&here.0.display().to_string());
    assert_eq!(text(&output.stdout), "trapped\n");
    // What is beside the command comes first.
    program_that_says("beside", &alone.0.join("calisto-lab"));
    assert_eq!(text(&run(&here.0.display().to_string()).stdout), "beside\n");
}
