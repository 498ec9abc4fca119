//! Walks over a script's text, one token after the other.

use crate::run::Failure;

/// What is left of a text.
#[derive(Clone, Debug)]
pub(crate) struct Scan<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Scan<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self { rest: text, line: 1 }
    }

    pub(crate) const fn line(&self) -> usize {
        self.line
    }

    pub(crate) fn fail(&self, text: impl Into<String>) -> Failure {
        Failure { line: self.line, text: text.into() }
    }

    fn skip(&mut self, bytes: usize) {
        let (skipped, rest) = self.rest.split_at(bytes);
        self.line += skipped.matches('\n').count();
        self.rest = rest;
    }

    /// Skips white space and comments.
    pub(crate) fn space(&mut self) {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.skip(blank);
            let end = match self.rest {
                rest if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
                rest if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |at| at + 2),
                // A line of a shell script that starts like this is one too.
                rest if rest.starts_with('#') => rest.find('\n').unwrap_or(rest.len()),
                _ => return,
            };
            self.skip(end);
        }
    }

    pub(crate) fn is_at_end(&mut self) -> bool {
        self.space();
        self.rest.is_empty()
    }

    pub(crate) fn peek(&mut self) -> Option<char> {
        self.space();
        self.rest.chars().next()
    }

    /// Takes `token`, if it comes next.
    pub(crate) fn take(&mut self, token: &str) -> bool {
        self.space();
        self.take_glued(token)
    }

    /// Takes `token`, if it comes next without white space before it.
    pub(crate) fn take_glued(&mut self, token: &str) -> bool {
        let is_there = self.rest.starts_with(token);
        if is_there {
            self.skip(token.len());
        }
        is_there
    }

    pub(crate) fn expect(&mut self, token: &str) -> Result<(), Failure> {
        if self.take(token) {
            return Ok(());
        }
        let found: String = self.rest.chars().take(20).collect();
        Err(self.fail(format!("expected `{token}`, found `{found}`")))
    }

    /// Everything up to `end`, which is taken too.
    pub(crate) fn until(&mut self, end: &str) -> Result<&'a str, Failure> {
        let Some(at) = self.rest.find(end) else {
            return Err(self.fail(format!("`{end}` is missing")));
        };
        let text = &self.rest[..at];
        self.skip(at + end.len());
        Ok(text)
    }

    fn while_glued(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|letter| !is_part(letter)).unwrap_or(self.rest.len());
        let text = &self.rest[..end];
        self.skip(end);
        text
    }

    /// A name: letters, digits, underscores.
    pub(crate) fn word(&mut self) -> Option<&'a str> {
        self.space();
        let is_word = self.rest.starts_with(|letter: char| letter.is_alphabetic() || letter == '_');
        is_word.then(|| self.while_glued(|letter| letter.is_alphanumeric() || letter == '_'))
    }

    /// The flags of a packet.
    pub(crate) fn flags(&mut self) -> &'a str {
        self.space();
        self.while_glued(|letter| "SFRP.EWU-".contains(letter))
    }

    /// A number, decimal or hexadecimal.
    pub(crate) fn number(&mut self) -> Result<i64, Failure> {
        self.space();
        let is_negative = self.take_glued("-");
        let text = self.while_glued(|letter| letter.is_ascii_alphanumeric());
        let parsed = match text.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        let Ok(number) = parsed else {
            return Err(self.fail(format!("`{text}` is no number")));
        };
        Ok(if is_negative { -number } else { number })
    }

    pub(crate) fn number_as<T: TryFrom<i64>>(&mut self) -> Result<T, Failure> {
        let number = self.number()?;
        T::try_from(number).map_err(|_| self.fail(format!("{number} does not fit")))
    }

    /// A time in seconds with at most nine decimals, in nanoseconds.
    pub(crate) fn seconds(&mut self) -> Result<base::Nanos, Failure> {
        self.space();
        let whole = self.while_glued(|letter| letter.is_ascii_digit());
        // Two dots are no decimal point, but an ellipsis.
        let has_point = self.rest.starts_with('.') && !self.rest.starts_with("..");
        let decimals = if has_point {
            self.skip(1);
            self.while_glued(|letter| letter.is_ascii_digit())
        } else {
            ""
        };
        if whole.len() + decimals.len() == 0 || decimals.len() > 9 || whole.len() > 9 {
            return Err(self.fail("a time is missing, or has more than nine digits"));
        }
        let parse = |digits: &str| digits.parse::<u64>().unwrap_or(0);
        let scale = 10_u64.pow(9 - decimals.len() as u32);
        Ok(base::Nanos(parse(whole) * 1_000_000_000 + parse(decimals) * scale))
    }
}
