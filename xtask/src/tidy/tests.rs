//! Each rule against input that breaks it, and against input that comes close and does not.

use std::path::PathBuf;

use super::*;
use crate::rules::{self, Scope};
use crate::workspace::{Dependency, Package};

const MANIFEST: &str = "[package]\nname = \"x\"\n\n[lints]\nworkspace = true\n";
const ROOT: &str = "//! A crate.\n#![forbid(unsafe_code)]\n#![warn(clippy::missing_errors_doc)]\n";
const CLIPPY: &str = "disallowed-methods = []\n";

fn file(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), text: text.to_owned() }
}

/// A package without fault in `dir`; its name is the last part of that.
fn package(dir: &str) -> Package {
    Package {
        name: dir.rsplit('/').next().unwrap_or(dir).to_owned(),
        dir: dir.to_owned(),
        description: Some("What it is".to_owned()),
        roots: vec![format!("{dir}/src/lib.rs")],
        targets: Vec::new(),
        dependencies: Vec::new(),
    }
}

fn uses(mut package: Package, dir: &str, dev_only: bool) -> Package {
    let name = dir.rsplit('/').next().unwrap_or(dir).to_owned();
    package.dependencies.push(Dependency { name, dir: dir.to_owned(), dev_only });
    package
}

/// The findings for one package whose files are without fault unless `files` replaces them.
fn in_package(package: Package, files: &[SourceFile]) -> Vec<String> {
    let mut all = vec![
        file(&package.manifest(), MANIFEST),
        file(&format!("{}/src/lib.rs", package.dir), ROOT),
        file(&format!("{}/clippy.toml", package.dir), CLIPPY),
    ];
    if package.dir != "crates/core/base" {
        all.push(file("crates/core/base/clippy.toml", CLIPPY));
    }
    for file in files {
        all.retain(|existing| existing.path != file.path);
        all.push(SourceFile { path: file.path.clone(), text: file.text.clone() });
    }
    let (root, target_dir) = (PathBuf::new(), PathBuf::new());
    let workspace = Workspace { root, target_dir, packages: vec![package] };
    check(&workspace, &all).iter().map(ToString::to_string).collect()
}

/// The findings for files that belong to no package.
fn in_files(files: &[SourceFile]) -> Vec<String> {
    let (root, target_dir) = (PathBuf::new(), PathBuf::new());
    let workspace = Workspace { root, target_dir, packages: Vec::new() };
    check(&workspace, files).iter().map(ToString::to_string).collect()
}

fn assert_one(findings: &[String], start: &str, part: &str) {
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert!(findings[0].starts_with(start) && findings[0].contains(part), "{findings:#?}");
}

#[test]
fn packages_without_fault_give_no_finding() {
    for dir in [
        "crates/core/base",
        "crates/core/wire",
        "crates/lab/testbed",
        "bin/daemon",
        "tests",
        "xtask",
    ] {
        assert_eq!(in_package(package(dir), &[]), [""; 0], "{dir}");
    }
}

#[test]
fn an_upward_dependency_is_found_at_its_line() {
    let manifest = format!("{MANIFEST}\n[dependencies]\nportable = \"1\"\nport.workspace = true\n");
    let manifest = [file("crates/core/wire/Cargo.toml", &manifest)];
    let findings =
        in_package(uses(package("crates/core/wire"), "crates/io/port", false), &manifest);
    assert_one(&findings, "crates/core/wire/Cargo.toml:9: [dependency-table]", "only [base]");
}

#[test]
fn a_downward_dependency_is_allowed() {
    assert_eq!(
        in_package(uses(package("crates/core/wire"), "crates/core/base", false), &[]),
        [""; 0]
    );
    assert_eq!(
        in_package(uses(package("bin/daemon"), "crates/plane/datapath", false), &[]),
        [""; 0]
    );
    assert_eq!(in_package(uses(package("tests"), "bin/daemon", false), &[]), [""; 0]);
}

#[test]
fn tests_of_a_crate_may_use_any_crate_but_no_program() {
    assert_eq!(
        in_package(uses(package("crates/io/sys"), "crates/lab/testbed", true), &[]),
        [""; 0]
    );
    let findings = in_package(uses(package("crates/io/sys"), "bin/daemon", true), &[]);
    assert_one(
        &findings,
        "crates/io/sys/Cargo.toml:1: [dependency-table]",
        "nothing depends on bin",
    );
}

#[test]
fn a_crate_that_the_table_does_not_know_is_an_error_that_says_to_add_it() {
    let findings = in_package(package("crates/core/novelty"), &[]);
    assert_one(&findings, "crates/core/novelty/Cargo.toml:1: [dependency-table]", "add one");
    assert!(findings[0].contains("xtask/src/rules.rs"));
}

#[test]
fn a_package_outside_the_known_folders_is_refused() {
    assert_one(&in_package(package("misc"), &[]), "misc/Cargo.toml:1: [layout]", "move it");
}

#[test]
fn the_table_names_only_crates_that_have_a_row_and_has_no_cycle() {
    for (index, rule) in rules::CRATES.iter().enumerate() {
        for used in rule.may_use {
            let earlier =
                rules::CRATES[..index].iter().any(|rule| rule.path.ends_with(&format!("/{used}")));
            assert!(earlier, "`{}` uses `{used}`, which has no row above it", rule.path);
        }
    }
}

#[test]
fn a_crate_without_a_description_of_one_line_is_found() {
    for description in [None, Some(" "), Some("two\nlines")] {
        let mut package = package("crates/core/wire");
        package.description = description.map(str::to_owned);
        let findings = in_package(package, &[]);
        assert_one(&findings, "crates/core/wire/Cargo.toml:1: [description]", "one line");
    }
}

#[test]
fn a_crate_with_lints_of_its_own_is_found() {
    for manifest in ["[package]\n", "[lints]\n[profile]\nworkspace = true\n", "[lints.rust]\na=1\n"]
    {
        let findings = in_package(package("bin/cli"), &[file("bin/cli/Cargo.toml", manifest)]);
        assert_one(&findings, "bin/cli/Cargo.toml:1: [lints]", "workspace = true");
    }
}

#[test]
fn a_pure_crate_with_another_clippy_toml_or_none_is_found() {
    for clippy in ["", "disallowed-methods = [1]\n"] {
        let clippy = [file("crates/core/policy/clippy.toml", clippy)];
        let findings = in_package(package("crates/core/policy"), &clippy);
        assert_one(
            &findings,
            "crates/core/policy/clippy.toml:1: [pure]",
            "crates/core/base/clippy.toml",
        );
    }
    let clippy = [file("crates/lab/testbed/clippy.toml", "")];
    assert_eq!(in_package(package("crates/lab/testbed"), &clippy), [""; 0], "testbed is not pure");
}

#[test]
fn a_root_that_does_not_forbid_unsafe_is_found_except_in_the_homes_of_it() {
    let root = |dir: &str| [file(&format!("{dir}/src/lib.rs"), "//! A crate.\n")];
    for dir in ["crates/core/wire", "bin/daemon", "tests"] {
        let findings = in_package(package(dir), &root(dir));
        assert_one(&findings, &format!("{dir}/src/lib.rs:1: [unsafe-fence]"), "forbid");
    }
    assert_eq!(in_package(package("crates/io/shm"), &root("crates/io/shm")), [""; 0]);
}

#[test]
fn a_crate_for_strangers_that_need_not_tell_its_errors_is_found() {
    let dir = "crates/functions/slice";
    let root = [file(&format!("{dir}/src/lib.rs"), "//! A crate.\n#![forbid(unsafe_code)]\n")];
    let findings = in_package(package(dir), &root);
    assert_one(&findings, &format!("{dir}/src/lib.rs:1: [errors-are-told]"), "missing_errors_doc");
    assert_eq!(in_package(package("crates/lab/load"), &[]), [""; 0]);
}

#[test]
fn the_keyword_unsafe_is_found_outside_its_homes_even_in_tests() {
    let text = "//! A file.\n\nfn f() { unsafe { g() } }\n";
    for path in ["crates/core/wire/src/a.rs", "tests/tests/a.rs", "crates/shmem/src/a.rs"] {
        let findings = in_files(&[file(path, text)]);
        assert_one(&findings, &format!("{path}:3: [unsafe-fence]"), "crates/io/shm");
    }
    assert_eq!(in_files(&[file("crates/io/shm/src/a.rs", text)]), [""; 0]);
    let spoken = "//! No unsafe here.\nconst A: &str = \"unsafe\";\n#![forbid(unsafe_code)]\n";
    assert_eq!(in_files(&[file("crates/core/wire/src/a.rs", spoken)]), [""; 0]);
}

#[test]
fn each_forbidden_word_is_found_where_it_is_forbidden_and_only_there() {
    for rule in rules::FORBIDDEN_WORDS {
        let word = rule.word;
        let code = format!("//! A file.\nfn f() {{ x{word} }}\n").replace("xtodo", "todo");
        let code = code.replace("xunimpl", "unimpl").replace("xdbg", "dbg").replace("x#", "#");
        let comment = format!("//! A file.\n\n// {word}\n");
        let string = format!("//! A file.\nconst A: &str = \"{word}\";\n");
        let (bad, line, good) = match rule.place {
            Scope::Comment => (&comment, 3, &code),
            Scope::Code | Scope::CodeOutsideTests => (&code, 2, &comment),
        };
        let findings = in_files(&[file("crates/core/wire/src/a.rs", bad)]);
        let start = format!("crates/core/wire/src/a.rs:{line}: [forbidden-word] `{word}`");
        assert_one(&findings, &start, rule.advice);
        assert_eq!(in_files(&[file("crates/core/wire/src/a.rs", good)]), [""; 0], "{good}");
        assert_eq!(in_files(&[file("crates/core/wire/src/a.rs", &string)]), [""; 0], "{string}");
    }
}

#[test]
fn unwrap_is_allowed_in_tests_of_every_kind() {
    let module = "//! A file.\n#[cfg(test)]\nmod tests {\n    fn f() { x.unwrap() }\n}\n";
    assert_eq!(in_files(&[file("crates/core/wire/src/a.rs", module)]), [""; 0]);
    let whole = "//! A file.\nfn f() { x.unwrap() }\n";
    for path in
        ["crates/core/wire/src/a/tests.rs", "crates/core/wire/tests/a.rs", "tests/tests/a.rs"]
    {
        assert_eq!(in_files(&[file(path, whole)]), [""; 0], "{path}");
    }
    let after = format!("{module}fn g() {{ y.unwrap() }}\n");
    let findings = in_files(&[file("crates/core/wire/src/a.rs", &after)]);
    assert_one(&findings, "crates/core/wire/src/a.rs:6: [forbidden-word]", "expect");
}

#[test]
fn a_file_that_is_declared_under_cfg_test_is_a_test_file() {
    let parent = "//! A file.\n#[cfg(all(test, loom))]\nmod models;\nmod real;\n";
    let child = "//! A file.\nfn f() { x.unwrap() }\n";
    for (parent_path, dir) in [
        ("crates/io/shm/src/lib.rs", "crates/io/shm/src"),
        ("crates/io/shm/src/a.rs", "crates/io/shm/src/a"),
    ] {
        let files = [
            file(parent_path, parent),
            file(&format!("{dir}/models.rs"), child),
            file(&format!("{dir}/models/deep.rs"), child),
            file(&format!("{dir}/models_of.rs"), child),
            file(&format!("{dir}/real.rs"), "//! A file.\n"),
        ];
        let start = format!("{dir}/models_of.rs:2: [forbidden-word]");
        assert_one(&in_files(&files), &start, "unwrap");
    }
}

#[test]
fn a_file_that_does_not_start_with_a_sentence_is_found() {
    for text in ["", "use a;\n", "// A file.\n", "//!A file.\n", "\n//! A file.\n", "//! a file\n"]
    {
        let findings = in_files(&[file("crates/core/wire/src/a.rs", text)]);
        assert_one(&findings, "crates/core/wire/src/a.rs:1: [first-line]", "one sentence");
    }
    let two_lines = "//! A sentence that takes\n//! two lines.\n//!\n//! More, without end\n";
    assert_eq!(in_files(&[file("crates/core/wire/src/a.rs", two_lines)]), [""; 0]);
}

#[test]
fn a_script_says_what_it_is_below_its_interpreter() {
    let findings = in_files(&[file("script/a", "#!/usr/bin/env bash\nset -e\n")]);
    assert_one(&findings, "script/a:2: [first-line]", "one sentence");
    assert_eq!(in_files(&[file("script/a", "#!/usr/bin/env bash\n# Does a.\n")]), [""; 0]);
}

#[test]
fn code_beyond_the_limit_is_found_and_tests_do_not_count() {
    let code = "fn f() {}\n".repeat(rules::MAX_LINES - 1);
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    fn f() {}\n".repeat(400));
    let full = format!("//! A file.\n{code}{tests}");
    assert_eq!(in_files(&[file("crates/core/wire/src/a.rs", &full)]), [""; 0]);
    let over = format!("{full}fn g() {{}}\n");
    let findings = in_files(&[file("crates/core/wire/src/a.rs", &over)]);
    assert_one(&findings, "crates/core/wire/src/a.rs:1: [length]", "401 lines");
}

#[test]
fn a_file_of_tests_has_a_limit_of_its_own() {
    let path = "crates/core/wire/src/a/tests.rs";
    let full = format!("//! Tests.\n{}", "fn f() {}\n".repeat(rules::MAX_TEST_LINES - 1));
    assert_eq!(in_files(&[file(path, &full)]), [""; 0]);
    let findings = in_files(&[file(path, &format!("{full}fn g() {{}}\n"))]);
    assert_one(&findings, &format!("{path}:1: [length]"), "601 lines of tests");
}

#[test]
fn a_comment_wider_than_the_code_is_found_unless_it_is_a_table_or_an_example() {
    let wide = "w".repeat(rules::COMMENT_COLUMNS_MAX);
    let path = "crates/core/wire/src/a.rs";
    for marker in ["//", "///", "    //!"] {
        let text = format!("//! A file.\n{marker} {wide}\n");
        let findings = in_files(&[file(path, &text)]);
        assert_one(&findings, &format!("{path}:2: [wide-comment]"), "wrap");
    }
    let apart =
        format!("//! A file.\n//!\n//! | {wide} |\n//!     {wide}\n//! ```\n//! {wide}\n//! ```\n");
    assert_eq!(in_files(&[file(path, &apart)]), [""; 0]);
}

#[test]
fn a_path_of_one_machine_is_found_in_every_kind_of_file() {
    for path in rules::MACHINE_PATHS {
        for name in ["README.md", "script.toml", "docs/a.txt"] {
            let findings = in_files(&[file(name, &format!("a\nsee `{path}x`\n"))]);
            assert_one(&findings, &format!("{name}:2: [machine-path]"), path);
        }
        let harmless = format!("net{path}x ${{HOME}}{path}x https://a.example{path}x\n");
        let harmless = harmless.replace("..", "");
        assert_eq!(in_files(&[file("README.md", &harmless)]), [""; 0], "{harmless}");
    }
}

#[test]
fn a_replaced_word_is_refused_in_names_of_every_case_with_what_to_write() {
    for (code, new) in [
        ("struct Junction;", "local_pair"),
        ("fn drop_ear() {}", "poller"),
        ("const EARS_MAX: u32 = 1;", "pollers"),
        ("struct CoreKeeper;", "allocator"),
    ] {
        let text = format!("//! A file.\n{code}\n");
        let findings = in_files(&[file("crates/core/wire/src/x.rs", &text)]);
        assert_one(&findings, "crates/core/wire/src/x.rs:2: [replaced-word]", new);
    }
}

#[test]
fn a_word_of_plain_english_is_refused_only_where_it_was_a_name() {
    let text = "//! A file.\nstruct Door;\n";
    let findings = in_files(&[file("crates/plane/daemon/src/x.rs", text)]);
    assert_one(&findings, "crates/plane/daemon/src/x.rs:2: [replaced-word]", "attach_server");
    assert_eq!(in_files(&[file("crates/core/wire/src/x.rs", text)]), [""; 0]);
}

#[test]
fn longer_words_and_what_is_on_the_wire_are_not_replaced_words() {
    let text =
        "//! A file.\nfn clear_doorbell(bearing: &str) { say(\"ear\", \"a {ear} of {0}\") }\n";
    assert_eq!(in_files(&[file("crates/core/wire/src/x.rs", text)]), [""; 0]);
}

#[test]
fn a_replaced_word_is_refused_in_a_message() {
    for (message, new) in [
        ("cannot make this junction", "local_pair"),
        ("sent {sent} times in vain", "without success"),
        ("slept for so long", "for this long"),
        ("so many were lost", "the number's name"),
        ("this slot is nobody's", "unowned"),
    ] {
        let text = format!("//! A file.\nfn f() {{ say(\"{message}\") }}\n");
        let findings = in_files(&[file("crates/core/wire/src/x.rs", &text)]);
        assert_one(&findings, "crates/core/wire/src/x.rs:2: [replaced-word]", new);
    }
}

#[test]
fn a_replaced_phrase_is_refused_in_comments_and_documents() {
    let text = "//! A file.\n// What an application says at the door.\n";
    let findings = in_files(&[file("crates/core/wire/src/x.rs", text)]);
    assert_one(&findings, "crates/core/wire/src/x.rs:2: [replaced-word]", "attach server");
    let findings = in_files(&[file("docs/x.md", "# A\n\nThe keeper gives cores.\n")]);
    assert_one(&findings, "docs/x.md:3: [replaced-word]", "the allocator");
    assert_eq!(in_files(&[file("docs/x.md", "# A\n\nThe doorbell.\n")]), [""; 0]);
}

#[test]
fn a_file_of_tests_that_no_program_has_is_told() {
    let manifest = format!("{MANIFEST}autotests = false\npath = \"tests/all.rs\"\n");
    let of = |all: &str| {
        let files = [
            file("crates/core/wire/Cargo.toml", &manifest),
            file("crates/core/wire/tests/all.rs", all),
            file("crates/core/wire/tests/a.rs", "//! Tests.\n"),
            file("crates/core/wire/tests/support/b.rs", "//! No test.\n"),
        ];
        in_package(package("crates/core/wire"), &files)
    };
    assert_eq!(of("//! All.\n\nmod a;\n"), [""; 0]);
    assert_one(&of("//! All.\n\nmod aa;\n"), "crates/core/wire/tests/a.rs:1:", "`mod a;`");
}

#[test]
fn an_id_is_one_type_and_no_bare_number_where_sockets_are_served() {
    let second = file("crates/core/policy/src/id.rs", "//! A file.\npub struct AppId(pub u16);\n");
    assert_one(&in_files(&[second]), "crates/core/policy/src/id.rs:2: [id]", "use that");
    let bare = file("crates/plane/stack/src/x.rs", "//! A file.\nfn end(slot: u32) {}\n");
    assert_one(&in_files(&[bare]), "crates/plane/stack/src/x.rs:2: [id]", "`base::SlotId`");
    // Its home, what comes close, and what is sent in a message.
    let sound = [
        file("crates/core/base/src/id.rs", "//! A file.\npub struct AppId(pub u16);\n"),
        file(
            "crates/plane/stack/src/x.rs",
            "//! A file.\nstruct AppIds; fn free_slot(slots: u32) {}\n",
        ),
        file("crates/plane/attach/src/x.rs", "//! A file.\npub struct Place { slot: u32 }\n"),
    ];
    assert_eq!(in_files(&sound), [""; 0]);
}
