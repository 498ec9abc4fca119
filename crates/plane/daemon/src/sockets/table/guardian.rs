//! The guardian has ended, and another one takes its place.

use base::Nanos;

use super::SocketTable;
use crate::attach_server_counters::AttachServerEvent;
use crate::guardian::GuardianState;
use crate::log;

impl SocketTable {
    /// Looks whether it still lives.
    pub(super) fn watch_guardian(&mut self, now: Nanos) {
        let Some(guardian) = &self.table_config.guardian else { return };
        if guardian.has_just_ended(now) {
            self.table_config.counters.count(AttachServerEvent::GuardianEnded);
            let next = match guardian.state() {
                GuardianState::GivenUp => {
                    "it has ended too often to be started again: start the daemon anew when it can be"
                        .to_owned()
                }
                _ => format!("another is started in {:.0} s", guardian.again_at().since(now).as_secs_f64()),
            };
            tracing::error!(
                target: log::SOCKETS,
                "the guardian has ended: connections of programs would not live through a sudden \
                 end of the daemon; {next}"
            );
        }
        self.table_config.counters.note_guardian(guardian.state());
    }

    /// Starts another one if that is due, and tells it of all applications. True: there is one, and
    /// it has to be told of their processes.
    pub(crate) fn is_guarded_anew(&mut self, now: Nanos) -> bool {
        let Some(guardian) = &self.table_config.guardian else { return false };
        if !guardian.is_started_again(now) {
            return false;
        }
        self.apps.iter_mut().for_each(|app| app.guard(guardian));
        self.table_config.counters.count(AttachServerEvent::GuardianStarted);
        self.table_config.counters.note_guardian(guardian.state());
        tracing::info!(target: log::SOCKETS, "another guardian is in the place of the one that has ended");
        true
    }
}
