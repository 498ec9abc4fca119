//! What there is to check: the packages as cargo sees them, and the text of every file.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The workspace on disk.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target_dir: PathBuf,
    pub(crate) packages: Vec<Package>,
}

/// A package of the workspace.
pub(crate) struct Package {
    pub(crate) name: String,
    /// Relative to the root, with forward slashes: `crates/core/base`.
    pub(crate) dir: String,
    pub(crate) description: Option<String>,
    /// The `lib.rs` and `main.rs` files, relative to the root.
    pub(crate) roots: Vec<String>,
    /// What cargo can select of it: `lib`, `bin`, `test`, `example` or `bench`, and the name.
    pub(crate) targets: Vec<(String, String)>,
    /// Dependencies on packages of this workspace.
    pub(crate) dependencies: Vec<Dependency>,
}

/// A package of this workspace that another one names.
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Its directory, relative to the root.
    pub(crate) dir: String,
    /// Named under `[dev-dependencies]`: it does not reach what is shipped.
    pub(crate) dev_only: bool,
}

/// A text file of the workspace.
pub(crate) struct SourceFile {
    /// Relative to the root, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Workspace {
    /// Asks cargo, in the current directory.
    pub(crate) fn load() -> Result<Self, String> {
        let arguments = ["metadata", "--no-deps", "--format-version", "1"];
        let output = cargo().args(arguments).output().map_err(|error| {
            format!("cannot run `cargo metadata`: {error}; start me as `cargo xtask`")
        })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("`cargo metadata` failed:\n{said}"));
        }
        let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
            format!("`cargo metadata` printed something that is no JSON: {error}")
        })?;
        Self::from_metadata(&metadata).ok_or_else(|| {
            "`cargo metadata` lacks a field that it has always had; see xtask/src/workspace.rs"
                .to_owned()
        })
    }

    fn from_metadata(metadata: &Value) -> Option<Self> {
        let root = PathBuf::from(metadata["workspace_root"].as_str()?);
        let target_dir = PathBuf::from(metadata["target_directory"].as_str()?);
        let packages = metadata["packages"].as_array()?;
        let packages = packages.iter().map(|package| Package::from_metadata(package, &root));
        let packages = packages.collect::<Option<_>>()?;
        Some(Self { root, target_dir, packages })
    }

    /// The package in `dir`.
    pub(crate) fn package_in(&self, dir: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.dir == dir)
    }

    /// Every file, in the order of its path, with its text if it has one; build output and fuzzing
    /// corpora are left out.
    pub(crate) fn files(&self) -> Result<Vec<SourceFile>, String> {
        let mut files = Vec::new();
        collect(&self.root, &self.root, &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }
}

impl Package {
    fn from_metadata(package: &Value, root: &Path) -> Option<Self> {
        let manifest = Path::new(package["manifest_path"].as_str()?);
        let targets = package["targets"].as_array()?;
        let roots = targets.iter().filter(|target| is_library_or_program(target));
        let roots = roots.map(|target| Some(relative(target["src_path"].as_str()?.as_ref(), root)));
        let dependencies = package["dependencies"].as_array()?.iter().filter_map(|dependency| {
            let dir = relative(dependency["path"].as_str()?.as_ref(), root);
            let name = dependency["name"].as_str()?.to_owned();
            Some(Dependency { name, dir, dev_only: dependency["kind"] == "dev" })
        });
        Some(Self {
            name: package["name"].as_str()?.to_owned(),
            dir: relative(manifest.parent()?, root),
            description: package["description"].as_str().map(str::to_owned),
            targets: targets.iter().flat_map(names_of).collect(),
            roots: roots.collect::<Option<_>>()?,
            dependencies: dependencies.collect(),
        })
    }

    pub(crate) fn manifest(&self) -> String {
        format!("{}/Cargo.toml", self.dir)
    }
}

/// The cargo that runs us, so that a toolchain override reaches the commands we start.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The kinds of a target, each with its name.
fn names_of(target: &Value) -> Vec<(String, String)> {
    let name = target["name"].as_str().unwrap_or_default();
    let kinds = target["kind"].as_array().into_iter().flatten().filter_map(Value::as_str);
    kinds.map(|kind| (kind.to_owned(), name.to_owned())).collect()
}

fn is_library_or_program(target: &Value) -> bool {
    const KINDS: [&str; 6] = ["lib", "rlib", "cdylib", "staticlib", "proc-macro", "bin"];
    let kinds = target["kind"].as_array();
    kinds.is_some_and(|kinds| kinds.iter().any(|kind| KINDS.iter().any(|known| kind == known)))
}

fn relative(path: &Path, root: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    path.to_string_lossy().replace('\\', "/")
}

fn collect(dir: &Path, root: &Path, files: &mut Vec<SourceFile>) -> Result<(), String> {
    let failed = |path: &Path, error| format!("cannot read {}: {error}", path.display());
    for entry in std::fs::read_dir(dir).map_err(|error| failed(dir, error))? {
        let entry = entry.map_err(|error| failed(dir, error))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(|error| failed(&path, error))?;
        let name = relative(&path, root);
        if kind.is_dir() && !is_generated(&name) {
            collect(&path, root, files)?;
        } else if kind.is_file() {
            let bytes = match std::fs::read(&path) {
                Ok(bytes) => bytes,
                // An editor's temporary file, gone since it was listed.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(&path, error)),
            };
            // What is not text (a capture, a picture) is there for links to it, and under no rule.
            let text = String::from_utf8(bytes).unwrap_or_default();
            files.push(SourceFile { path: name, text });
        }
    }
    Ok(())
}

/// Directories that .gitignore names, and git's own.
fn is_generated(dir: &str) -> bool {
    const DIRS: [&str; 5] = [".git", "target", "fuzz/target", "fuzz/corpus", "fuzz/artifacts"];
    DIRS.contains(&dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_is_seen_with_its_packages_edges_and_files() {
        let workspace = Workspace::load().expect("the test runs inside it");
        let xtask = workspace.package_in("xtask").expect("this very package");
        assert_eq!(xtask.name, "xtask");
        assert_eq!(xtask.roots, ["xtask/src/main.rs"]);
        assert!(xtask.dependencies.is_empty(), "serde_json is not of this workspace");
        let files = workspace.files().expect("readable");
        assert!(files.iter().any(|file| file.path == "xtask/src/workspace.rs"));
        assert!(!files.iter().any(|file| file.path.starts_with("target/")));
    }

    #[test]
    fn only_dependencies_with_a_path_are_edges_and_dev_ones_are_marked() {
        let metadata = serde_json::json!({
            "workspace_root": "/r", "target_directory": "/r/target",
            "packages": [{
                "name": "wire", "manifest_path": "/r/crates/core/wire/Cargo.toml", "description": null,
                "targets": [
                    { "kind": ["lib"], "name": "wire", "src_path": "/r/crates/core/wire/src/lib.rs" },
                    { "kind": ["test"], "name": "a", "src_path": "/r/crates/core/wire/tests/a.rs" },
                ],
                "dependencies": [
                    { "name": "base", "path": "/r/crates/core/base", "kind": null },
                    { "name": "testbed", "path": "/r/crates/lab/testbed", "kind": "dev" },
                    { "name": "libc", "kind": null },
                ],
            }],
        });
        let workspace = Workspace::from_metadata(&metadata).expect("complete");
        let wire = workspace.package_in("crates/core/wire").expect("it is there");
        assert_eq!(wire.manifest(), "crates/core/wire/Cargo.toml");
        assert_eq!(wire.roots, ["crates/core/wire/src/lib.rs"]);
        let target = |kind: &str, name: &str| (kind.to_owned(), name.to_owned());
        assert_eq!(wire.targets, [target("lib", "wire"), target("test", "a")]);
        let edges = wire.dependencies.iter().map(|d| (d.name.as_str(), d.dev_only));
        assert_eq!(edges.collect::<Vec<_>>(), [("base", false), ("testbed", true)]);
    }

    #[test]
    fn metadata_without_a_field_is_refused() {
        assert!(Workspace::from_metadata(&serde_json::json!({ "packages": [] })).is_none());
    }
}
