//! Rules about a package: who it depends on, what its manifest and its root files must say.

use super::finding::Finding;
use crate::rules::{self, CrateRule, Purity, Unsafety};
use crate::workspace::{Package, SourceFile};

pub(super) fn check(package: &Package, files: &[SourceFile], findings: &mut Vec<Finding>) {
    let text_of = |path: &str| {
        let file = files.iter().find(|file| file.path == path);
        file.map_or("", |file| file.text.as_str())
    };
    let manifest = text_of(&package.manifest());
    description(package, findings);
    lints(package, manifest, findings);
    test_files_are_built(package, manifest, files, findings);
    let rule = match place_of(package) {
        Scope::Crates => {
            let rule = rules::rule_of(&package.dir);
            if rule.is_none() {
                findings.push(at_manifest(
                    package,
                    "dependency-table",
                    format!(
                        "crate `{}` has no row in xtask/src/rules.rs: add one that says what it \
                         may use, whether it is pure and whether it may contain unsafe",
                        package.dir
                    ),
                ));
            }
            rule
        }
        Scope::Outside => None,
        Scope::Nowhere => {
            let message = "a package lives in crates/FOLDER/ or bin/, or is examples, tests, fuzz or xtask: \
                           move it";
            findings.push(at_manifest(package, "layout", message.to_owned()));
            None
        }
    };
    dependencies(package, rule, manifest, findings);
    if let Some(rule) = rule
        && rule.purity == Purity::Pure
    {
        pure_clippy(package, text_of, findings);
    }
    if rules::USED_BY_STRANGERS.contains(&package.dir.as_str()) {
        for root in package.roots.iter().filter(|root| root.ends_with("/lib.rs")) {
            errors_are_told(root, text_of(root), findings);
        }
    }
    if rule.is_none_or(|rule| rule.unsafety == Unsafety::Forbidden) {
        for root in &package.roots {
            unsafe_is_forbidden(root, text_of(root), findings);
        }
    }
}

/// Public functions that can fail say when: clippy holds the crate to it.
fn errors_are_told(root: &str, text: &str, findings: &mut Vec<Finding>) {
    const LINT: &str = "#![warn(clippy::missing_errors_doc)]";
    if !text.lines().any(|line| line == LINT) {
        findings.push(Finding {
            file: root.to_owned(),
            line: 1,
            rule: "errors-are-told",
            message: format!("strangers build on this crate: write `{LINT}`"),
        });
    }
}

/// Where tests are named one by one, a file that nobody names would never be compiled, and nobody
/// would miss it.
fn test_files_are_built(
    package: &Package,
    manifest: &str,
    files: &[SourceFile],
    findings: &mut Vec<Finding>,
) {
    if !manifest.contains("autotests = false") {
        return;
    }
    let folder = format!("{}/tests/", package.dir);
    let tests = files.iter().filter_map(|file| {
        let name = file.path.strip_prefix(&folder)?.strip_suffix(".rs")?;
        (!name.contains('/')).then_some((file, name))
    });
    let is_program = |name: &str| manifest.contains(&format!("path = \"tests/{name}.rs\""));
    let programs: Vec<_> = tests.clone().filter(|(_, name)| is_program(name)).collect();
    for (file, name) in tests.filter(|(_, name)| !is_program(name)) {
        let module = format!("mod {name};");
        if !programs.iter().any(|(program, _)| program.text.lines().any(|line| line == module)) {
            findings.push(Finding {
                file: file.path.clone(),
                line: 1,
                rule: "tests-are-built",
                message: format!("no test program has it: `{module}` belongs in one of tests/"),
            });
        }
    }
}

/// Where a package lives decides which rules it is under.
enum Scope {
    /// `crates/FOLDER/NAME`: under the dependency table.
    Crates,
    /// `bin/NAME`, `examples`, `tests`, `fuzz`, `xtask`: may use anything.
    Outside,
    Nowhere,
}

fn place_of(package: &Package) -> Scope {
    match package.dir.split('/').collect::<Vec<_>>().as_slice() {
        ["crates", _, _] => Scope::Crates,
        ["bin", _] | ["examples" | "tests" | "fuzz" | "xtask"] => Scope::Outside,
        _ => Scope::Nowhere,
    }
}

fn dependencies(
    package: &Package,
    rule: Option<&CrateRule>,
    manifest: &str,
    findings: &mut Vec<Finding>,
) {
    let in_crates = matches!(place_of(package), Scope::Crates);
    for dependency in &package.dependencies {
        let (user, used) = (&package.name, &dependency.name);
        let of_crates = dependency.dir.starts_with("crates/");
        let message = if in_crates && !of_crates {
            format!("`{user}` may not use `{used}`: nothing depends on {}", dependency.dir)
        } else if let Some(rule) = rule
            && !dependency.dev_only
            && !rule.may_use.contains(&dependency.dir.rsplit('/').next().unwrap_or_default())
        {
            format!(
                "`{user}` may not use `{used}`, only [{}]: move the code, or change the table in \
                 xtask/src/rules.rs and ARCHITECTURE.md together",
                rule.may_use.join(", ")
            )
        } else {
            continue;
        };
        findings.push(Finding {
            file: package.manifest(),
            line: line_naming(manifest, used),
            rule: "dependency-table",
            message,
        });
    }
}

/// The line of a manifest that starts with `name` as a key.
fn line_naming(manifest: &str, name: &str) -> usize {
    let is_key = |line: &str| {
        let rest = line.trim_start().strip_prefix(name);
        rest.is_some_and(|rest| rest.trim_start().starts_with(['.', '=']))
    };
    manifest.lines().position(is_key).map_or(1, |index| index + 1)
}

fn description(package: &Package, findings: &mut Vec<Finding>) {
    let description = package.description.as_deref().unwrap_or("").trim();
    if description.is_empty() || description.contains('\n') {
        let message = "say in one line what the crate is: `description = \"…\"`";
        findings.push(at_manifest(package, "description", message.to_owned()));
    }
}

fn lints(package: &Package, manifest: &str, findings: &mut Vec<Finding>) {
    let mut lines = manifest.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
    let inherits = lines
        .by_ref()
        .take_while(|line| !line.starts_with('['))
        .any(|line| line.replace(' ', "") == "workspace=true");
    if !inherits {
        let message = "add `[lints]` with `workspace = true`: the lints are kept at the root";
        findings.push(at_manifest(package, "lints", message.to_owned()));
    }
}

fn pure_clippy<'a>(
    package: &Package,
    text_of: impl Fn(&str) -> &'a str,
    findings: &mut Vec<Finding>,
) {
    let path = format!("{}/clippy.toml", package.dir);
    if text_of(&path) != text_of(rules::PURE_CLIPPY) {
        let name = &package.name;
        let message = format!("`{name}` is pure and carries a copy of {}", rules::PURE_CLIPPY);
        findings.push(Finding { file: path, line: 1, rule: "pure", message });
    }
}

fn unsafe_is_forbidden(root: &str, text: &str, findings: &mut Vec<Finding>) {
    let forbids = |line: &str| line.trim_start().starts_with("#![forbid(unsafe_code");
    if !text.lines().any(forbids) {
        findings.push(Finding {
            file: root.to_owned(),
            line: 1,
            rule: "unsafe-fence",
            message: "add `#![forbid(unsafe_code)]`: this crate is no home of unsafe".to_owned(),
        });
    }
}

fn at_manifest(package: &Package, rule: &'static str, message: String) -> Finding {
    Finding { file: package.manifest(), line: 1, rule, message }
}
