//! Applications with sockets, as operators name them: by their name, or by their number.

use base::Nanos;
use datapath::DetachReason;

use super::super::app::App;
use super::SocketTable;

impl SocketTable {
    /// An operator wants the application to go.
    ///
    /// # Errors
    /// There is none, or there are several of that name; what to do.
    pub(crate) fn detach_named(&mut self, app: &str, now: Nanos) -> Result<(), String> {
        let meant = self.apps.iter().filter(|of| of.name == app || of.number().to_string() == app);
        let numbers: Vec<u16> = meant.map(App::number).collect();
        let shown = base::printable(app, 40);
        match numbers[..] {
            [] => Err(format!("no application \"{shown}\" is attached: see `calisto ss`")),
            [number] => {
                self.detach(number, DetachReason::Operator, now);
                Ok(())
            }
            _ => {
                let all: Vec<String> = numbers.iter().map(u16::to_string).collect();
                Err(format!(
                    "{} applications are meant by \"{shown}\": name one by its number: {}",
                    all.len(),
                    all.join(", ")
                ))
            }
        }
    }
}
