//! Applications with sockets, as operators name them: by their name, or by their number.

use base::Nanos;
use datapath::DetachReason;

use super::table::SocketTable;

impl SocketTable {
    /// An operator wants the application to go.
    ///
    /// # Errors
    /// There is none, or there are several of that name; what to do.
    pub(crate) fn detach_named(&mut self, app: &str, now: Nanos) -> Result<(), String> {
        let is_meant = |(number, name): &(u16, &str)| *name == app || number.to_string() == app;
        let names = self.apps.iter().map(|(number, app)| (*number, app.name.as_str()));
        let numbers: Vec<u16> = names.filter(is_meant).map(|(number, _)| number).collect();
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
