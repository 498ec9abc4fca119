//! Applications as plain `async fn`: an executor on the workers of an attachment, with timers and
//! UDP sockets.
//!
//! [`run`] attaches and runs one main task on each worker. A main task binds the sockets of its
//! worker and spawns what else it needs:
//!
//! ```no_run
//! use calisto_client::AttachOptions;
//! use calisto_client::rt::{self, RecvError, Runtime, UdpSocket};
//!
//! async fn echo(rt: Runtime) -> Result<(), RecvError> {
//!     let mut socket = UdpSocket::bind(&rt, "udp:10.0.0.2:7").expect("it is listened on below");
//!     let mut bytes = [0; 2048];
//!     loop {
//!         let (len, from) = socket.recv_from(&mut bytes).await?;
//!         // What cannot be sent is lost, as with any UDP socket.
//!         let _ = socket.send_to(&bytes[..len], from).await;
//!     }
//! }
//!
//! rt::run(AttachOptions::new("echo").listen("udp:10.0.0.2:7").workers(2), echo)?;
//! # Ok::<(), rt::RunError>(())
//! ```
//!
//! **Two kinds of tasks.** [`Runtime::spawn_local`] starts one that stays on its worker, as those
//! must that have a socket; [`Runtime::spawn`] one that any worker may run. A worker without work
//! takes over the older half of another one's tasks of the second kind, never one of the first.
//!
//! **Packets stay with their worker**, since the daemon keeps each flow on one. Only when the
//! oldest packet of a class of flows has waited too long ([`Settings::steal_after`]) may a worker
//! that has nothing to do take over that class, as a whole and until its turn is over, so that the
//! packets of a flow are worked on in their order, one at a time. That is no cure: moving flows is
//! for the daemon, and the counters say when it should ([`Stats::groups_stolen`]).
//!
//! **Tasks give way** wherever they wait, and a socket makes them after some packets in a row. A
//! poll that takes longer than [`Settings::long_poll`] is counted under the name of its task, also
//! while it lasts. A task that panics ends; its [`JoinHandle`] says so, and its worker goes on.
//!
//! **Stopping** is the program's: have a task call [`Runtime::shutdown`] when a signal has come.
//!
//! Workers without anything to do sleep; there is no thread that polls.

mod bound;
mod class_guard;
mod executor;
mod inbox;
mod join;
mod listener;
mod local;
mod mailbox;
mod packet;
mod packets;
mod peers;
mod readers;
mod readiness;
mod run;
mod runtime;
mod settings;
mod slab;
mod sleep;
mod socket;
mod stats;
mod task;
mod tcp;
mod timers;
mod watch;
mod watchdog;
mod worker_set;

pub use join::{JoinError, JoinHandle};
pub use run::{Ended, RunError, run, run_with};
pub use runtime::Runtime;
pub use settings::Settings;
pub use sleep::{Elapsed, Interval, Sleep, interval, now, sleep, sleep_until, timeout, yield_now};
pub use socket::{BindError, RecvError, SendError, UdpSocket};
pub use stats::Stats;
pub use tcp::{Net, TcpListener, TcpStream};
pub use watch::{LongPoll, Site};
