//! `calisto nf help`: the manual pages of the functions.

use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::output;

/// Print the manual page of a function: what it does, parameters, counters, standards, limits.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  calisto nf help\n  calisto nf help router")]
pub(crate) struct Help {
    /// Its kind, as a chain's file names it; without it: which kinds there are.
    #[arg(value_name = "FUNCTION")]
    kind: Option<String>,
}

/// What `-j` prints.
#[derive(Debug, Serialize)]
struct Pages {
    schema_version: u32,
    pages: Vec<Page>,
}

#[derive(Debug, Serialize)]
struct Page {
    function: String,
    text: String,
}

impl Help {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let page = |kind: &str| {
            let text = calisto_nf::manual::page(kind)?;
            Some(Page { function: kind.to_owned(), text })
        };
        let kinds = || calisto_nf::manual::kinds().collect::<Vec<_>>();
        let pages: Vec<Page> = match &self.kind {
            None => kinds().into_iter().filter_map(page).collect(),
            Some(kind) => vec![page(kind).ok_or_else(|| {
                Failure::usage(format!(
                    "there is no function {kind:?}: there are {}",
                    kinds().join(", ")
                ))
            })?],
        };
        if json {
            return output::json(&Pages { schema_version: 1, pages });
        }
        match (&self.kind, &pages[..]) {
            (Some(_), [page]) => output::text(&page.text),
            _ => output::text(&list(&pages)),
        }
    }
}

/// The first line of each page, which says what its function does.
fn list(pages: &[Page]) -> String {
    let mut text = String::new();
    for page in pages {
        text.push_str(page.text.lines().next().unwrap_or(&page.function));
        text.push('\n');
    }
    text.push_str("\nThe whole page of one: calisto nf help FUNCTION\n");
    text
}
