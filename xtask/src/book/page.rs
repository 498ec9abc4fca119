//! What of a document's Markdown matters here: its links, and the anchors of its headings.

use std::collections::BTreeSet;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The folder of the book.
pub(super) const BOOK: &str = "docs/";

/// A document.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    /// Links and pictures, in their order.
    pub(super) links: Vec<Link>,
    /// The anchors of its headings.
    pub(super) anchors: BTreeSet<String>,
}

/// A link, or a picture.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// As it is written.
    pub(super) to: String,
    /// From 1.
    pub(super) line: usize,
}

impl Link {
    /// Whether it leads to another site, which is not asked.
    pub(super) fn is_foreign(&self) -> bool {
        ["https://", "http://", "mailto:"].iter().any(|scheme| self.to.starts_with(scheme))
    }

    /// The path, which is empty for the page itself, and the anchor.
    pub(super) fn parts(&self) -> (&str, Option<&str>) {
        match self.to.split_once('#') {
            Some((path, anchor)) => (path, Some(anchor)),
            None => (&self.to, None),
        }
    }
}

impl Page {
    pub(super) fn read(text: &str) -> Self {
        let mut page = Self::default();
        let mut heading: Option<String> = None;
        let line_of = |at: usize| 1 + text[..at].matches('\n').count();
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let title = heading.take().unwrap_or_default();
                    page.add_anchor(&anchor_of(&title));
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    let link = Link { to: dest_url.into_string(), line: line_of(range.start) };
                    page.links.push(link);
                }
                Event::Text(words) | Event::Code(words) => {
                    heading.iter_mut().for_each(|title| title.push_str(&words));
                }
                _ => {}
            }
        }
        page
    }

    /// A second heading of the same words is told from the first by a number.
    fn add_anchor(&mut self, anchor: &str) {
        let numbered = (1..).map(|number| format!("{anchor}-{number}"));
        let fresh = std::iter::once(anchor.to_owned()).chain(numbered);
        let mut fresh = fresh.filter(|name| !self.anchors.contains(name));
        self.anchors.extend(fresh.next());
    }
}

/// The anchor of a heading, as mdBook and the forges make it.
fn anchor_of(title: &str) -> String {
    let kept = title.trim().chars().filter_map(|letter| match letter {
        _ if letter.is_whitespace() => Some('-'),
        '-' | '_' => Some(letter),
        _ => letter.is_alphanumeric().then_some(letter),
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// The file that a relative link of `page` leads to; `None` outside the project.
pub(super) fn resolve(page: &str, link: &str) -> Option<String> {
    if link.is_empty() {
        return Some(page.to_owned());
    }
    if link.starts_with('/') {
        return None;
    }
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}
