//! The layers of the library: no file names one above its own.

use std::path::{Path, PathBuf};

/// From the ground up, as the header of `lib.rs` has them.
const LAYERS: [&str; 6] = ["system", "entry", "process", "wait", "calls", "exports"];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the sources are here");
    let paths = entries.map(|entry| entry.expect("it can be read").path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The height of the layer that a name stands for.
fn height(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| *layer == name)
}

/// The layer of a file, by the first part of its path.
fn height_of(file: &Path) -> Option<usize> {
    let inside = file.strip_prefix(source()).expect("a file of the sources").to_str()?;
    height(inside.split(['/', '.']).next()?)
}

/// The layers that a file names outside its tests and comments.
fn named(file: &Path) -> Vec<usize> {
    let text = std::fs::read_to_string(file).expect("it can be read");
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let paths = lines.flat_map(|line| line.split("crate::").skip(1));
    paths.filter_map(|path| height(path.split([':', ';', ' ']).next()?)).collect()
}

#[test]
fn no_file_uses_a_layer_above_its_own() {
    let mut seen = 0;
    for file in files(&source()) {
        let Some(own) = height_of(&file) else { continue };
        let named = named(&file);
        seen += named.len();
        let above = named.into_iter().find(|&layer| layer > own).map(|layer| LAYERS[layer]);
        assert_eq!(above, None, "{}", file.display());
    }
    assert!(seen > 100, "the test reads what it should: {seen} uses");
}

#[test]
fn every_folder_is_a_layer() {
    let root = source().join("lib.rs");
    let stray: Vec<PathBuf> = files(&source())
        .into_iter()
        .filter(|file| *file != root && height_of(file).is_none())
        .collect();
    assert!(stray.is_empty(), "{stray:?}");
}
