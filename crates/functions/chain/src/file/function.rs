//! `[[function]]`: one function of a chain and its settings.

mod acl;
mod esp;
mod firewall;
mod l2;
mod policer;
mod router;
mod selector;

pub use acl::AclPart;
pub use esp::EspPart;
pub use firewall::FirewallPart;
pub use l2::{L2Part, LinkPart};
pub use policer::PolicerPart;
pub use router::{RouterPart, Routes, Rules, WhenFull};

use super::FileError;
use super::section::{Section, Source, word};
use super::slice::SlicePart;

/// One function and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionPart {
    /// Forwards by longest prefix.
    Router(RouterPart),
    /// Permits and denies.
    Acl(AclPart),
    /// Limits how much passes.
    Policer(PolicerPart),
    /// Joins ports in pairs.
    L2(L2Part),
    /// Lets connections begin where rules permit it.
    Firewall(FirewallPart),
    /// Seals and opens what goes through tunnels.
    Esp(EspPart),
}

const KINDS: &[&str] = &["router", "acl", "policer", "l2", "firewall", "esp"];

impl FunctionPart {
    /// Its kind, as the file writes it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Router(_) => "router",
            Self::Acl(_) => "acl",
            Self::Policer(_) => "policer",
            Self::L2(_) => "l2",
            Self::Firewall(_) => "firewall",
            Self::Esp(_) => "esp",
        }
    }
}

pub(crate) fn read(section: &mut Section<'_>) -> Result<FunctionPart, FileError> {
    let kind = section.required("kind", "kind = \"router\"", word(KINDS))?;
    Ok(match KINDS[kind] {
        "router" => FunctionPart::Router(router::read(section)?),
        "acl" => FunctionPart::Acl(acl::read(section)?),
        "policer" => FunctionPart::Policer(policer::read(section)?),
        "l2" => FunctionPart::L2(l2::read(section)?),
        "firewall" => FunctionPart::Firewall(firewall::read(section)?),
        _ => FunctionPart::Esp(esp::read(section)?),
    })
}

/// What must hold between functions, and between them and the ports.
pub(crate) fn agree(
    source: &Source<'_>,
    slice: &SlicePart,
    functions: &[(FunctionPart, usize)],
) -> Result<(), FileError> {
    let mut seen: Vec<&str> = Vec::new();
    for (function, line) in functions {
        let kind = function.kind();
        if seen.contains(&kind) && matches!(kind, "router" | "l2" | "esp") {
            let says = format!("is {kind:?} once more: a chain has one {kind} at most");
            return Err(source.error(Some(*line), "function.kind", says));
        }
        // What such a function lets pass nobody looks at any more.
        if let Some(last) = seen.last().filter(|kind| matches!(**kind, "router" | "l2")) {
            let says = format!(
                "is {kind:?}, behind {last:?}, which decides about every packet: put it before"
            );
            return Err(source.error(Some(*line), "function.kind", says));
        }
        if let FunctionPart::Firewall(firewall) = function {
            firewall::agree(source, *line, slice, firewall)?;
        }
        if let FunctionPart::L2(l2) = function {
            l2::agree(source, *line, slice, l2)?;
        }
        seen.push(kind);
    }
    match functions.last() {
        Some((FunctionPart::Router(_) | FunctionPart::L2(_), _)) | None => Ok(()),
        Some((last, line)) => {
            let says = format!(
                "is {:?} at the end of the chain: nobody says by which port packets leave; put a \
                 router or an l2 behind it",
                last.kind()
            );
            Err(source.error(Some(*line), "function.kind", says))
        }
    }
}
