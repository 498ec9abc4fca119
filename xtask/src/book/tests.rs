//! The checks of documents, on documents of which the result is known.

use super::*;
use crate::workspace::Package;

const SUMMARY: &str = "docs/SUMMARY.md";
const EXIT_CODES: &str = "docs/reference/exit-codes.md";
const ENVIRONMENT: &str = "docs/reference/environment.md";

/// A project whose documents are right, except for `changed`.
fn findings(changed: &[(&str, &str)]) -> Vec<String> {
    let right = [
        ("README.md", "# Project\n\n[The book](docs/index.md#a-part)\n"),
        ("ARCHITECTURE.md", "# Inside\n"),
        ("CONTRIBUTING.md", "# Taking part\n"),
        (
            SUMMARY,
            "# Summary\n\n- [Start](index.md)\n- [Variables](reference/environment.md)\n\
                   - [Codes](reference/exit-codes.md)\n",
        ),
        ("docs/index.md", "# Start\n\n## A part\n\n![picture](picture.svg)\n"),
        ("docs/picture.svg", "<svg/>\n"),
        (ENVIRONMENT, "# Variables\n\n| `CALISTO_ADMIN` | names a socket |\n"),
        (EXIT_CODES, "# Codes\n\n| code |\n|---|\n| 0, 1 |\n| 127 |\n"),
        ("bin/cli/src/run.rs", "const NO_PROGRAM_CODE: u8 = 127;\n"),
        ("bin/cli/src/args.rs", "const ADMIN: &str = \"CALISTO_ADMIN\";\n"),
    ];
    let mut files: BTreeMap<&str, &str> = right.into_iter().collect();
    files.extend(changed.iter().copied());
    let files: Vec<SourceFile> = files
        .into_iter()
        .map(|(path, text)| SourceFile { path: path.to_owned(), text: text.to_owned() })
        .collect();
    let known = Known::of(&workspace(), "tidy  check\nci [--quick]  everything");
    check(&files, &known).iter().map(ToString::to_string).collect()
}

/// One package, `calisto-nf`, with an example and a file of tests.
fn workspace() -> Workspace {
    let target = |kind: &str, name: &str| (kind.to_owned(), name.to_owned());
    let package = Package {
        name: "calisto-nf".to_owned(),
        dir: "crates/functions/nf".to_owned(),
        description: None,
        roots: Vec::new(),
        targets: vec![target("example", "capacity"), target("test", "system")],
        dependencies: Vec::new(),
    };
    Workspace { root: "/r".into(), target_dir: "/r/target".into(), packages: vec![package] }
}

fn finding(changed: &[(&str, &str)]) -> String {
    let findings = findings(changed);
    assert_eq!(findings.len(), 1, "{findings:?}");
    findings[0].clone()
}

#[test]
fn documents_that_are_right_pass() {
    assert_eq!(findings(&[]), [""; 0]);
}

#[test]
fn a_link_to_a_file_that_is_not_there_is_refused_with_its_line() {
    let text = "# Project\n\nSee [this](docs/gone.md).\n";
    let said = finding(&[("README.md", text)]);
    assert_eq!(said, "README.md:3: `docs/gone.md` leads nowhere: there is no docs/gone.md");
}

#[test]
fn a_link_to_a_heading_that_is_not_there_is_refused() {
    let said = finding(&[("README.md", "[The book](docs/index.md#another-part)\n")]);
    assert!(said.contains("docs/index.md has no such heading"), "{said}");
    assert_eq!(
        findings(&[("README.md", "# One, two_3 & four!\n\n[x](#one-two_3--four)\n")]),
        [""; 0]
    );
    assert_eq!(findings(&[("README.md", "# A\n\n# A\n\n[x](#a) [y](#a-1)\n")]), [""; 0]);
}

#[test]
fn a_picture_that_is_not_there_is_refused() {
    let said = finding(&[("docs/index.md", "# Start\n\n## A part\n\n![x](other.svg)\n")]);
    assert!(said.contains("there is no docs/other.svg"), "{said}");
}

#[test]
fn a_link_in_code_and_a_link_to_another_site_are_not_followed() {
    let text = "`[x](gone.md)` [y](https://example.org/gone)\n\n    [z](gone.md)\n";
    assert_eq!(findings(&[("README.md", text)]), [""; 0]);
}

#[test]
fn a_page_of_the_book_does_not_lead_out_of_it() {
    let text = "# Start\n\n## A part\n\n[x](../README.md)\n";
    let said = finding(&[("docs/index.md", text)]);
    assert!(said.contains("leads out of the book"), "{said}");
    let said = finding(&[("README.md", "[x](../elsewhere.md)\n")]);
    assert!(said.contains("leads out of the project"), "{said}");
}

#[test]
fn the_summary_lists_every_page_once() {
    let said = finding(&[("docs/more.md", "# More\n")]);
    assert_eq!(said, "docs/more.md:1: docs/SUMMARY.md does not list this page");
    let twice = "- [a](index.md)\n- [b](reference/environment.md)\n- [c](index.md)\n\
                 - [d](reference/exit-codes.md)\n";
    let said = finding(&[(SUMMARY, twice)]);
    assert_eq!(said, "docs/SUMMARY.md:3: this page is listed twice");
}

#[test]
fn a_front_page_that_grows_is_refused() {
    let said = finding(&[("README.md", &"x\n\n".repeat(76))]);
    assert_eq!(said, "README.md:151: 152 lines; allowed are 150: move some into docs/");
    let said = finding(&[("ARCHITECTURE.md", &"–".repeat(101))]);
    assert_eq!(said, "ARCHITECTURE.md:1: 101 columns; allowed are 100");
    let said = finding(&[("CONTRIBUTING.md", &"-".repeat(101))]);
    assert_eq!(said, "CONTRIBUTING.md:1: 101 columns; allowed are 100");
    assert_eq!(findings(&[("ARCHITECTURE.md", &"–".repeat(100))]), [""; 0]);
}

#[test]
fn every_variable_that_a_program_reads_is_explained_and_no_other() {
    let said = finding(&[("bin/cli/src/new.rs", "\n    env = \"CALISTO_NEW\",\n")]);
    let why = "docs/reference/environment.md does not explain CALISTO_NEW";
    assert_eq!(said, format!("bin/cli/src/new.rs:2: {why}"));
    let said = finding(&[("bin/cli/src/args.rs", "\n")]);
    assert_eq!(said, "docs/reference/environment.md:3: no program reads CALISTO_ADMIN");
    let said =
        finding(&[("bin/cli/src/new.rs", "let it = std::env::var_os(\"NOTIFY_SOCKET\");\n")]);
    assert!(said.ends_with("does not explain NOTIFY_SOCKET"), "{said}");
    assert_eq!(findings(&[("bin/cli/src/new.rs", "std::env::var_os(\"PATH\")\n")]), [""; 0]);
    assert_eq!(findings(&[("crates/x/tests/a.rs", "\"CALISTO_TEST\"")]), [""; 0]);
}

#[test]
fn a_command_of_cargo_or_a_script_that_is_not_there_is_refused() {
    for (command, why) in [
        ("cargo fly", "cargo does not know fly"),
        ("cargo test -p nf", "there is no package nf"),
        ("cargo test --workspace --test programs table", "there is no test programs"),
        ("RUSTFLAGS=-g cargo run --release -p calisto-nf --example speed", "no example speed"),
        ("cargo xtask tidy --fast", "does not know --fast"),
        ("cargo xtask quick", "does not know quick"),
        ("script/gone --all", "there is no script/gone"),
        ("sudo script/test --slow", "script/test does not know --slow"),
    ] {
        for text in [format!("# A\n\n    {command} # b\n"), format!("# A\n\n`{command}`\n")] {
            let said = finding(&[("script/test", "[--quick]\n"), ("README.md", &text)]);
            assert!(said.starts_with("README.md:3: ") && said.contains(why), "{said}");
        }
        let text = format!("//! A file.\n//! Made by `{command}`.\n");
        let said = finding(&[("script/test", "[--quick]\n"), ("crates/a/src/lib.rs", &text)]);
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn commands_that_are_there_and_what_only_looks_like_one_pass() {
    let text = "# A\n\n    cargo build && sudo -E env \"PATH=$PATH\" script/test --quick | cat\n\n\
        `cargo xtask ci --quick`, `cargo`, `script/`, `cargo +nightly fuzz run TARGET`,\n\
        `cargo test -p calisto-nf --test system a::b`, `cargo build -p PACKAGE`, `cargo-deny`\n\n\
        ```rust\ncargo fly\n```\n";
    assert_eq!(findings(&[("script/test", "[--quick]\n"), ("README.md", text)]), [""; 0]);
    assert_eq!(findings(&[("crates/a/src/lib.rs", "//! A.\n\n// `cargo fly`\n")]), [""; 0]);
}

#[test]
fn every_code_that_a_program_ends_with_is_explained_and_no_other() {
    let said = finding(&[("crates/plane/daemon/src/x.rs", "\n    std::process::exit(101);\n")]);
    assert_eq!(said, format!("crates/plane/daemon/src/x.rs:2: {EXIT_CODES} does not explain 101"));
    let said = finding(&[("bin/cli/src/run.rs", "\n")]);
    assert_eq!(said, format!("{EXIT_CODES}:6: no program ends with 127"));
    let elsewhere = "fn f() { std::process::exit(9) }\n";
    assert_eq!(findings(&[("crates/x/src/a.rs", elsewhere)]), [""; 0]);
}
