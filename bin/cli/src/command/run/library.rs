//! Finds the library that is loaded before a program, and writes it into LD_PRELOAD.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::obstacle::Obstacle;

/// Its file.
const NAME: &str = "libcalisto_preload.so";

/// Names the library, if it is not where it belongs.
const VARIABLE: &str = "CALISTO_PRELOAD";

/// The library of this installation, as the environment has it.
pub(crate) fn find_ours() -> Result<PathBuf, Obstacle> {
    let own = std::env::current_exe().ok();
    find(std::env::var_os(VARIABLE).as_deref(), own.as_deref())
}

/// The library: where CALISTO_PRELOAD says, else beside this program (`own`), else where packages
/// put it.
fn find(named: Option<&OsStr>, own: Option<&Path>) -> Result<PathBuf, Obstacle> {
    let places = match named.filter(|name| !name.is_empty()) {
        Some(named) => vec![PathBuf::from(named)],
        None => {
            let beside = own.and_then(Path::parent).unwrap_or(Path::new("/usr/bin"));
            vec![beside.join(NAME), beside.join("../lib/calisto").join(NAME)]
        }
    };
    // The program may go to another folder before its loader looks.
    let there = places.iter().find(|place| place.is_file());
    let Some(library) = there.and_then(|place| place.canonicalize().ok()) else {
        return Err(Obstacle::NoLibrary(places));
    };
    let ends_a_name = |byte: &u8| matches!(byte, b':' | b' ' | b'\t' | b'\n');
    if library.as_os_str().as_bytes().iter().any(ends_a_name) {
        return Err(Obstacle::LibraryPath(library));
    }
    Ok(library)
}

/// LD_PRELOAD with `library`, which stands last: what was `there` already is meant to see the
/// program's calls first, and gets them to ours.
pub(crate) fn preload(there: Option<OsString>, library: &Path) -> OsString {
    let mut value = there.unwrap_or_default();
    if !value.is_empty() {
        value.push(":");
    }
    value.push(library);
    value
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_named_library_is_preferred_then_one_beside_us_then_the_installed_one() {
        let folder = std::env::temp_dir().join(format!("calisto-library-{}", std::process::id()));
        let (bin, lib) = (folder.join("bin"), folder.join("lib/calisto"));
        for folder in [&bin, &lib] {
            fs::create_dir_all(folder).expect("the folder for temporary files can be written");
        }
        let own = bin.join("calisto");
        let sought = |named: Option<&Path>| find(named.map(Path::as_os_str), Some(&own));
        let Err(Obstacle::NoLibrary(places)) = sought(None) else { panic!("there is none") };
        assert_eq!(places.len(), 2);
        let (beside, installed, named) = (bin.join(NAME), lib.join(NAME), folder.join("x.so"));
        for library in [&installed, &beside, &named] {
            fs::write(library, "").expect("it can be written");
            let wanted = (library == &named).then_some(library.as_path());
            let canonical = library.canonicalize().expect("it is there");
            assert_eq!(sought(wanted), Ok(canonical));
        }
        let gone = Path::new("/nowhere/x.so");
        assert_eq!(sought(Some(gone)), Err(Obstacle::NoLibrary(vec![gone.to_owned()])));
        assert!(sought(Some(Path::new(""))).is_ok(), "empty is not said");
        let blank = folder.join("a b.so");
        fs::write(&blank, "").expect("it can be written");
        assert!(matches!(sought(Some(&blank)), Err(Obstacle::LibraryPath(_))));
        fs::remove_dir_all(folder).expect("it is ours");
    }

    #[test]
    fn what_was_preloaded_before_stays_and_comes_first() {
        let library = Path::new("/l/c.so");
        assert_eq!(preload(None, library), "/l/c.so");
        assert_eq!(preload(Some("".into()), library), "/l/c.so");
        assert_eq!(preload(Some("/a.so /b.so".into()), library), "/a.so /b.so:/l/c.so");
    }
}
