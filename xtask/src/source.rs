//! A Rust file cut into code, comments and tests, so that a rule looks only where it applies.
//!
//! A lexer of the few things that matter: comments (nested ones too), strings of every kind,
//! character literals against lifetimes, and the extent of `#[cfg(test)]` items.

/// One line of a Rust file.
pub(crate) struct Line {
    /// Counted from one, as editors do.
    pub(crate) number: usize,
    /// The line with comments and the insides of strings blanked.
    pub(crate) code: String,
    /// The line with everything but comments blanked.
    pub(crate) comment: String,
    /// The line with everything but the insides of strings and characters blanked.
    pub(crate) literal: String,
    /// Whether it belongs to an item that is compiled for tests only.
    pub(crate) in_test: bool,
}

/// Cuts `text` into lines. `all_tests`: the whole file is test code, whatever it says itself.
pub(crate) fn lines(text: &str, all_tests: bool) -> Vec<Line> {
    let Parts { code, comment, literal } = separate(text);
    let in_test = test_lines(&code);
    code.lines()
        .zip(comment.lines().zip(literal.lines()))
        .zip(in_test)
        .enumerate()
        .map(|(index, ((code, (comment, literal)), in_test))| Line {
            number: index + 1,
            code: code.to_owned(),
            comment: comment.to_owned(),
            literal: literal.to_owned(),
            in_test: in_test || all_tests,
        })
        .collect()
}

/// Whether `word` occurs in `text` and is not a part of a longer word.
pub(crate) fn contains_word(text: &str, word: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || c == '_';
    let starts_joined = word.starts_with(joins);
    let ends_joined = word.ends_with(joins);
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_some_and(joins);
        let after = text[at + word.len()..].chars().next().is_some_and(joins);
        !(starts_joined && before || ends_joined && after)
    })
}

/// What the bytes at hand belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Code,
    Comment,
    /// Inside a string or a character.
    Literal,
}

/// A text three times, each time with the other two parts replaced by spaces; line breaks stay.
#[derive(Default)]
struct Parts {
    code: String,
    comment: String,
    literal: String,
}

fn separate(text: &str) -> Parts {
    let mut parts = Parts::default();
    let mut rest = text;
    let mut previous = ' ';
    while !rest.is_empty() {
        let (length, part) = next_piece(rest, previous);
        let (piece, after) = rest.split_at(length);
        for c in piece.chars() {
            let blank = if c == '\n' { '\n' } else { ' ' };
            parts.code.push(if part == Part::Code { c } else { blank });
            parts.comment.push(if part == Part::Comment { c } else { blank });
            parts.literal.push(if part == Part::Literal { c } else { blank });
        }
        previous = piece.chars().next_back().unwrap_or(previous);
        rest = after;
    }
    parts
}

/// Length and kind of what `rest` starts with; `previous` is the character before it.
fn next_piece(rest: &str, previous: char) -> (usize, Part) {
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), Part::Comment);
    }
    if rest.starts_with("/*") {
        return (block_comment_length(rest), Part::Comment);
    }
    let in_word = previous.is_alphanumeric() || previous == '_';
    if !in_word && let Some(length) = raw_string_length(rest) {
        return (length, Part::Literal);
    }
    if rest.starts_with('"') {
        return (string_length(rest), Part::Literal);
    }
    if rest.starts_with('\'')
        && let Some(length) = character_length(rest)
    {
        return (length, Part::Literal);
    }
    (rest.chars().next().map_or(rest.len(), char::len_utf8), Part::Code)
}

fn block_comment_length(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(found) = rest[at..].find(['/', '*']).map(|found| at + found) {
        at = found + 1;
        if rest[found..].starts_with("/*") {
            depth += 1;
            at = found + 2;
        } else if rest[found..].starts_with("*/") {
            depth -= 1;
            at = found + 2;
            if depth == 0 {
                return at;
            }
        }
    }
    rest.len()
}

/// `r"…"`, `r#"…"#`, `br"…"` and `cr"…"`; none for anything else, `r#name` included.
fn raw_string_length(rest: &str) -> Option<usize> {
    let after_r = rest.strip_prefix(['b', 'c']).unwrap_or(rest).strip_prefix('r')?;
    let body = after_r.trim_start_matches('#');
    let hashes = after_r.len() - body.len();
    let end = format!("\"{}", "#".repeat(hashes));
    let body = body.strip_prefix('"')?;
    let start = rest.len() - body.len();
    Some(body.find(&end).map_or(rest.len(), |found| start + found + end.len()))
}

fn string_length(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of a character literal; none for a lifetime or a label.
fn character_length(rest: &str) -> Option<usize> {
    let mut inside = rest.char_indices().skip(1);
    match inside.next()? {
        // The escaped character itself may be a quote, so the search starts behind it.
        (_, '\\') => {
            let (escaped, _) = inside.next()?;
            rest[escaped + 1..].find('\'').map(|found| escaped + 1 + found + 1)
        }
        (_, _) => match inside.next()? {
            (end, '\'') => Some(end + 1),
            _ => None,
        },
    }
}

/// For each line of blanked code: whether an item under `#[cfg(test)]` covers it.
fn test_lines(code: &str) -> Vec<bool> {
    let mut in_test = Vec::new();
    let mut item: Option<TestItem> = None;
    for line in code.lines() {
        if item.is_none() && is_test_attribute(line) {
            item = Some(TestItem { depth: 0, opened: false });
        }
        in_test.push(item.is_some());
        if let Some(open) = &mut item
            && open.ends_with(line)
        {
            item = None;
        }
    }
    in_test
}

/// How far the walk through a test-only item has come.
struct TestItem {
    depth: usize,
    opened: bool,
}

impl TestItem {
    /// Walks through one more line of the item; whether the item ends in it.
    fn ends_with(&mut self, line: &str) -> bool {
        for c in line.chars() {
            match c {
                '{' => {
                    self.depth += 1;
                    self.opened = true;
                }
                '}' => self.depth = self.depth.saturating_sub(1),
                // `mod tests;`: the file that it names is known by its own name.
                ';' if !self.opened => return true,
                _ => {}
            }
        }
        self.opened && self.depth == 0
    }
}

fn is_test_attribute(line: &str) -> bool {
    let Some((_, condition)) = line.split_once("#[cfg(") else {
        return false;
    };
    contains_word(condition, "test") && !condition.contains("not(test")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(text: &str) -> String {
        separate(text).code
    }

    #[test]
    fn comments_and_the_insides_of_strings_are_not_code() {
        let hidden = [
            "// WORD",
            "/* WORD /* WORD */ WORD */",
            r#"let a = "WORD \" WORD";"#,
            r##"let a = r#"WORD " WORD"#;"##,
            r#"let a = b"WORD";"#,
            r#"let a = br"WORD\";"#,
            "let a = \"first\nWORD\";",
        ];
        for text in hidden {
            assert!(!code_of(text).contains("WORD"), "{text} -> {}", code_of(text));
        }
    }

    #[test]
    fn code_after_a_literal_or_a_comment_is_code_again() {
        let shown = [
            r#"let a = "x"; WORD"#,
            r"let a = '\''; WORD",
            r#"let a = '"'; WORD"#,
            r"let a = '\u{7f}'; WORD",
            "fn f<'a>(x: &'a str) WORD",
            "'outer: loop WORD",
            r##"let a = r#"x"#; WORD"##,
            "let r#type = 1; WORD",
            r"let a = '\\'; WORD",
            "/* x /* y */ z */ WORD",
            "// x\nWORD",
            "let a = 'ü'; WORD",
        ];
        for text in shown {
            assert!(code_of(text).contains("WORD"), "{text} -> {}", code_of(text));
        }
    }

    #[test]
    fn only_comments_are_comment_and_only_literals_literal() {
        let text = "let a = \"// no\"; // yes";
        let Parts { comment, literal, .. } = separate(text);
        assert_eq!((comment.trim(), literal.trim()), ("// yes", "\"// no\""));
        assert_eq!((comment.len(), literal.len()), (text.len(), text.len()));
    }

    #[test]
    fn unfinished_input_ends_with_the_file() {
        for text in ["\"open", "/* open", "r#\"open\"", "'", "'\\", "r", "#"] {
            assert_eq!(code_of(text).chars().count(), text.chars().count(), "{text}");
        }
    }

    #[test]
    fn a_test_module_reaches_to_its_closing_brace() {
        let text = "a\n#[cfg(test)]\nmod tests {\n  fn f() { \"}\" }\n}\nb\n";
        let marks: Vec<bool> = lines(text, false).iter().map(|line| line.in_test).collect();
        assert_eq!(marks, [false, true, true, true, true, false]);
    }

    #[test]
    fn a_test_module_in_a_file_of_its_own_covers_its_line_only() {
        let text = "#[cfg(all(test, loom))]\nmod tests;\nfn f() {}\n";
        let marks: Vec<bool> = lines(text, false).iter().map(|line| line.in_test).collect();
        assert_eq!(marks, [true, true, false]);
    }

    #[test]
    fn code_for_everything_but_tests_is_no_test() {
        assert!(!lines("#[cfg(not(test))]\nfn f() {}\n", false).iter().any(|line| line.in_test));
        assert!(!lines("#[cfg(feature)]\nfn test() {}\n", false).iter().any(|line| line.in_test));
    }

    #[test]
    fn a_word_is_not_found_inside_a_longer_one() {
        assert!(contains_word("x unsafe {", "unsafe"));
        assert!(contains_word("#[unsafe(no_mangle)]", "unsafe"));
        assert!(!contains_word("forbid(unsafe_code)", "unsafe"));
        assert!(!contains_word("not_unsafe", "unsafe"));
        assert!(contains_word("x.unwrap().y", ".unwrap()"));
        assert!(!contains_word("my_dbg!(x)", "dbg!"));
    }
}
