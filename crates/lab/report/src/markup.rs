//! Text on its way into HTML and SVG, where nothing of it may be taken for markup.

use std::fmt::{self, Display, Write};

/// A text that shows as itself in HTML and XML, inside elements and in quoted attributes.
///
/// What cannot be in XML at all (most control characters), and what turns the direction of the text
/// around it, shows as the replacement character.
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(character)?,
                '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FFFE}' | '\u{FFFF}' => {
                    f.write_char(char::REPLACEMENT_CHARACTER)?;
                }
                _ if character.is_control() => f.write_char(char::REPLACEMENT_CHARACTER)?,
                _ => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_shows_as_itself() {
        let text = Escaped("<script>\"a\" & 'b'</script>").to_string();
        assert_eq!(text, "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;&lt;/script&gt;");
    }

    #[test]
    fn what_xml_cannot_hold_or_turns_the_text_around_is_replaced() {
        assert_eq!(
            Escaped("a\0b\u{1b}[31m\u{202E}c\u{FFFF}\r").to_string(),
            "a\u{FFFD}b\u{FFFD}[31m\u{FFFD}c\u{FFFD}\u{FFFD}"
        );
        assert_eq!(Escaped("µ → 名\n\t").to_string(), "µ → 名\n\t");
    }
}
