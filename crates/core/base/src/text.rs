//! Words of strangers, made fit for a line of output.

/// `text` with everything escaped that a terminal would act on, cut at about `chars_max`
/// characters.
///
/// ```
/// assert_eq!(base::printable("a\u{1b}[31mb", 99), "a\\u{1b}[31mb");
/// assert_eq!(base::printable("abcdef", 3), "abc…");
/// ```
pub fn printable(text: &str, chars_max: usize) -> String {
    let mut shown = String::new();
    for (count, letter) in text.chars().enumerate() {
        if count == chars_max {
            shown.push('…');
            break;
        }
        if letter.is_control() || is_invisible(letter) {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// Marks that turn the direction of text around or join what follows (Unicode's category Cf).
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_acts_on_is_left_and_the_rest_is_as_it_was() {
        assert_eq!(printable("what? Ünïcode, \"quoted\"", 99), "what? Ünïcode, \"quoted\"");
        let shown = printable("\r\n\t\u{7}\u{9b}\u{202e}", 99);
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
        assert!(shown.contains("u{202e}"), "{shown:?}");
        assert_eq!(printable(&"x".repeat(1_000_000), 300).chars().count(), 301);
    }
}
