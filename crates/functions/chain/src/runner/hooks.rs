//! What is in the hook while a chain runs: compiled anew when something has changed that it depends
//! on, and sent to the slices' threads with their filters.

use super::Chain;
use crate::error::ChainError;
use crate::figures::{HookFigures, PlaceFigures};
use crate::file::{ChainFile, FunctionPart};
use crate::hook::{self, Compiled, Takes};

impl Chain {
    /// The chain of `file` for the hook, as everything stands now.
    pub(super) fn compile(&self, file: &ChainFile) -> Compiled {
        hook::compile(file, &self.ports, self.tables.as_ref())
    }

    /// Sends each thread the filter and the hook that it is to have, if those have changed. What
    /// finds no room is sent the next time.
    pub(super) fn send_takes(&mut self) -> Result<(), ChainError> {
        self.compiled = self.compile(&self.file);
        for thread in &mut self.threads {
            let hook = thread.stats.next(&self.compiled)?;
            let macs = self.compiled.macs.clone();
            let takes = Takes { filter: thread.wanted_filter.clone(), hook, macs };
            if takes != thread.takes && thread.to_take.push(takes.clone()).is_ok() {
                thread.stats.sent(takes.hook.as_ref(), &self.compiled);
                thread.takes = takes;
                thread.feed.wake();
            }
        }
        Ok(())
    }

    /// Takes everything out of the hook before other functions come, if those are others for it: no
    /// packet is to meet the rules of before there and the functions of after behind.
    pub(super) fn unhook(&mut self, file: &ChainFile) -> Result<(), ChainError> {
        let is_kept = self.compile(file).functions == self.compiled.functions
            && decides_alike(&self.file, file);
        if is_kept {
            return Ok(());
        }
        for thread in &mut self.threads {
            let filter = thread.takes.filter.clone();
            let takes = Takes { filter, hook: None, macs: Vec::new() };
            if takes == thread.takes {
                continue;
            }
            thread.to_take.push(takes.clone()).map_err(|_| {
                let (slice, why) = (thread.name.clone(), "it takes no orders".to_owned());
                ChainError::Ended { slice, why }
            })?;
            thread.takes = takes;
        }
        Ok(())
    }

    pub(super) fn hook_figures(&self) -> HookFigures {
        let mut entries = Vec::new();
        for thread in &self.threads {
            for (hook, (_, interface)) in
                thread.board.read().hooks.into_iter().zip(self.ports.each())
            {
                let closed = hook.is_ok().then(|| hook::closed(interface)).flatten();
                let name = interface.name.clone();
                entries.push(PlaceFigures { name, hook: hook.is_ok(), why: hook.err().or(closed) });
            }
        }
        let Compiled { places, exits, .. } = &self.compiled;
        HookFigures { functions: places.clone(), entries, exits: exits.clone() }
    }
}

/// Whether a router of both files goes by the same routes. Tables are still those of before while a
/// file is put in force, so that what is compiled then does not show it.
fn decides_alike(old: &ChainFile, new: &ChainFile) -> bool {
    let routes = |file: &ChainFile| {
        file.functions.iter().find_map(|function| match function {
            FunctionPart::Router(router) => Some(router.routes.clone()),
            _ => None,
        })
    };
    routes(old) == routes(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_with_other_routes_does_not_stay_in_the_hook_whatever_else_is_the_same() {
        let file = |routes: &str| {
            let text = format!(
                "name = \"c\"\nhook = \"auto\"\n[[slice]]\nports = [\"xdp:a\", \"xdp:b\"]\n\
                 [[function]]\nkind = \"router\"\n{routes}"
            );
            ChainFile::parse(&text, "c.toml").expect("a chain")
        };
        let [kernel, of_file] = ["", "routes = \"routes.txt\"\n"].map(file);
        assert!(decides_alike(&kernel, &file("routes = \"kernel\"\nicmp_burst = 9\n")));
        assert!(!decides_alike(&kernel, &of_file) && !decides_alike(&of_file, &kernel));
        assert!(decides_alike(&of_file, &of_file));
    }
}
