//! The admin socket: a thread for each client, one question at a time, answered by the loop.
//!
//! Nothing that a client sends is trusted: lines have a largest length, clients a largest number,
//! and a client that is slow or silent keeps only its own thread waiting. Parsing and printing of
//! large tables happens here, not in the loop.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::time::Duration;

use admin::{Command, LINE_BYTES_MAX, Reply, ReplyBody, Request};
use base::WorkerId;
use datapath::{AppId, DetachReason};
use policy::{Entry, table_text};

use crate::apps::Arrival;
use crate::failure::Failure;
use crate::staff::Alarm;

/// Clients at once, at most.
const CLIENTS_MAX: usize = 16;

/// The loop answers within a turn; a client waits this long for a loop that is stuck.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// A question on its way to the loop.
pub(crate) struct Ask {
    pub(crate) question: Question,
    answer: SyncSender<Answer>,
}

/// What the loop is asked.
pub(crate) enum Question {
    /// A request as it came, checked.
    Request(Request),
    /// Who is active among somebody's workers.
    Workers(Option<String>),
    /// A table that was read already, and whose it is to be.
    Load(Option<String>, Vec<Entry>),
    /// An application wants to come in.
    Attach(Box<Arrival>),
    /// An application has gone.
    Leave(AppId, DetachReason),
    /// Nothing any more: the answer is on its way.
    Answered,
}

enum Answer {
    Body(Box<ReplyBody>),
    Table(Vec<Entry>),
    Workers(Result<Vec<WorkerId>, String>),
    Attached(Result<AppId, String>),
    Left,
}

impl Ask {
    /// Answers it.
    pub(crate) fn reply(self, body: ReplyBody) {
        // A client that has gone needs no answer.
        let _ = self.answer.try_send(Answer::Body(Box::new(body)));
    }

    /// Answers it with a table, to be printed outside the loop.
    pub(crate) fn table(self, entries: Vec<Entry>) {
        let _ = self.answer.try_send(Answer::Table(entries));
    }

    /// Answers who is active.
    pub(crate) fn workers(self, active: Result<Vec<WorkerId>, String>) {
        let _ = self.answer.try_send(Answer::Workers(active));
    }

    /// Answers an application's wish to come in.
    pub(crate) fn attached(self, attached: Result<AppId, String>) {
        let _ = self.answer.try_send(Answer::Attached(attached));
    }

    /// Says that an application is gone.
    pub(crate) fn left(self) {
        let _ = self.answer.try_send(Answer::Left);
    }
}

/// The way to the loop.
#[derive(Clone)]
pub(crate) struct Asks {
    sender: Sender<Ask>,
    alarm: Alarm,
}

impl Asks {
    pub(crate) fn new(sender: Sender<Ask>, alarm: Alarm) -> Self {
        Self { sender, alarm }
    }

    fn ask(&self, question: Question) -> ReplyBody {
        match self.question(question) {
            Ok(Answer::Body(body)) => *body,
            Ok(Answer::Table(entries)) => ReplyBody::Table { table: table_text::export(&entries) },
            Ok(Answer::Workers(_) | Answer::Attached(_) | Answer::Left) => {
                error("not answered this way")
            }
            Err(why) => error(why),
        }
    }

    /// Lets an application in.
    pub(crate) fn attach(&self, arrival: Arrival) -> Result<AppId, String> {
        match self.question(Question::Attach(Box::new(arrival))) {
            Ok(Answer::Attached(attached)) => attached,
            Ok(_) => Err("not answered this way".to_owned()),
            Err(why) => Err(why.to_owned()),
        }
    }

    /// Sees an application out. When this returns, its place is free.
    pub(crate) fn leave(&self, app: AppId, reason: DetachReason) {
        // One that the loop has detached itself meanwhile is gone all the same.
        let _ = self.question(Question::Leave(app, reason));
    }

    fn question(&self, question: Question) -> Result<Answer, &'static str> {
        let (answer, answered) = sync_channel(1);
        if self.sender.send(Ask { question, answer }).is_err() {
            return Err("the daemon is ending");
        }
        self.alarm.ring();
        answered.recv_timeout(ANSWER_MAX).map_err(|_| "the daemon did not answer within 5 seconds")
    }
}

/// The socket's file, removed when this drops.
pub(crate) struct Server {
    path: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Listens on `path` and answers clients on threads of their own.
pub(crate) fn serve(path: &str, asks: Asks) -> Result<Server, Failure> {
    let failed = |error: std::io::Error| Failure::Socket(path.to_owned(), error.to_string());
    if let Some(folder) = Path::new(path).parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    if UnixStream::connect(path).is_ok() {
        let why = "a daemon answers there already; stop it with `calisto down`, or give this one \
                   another path with --admin";
        return Err(Failure::Socket(path.to_owned(), why.to_owned()));
    }
    match std::fs::symlink_metadata(path) {
        // A socket that nobody answers is left over from a daemon that was killed.
        Ok(file) if is_socket(&file) => std::fs::remove_file(path).map_err(failed)?,
        Ok(_) => {
            let why = "there is a file of that name that is no socket; choose another path";
            return Err(Failure::Socket(path.to_owned(), why.to_owned()));
        }
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    let clients = Arc::new(AtomicUsize::new(0));
    std::thread::Builder::new()
        .name("admin".to_owned())
        .spawn(move || accept(&listener, &asks, &clients))
        .map_err(failed)?;
    Ok(Server { path: path.to_owned() })
}

fn is_socket(file: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    file.file_type().is_socket()
}

fn accept(listener: &UnixListener, asks: &Asks, clients: &Arc<AtomicUsize>) {
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else {
            // Out of descriptors, most likely: others will close theirs.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        if clients.fetch_add(1, Ordering::Relaxed) >= CLIENTS_MAX {
            clients.fetch_sub(1, Ordering::Relaxed);
            let _ = respond(&mut stream, error("too many clients at once: try again"));
            continue;
        }
        let (asks, clients_left) = (asks.clone(), Arc::clone(clients));
        let thread = std::thread::Builder::new().name("admin-client".to_owned()).spawn(move || {
            let _ = converse(stream, &asks);
            clients_left.fetch_sub(1, Ordering::Relaxed);
        });
        if thread.is_err() {
            clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn converse(mut stream: UnixStream, asks: &Asks) -> std::io::Result<()> {
    stream.set_write_timeout(Some(ANSWER_MAX))?;
    let mut lines = BufReader::new(stream.try_clone()?);
    loop {
        let mut line = String::new();
        let read = (&mut lines).take(LINE_BYTES_MAX as u64).read_line(&mut line);
        match read {
            Ok(0) => return Ok(()),
            Ok(_) if line.ends_with('\n') => {}
            Ok(_) => {
                return respond(
                    &mut stream,
                    error("a line that long (or without an end) is no request"),
                );
            }
            Err(_) => return respond(&mut stream, error("a request is a line of UTF-8")),
        }
        respond(&mut stream, answer(&line, asks))?;
    }
}

fn answer(line: &str, asks: &Asks) -> ReplyBody {
    let request: Request = match admin::decode(line) {
        Ok(request) => request,
        Err(wrong) => return error(&wrong.to_string()),
    };
    if let Err(wrong) = request.check() {
        return error(&wrong.to_string());
    }
    match request.command {
        Command::SteerLoad { table } => match table_text::import(&table) {
            Ok(entries) => load(entries, request.app, asks),
            Err(wrong) => error(&wrong.to_string()),
        },
        _ => asks.ask(Question::Request(request)),
    }
}

/// A table of a million owners is looked through here, not in the loop.
fn load(owners: Vec<Entry>, app: Option<String>, asks: &Asks) -> ReplyBody {
    let active = match asks.question(Question::Workers(app.clone())) {
        Ok(Answer::Workers(Ok(active))) => active,
        Ok(Answer::Workers(Err(why))) => return error(&why),
        Ok(_) => return error("not answered this way"),
        Err(why) => return error(why),
    };
    match policy::check_owners(&owners, &active) {
        Ok(()) => asks.ask(Question::Load(app, owners)),
        Err(refused) => error(&refused.to_string()),
    }
}

fn respond(stream: &mut UnixStream, body: ReplyBody) -> std::io::Result<()> {
    let line = admin::encode(&Reply::new(body)).map_err(std::io::Error::other)?;
    stream.write_all(line.as_bytes())
}

pub(crate) fn error(message: &str) -> ReplyBody {
    ReplyBody::Error { message: message.to_owned() }
}
