//! Which packets the slices of a chain take for which its file names no filter: what follows from its
//! functions and the host's addresses. It is made ready before anything of a file is in force.

use std::net::IpAddr;

use port::{Filter, FilterError};
use sys::interface;

use super::{Chain, Event, launch};
use crate::error::ChainError;
use crate::file::{AclPart, ChainFile, FunctionPart};
use crate::filter::{self, OwnPackets};

impl Chain {
    /// The filter for the functions of `file` and the host's addresses as they are now; `None`: it
    /// is to stay as it is.
    ///
    /// # Errors
    /// There is none that lets these functions have their packets: rules or addresses are too many.
    pub(super) fn next_filter(
        &self,
        file: &ChainFile,
        tell: &mut dyn FnMut(Event),
    ) -> Result<Option<Filter>, ChainError> {
        let Some(tables) = &self.tables else { return Ok(None) };
        if !self.threads.iter().any(|thread| thread.follows) {
            // What is for the host would come to the acl, and from there to nobody.
            let takes_all = self.threads.iter().any(|thread| thread.filter.is_none());
            return match takes_all && is_guarded(file) {
                true => Err(ChainError::Reload(too_many_addresses())),
                false => Ok(None),
            };
        }
        let own: Vec<IpAddr> = tables.own_addresses().collect();
        let Some(expression) = filter_of(file, own.into_iter()) else {
            if wants_as(&self.file, file) {
                tell(Event::Note(too_many_addresses()));
                return Ok(None);
            }
            return Err(ChainError::Reload(too_many_addresses()));
        };
        compile(file, &expression).map(Some)
    }

    /// Lets slices whose filter follows the host's addresses take that, once it is sent.
    pub(super) fn want_filter(&mut self, filter: &Filter) {
        for thread in self.threads.iter_mut().filter(|thread| thread.follows) {
            thread.filter = Some(filter.expression().to_owned());
            thread.wanted_filter = Some(filter.clone());
        }
    }

    /// The same for addresses that have changed. The chain goes on where there is no filter for
    /// them.
    pub(super) fn refilter(&mut self, tell: &mut dyn FnMut(Event)) -> Result<(), ChainError> {
        match self.next_filter(&self.file, tell) {
            Ok(Some(filter)) => self.want_filter(&filter),
            Ok(None) => {}
            Err(why) => tell(Event::Note(format!("{why}; the filter stays as it was"))),
        }
        self.send_takes()
    }
}

/// The filter of slices for which the file names none; `None`: they take everything.
pub(crate) fn default_filter(
    file: &ChainFile,
    tell: &mut dyn FnMut(Event),
) -> Result<Option<String>, ChainError> {
    if !launch::has(file, "router") {
        return Ok(None);
    }
    let addresses = interface::all_addresses()?.into_iter().map(|(_, at)| at);
    let filter = filter_of(file, addresses);
    if filter.is_none() {
        tell(Event::Note(too_many_addresses()));
    }
    // Whoever wants the host guarded does not want it unguarded without a word, or out of reach.
    if is_guarded(file) {
        let failed = |why| ChainError::Function { kind: "acl", why };
        let expression = filter.as_ref().ok_or_else(|| failed(too_many_addresses()))?;
        compile(file, expression)?;
    }
    Ok(filter)
}

fn too_many_addresses() -> String {
    format!(
        "this host has more than {} addresses, or {} of IPv6, too many to follow in a filter: write \
         `filter` in each [[slice]]",
        filter::ADDRESSES_MAX,
        filter::IPV6_ADDRESSES_MAX
    )
}

/// The filter of a chain with a router on a host with these addresses; `None`: there are too many.
pub(crate) fn filter_of(file: &ChainFile, own: impl Iterator<Item = IpAddr>) -> Option<String> {
    let taken = launch::taken(file);
    let own: Vec<IpAddr> = own.filter(|address| !taken.contains(address)).collect();
    filter::of_router(&own, own_packets(file), &guards(file))
}

fn own_packets(file: &ChainFile) -> OwnPackets {
    OwnPackets { esp: launch::has(file, "esp"), tunnels: launch::has(file, "tunnel") }
}

/// Whether chains of both files want the same packets, whatever addresses there are.
fn wants_as(one: &ChainFile, other: &ChainFile) -> bool {
    let wanted = |file| (launch::taken(file), own_packets(file));
    wanted(one) == wanted(other) && guards(one) == guards(other)
}

/// Compiles the filter of a chain.
///
/// # Errors
/// It is too long for whoever is to run it.
fn compile(file: &ChainFile, expression: &str) -> Result<Filter, ChainError> {
    let failed = |why| ChainError::Function { kind: "acl", why };
    match (Filter::compile(expression), is_guarded(file)) {
        (Ok(filter), _) => unguarded(file, &filter).map_or(Ok(filter), |why| Err(failed(why))),
        // The rules have made it what it is.
        (Err(FilterError::Program { reason, .. }), true) => Err(failed(format!(
            "with `host = \"judge\"` its rules and this host's addresses make no filter: {reason}: \
             have fewer rules that packets for this host meet"
        ))),
        (Err(error), _) => Err(ChainError::Reload(error.to_string())),
    }
}

/// Whether an acl is for what is for this host, too.
fn is_guarded(file: &ChainFile) -> bool {
    !guards(file).is_empty()
}

/// Rules that are for this host too.
fn guards(file: &ChainFile) -> Vec<&AclPart> {
    let acls = file.functions.iter().filter_map(|function| match function {
        FunctionPart::Acl(acl) => Some(acl),
        _ => None,
    });
    acls.filter(|acl| acl.guards_host).collect()
}

/// Why a filter cannot guard the host: rules, or addresses that they are held against, are too
/// many.
fn unguarded(file: &ChainFile, filter: &Filter) -> Option<String> {
    let (bytes, most) = (filter.program().len(), filter::INSTRUCTIONS_MAX);
    (bytes > most && is_guarded(file)).then(|| {
        format!(
            "with `host = \"judge\"` its rules and this host\'s addresses make a filter of {bytes} \
             instructions, and {most} are the most: have fewer rules that packets for this host meet"
        )
    })
}
