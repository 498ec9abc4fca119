//! The file that describes a chain: TOML, every key and value checked, unknown keys refused with
//! the nearest known one.
//!
//! A text becomes a [`ChainFile`] or a [`FileError`] that names file, line and field and says what
//! is allowed there. Nothing is looked up in the system here: whether an interface exists and
//! whether a named file can be read shows when the chain is made.

mod error;
mod function;
mod section;
mod slice;
#[cfg(test)]
mod tests;

pub use error::FileError;
pub use function::{
    AclPart, BalancerPart, Check, EspPart, FirewallPart, FunctionPart, Given, Kinds, L2Part,
    LinkPart, MirrorPart, NatPart, NotMade, OwnPart, PolicerPart, RouterPart, Routes, Rules,
    SharedObjectPart, TunnelPart, WhenFull,
};
pub use slice::SlicePart;

use section::Section;
pub(crate) use section::shorten;

/// A chain as its file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainFile {
    /// What it is called in figures, and the name of its socket.
    pub name: String,
    /// Whether its first functions run in the XDP program of the ports, as far as they can.
    pub hook: bool,
    /// Its slices: one thread each.
    pub slices: Vec<SlicePart>,
    /// Its functions, in the order in which they see packets.
    pub functions: Vec<FunctionPart>,
}

/// Bytes of a file that anybody would write.
pub const FILE_BYTES_MAX: usize = 4 << 20;

/// More threads than this is a mistake in a generated file.
const SLICES_MAX: usize = 64;
const FUNCTIONS_MAX: usize = 16;

impl ChainFile {
    /// Reads `text`, which stands in `file`; `file` is only named in errors.
    ///
    /// # Errors
    /// The first thing that is wrong, in the order of the text.
    pub fn parse(text: &str, file: &str) -> Result<Self, FileError> {
        Self::parse_with(text, file, &Kinds::default())
    }

    /// The same, where functions may be of these kinds, too. What is wrong in settings of such a
    /// function shows when it is made.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_with(text: &str, file: &str, own: &Kinds) -> Result<Self, FileError> {
        let source = section::Source { text, file };
        if text.len() > FILE_BYTES_MAX {
            let says = format!("it has {} bytes; allowed are {FILE_BYTES_MAX}", text.len());
            return Err(source.error(None, "", says));
        }
        let document = source.document()?;
        let mut top = Section::top(&source, document.get_ref());
        let name = top.required("name", "name = \"edge\"", section::name)?;
        let hook = top.optional("hook", section::word(&["off", "auto"]))? == Some(1);
        let slices = top.sections("slice", 1..=SLICES_MAX, slice::read)?;
        let read = |section: &mut Section<'_>| function::read(section, own);
        let functions = top.sections("function", 1..=FUNCTIONS_MAX, read)?;
        top.finish()?;
        slice::agree(&source, &slices)?;
        function::agree(&source, &slices, &functions)?;
        let (slices, functions) = (without_lines(slices), without_lines(functions));
        Ok(Self { name, hook, slices, functions })
    }
}

fn without_lines<T>(parts: Vec<(T, usize)>) -> Vec<T> {
    parts.into_iter().map(|(part, _)| part).collect()
}
