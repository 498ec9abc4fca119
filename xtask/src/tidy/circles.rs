//! Circles between the modules of a package: files that use each other, in the end, both ways.
//!
//! An edge is a path in the text: `crate::`, `super::`, `self::`, or a child module by its name. It
//! leads to the file that has the item: through a name that another file passes on by `pub use`,
//! which by itself uses nothing. Tests are left out: they may use whatever they test.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use crate::rules;
use crate::source;
use crate::workspace::{Package, SourceFile};

/// A module's place below the root of its crate; empty for the root itself.
type ModulePath = Vec<String>;

/// Reports a package that has more circles, or more files in circles, than its row allows.
pub(super) fn check(
    package: &Package,
    files: &[SourceFile],
    tests: &BTreeSet<String>,
    findings: &mut Vec<Finding>,
) {
    let circles = circles_of(package, files, tests);
    let in_circles: usize = circles.iter().map(Vec::len).sum();
    let allowed = rules::circles_of(&package.name);
    if circles.len() <= allowed.circles && in_circles <= allowed.files {
        return;
    }
    let Some(first) = circles.first() else { return };
    let names: Vec<String> = circles.iter().map(|circle| circle.join(", ")).collect();
    findings.push(Finding {
        file: first[0].clone(),
        line: 1,
        rule: "circles",
        message: format!(
            "`{}` has {} circles of modules with {in_circles} files; {} with {} are allowed \
             (xtask/src/rules.rs). Move what both sides use below them: {}",
            package.name,
            circles.len(),
            allowed.circles,
            allowed.files,
            names.join("; ")
        ),
    });
}

/// The circles of a package, each as the paths of its files in order.
pub(super) fn circles_of(
    package: &Package,
    files: &[SourceFile],
    tests: &BTreeSet<String>,
) -> Vec<Vec<String>> {
    let mut circles = Vec::new();
    for root in &package.roots {
        let modules = modules_of(root, &package.roots, files, tests);
        circles.extend(circles_between(&modules).into_iter().map(|circle| {
            circle.iter().map(|module| modules[module].path.clone()).collect::<Vec<_>>()
        }));
    }
    circles
}

/// The files of one crate by the module that each is. A library and a program in one folder share
/// it: the program is its root file alone.
fn modules_of<'a>(
    root: &str,
    roots: &[String],
    files: &'a [SourceFile],
    tests: &BTreeSet<String>,
) -> BTreeMap<ModulePath, &'a SourceFile> {
    let (folder, _) = root.rsplit_once('/').unwrap_or(("", root));
    let library = format!("{folder}/lib.rs");
    let alone = root != library && roots.contains(&library);
    let module_of = |path: &str| -> Option<ModulePath> {
        if path == root {
            return Some(Vec::new());
        }
        let stem = path.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(".rs")?;
        let is_other_root = roots.iter().any(|other| other == path);
        let stem = stem.strip_suffix("/mod").unwrap_or(stem);
        (!alone && !is_other_root).then(|| stem.split('/').map(str::to_owned).collect())
    };
    let files = files.iter().filter(|file| !tests.contains(&file.path));
    files.filter_map(|file| Some((module_of(&file.path)?, file))).collect()
}

/// Groups of modules of which each reaches each other one.
fn circles_between(modules: &BTreeMap<ModulePath, &SourceFile>) -> Vec<Vec<ModulePath>> {
    let mentions: BTreeMap<ModulePath, Mentions> = modules
        .iter()
        .map(|(module, file)| (module.clone(), mentions(module, file, modules)))
        .collect();
    let used_by = |module: &ModulePath| -> BTreeSet<ModulePath> {
        let used = mentions[module].used.iter().map(|path| module_of(path, &mentions));
        used.filter(|used| used != module && modules.contains_key(used)).collect()
    };
    let edges: BTreeMap<&ModulePath, BTreeSet<ModulePath>> =
        modules.keys().map(|module| (module, used_by(module))).collect();
    let reached: BTreeMap<&ModulePath, BTreeSet<ModulePath>> =
        modules.keys().map(|module| (module, reach(module, &edges))).collect();
    let mut circles = Vec::new();
    let mut seen = BTreeSet::new();
    for (module, there) in &reached {
        if seen.contains(*module) || !there.contains(*module) {
            continue;
        }
        let back = |other: &&ModulePath| reached[*other].contains(*module);
        let circle: Vec<ModulePath> = there.iter().filter(back).cloned().collect();
        seen.extend(circle.iter().cloned());
        circles.push(circle);
    }
    circles
}

/// Every module that is used by `module`, or by one that it uses, and so on.
fn reach(
    module: &ModulePath,
    edges: &BTreeMap<&ModulePath, BTreeSet<ModulePath>>,
) -> BTreeSet<ModulePath> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&ModulePath> = vec![module];
    while let Some(next) = open.pop() {
        for used in &edges[next] {
            if reached.insert(used.clone()) {
                open.push(used);
            }
        }
    }
    reached
}

/// What a file says about paths outside its tests.
struct Mentions {
    /// Paths from the root that it uses.
    used: Vec<ModulePath>,
    /// Names that stand in it for a path from the root.
    names: BTreeMap<String, ModulePath>,
}

fn mentions(
    module: &ModulePath,
    file: &SourceFile,
    modules: &BTreeMap<ModulePath, &SourceFile>,
) -> Mentions {
    let lines = source::lines(&file.text, false);
    let code: Vec<&str> =
        lines.iter().filter(|line| !line.in_test).map(|line| line.code.as_str()).collect();
    let code = code.join("\n");
    let paths = Paths::of(module, &code, modules);
    let used = paths.found.iter().filter(|found| !found.passed_on);
    let names = paths.found.iter().filter(|found| found.by_use);
    Mentions {
        used: used.map(|found| found.path.clone()).collect(),
        names: names.map(|found| (found.name.clone(), found.path.clone())).collect(),
    }
}

/// The module of a path from the root, through the names that modules on the way pass on.
fn module_of(path: &[String], mentions: &BTreeMap<ModulePath, Mentions>) -> ModulePath {
    let mut path = path.to_vec();
    for _ in 0..PASSED_ON_MAX {
        // The deepest file on the way; the root is there in every crate.
        let deepest = (0..=path.len()).rev().find(|&length| mentions.contains_key(&path[..length]));
        let (module, rest) = path.split_at(deepest.unwrap_or(0));
        let next = rest.first().and_then(|name| mentions.get(module)?.names.get(name));
        let Some(next) = next else { return module.to_vec() };
        path = next.iter().chain(&rest[1..]).cloned().collect();
    }
    path
}

/// More files than this no name passes through; names that stand for each other would never end.
const PASSED_ON_MAX: usize = 16;

/// The paths from the root that a text names.
struct Paths<'a> {
    tokens: Vec<&'a str>,
    found: Vec<Found>,
    /// Whether a `use` is being read, and whether one that passes its names on.
    in_use: bool,
    in_pub_use: bool,
}

/// One path.
struct Found {
    path: ModulePath,
    /// What it is called in the file.
    name: String,
    by_use: bool,
    passed_on: bool,
}

impl<'a> Paths<'a> {
    fn of(module: &ModulePath, code: &'a str, modules: &BTreeMap<ModulePath, &SourceFile>) -> Self {
        let tokens = tokens(code);
        let mut paths = Self { tokens, found: Vec::new(), in_use: false, in_pub_use: false };
        // `mod name {` opens a module within the file, and its `super` is the file.
        let mut here = module.clone();
        let (mut depth, mut at) = (0_usize, 0);
        let mut inline: Vec<usize> = Vec::new();
        while at < paths.tokens.len() {
            let before = if at == 0 { "" } else { paths.tokens[at - 1] };
            let after = paths.token(at + 1);
            // `pub(in crate::a)` says which modules see an item, and uses nothing.
            let begins = after == "::" && before != "::" && before != "in";
            let end = match paths.tokens[at] {
                "{" => {
                    depth += 1;
                    None
                }
                "}" => {
                    depth = depth.saturating_sub(1);
                    if inline.last() == Some(&depth) {
                        inline.pop();
                        here.pop();
                    }
                    None
                }
                "use" => {
                    paths.in_use = true;
                    paths.in_pub_use = matches!(before, "pub" | ")");
                    None
                }
                ";" => {
                    (paths.in_use, paths.in_pub_use) = (false, false);
                    None
                }
                "mod" if paths.token(at + 2) == "{" => {
                    here.push(after.to_owned());
                    inline.push(depth);
                    None
                }
                "crate" if begins => Some(paths.follow(at + 1, Vec::new())),
                "self" if begins => Some(paths.follow(at + 1, here.clone())),
                "super" if begins => Some(paths.follow_up(at, here.clone())),
                name if begins => {
                    let child: ModulePath = here.iter().cloned().chain([name.to_owned()]).collect();
                    let is_child = modules.contains_key(&child);
                    is_child.then(|| paths.follow(at + 1, child))
                }
                _ => None,
            };
            at = end.unwrap_or(at + 1);
        }
        paths
    }

    /// Notes the path that begins with the `super` at `at`, seen from `place`; returns where it
    /// ends.
    fn follow_up(&mut self, mut at: usize, mut place: ModulePath) -> usize {
        while self.token(at) == "super" && self.token(at + 1) == "::" {
            place.pop();
            at += 2;
        }
        self.follow(at - 1, place)
    }

    fn token(&self, at: usize) -> &'a str {
        self.tokens.get(at).copied().unwrap_or("")
    }

    /// Notes one path, which may go on with `as` and another name.
    fn note(&mut self, path: ModulePath, next: &str, alias: &str) {
        let last = path.last().map_or("", String::as_str);
        let name = if next == "as" { alias } else { last }.to_owned();
        self.found.push(Found { path, name, by_use: self.in_use, passed_on: self.in_pub_use });
    }

    /// Notes the path that goes on from `place` at the `::` at `at`, each branch of it; returns
    /// where it ends.
    fn follow(&mut self, mut at: usize, mut place: ModulePath) -> usize {
        while self.token(at) == "::" && is_name(self.token(at + 1)) {
            place.push(self.token(at + 1).to_owned());
            at += 2;
        }
        if self.token(at) != "::" || self.token(at + 1) != "{" {
            self.note(place, self.token(at), self.token(at + 1));
            return at;
        }
        at += 2;
        while at < self.tokens.len() && self.token(at) != "}" {
            match self.token(at) {
                "self" => self.note(place.clone(), self.token(at + 1), self.token(at + 2)),
                "*" => self.note(place.clone(), "as", "_"),
                name if is_name(name) => {
                    let branch = place.iter().cloned().chain([name.to_owned()]).collect();
                    at = self.follow(at + 1, branch);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        at + 1
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::`, and every other character that is no space.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let in_name = |c: char| c.is_alphanumeric() || c == '_';
        let length = if in_name(first) {
            rest.find(|c| !in_name(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

#[cfg(test)]
mod tests;
