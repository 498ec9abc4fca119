//! Questions to the loop from other threads, and its answers.

use std::sync::mpsc::{RecvTimeoutError, Sender, SyncSender, sync_channel};
use std::time::Duration;

use admin::{Command, ReplyBody, Request, Sample};
use base::WorkerId;
use datapath::{AttachmentId, CaptureTap, DetachReason, Listener};
use policy::record::{Event, Recorder, Snapshot};
use policy::{Entry, table_text};

use crate::admin_clients::ClientId;
use crate::admin_socket::error;
use crate::alarm::Alarm;
use crate::apps::{Arrival, Notice, Notices, TraceAsk};
use crate::changes::{AttachChange, LoopChange, Reloads};
use crate::outside::Proposal;

/// The loop answers within a turn; a client waits this long for a loop that is stuck.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(5);

/// A client waits this long for an attach server that is stuck: it looks for open sockets for six
/// seconds now and then, or gives connections to the kernel for five.
const ATTACH_SERVER_ANSWER_MAX: Duration = Duration::from_secs(8);

/// A question on its way to the loop.
pub(crate) struct Ask {
    pub(crate) question: Question,
    pub(crate) asker: Asker,
}

/// Whoever waits for the answer.
pub(crate) struct Asker(SyncSender<Answer>);

/// The application that a question is about, by name; `None`: the own workers.
type App = Option<String>;

/// What the loop is asked.
pub(crate) enum Question {
    /// A request as it came, checked.
    Request(Request),
    /// Who is active among somebody's workers.
    Workers(App),
    /// A table that was read already, and whose it is to be.
    Load(App, Vec<Entry>),
    /// An outside controller's will.
    Propose(App, Proposal, ClientId),
    /// A client of the admin socket has gone.
    ClientGone(ClientId),
    /// What the policy sees; with the number of the newest slice of load that is known already.
    Sample(App, Option<u64>),
    /// Groups of a table, virtual ones included.
    TableLen(App),
    /// Everything is to be written down from now on.
    Record(App, Box<Recorder>),
    /// What was written down since; with buffers to be used again.
    Recorded(App, Vec<Vec<Event>>),
    /// Nothing more is to be written down.
    RecordEnd(App),
    /// Packets are to be copied from now on, of one application or of all, by a number of the
    /// asker's.
    Capture(u64, App, Box<CaptureTap>),
    /// And no more.
    CaptureEnd(u64),
    /// An application wants to come in.
    Attach(Box<Arrival>),
    /// An application has gone.
    Leave(AttachmentId, DetachReason),
    /// The configuration has changed: all of it holds from now on, or nothing.
    Apply(Box<LoopChange>),
}

/// What the loop says.
pub(crate) enum Answer {
    /// To a request.
    Body(Box<ReplyBody>),
    /// A table, to be printed outside the loop.
    Table(Vec<Entry>),
    Workers(Result<Vec<WorkerId>, String>),
    Sample(Box<Result<(Sample, u64), String>>),
    TableLen(Result<usize, String>),
    Recording(Box<Result<Snapshot, String>>),
    Recorded(Result<(Vec<Vec<Event>>, u64), String>),
    RecordEnded(Option<Box<Recorder>>),
    /// The ports; or why not, and the capture, which whoever sent it drops.
    Capturing(Result<Vec<String>, (String, Box<CaptureTap>)>),
    CaptureEnded(Option<Box<CaptureTap>>),
    /// One that may not come in is dropped by whoever sent it.
    Attached(Result<AttachmentId, Box<(String, Arrival)>>),
    Done,
}

impl Asker {
    /// Tells it. A client that has gone needs no answer.
    pub(crate) fn answer(self, answer: Answer) {
        let _ = self.0.try_send(answer);
    }

    /// Answers a request.
    pub(crate) fn reply(self, body: ReplyBody) {
        self.answer(Answer::Body(Box::new(body)));
    }
}

/// The way to the loop.
#[derive(Clone)]
pub(crate) struct Asks {
    sender: Sender<Ask>,
    alarm: Alarm,
    /// To the attach server, if there is one.
    notices: Option<Notices>,
    /// To the thread that reads the configuration again, once it is there.
    reloads: Option<Reloads>,
}

/// The loop has answered another question than was asked, which it never does.
const OTHER: &str = "not answered this way";

impl Asks {
    pub(crate) fn new(sender: Sender<Ask>, alarm: Alarm, notices: Option<Notices>) -> Self {
        Self { sender, alarm, notices, reloads: None }
    }

    /// The same, that can have the configuration read again.
    pub(crate) fn with_reloads(self, reloads: Reloads) -> Self {
        Self { reloads: Some(reloads), ..self }
    }

    /// Has the configuration read again.
    pub(crate) fn reload(&self) -> ReplyBody {
        self.reloads.as_ref().map_or_else(|| error(OTHER), Reloads::ask)
    }

    /// Has the loop apply a changed configuration.
    pub(crate) fn apply(&self, change: LoopChange) -> Result<(), String> {
        match self.ask(Question::Apply(Box::new(change))) {
            ReplyBody::Error { message } => Err(message),
            _ => Ok(()),
        }
    }

    /// Has the attach server take from the kernel what these listeners want.
    pub(crate) fn claim(&self, come: Vec<Listener>) -> Result<(), String> {
        let Some(notices) = self.notices.as_ref().filter(|_| !come.is_empty()) else {
            return Ok(());
        };
        let (answer, answered) = sync_channel(1);
        notices.send(Notice::Claim(come, answer));
        let late = || Err("the daemon did not answer within 5 seconds".to_owned());
        answered.recv_timeout(ANSWER_MAX).unwrap_or_else(|_| late())
    }

    /// What [`Self::claim`] took is the kernel's again.
    pub(crate) fn unclaim(&self, come: Vec<Listener>) {
        if let Some(notices) = &self.notices {
            notices.send(Notice::Unclaim(come));
        }
    }

    /// Has the attach server apply a changed configuration.
    pub(crate) fn change_attach_server(&self, change: AttachChange) {
        if let Some(notices) = &self.notices {
            notices.send(Notice::Change(Box::new(change)));
        }
    }

    /// Asks the attach server about sockets; the loop never hears of it.
    pub(crate) fn ask_attach_server(&self, command: Command, app: App) -> ReplyBody {
        let Some(notices) = &self.notices else {
            return error("this daemon serves no sockets of programs");
        };
        let (answer, answered) = sync_channel(1);
        notices.send(Notice::Ask(command, app, answer));
        answered
            .recv_timeout(ANSWER_MAX)
            .unwrap_or_else(|_| error("the daemon did not answer within 5 seconds"))
    }

    /// Whether the attach server answers, if there is one; waits for that.
    pub(crate) fn is_attach_server_turning(&self) -> bool {
        let Some(notices) = &self.notices else { return true };
        let (answer, answered) = sync_channel(1);
        notices.send(Notice::IsTurning(answer));
        match answered.recv_timeout(ATTACH_SERVER_ANSWER_MAX) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => true,
            Err(RecvTimeoutError::Timeout) => false,
        }
    }

    /// Asks the attach server about requests that are traced.
    pub(crate) fn trace(&self, what: TraceAsk) -> ReplyBody {
        let Some(notices) = &self.notices else {
            return error("this daemon serves no sockets of programs");
        };
        let (answer, answered) = sync_channel(1);
        notices.send(Notice::Trace(what, answer));
        answered
            .recv_timeout(ANSWER_MAX)
            .unwrap_or_else(|_| error("the daemon did not answer within 5 seconds"))
    }

    /// Asks what is answered as a request is.
    pub(crate) fn ask(&self, question: Question) -> ReplyBody {
        match self.question(question) {
            Ok(Answer::Body(body)) => *body,
            Ok(Answer::Table(entries)) => ReplyBody::Table { table: table_text::export(&entries) },
            Ok(_) => error(OTHER),
            Err(why) => error(why),
        }
    }

    /// The active workers of an application.
    pub(crate) fn workers(&self, app: App) -> Result<Vec<WorkerId>, String> {
        match self.question(Question::Workers(app))? {
            Answer::Workers(active) => active,
            _ => Err(OTHER.to_owned()),
        }
    }

    /// What the policy of an application sees.
    pub(crate) fn sample(&self, app: App, since: Option<u64>) -> Result<(Sample, u64), String> {
        match self.question(Question::Sample(app, since))? {
            Answer::Sample(sample) => *sample,
            _ => Err(OTHER.to_owned()),
        }
    }

    /// Groups of an application's table.
    pub(crate) fn table_len(&self, app: App) -> Result<usize, String> {
        match self.question(Question::TableLen(app))? {
            Answer::TableLen(len) => len,
            _ => Err(OTHER.to_owned()),
        }
    }

    /// Begins a recording.
    pub(crate) fn record(&self, app: App, recorder: Box<Recorder>) -> Result<Snapshot, String> {
        match self.question(Question::Record(app, recorder))? {
            Answer::Recording(begun) => *begun,
            _ => Err(OTHER.to_owned()),
        }
    }

    /// Full buffers of a recording, and events lost so far.
    pub(crate) fn recorded(
        &self,
        app: App,
        empty: Vec<Vec<Event>>,
    ) -> Result<(Vec<Vec<Event>>, u64), String> {
        match self.question(Question::Recorded(app, empty))? {
            Answer::Recorded(recorded) => recorded,
            _ => Err(OTHER.to_owned()),
        }
    }

    /// Ends a recording.
    pub(crate) fn end_recording(&self, app: App) -> Option<Box<Recorder>> {
        match self.question(Question::RecordEnd(app)) {
            Ok(Answer::RecordEnded(rest)) => rest,
            _ => None,
        }
    }

    /// Begins a capture: the names of the ports.
    pub(crate) fn begin_capture(
        &self,
        id: u64,
        app: App,
        tap: Box<CaptureTap>,
    ) -> Result<Vec<String>, String> {
        match self.question(Question::Capture(id, app, tap))? {
            Answer::Capturing(begun) => begun.map_err(|(why, _)| why),
            _ => Err(OTHER.to_owned()),
        }
    }

    /// Ends a capture.
    pub(crate) fn end_capture(&self, id: u64) -> Option<Box<CaptureTap>> {
        match self.question(Question::CaptureEnd(id)) {
            Ok(Answer::CaptureEnded(tap)) => tap,
            _ => None,
        }
    }

    /// A client of the admin socket has gone.
    pub(crate) fn gone(&self, client: ClientId) {
        let _ = self.question(Question::ClientGone(client));
    }

    /// Lets an application in.
    pub(crate) fn attach(&self, arrival: Arrival) -> Result<AttachmentId, String> {
        match self.question(Question::Attach(Box::new(arrival)))? {
            Answer::Attached(Ok(app)) => Ok(app),
            Answer::Attached(Err(refused)) => Err(refused.0),
            _ => Err(OTHER.to_owned()),
        }
    }

    /// Sees an application out. When this returns, its place is free.
    pub(crate) fn leave(&self, app: AttachmentId, reason: DetachReason) {
        // One that the loop has detached itself meanwhile is gone all the same.
        let _ = self.question(Question::Leave(app, reason));
    }

    fn question(&self, question: Question) -> Result<Answer, &'static str> {
        let (answer, answered) = sync_channel(1);
        if self.sender.send(Ask { question, asker: Asker(answer) }).is_err() {
            return Err("the daemon is ending");
        }
        self.alarm.ring();
        answered.recv_timeout(ANSWER_MAX).map_err(|_| "the daemon did not answer within 5 seconds")
    }
}
