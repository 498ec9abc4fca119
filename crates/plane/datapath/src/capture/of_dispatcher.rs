//! Captures begin and end at a dispatcher.

use port::Port;

use super::CaptureTap;
use crate::dispatcher::Dispatcher;

impl<P: Port> Dispatcher<P> {
    /// Begins a capture, which `id` names from now on.
    ///
    /// # Errors
    /// There are [`CAPTURES_MAX`](super::CAPTURES_MAX) already: it comes back.
    pub fn begin_capture(&mut self, id: u64, tap: Box<CaptureTap>) -> Result<(), Box<CaptureTap>> {
        if self.captures.is_empty() {
            self.ports.iter_mut().for_each(|dispatcher_port| dispatcher_port.captured = 0);
        }
        self.captures.begin(id, tap, self.ports.len())
    }

    /// Ends a capture; `None` when there is none of that name.
    pub fn end_capture(&mut self, id: u64) -> Option<Box<CaptureTap>> {
        self.captures.end(id)
    }
}
