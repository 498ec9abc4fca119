//! What the whole-system tests share: a daemon under test, applications honest and not, and a
//! client that checks every reply.
#![forbid(unsafe_code)]

mod accelerated;
mod application;
mod chargen;
mod client;
mod crossing;
mod daemon;
mod fixture;
mod heard;
mod http;
mod install;
mod intruder;
mod kernel_tcp;
mod liar;
mod line;
mod nf_run;
mod operator;
mod process;
mod program;
mod random;
mod recorder;
mod sniffer;
mod speaker;
mod stream_liar;
mod talks;
mod traffic;
mod transfer;
mod trap;

pub use accelerated::{Accelerated, Carried};
pub use application::{Application, Ended};
pub use chargen::read_chargen;
pub use client::{Flows, answered, serve_with_the_kernel};
pub use crossing::{BadWire, Crossing};
pub use daemon::Daemon;
pub use fixture::{bed, project};
pub use http::{http_ask, http_get};
pub use install::install;
pub use intruder::{Intruder, Overheard};
pub use kernel_tcp::{KernelTcp, kernel_retransmissions, kernel_tcp, kernel_udp};
pub use liar::{Liar, babble, request, stranger};
pub use line::{Host, Line, four, six};
pub use nf_run::NfRun;
pub use operator::Operator;
pub use process::{TIMEOUT, binary, run, wait_for, wait_within};
pub use program::{Finished, Program};
pub use random::Random;
pub use recorder::Recorder;
pub use sniffer::{Sniffer, write_capture};
pub use speaker::{NOBODY, Speaker, as_user, socket_of};
pub use stream_liar::{FIELDS, StreamLiar};
pub use talks::Talks;
pub use testbed::{Forged, MemoryGroup};
pub use traffic::Traffic;
pub use transfer::Transfer;
pub use trap::{Trap, looks_like_linux};
