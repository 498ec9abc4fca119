//! `kind = "esp"`.

use calisto_nf::esp::Others;

use crate::file::FileError;
use crate::file::section::{Section, text, word};

/// Settings of a tunnel gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EspPart {
    /// The file with its tunnels and keys; relative to the folder of the chain's file.
    pub keys: String,
    /// What becomes of packets of no tunnel.
    pub others: Others,
}

const OTHERS: &[&str] = &["drop", "pass"];

pub(super) fn read(section: &mut Section<'_>) -> Result<EspPart, FileError> {
    let keys = section.required("keys", "keys = \"tunnel.keys\"", text(4095))?;
    let others = section.optional("others", word(OTHERS))?;
    let others = if others == Some(1) { Others::Pass } else { Others::Drop };
    Ok(EspPart { keys, others })
}
