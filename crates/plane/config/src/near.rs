//! The word that was probably meant.

/// The word nearest to `wrong`, unless even that one is too different to be a misspelling.
pub fn nearest<'a>(wrong: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Two slips in a short word, one more for every four letters of a long one.
    let most = (2 + wrong.len() / 8).min(wrong.len().saturating_sub(1));
    words
        .into_iter()
        .map(|word| (distance(wrong, word), word))
        .filter(|&(distance, _)| distance <= most)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, word)| word)
}

/// Levenshtein's distance: letters to insert, drop or replace to make one word the other.
fn distance(one: &str, other: &str) -> usize {
    // A hostile key may be megabytes long; no word of ours is, so such a one is near to none.
    if one.len() > 64 {
        return usize::MAX;
    }
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, &wanted) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != wanted);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_is_the_fewest_edits() {
        for (one, other, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("polcy", "policy", 1),
            ("poilcy", "policy", 2),
            ("grüße", "gruße", 1),
        ] {
            assert_eq!(distance(one, other), expected, "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_misspelling_finds_its_word_and_another_word_finds_none() {
        let words = ["policy", "groups", "tick_us"];
        assert_eq!(nearest("polciy", words), Some("policy"));
        assert_eq!(nearest("gruops", words), Some("groups"));
        assert_eq!(nearest("banana", words), None);
        assert_eq!(nearest("x", words), None);
        assert_eq!(nearest(&"policy".repeat(1000), words), None);
    }
}
