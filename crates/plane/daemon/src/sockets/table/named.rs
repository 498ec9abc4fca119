//! Applications with sockets, as operators name them: by their number.

use base::Nanos;
use datapath::DetachReason;

use super::super::app::App;
use super::SocketTable;

impl SocketTable {
    /// An operator wants the application of this number to go; what a name means has been found
    /// out before (`named_app`).
    ///
    /// # Errors
    /// There is none, or no longer; what to do.
    pub(crate) fn detach_named(&mut self, app: &str, now: Nanos) -> Result<(), String> {
        let number = self.apps.iter().map(App::number).find(|number| number.to_string() == app);
        let shown = base::printable(app, 40);
        let Some(number) = number else {
            return Err(format!("no application \"{shown}\" is attached: see `calisto apps`"));
        };
        self.detach(number, DetachReason::Operator, now);
        Ok(())
    }
}
