//! Requests that an operator traces.

use admin::{ReplyBody, TracedRequest};
use stack::Sample;

use super::super::app::App;
use super::super::traced::Traced;
use super::SocketTable;
use crate::admin_clients::ClientId;

impl SocketTable {
    /// From now on one of `one_in` requests is sampled: of the application of that name or number,
    /// whenever it comes again, or of all.
    ///
    /// # Errors
    /// Somebody traces already, or nobody of that name is here.
    pub(crate) fn begin_trace(
        &mut self,
        client: ClientId,
        app: Option<String>,
        one_in: u32,
    ) -> Result<(), String> {
        if self.apps.traced().is_some() {
            return Err(
                "somebody traces already, and one at a time may: `calisto trace` ends with \
                        its own time, or with Ctrl-C"
                    .to_owned(),
            );
        }
        if let Some(text) = &app
            && !self.apps.iter().any(|of| of.answers_to(text))
        {
            let shown = base::printable(text, 40);
            return Err(format!("no application \"{shown}\" has sockets: see `calisto ss`"));
        }
        let command_queue = &self.table_config.command_queue;
        command_queue.trace(true);
        self.apps.trace(Some(Traced { client, app, one_in, before: command_queue.trace_losses() }));
        Ok(())
    }

    /// Nobody traces any more, if it was this client.
    pub(crate) fn end_trace(&mut self, client: ClientId) {
        if self.apps.traced().is_none_or(|traced| traced.client != client) {
            return;
        }
        self.apps.trace(None);
        self.table_config.command_queue.trace(false);
    }

    /// What was sampled since the last time.
    pub(crate) fn traced(&self) -> ReplyBody {
        let command_queue = &self.table_config.command_queue;
        let samples = command_queue.take_samples();
        let requests = samples.iter().filter_map(|sample| {
            // One whose program has gone meanwhile has no name.
            let app_name = self.apps.get(sample.app)?.name.clone();
            Some(request(sample, app_name))
        });
        let requests = requests.collect();
        let now = command_queue.trace_losses();
        let before = self.apps.traced().map_or(now, |traced| traced.before);
        let is_traced = |of: &&App| self.apps.traced().is_some_and(|traced| traced.means(of));
        ReplyBody::Traced {
            programs: self.apps.iter().filter(is_traced).count() as u32,
            requests,
            lost: now.lost.saturating_sub(before.lost),
            unanswered: now.unanswered.saturating_sub(before.unanswered),
            strange: now.strange.saturating_sub(before.strange),
        }
    }
}

fn request(sample: &Sample, app_name: String) -> TracedRequest {
    let Sample { app, received, taken, shown, read, written, heard, sent } = *sample;
    TracedRequest {
        app: app.0.into(),
        app_name,
        dispatch_ns: taken.since(received).0,
        receive_ns: shown.since(taken).0,
        wake_up_ns: read.since(shown).0,
        application_ns: written.since(read).0,
        notice_ns: heard.since(written).0,
        transmit_ns: sent.since(heard).0,
    }
}
