//! Structs with many fields that several files implement: nobody can say which file keeps which
//! field right.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use crate::rules;
use crate::source;
use crate::workspace::{Package, SourceFile};

/// Reports the structs of a package that have more than [`rules::MAX_FIELDS`] fields and are
/// implemented in several of its files.
pub(super) fn check(
    package: &Package,
    files: &[SourceFile],
    tests: &BTreeSet<String>,
    findings: &mut Vec<Finding>,
) {
    let prefix = format!("{}/", package.dir);
    let own = files.iter().filter(|file| {
        file.path.ends_with(".rs") && file.path.starts_with(&prefix) && !tests.contains(&file.path)
    });
    let mut implementing: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut structs = Vec::new();
    for file in own {
        let lines = source::lines(&file.text, false);
        let code = lines.iter().map(|line| if line.in_test { "" } else { line.code.as_str() });
        let code: Vec<&str> = code.collect();
        for name in code.iter().filter_map(|line| implemented(line)) {
            implementing.entry(name.to_owned()).or_default().insert(&file.path);
        }
        structs.extend(structs_of(&code).into_iter().map(|found| (file, found)));
    }
    for (file, Struct { name, line, fields }) in structs {
        let count = implementing.get(&name).map_or(0, BTreeSet::len);
        if count < 2 || fields <= rules::fields_of(&package.name, &name) {
            continue;
        }
        let message = format!(
            "`{name}` has {fields} fields and is implemented in {count} files; {} are allowed: \
             cut it into parts that own their fields",
            rules::fields_of(&package.name, &name)
        );
        findings.push(Finding { file: file.path.clone(), line, rule: "fields", message });
    }
}

/// A struct with named fields.
#[derive(Debug, PartialEq, Eq)]
struct Struct {
    name: String,
    line: usize,
    fields: usize,
}

/// The name of the type that an inherent `impl` at the start of this line is for.
fn implemented(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        Some(generics) => generics.split_once("> ")?.1,
        None => rest.strip_prefix(' ')?,
    };
    (!rest.contains(" for ")).then(|| word(rest)).filter(|name| !name.is_empty())
}

/// The structs that begin at the start of a line, as `rustfmt` writes them: one field a line.
fn structs_of(code: &[&str]) -> Vec<Struct> {
    let mut found: Vec<Struct> = Vec::new();
    let mut is_inside = false;
    for (at, line) in code.iter().enumerate() {
        if let Some(name) = declared(line) {
            is_inside = true;
            found.push(Struct { name: name.to_owned(), line: at + 1, fields: 0 });
        } else if line.starts_with('}') {
            is_inside = false;
        } else if is_inside
            && is_field(line)
            && let Some(last) = found.last_mut()
        {
            last.fields += 1;
        }
    }
    found
}

fn declared(line: &str) -> Option<&str> {
    let is_visible = |part: &str| part.is_empty() || part.starts_with("pub");
    let (visibility, rest) = line.split_once("struct ")?;
    (is_visible(visibility) && line.trim_end().ends_with('{')).then(|| word(rest))
}

fn is_field(line: &str) -> bool {
    let Some(line) = line.strip_prefix("    ") else { return false };
    let line = match line.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ").map_or(rest, |(_, field)| field),
        None => line.strip_prefix("pub ").unwrap_or(line),
    };
    let name = word(line);
    !name.is_empty() && line[name.len()..].starts_with(": ")
}

/// The identifier that `text` begins with.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_by_lines_as_rustfmt_writes_them() {
        let text = "pub(crate) struct One<'a> {\n    a: u8,\n    pub(super) b: Vec<&'a u8>,\n    \
                    pub c:\n        u8,\n}\nstruct Unit;\nstruct Two {\n    d: u8,\n}\n";
        let code: Vec<&str> = text.lines().collect();
        let found = structs_of(&code);
        let counts: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.fields)).collect();
        assert_eq!(counts, [("One", 2), ("Two", 1)], "a field of two lines is not seen");
    }

    #[test]
    fn an_inherent_impl_names_its_type() {
        assert_eq!(implemented("impl One {"), Some("One"));
        assert_eq!(implemented("impl<'a, P: Policy> One<'a, P> {"), Some("One"));
        assert_eq!(implemented("impl Drop for One {"), None);
        assert_eq!(implemented("    impl One {"), None);
    }
}
