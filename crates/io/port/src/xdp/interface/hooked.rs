//! A hook in the programs of queues.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::{PROGRAM_NAME, XdpInterface, bpf, program};
use crate::Filter;
use crate::hook::{Hook, HookFunctions};
use crate::xdp::bpf::GPL_TOO;

impl XdpInterface {
    /// From the next packet on, `hook` finishes what it can of the packets of `queues` that
    /// `filter` wants, and their sockets get the others of them; the kernel gets what is not
    /// wanted. Each queue changes at once, and on an error none does.
    pub(in crate::xdp) fn hook(
        &self,
        queues: impl Iterator<Item = u16>,
        filter: Option<&Filter>,
        hook: &Hook,
    ) -> Result<(), String> {
        let owners = self.owners.as_ref().ok_or("the XDP program is another process's")?;
        let program = self.load_hook(filter, hook)?;
        for queue in queues {
            owners.set(queue, program.as_fd()).map_err(|errno| {
                format!("the program of queue {queue} of {} cannot be set: {errno}", self.name)
            })?;
        }
        Ok(())
    }

    /// The interface may have got another link address since it was attached to, and another its
    /// name.
    fn mac_now(&self) -> Result<[u8; 6], String> {
        let all = sys::interface::list().map_err(|error| error.to_string())?;
        let found = all.iter().find(|interface| interface.index == self.index());
        found.map(|interface| interface.mac).ok_or_else(|| format!("{} has gone", self.name))
    }

    fn load_hook(&self, filter: Option<&Filter>, hook: &Hook) -> Result<OwnedFd, String> {
        let functions = &*hook.functions;
        check(functions)?;
        let place = program::hook::Place {
            functions,
            counters_fd: hook.counters.map().as_fd().as_raw_fd(),
            mac: self.mac_now()?,
            checksums_may_be_open: self.is_veth(),
            is_generic: self.is_generic(),
        };
        let sockets = self.sockets.as_fd().as_raw_fd();
        let code = match filter {
            Some(filter) => program::filter::assemble(filter.program(), Some(&place), sockets)?,
            None => program::hook::assemble(&place, sockets),
        };
        bpf::load_under(GPL_TOO, PROGRAM_NAME, &code, self.is_generic())
            .map_err(|refused| refused.to_string())
    }
}

/// What is too much for one program.
fn check(functions: &HookFunctions) -> Result<(), String> {
    let HookFunctions { acls, router } = functions;
    let rules: usize = acls.iter().map(|acl| acl.rules.len()).sum();
    let ends = router.as_ref().map_or(0, |router| router.liars.len() + router.exits.len());
    for (what, count, most) in [
        ("acls", acls.len(), HookFunctions::ACLS_MAX),
        ("rules", rules, HookFunctions::RULES_MAX),
        ("addresses and ports", ends, HookFunctions::ENDS_MAX),
    ] {
        if count > most {
            return Err(format!("it has {count} {what}, and a program has room for {most}"));
        }
    }
    Ok(())
}
