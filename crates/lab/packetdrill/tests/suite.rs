//! The scripts beside this file, one behaviour each, and packetdrill's own suite if it is at hand.
#![expect(clippy::disallowed_methods, reason = "the crate is pure, who brings it scripts is not")]

mod listed;

use std::path::{Path, PathBuf};

use base::Nanos;
use listed::{DIFFERENT, LINUX_PASSES};
use packetdrill::{Ending, Failure, Script, run};

/// All scripts below a folder, by their path in it without `.pkt`, in order.
fn scripts(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        let entries = std::fs::read_dir(&next).expect("the folder can be read");
        for entry in entries {
            let path = entry.expect("the folder can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "pkt") {
                let name = path.strip_prefix(folder).expect("it is below").with_extension("");
                found.push((name.to_string_lossy().into_owned(), path));
            }
        }
    }
    found.sort();
    found
}

fn play(path: &Path, ending: Ending, tolerance: Nanos) -> Result<(), Failure> {
    let text = std::fs::read_to_string(path).expect("a script is text");
    Script::parse(&text).and_then(|script| run(&script, ending, tolerance))
}

#[test]
fn every_script_of_ours_passes_and_nothing_is_sent_that_it_does_not_mention() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let scripts = scripts(&folder);
    let failures: Vec<String> = scripts
        .iter()
        .filter_map(|(name, path)| {
            play(path, Ending::Strict, Nanos::from_millis(2))
                .err()
                .map(|failure| format!("{name}: {failure}"))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(scripts.len() >= 40, "{} scripts", scripts.len());
}

/// The one with which it was found out which scripts Linux passes.
const TOLERANCE: Nanos = Nanos::from_millis(20);

#[test]
fn of_packetdrills_scripts_that_linux_passes_all_but_the_listed_ones_pass() {
    let Some(folder) = std::env::var_os("PKT_SCRIPTS") else {
        eprintln!("packetdrill's own scripts did not run: PKT_SCRIPTS names no folder");
        return;
    };
    let folder = PathBuf::from(folder).join("tcp");
    let results: Vec<(String, Result<(), Failure>)> = scripts(&folder)
        .into_iter()
        .map(|(name, path)| (name, play(&path, Ending::Loose, TOLERANCE)))
        .collect();
    let find = |name: &str| results.iter().find(|(other, _)| other == name);
    let mut passed = 0;
    let mut unlike = Vec::new();
    for name in LINUX_PASSES {
        let (_, result) = find(name).unwrap_or_else(|| panic!("{name} is missing"));
        let is_listed = DIFFERENT.iter().any(|(other, _)| other == name);
        passed += usize::from(result.is_ok());
        match result {
            Ok(()) if is_listed => unlike.push(format!("{name} passes and is listed")),
            Err(failure) if !is_listed => unlike.push(format!("{name}: {failure}")),
            _ => {}
        }
    }
    for (name, result) in &results {
        let is_listed = LINUX_PASSES.contains(&name.as_str());
        match result {
            Ok(()) if !is_listed => eprintln!("beside the listed ones passes {name}"),
            Err(failure) if !is_listed => {
                eprintln!("beside the listed ones fails {name}: {failure}")
            }
            _ => {}
        }
    }
    eprintln!("{passed} of {} scripts that Linux passes", LINUX_PASSES.len());
    assert!(unlike.is_empty(), "{}", unlike.join("\n"));
    assert!(passed * 10 >= LINUX_PASSES.len() * 9, "{passed} of {}", LINUX_PASSES.len());
}
