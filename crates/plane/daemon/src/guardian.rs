//! The guardian: a process of its own that waits for the daemon's sudden end, and has the kernel go
//! on with the programs' connections then.
//!
//! The daemon starts it before it has a thread, and passes it copies of descriptors: of the memory
//! of programs and of the records of their connections, of its ends of their connections to it, of
//! what wakes them, and of what keeps the interfaces' programs and queues. As
//! long as somebody has those, nobody notices that the daemon is gone: the kernel answers no
//! segment of a connection that it does not know, and programs wait. It hears nobody but the
//! daemon, and looks at nothing before that is dead.
//!
//! [`link`] is the daemon's side of it, [`starter`] the process that starts it, [`held`] what it
//! holds, [`rescue`] what it does in the end.

mod counts;
mod held;
mod leave;
pub(crate) mod life;
mod link;
mod lock;
mod mapped;
mod message;
mod orphans;
mod process;
mod pulse;
mod rescue;
mod spent;
pub(crate) mod starter;

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

use base::{AppId, Nanos};
use sys::clock;

use self::held::Held;
use self::message::{Kind, Message, receive};
use self::process::{hold_signals_back, own_program, say};
use self::pulse::Pulse;
use crate::confinement::{self, Role};
use crate::open_sockets::OpenSockets;
use crate::sockets::raw_segments::RawSegments;

pub(crate) use link::{Guarded, Guardian, GuardianState};
pub(crate) use lock::Lock;
pub(crate) use message::Kind as Guards;

/// What the guardian does.
pub(crate) fn serve() -> ExitCode {
    // Who ends all of the daemon's processes means the daemon; this one ends when it has done its
    // work.
    let _held_back = hold_signals_back();
    sys::open_files::raise();
    match guard() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("the guardian: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn guard() -> io::Result<()> {
    let channel = io::stdin().as_fd().try_clone_to_owned()?;
    let mut held = Held::default();
    let mut means = None;
    let mut pulse = Pulse::new(Nanos::ZERO);
    let mut is_spent = false;
    loop {
        let most = if is_spent { Nanos::ZERO } else { pulse.look_every() };
        let has_word = sys::poll::wait_readable(channel.as_fd(), most);
        if is_spent && !has_word {
            // All that it has said was heard.
            break;
        }
        if pulse.is_over(clock::now()) {
            // Once: it may be in the hands of a debugger, and is heard again later.
            pulse.rest();
            if held.end_daemon() {
                say(format_args!("the daemon hangs (`sockets.hang_ms`), and is ended"));
                is_spent = held.ends_soon();
            }
        }
        if !has_word {
            continue;
        }
        let Some((message, descriptors)) = receive(channel.as_fd())? else { break };
        match message.kind {
            Kind::Begin => {
                means = Some(Means::new(&message)?);
                pulse = Pulse::new(Nanos::from_millis(message.number));
            }
            Kind::Alive => pulse.beat(clock::now()),
            Kind::Ending => pulse.end(),
            Kind::Bye => return Ok(()),
            _ => {}
        }
        held.heed(message, descriptors)?;
    }
    // A daemon that did not come so far has no connections.
    let Some(Means { looker, raw_segments }) = means else { return Ok(()) };
    held.await_death();
    rescue::all(held, looker, &raw_segments);
    // Nobody waits for what is slow to be closed.
    std::process::exit(0)
}

/// What it takes at the start, while it has the rights.
struct Means {
    looker: OpenSockets,
    raw_segments: RawSegments,
}

impl Means {
    fn new(begin: &Message) -> io::Result<Self> {
        let is_confined = begin.app != AppId(0);
        let raw_segments = RawSegments::open();
        let looker = match is_confined {
            true => OpenSockets::start(own_program())?,
            false => OpenSockets::here(),
        };
        if is_confined {
            confinement::begin(&[], None);
            confinement::enter(Role::Guardian).map_err(io::Error::other)?;
        }
        Ok(Self { looker, raw_segments })
    }
}
