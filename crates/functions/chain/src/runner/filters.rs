//! The filter of the slices of a running chain for which its file names none. It is made ready
//! before anything of a file is in force, and follows the host's addresses.

use std::net::IpAddr;

use port::Filter;

use super::{Chain, Event};
use crate::error::ChainError;
use crate::file::ChainFile;
use crate::filter::wanted::{
    compile, filter_of, is_guarded, note_of, too_many_addresses, wants_as,
};

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
                true => Err(ChainError::Reload(too_many_addresses(file))),
                false => Ok(None),
            };
        }
        let own: Vec<IpAddr> = tables.own_addresses().collect();
        let Some(wanted) = filter_of(file, own.into_iter()) else {
            if wants_as(&self.file, file) {
                tell(Event::Note(too_many_addresses(file)));
                return Ok(None);
            }
            return Err(ChainError::Reload(too_many_addresses(file)));
        };
        let compiled = compile(file, &wanted)?;
        if let Some(note) = note_of(&wanted) {
            tell(Event::Note(note));
        }
        Ok(Some(compiled))
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
