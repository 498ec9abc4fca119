//! The book's summary lists every page once, and no other.

use std::collections::BTreeMap;

use super::finding::Finding;
use super::page::{BOOK, Page, resolve};

const SUMMARY: &str = "docs/SUMMARY.md";

pub(super) fn check(pages: &BTreeMap<&str, Page>, findings: &mut Vec<Finding>) {
    let Some(summary) = pages.get(SUMMARY) else {
        findings.push(Finding::new(SUMMARY, 1, "the book has no summary"));
        return;
    };
    let mut listed: BTreeMap<String, usize> = BTreeMap::new();
    for link in &summary.links {
        let Some(page) = resolve(SUMMARY, link.parts().0) else { continue };
        if listed.insert(page, link.line).is_some() {
            findings.push(Finding::new(SUMMARY, link.line, "this page is listed twice"));
        }
    }
    for page in pages.keys().filter(|page| page.starts_with(BOOK) && **page != SUMMARY) {
        if !listed.contains_key(*page) {
            findings.push(Finding::new(page, 1, format!("{SUMMARY} does not list this page")));
        }
    }
}
