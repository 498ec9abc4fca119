//! A changed configuration on its way: what asks for it to be read again, and what it changes
//! where.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use admin::ReplyBody;
use config::Config;
use datapath::Listener;

use crate::apps::Rules;
use crate::pins::PinStep;

/// An operator waits this long: the loop and the attach server may take five seconds each.
const ANSWER_MAX: Duration = Duration::from_secs(15);

const LATE: &str = "the configuration was not read again: see the log";

/// Whoever wants the configuration to be read again, and an answer.
pub(crate) type Wish = Option<SyncSender<ReplyBody>>;

/// The way to the thread that reads; clones are the same.
#[derive(Clone)]
pub(crate) struct Reloads {
    sender: Sender<Wish>,
}

impl Reloads {
    /// The way, and its other end.
    pub(crate) fn new() -> (Self, Receiver<Wish>) {
        let (sender, wishes) = channel();
        (Self { sender }, wishes)
    }

    /// Reads again, and says what came of it in the log only.
    pub(crate) fn hint(&self) {
        let _ = self.sender.send(None);
    }

    /// Reads again: what came of it.
    pub(crate) fn ask(&self) -> ReplyBody {
        let (asker, answered) = sync_channel(1);
        let _ = self.sender.send(Some(asker));
        answered
            .recv_timeout(ANSWER_MAX)
            .unwrap_or_else(|_| ReplyBody::Error { message: LATE.to_owned() })
    }
}

/// What changes in the loop.
pub(crate) struct LoopChange {
    pub(crate) config: Config,
    /// What the own workers listen on, if that changes.
    pub(crate) listeners: Option<Vec<Listener>>,
    pub(crate) pins: Vec<PinStep>,
}

/// What changes at the attach server.
pub(crate) struct AttachChange {
    pub(crate) config: Config,
    pub(crate) rules: Rules,
    /// Listeners of the own workers that go; those that come are claimed already.
    pub(crate) go: Vec<Listener>,
}
