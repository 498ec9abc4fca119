//! `[[function]]`: one function of a chain and its settings.

mod acl;
mod balancer;
mod esp;
mod firewall;
mod l2;
mod mirror;
mod nat;
mod own;
mod policer;
mod router;
mod selector;
mod shared_object;
mod tunnel;

pub use acl::AclPart;
pub use balancer::{BalancerPart, Check};
pub use esp::EspPart;
pub use firewall::FirewallPart;
pub use l2::{L2Part, LinkPart};
pub use mirror::MirrorPart;
pub use nat::NatPart;
pub use own::{Given, Kinds, NotMade, OwnPart};
pub use policer::PolicerPart;
pub use router::{RouterPart, Routes, Rules, WhenFull};
pub use shared_object::SharedObjectPart;
pub use tunnel::TunnelPart;

use calisto_nf::balancer::Forwarding;
use toml::de::DeValue;

use super::FileError;
use super::section::{Section, Source, word};
use super::slice::SlicePart;

/// Declares the kinds: the word of the file, the variant with its settings, and what reads them.
macro_rules! kinds {
    ($($(#[doc = $about:literal])+ $kind:literal $variant:ident($part:ident) $read:path,)+) => {
        /// One function and its settings.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum FunctionPart {
            $($(#[doc = $about])+ $variant($part),)+
            /// Does what whoever registered its kind wants.
            Own(OwnPart),
        }

        const KINDS: &[&str] = &[$($kind),+];
        const READERS: &[fn(&mut Section<'_>) -> Result<FunctionPart, FileError>] =
            &[$(|section| Ok(FunctionPart::$variant($read(section)?))),+];

        impl FunctionPart {
            /// Its kind, as the file writes it.
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $kind,)+
                    Self::Own(part) => part.kind(),
                }
            }
        }
    };
}

kinds! {
    /// Forwards by longest prefix.
    "router" Router(RouterPart) router::read,
    /// Permits and denies.
    "acl" Acl(AclPart) acl::read,
    /// Limits how much passes.
    "policer" Policer(PolicerPart) policer::read,
    /// Joins ports in pairs.
    "l2" L2(L2Part) l2::read,
    /// Lets connections begin where rules permit it.
    "firewall" Firewall(FirewallPart) firewall::read,
    /// Seals and opens what goes through tunnels.
    "esp" Esp(EspPart) esp::read,
    /// Lets hosts with private addresses share others.
    "nat" Nat(NatPart) nat::read,
    /// Shares services among servers.
    "balancer" Balancer(BalancerPart) balancer::read,
    /// Carries packets inside others.
    "tunnel" Tunnel(TunnelPart) tunnel::read,
    /// Sends copies out.
    "mirror" Mirror(MirrorPart) mirror::read,
    /// Does what a shared object does.
    "shared-object" SharedObject(SharedObjectPart) shared_object::read,
}

pub(crate) fn read(section: &mut Section<'_>, own: &Kinds) -> Result<FunctionPart, FileError> {
    let of_own = |value: &DeValue<'_>| Ok(value.as_str().and_then(|kind| own.find(kind)));
    if let Some(kind) = section.optional("kind", of_own)?.flatten() {
        section.leave();
        return Ok(FunctionPart::Own(OwnPart::new(kind, section)));
    }
    let kind = section.required("kind", "kind = \"router\"", word(KINDS))?;
    READERS[kind](section)
}

/// What must hold between functions, and between them and the ports.
pub(crate) fn agree(
    source: &Source<'_>,
    slices: &[(SlicePart, usize)],
    functions: &[(FunctionPart, usize)],
) -> Result<(), FileError> {
    let slice = &slices[0].0;
    let is_router = |(part, _): &(FunctionPart, usize)| matches!(part, FunctionPart::Router(_));
    let has_router = functions.iter().any(is_router);
    let mut seen: Vec<&str> = Vec::new();
    for (function, line) in functions {
        let kind = function.kind();
        let one_at_most = ["router", "l2", "esp", "nat", "balancer", "tunnel"];
        if seen.contains(&kind) && one_at_most.contains(&kind) {
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
        if let FunctionPart::Acl(acl) = function {
            acl::agree(source, *line, slices, has_router, acl)?;
        }
        if let FunctionPart::Firewall(firewall) = function {
            firewall::agree(source, *line, slice, firewall)?;
        }
        if let FunctionPart::L2(l2) = function {
            l2::agree(source, *line, slice, l2)?;
        }
        if let FunctionPart::Nat(nat) = function {
            nat::agree(source, *line, slices, has_router, nat)?;
        }
        if let FunctionPart::Tunnel(_) = function {
            tunnel::agree(source, *line, has_router)?;
        }
        if let FunctionPart::Mirror(mirror) = function {
            mirror::agree(source, *line, slice, mirror)?;
        }
        if let FunctionPart::Balancer(balancer) = function {
            balancer::agree(source, *line, slices.len(), balancer)?;
        }
        seen.push(kind);
    }
    nobody_answers_as_nat(source, functions)?;
    match functions.last() {
        None => Ok(()),
        Some((part, _)) if may_be_last(part) => Ok(()),
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

/// Servers that answer by themselves send in the name of their service from outside. Were that an
/// address of a NAT too, anybody outside could send in the name of those behind it.
fn nobody_answers_as_nat(
    source: &Source<'_>,
    functions: &[(FunctionPart, usize)],
) -> Result<(), FileError> {
    let shared = functions.iter().find_map(|(function, _)| match function {
        FunctionPart::Nat(nat) => Some(&nat.settings.addresses),
        _ => None,
    });
    for (function, line) in functions {
        let (Some(shared), FunctionPart::Balancer(part)) = (shared, function) else { continue };
        let services = part.settings.services.iter();
        let mut by_themselves = services.filter(|service| service.forwarding != Forwarding::Nat);
        if let Some(service) = by_themselves.find(|service| shared.contains(service.address.ip())) {
            let says = format!(
                "has {}, an address of the nat too, from which servers outside would answer: give \
                 the service an address of its own, or forward it by \"nat\"",
                service.address
            );
            return Err(source.error(Some(*line), "function.services", says));
        }
    }
    Ok(())
}

/// Whether it may say by which port packets leave.
const fn may_be_last(part: &FunctionPart) -> bool {
    matches!(
        part,
        FunctionPart::Router(_)
            | FunctionPart::L2(_)
            | FunctionPart::Own(_)
            | FunctionPart::SharedObject(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_manual_page_and_every_page_is_of_a_kind() {
        let mut paged: Vec<&str> = calisto_nf::manual::kinds().collect();
        let mut kinds = KINDS.to_vec();
        paged.sort_unstable();
        kinds.sort_unstable();
        assert_eq!(kinds, paged, "KINDS, and FILES of manual.rs");
    }
}
