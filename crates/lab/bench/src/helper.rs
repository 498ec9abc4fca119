//! What this program becomes when a case starts it once more, as its command line says it.

use clap::ValueEnum;

/// The word that stands for a kind of helper on a command line.
pub(crate) fn word(kind: impl ValueEnum) -> String {
    kind.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
