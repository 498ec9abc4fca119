//! Reads what was drawn, for tests: elements in order, and a panic where it is not well formed.

/// An element: where it is, its attributes, and the text right in it.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    /// The names of all elements around it and its own: `svg/g/path`.
    pub(crate) path: String,
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) text: String,
}

impl Element {
    pub(crate) fn attribute(&self, name: &str) -> &str {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    pub(crate) fn has_class(&self, class: &str) -> bool {
        self.attribute("class").split(' ').any(|known| known == class)
    }

    pub(crate) fn number(&self, name: &str) -> f64 {
        self.attribute(name).parse().unwrap_or_else(|_| panic!("{name} of {self:?}"))
    }
}

/// All elements of well-formed markup, in the order in which they begin.
pub(crate) fn elements(markup: &str) -> Vec<Element> {
    let mut elements: Vec<Element> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut rest = markup;
    while let Some(start) = rest.find('<') {
        let (text, tag) = rest.split_at(start);
        assert!(!text.contains('>'), "a stray > in {text:?}");
        if let Some(&around) = open.last() {
            elements[around].text += text;
        }
        let end = tag.find('>').unwrap_or_else(|| panic!("{tag:.80} does not end"));
        let inside = &tag[1..end];
        rest = &tag[end + 1..];
        if inside.starts_with(['?', '!']) {
            continue;
        }
        if let Some(name) = inside.strip_prefix('/') {
            let last = open.pop().unwrap_or_else(|| panic!("</{name}> ends nothing"));
            let path = &elements[last].path;
            assert_eq!(path.rsplit('/').next(), Some(name), "</{name}> ends {path}");
            continue;
        }
        let closed = inside.ends_with('/') || inside.starts_with("meta ");
        let inside = inside.trim_end_matches('/');
        let (name, attributes) = inside.split_once(' ').unwrap_or((inside, ""));
        let around = open.last().map_or("", |&around| elements[around].path.as_str());
        let path = if around.is_empty() { name.to_owned() } else { format!("{around}/{name}") };
        let attributes = attributes_of(attributes);
        elements.push(Element { path, attributes, text: String::new() });
        if !closed {
            open.push(elements.len() - 1);
        }
    }
    assert!(open.is_empty(), "{:?} does not end", elements[open[0]]);
    elements
}

fn attributes_of(text: &str) -> Vec<(String, String)> {
    let mut attributes = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, value) =
            rest.split_once("=\"").unwrap_or_else(|| panic!("no value in {rest:?}"));
        let (value, after) = value.split_once('"').unwrap_or_else(|| panic!("no end in {rest:?}"));
        attributes.push((name.to_owned(), value.to_owned()));
        rest = after.trim();
    }
    attributes
}
