//! Ids: one type for each, in `base`, and no bare number in its place.

use super::finding::Finding;
use crate::rules::{IDS, IDS_AT, SOCKETS_AT};
use crate::source;
use crate::workspace::SourceFile;

/// Reports second types of the names of ids, and bare numbers where sockets are served.
pub(super) fn check(file: &SourceFile, findings: &mut Vec<Finding>) {
    if file.path.starts_with(IDS_AT) {
        return;
    }
    let serves_sockets = SOCKETS_AT.iter().any(|at| file.path.starts_with(at));
    for line in source::lines(&file.text, false) {
        for id in IDS {
            let name = id.name;
            let is_second = ["struct", "enum", "type"]
                .iter()
                .any(|kind| source::contains_word(&line.code, &format!("{kind} {name}")));
            let message = if is_second {
                format!("`{name}` is a type of `base`: use that, or another name")
            } else if serves_sockets && source::contains_word(&line.code, id.bare) {
                format!("`{}` is an id: it is a `base::{name}`", id.bare)
            } else {
                continue;
            };
            findings.push(Finding {
                file: file.path.clone(),
                line: line.number,
                rule: "id",
                message,
            });
        }
    }
}
