//! Which texts make an edge, and which edges make a circle.

use super::*;

fn package() -> Package {
    Package {
        name: "x".to_owned(),
        dir: "crates/x".to_owned(),
        description: None,
        roots: vec!["crates/x/src/lib.rs".to_owned()],
        targets: Vec::new(),
        dependencies: Vec::new(),
    }
}

/// The circles between files of `crates/x/src`; the last parts of their paths.
fn circles(files: &[(&str, &str)]) -> Vec<String> {
    let root: &[(&str, &str)] = &[("lib.rs", "")];
    let root = if files.iter().any(|(path, _)| *path == "lib.rs") { &[] } else { root };
    let files: Vec<SourceFile> = root
        .iter()
        .chain(files)
        .map(|(path, text)| SourceFile {
            path: format!("crates/x/src/{path}"),
            text: (*text).to_owned(),
        })
        .collect();
    let circles = circles_of(&package(), &files, &BTreeSet::new());
    let short = |path: &String| path.trim_start_matches("crates/x/src/").to_owned();
    circles.iter().map(|circle| circle.iter().map(short).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn two_files_that_name_each_other_are_a_circle() {
    let back = ("b.rs", "fn g() { crate::a::f() }");
    assert_eq!(circles(&[("a.rs", "use crate::b::g;"), back]), ["a.rs b.rs"]);
    assert_eq!(circles(&[("a.rs", "use super::b;"), back]), ["a.rs b.rs"]);
    assert_eq!(circles(&[("a.rs", "use crate::{c, b::{g, h}};"), back]), ["a.rs b.rs"]);
    assert_eq!(circles(&[("a.rs", "use super::{c::{self, d}, b};"), back]), ["a.rs b.rs"]);
}

#[test]
fn a_way_back_over_a_third_file_is_a_circle_of_three() {
    let three = [("a.rs", "use crate::b;"), ("b.rs", "use crate::c;"), ("c.rs", "use crate::a;")];
    assert_eq!(circles(&three), ["a.rs b.rs c.rs"]);
    assert_eq!(circles(&three[..2]), [""; 0]);
}

#[test]
fn a_parent_that_uses_its_child_must_not_be_used_by_it() {
    let parent = ("a.rs", "mod b;\nfn f() { b::g() }\npub(crate) struct S;");
    assert_eq!(circles(&[parent, ("a/b.rs", "use super::S;")]), ["a.rs a/b.rs"]);
    assert_eq!(circles(&[parent, ("a/b.rs", "use crate::a::S;")]), ["a.rs a/b.rs"]);
    // What stands beside the child is reached through the parent's name, and is not the parent.
    let beside = [parent, ("a/b.rs", "use super::c::S;"), ("a/c.rs", "")];
    assert_eq!(circles(&beside), [""; 0]);
    // A declaration alone uses nothing.
    assert_eq!(circles(&[("a.rs", "mod b;"), ("a/b.rs", "use super::S;")]), [""; 0]);
}

#[test]
fn a_name_that_another_file_passes_on_leads_to_the_file_that_has_it() {
    let root = ("lib.rs", "mod a;\nmod b;\npub use a::{A, Z as Y};\npub(crate) use b::B;");
    let both = [root, ("a.rs", "use crate::B;"), ("b.rs", "use crate::Y;")];
    assert_eq!(circles(&both), ["a.rs b.rs"]);
    assert_eq!(circles(&both[..2]), [""; 0], "to pass a name on is not to use it");
    let uses = ("lib.rs", "mod a;\nuse a::A;\nfn f() { A }");
    assert_eq!(circles(&[uses, ("a.rs", "use crate::f;")]), ["lib.rs a.rs"]);
    let each_other = ("a.rs", "use crate::b::x;");
    assert_eq!(circles(&[("lib.rs", ""), each_other, ("b.rs", "use crate::a::x;")]), [""; 0]);
}

#[test]
fn tests_comments_strings_and_visibilities_are_no_edges() {
    for text in [
        "#[cfg(test)]\nmod tests {\n    use crate::a::f;\n}",
        "// crate::a::f",
        "const S: &str = \"crate::a::f\";",
        "pub(in crate::a) fn f() {}",
        "pub(super) fn f() {}",
        "use other::a::f;",
    ] {
        assert_eq!(circles(&[("a.rs", "use crate::b;"), ("b.rs", text)]), [""; 0], "{text}");
    }
}

#[test]
fn the_super_of_a_module_within_a_file_is_the_file() {
    let within = ("b.rs", "mod inner {\n    use super::g;\n}\nfn h() { self::i() }");
    assert_eq!(circles(&[("lib.rs", "use crate::b;"), within]), [""; 0]);
    let after = ("b.rs", "mod inner {\n    fn f() {}\n}\nuse super::g;");
    assert_eq!(circles(&[("lib.rs", "use crate::b;"), after]), ["lib.rs b.rs"]);
}

#[test]
fn a_package_may_have_the_circles_of_its_row_and_no_more() {
    let files = [("a.rs", "use crate::b;"), ("b.rs", "use crate::a;")].map(|(path, text)| {
        SourceFile { path: format!("crates/x/src/{path}"), text: text.to_owned() }
    });
    let mut findings = Vec::new();
    check(&package(), &files, &BTreeSet::new(), &mut findings);
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((finding.file.as_str(), finding.rule), ("crates/x/src/a.rs", "circles"));
    let message = "1 circles of modules with 2 files; 0 with 0 are allowed";
    assert!(finding.message.contains(message), "{finding}");
}
