//! `cargo xtask book`: the documents, held against themselves and against the tree.
//!
//! What mdBook would refuse is refused here in a second: a page that the summary does not list, a
//! link or an anchor that leads nowhere. `script/book` builds the pages with mdBook itself. What
//! only the programs know is checked by their own tests: the pages under `docs/reference` and the
//! commands of `calisto` are tests of package `calisto-lab`.

mod commands;
mod environment;
mod exit_codes;
mod finding;
mod limits;
mod page;
mod summary;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::workspace::{SourceFile, Workspace};
use commands::Known;
use finding::Finding;
use page::{BOOK, Page};

/// Checks every document and prints what it finds; whether that is nothing.
pub(crate) fn run(workspace: &Workspace) -> bool {
    let files = match workspace.files() {
        Ok(files) => files,
        Err(error) => {
            eprintln!("book: {error}");
            return false;
        }
    };
    let findings = check(&files, &Known::of(workspace, crate::usage::USAGE));
    for finding in &findings {
        eprintln!("{finding}");
    }
    let pages = files.iter().filter(|file| is_document(&file.path)).count();
    match findings.len() {
        0 => println!("book: {pages} documents, nothing to report"),
        broken => eprintln!("book: {broken} findings in {pages} documents"),
    }
    findings.is_empty()
}

fn is_document(path: &str) -> bool {
    path.ends_with(".md")
}

fn check(files: &[SourceFile], known: &Known) -> Vec<Finding> {
    let documents = files.iter().filter(|file| is_document(&file.path));
    let pages: BTreeMap<&str, Page> =
        documents.map(|file| (file.path.as_str(), Page::read(&file.text))).collect();
    let mut findings = Vec::new();
    for (path, page) in &pages {
        links(path, page, &pages, files, &mut findings);
    }
    summary::check(&pages, &mut findings);
    limits::check(files, &mut findings);
    environment::check(files, &mut findings);
    exit_codes::check(files, &mut findings);
    commands::check(files, known, &mut findings);
    findings.sort();
    findings
}

/// Every link of a page within the project.
fn links(
    path: &str,
    page: &Page,
    pages: &BTreeMap<&str, Page>,
    files: &[SourceFile],
    findings: &mut Vec<Finding>,
) {
    for link in &page.links {
        let mut refuse = |why: String| findings.push(Finding::new(path, link.line, why));
        if link.is_foreign() {
            continue;
        }
        let (target, anchor) = link.parts();
        let Some(target) = page::resolve(path, target) else {
            refuse(format!("`{}` leads out of the project", link.to));
            continue;
        };
        if path.starts_with(BOOK) && !target.starts_with(BOOK) {
            refuse(format!(
                "`{}` leads out of the book, where it will not be built: name the file instead",
                link.to
            ));
        } else if let Some(page) = pages.get(target.as_str()) {
            if anchor.is_some_and(|anchor| !page.anchors.contains(anchor)) {
                refuse(format!("`{}`: {target} has no such heading", link.to));
            }
        } else if anchor.is_some() || !is_there(&target, files) {
            refuse(format!("`{}` leads nowhere: there is no {target}", link.to));
        }
    }
}

/// Whether `target` is a file, or a folder of files.
fn is_there(target: &str, files: &[SourceFile]) -> bool {
    let folder = format!("{}/", target.trim_end_matches('/'));
    files.iter().any(|file| file.path == target || file.path.starts_with(&folder))
}
