//! One table of a TOML text: its fields are asked for one by one, and what nobody asked for is
//! refused.

use std::ops::RangeInclusive;

use config::nearest;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::FileError;

/// A text and the file that it stands in.
pub(crate) struct Source<'a> {
    pub(crate) text: &'a str,
    pub(crate) file: &'a str,
}

impl<'a> Source<'a> {
    /// The text as TOML.
    pub(crate) fn document(&self) -> Result<Spanned<DeTable<'a>>, FileError> {
        DeTable::parse(self.text).map_err(|error| {
            let line = error.span().map(|span| self.line_of(span.start));
            let message = error.message().trim().replace('\n', ", ");
            self.error(line, "", format!("this is not TOML: {message}"))
        })
    }

    pub(crate) fn error(&self, line: Option<usize>, field: &str, sentence: String) -> FileError {
        FileError::new(self.file, line, field, sentence)
    }

    /// The line, from 1, on which a byte stands.
    fn line_of(&self, byte: usize) -> usize {
        let before = self.text.as_bytes().get(..byte).unwrap_or(self.text.as_bytes());
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    }
}

/// One table.
pub(crate) struct Section<'a> {
    source: &'a Source<'a>,
    /// Its name before a key, with the point.
    prefix: String,
    /// The line where it begins.
    line: usize,
    table: &'a DeTable<'a>,
    /// The keys that were asked for, so that all others are known to be wrong.
    known: Vec<&'static str>,
    /// Whether somebody else asks for them later.
    is_left: bool,
}

type Field<'a> = (&'a Spanned<DeString<'a>>, &'a Spanned<DeValue<'a>>);

impl<'a> Section<'a> {
    /// The whole text.
    pub(crate) fn top(source: &'a Source<'a>, table: &'a DeTable<'a>) -> Self {
        Self { source, prefix: String::new(), line: 1, table, known: Vec::new(), is_left: false }
    }

    /// The table of `[[key]]` that begins in that line of the whole text.
    pub(crate) fn in_line(
        source: &'a Source<'a>,
        table: &'a DeTable<'a>,
        key: &str,
        line: usize,
    ) -> Option<Self> {
        let tables = table.get(key)?.get_ref().as_array()?;
        let found = tables.iter().find(|table| source.line_of(table.span().start) == line)?;
        let table = found.get_ref().as_table()?;
        let prefix = format!("{key}.");
        Some(Self { source, prefix, line, table, known: Vec::new(), is_left: false })
    }

    /// The text that it is in, and the line where it begins there.
    pub(crate) const fn place(&self) -> (&Source<'a>, usize) {
        (self.source, self.line)
    }

    /// What the table says: the same of two that differ in comments, order or ways of writing only.
    pub(crate) fn settings(&self) -> String {
        let mut written = String::new();
        write_table(&mut written, self.table);
        written
    }

    /// Leaves the keys to whoever asks for them later, of the same table once more.
    pub(crate) const fn leave(&mut self) {
        self.is_left = true;
    }

    /// The value of `key`, as `read` takes it; `None`: it is not there.
    pub(crate) fn optional<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> Result<Option<T>, FileError> {
        let Some((name, value)) = self.field(key) else { return Ok(None) };
        read(value.get_ref()).map(Some).map_err(|allowed| {
            let says = format!("is {}; allowed is {allowed}", describe(value.get_ref()));
            self.wrong_at(name, key, says)
        })
    }

    /// The same for one that must be there; `example` is how to write it.
    pub(crate) fn required<T>(
        &mut self,
        key: &'static str,
        example: &str,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> Result<T, FileError> {
        self.optional(key, read)?.ok_or_else(|| {
            let says = format!("is missing: write for example `{example}`");
            self.source.error(Some(self.line), &self.path(key), says)
        })
    }

    /// The tables of `[[key]]`, that many of them, each with its line.
    pub(crate) fn sections<T>(
        &mut self,
        key: &'static str,
        count: RangeInclusive<usize>,
        mut read: impl FnMut(&mut Self) -> Result<T, FileError>,
    ) -> Result<Vec<(T, usize)>, FileError> {
        let (least, most) = (*count.start(), *count.end());
        let Some((name, value)) = self.field(key) else {
            if least == 0 {
                return Ok(Vec::new());
            }
            let says = format!("is missing: write `[[{}]]` and below it its keys", self.path(key));
            return Err(self.source.error(None, &self.path(key), says));
        };
        let tables = value.get_ref().as_array().filter(|tables| {
            tables.iter().all(|table| table.get_ref().is_table()) && !tables.is_empty()
        });
        let Some(tables) = tables else {
            let path = self.path(key);
            let says = format!(
                "is {}; there may be several, each a table: write `[[{path}]]` and below it its keys",
                describe(value.get_ref())
            );
            return Err(self.wrong_at(name, key, says));
        };
        if !count.contains(&tables.len()) {
            let says =
                format!("stands there {} times; allowed are {least} to {most}", tables.len());
            return Err(self.wrong_at(name, key, says));
        }
        let mut parts = Vec::with_capacity(tables.len());
        for table in tables {
            let line = self.source.line_of(table.span().start);
            let Some(inner) = table.get_ref().as_table() else { continue };
            let mut section = Section {
                source: self.source,
                prefix: format!("{}.", self.path(key)),
                line,
                table: inner,
                known: Vec::new(),
                is_left: false,
            };
            parts.push((read(&mut section)?, line));
            section.finish()?;
        }
        Ok(parts)
    }

    /// Refuses what nobody has asked for; the first in the order of the text.
    pub(crate) fn finish(&self) -> Result<(), FileError> {
        if self.is_left {
            return Ok(());
        }
        let unknown = self.table.iter().filter(|(key, _)| !self.known.contains(&&**key.get_ref()));
        let Some((key, _)) = unknown.min_by_key(|(key, _)| key.span().start) else {
            return Ok(());
        };
        let advice = match nearest(key.get_ref(), self.known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("keys here are {}", self.known.join(", ")),
        };
        let line = self.source.line_of(key.span().start);
        let path = self.path(&shorten(key.get_ref()));
        Err(self.source.error(Some(line), &path, format!("is no key: {advice}")))
    }

    /// An error about `key`: at its line, or where the section begins.
    pub(crate) fn error(&self, key: &str, says: impl Into<String>) -> FileError {
        let field = self.table.iter().find(|(name, _)| &**name.get_ref() == key);
        match field {
            Some((name, _)) => self.wrong_at(name, key, says.into()),
            None => self.source.error(Some(self.line), &self.path(key), says.into()),
        }
    }

    /// An error about what begins in that line.
    pub(crate) fn error_at(&self, line: Option<usize>, key: &str, says: String) -> FileError {
        self.source.error(line, &self.path(key), says)
    }

    fn wrong_at(&self, name: &Spanned<DeString<'_>>, key: &str, says: String) -> FileError {
        self.source.error(Some(self.source.line_of(name.span().start)), &self.path(key), says)
    }

    fn field(&mut self, key: &'static str) -> Option<Field<'a>> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.table.iter().find(|(name, _)| &**name.get_ref() == key)
    }

    fn path(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }
}

/// A name that may also be that of a file.
pub(crate) fn name(value: &DeValue<'_>) -> Result<String, String> {
    let is_fine = |text: &str| {
        (1..=64).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let text = value.as_str().filter(|text| is_fine(text));
    text.map(str::to_owned).ok_or_else(|| "1 to 64 letters, digits, - and _".to_owned())
}

/// A text of 1 to `max` bytes.
pub(crate) fn text(max: usize) -> impl Fn(&DeValue<'_>) -> Result<String, String> {
    move |value| {
        let is_fine = |text: &&str| (1..=max).contains(&text.len()) && !text.contains('\0');
        let text = value.as_str().filter(is_fine);
        text.map(str::to_owned).ok_or_else(|| format!("a text of 1 to {max} bytes"))
    }
}

/// What a text stands for, by its own way of reading.
pub(crate) fn parsed<T>(
    read: impl Fn(&str) -> Result<T, String>,
    allowed: &'static str,
) -> impl Fn(&DeValue<'_>) -> Result<T, String> {
    move |value| {
        let text = value.as_str().ok_or_else(|| allowed.to_owned())?;
        read(text).map_err(|why| format!("{allowed} ({why})"))
    }
}

/// A list of that many, each read alike.
pub(crate) fn list<T>(
    count: RangeInclusive<usize>,
    read: impl Fn(&DeValue<'_>) -> Result<T, String>,
) -> impl Fn(&DeValue<'_>) -> Result<Vec<T>, String> {
    move |value| {
        let says = |of: String| {
            format!("a list of {} to {}, each of them {of}", count.start(), count.end())
        };
        let Some(items) = value.as_array() else { return Err(says(kind_of(&read))) };
        if !count.contains(&items.len()) {
            return Err(says(kind_of(&read)));
        }
        items.iter().map(|item| read(item.get_ref()).map_err(&says)).collect()
    }
}

/// What a way of reading says of a value that it never takes.
fn kind_of<T>(read: impl Fn(&DeValue<'_>) -> Result<T, String>) -> String {
    read(&DeValue::Boolean(false)).err().unwrap_or_else(|| "true or false".to_owned())
}

/// As deep as TOML may be nested, which its parser bounds.
fn write_table(to: &mut String, table: &DeTable<'_>) {
    let mut fields: Vec<_> = table.iter().map(|(key, value)| (&**key.get_ref(), value)).collect();
    fields.sort_unstable_by_key(|(key, _)| *key);
    to.push('{');
    for (key, value) in fields {
        *to += &format!("{key:?}=");
        write_value(to, value.get_ref());
        to.push(',');
    }
    to.push('}');
}

fn write_value(to: &mut String, value: &DeValue<'_>) {
    match value {
        DeValue::String(text) => *to += &format!("{text:?}"),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => *to += &number.to_string(),
            Err(_) => *to += &number.to_string(),
        },
        DeValue::Float(number) => *to += &number.to_string(),
        DeValue::Boolean(flag) => *to += &flag.to_string(),
        DeValue::Datetime(time) => *to += &time.to_string(),
        DeValue::Array(values) => {
            to.push('[');
            for value in values {
                write_value(to, value.get_ref());
                to.push(',');
            }
            to.push(']');
        }
        DeValue::Table(table) => write_table(to, table),
    }
}

/// Whether something is so.
pub(crate) fn flag(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "true or false".to_owned())
}

/// A whole number in a range.
pub(crate) fn number(range: RangeInclusive<u64>) -> impl Fn(&DeValue<'_>) -> Result<u64, String> {
    move |value| {
        let number = value
            .as_integer()
            .and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok())
            .filter(|number| range.contains(number));
        number.ok_or_else(|| format!("a whole number from {} to {}", range.start(), range.end()))
    }
}

/// One of a few words; its place among them.
pub(crate) fn word(
    words: &'static [&'static str],
) -> impl Fn(&DeValue<'_>) -> Result<usize, String> {
    move |value| {
        let text = value.as_str().unwrap_or_default();
        words.iter().position(|&word| word == text).ok_or_else(|| {
            let all: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
            let meant = nearest(text, words.iter().copied());
            let meant = meant.map_or(String::new(), |word| format!(" (did you mean \"{word}\"?)"));
            format!("{}{meant}", all.join(" or "))
        })
    }
}

/// A value as a person would name it.
fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("\"{}\"", shorten(text)),
        DeValue::Integer(number) => shorten(number.as_str()),
        DeValue::Float(number) => shorten(number.as_str()),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(items) => match items.first() {
            Some(first) if items.len() == 1 && !first.get_ref().is_array() => {
                format!("[{}]", describe(first.get_ref()))
            }
            _ => format!("a list of {}", items.len()),
        },
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// What somebody wrote, short enough for a sentence.
pub(crate) fn shorten(text: &str) -> String {
    const MOST: usize = 60;
    let shown: String = text.chars().take(MOST).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST).is_some() { format!("{shown}…") } else { shown }
}
