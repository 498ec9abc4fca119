//! The daemon's side of [`super::pulse`]: it says that its loop goes round, for as long as it does.

use std::io;
use std::time::Duration;

use super::link::Guardian;
use crate::ask::Asks;
use crate::confinement::{self, Role};
use crate::service;

/// Words in the time that a daemon has.
const WORDS: u32 = 4;

/// Starts a thread that says so to the guardian, often enough for a daemon that hangs after `hang`.
pub(crate) fn start(guardian: &Guardian, asks: Asks, hang: Duration) -> io::Result<()> {
    let guardian = guardian.clone();
    let tell = move || {
        if !confinement::is_entered(Role::Service) {
            return;
        }
        loop {
            if service::is_turning(&asks) {
                guardian.say_alive();
            }
            std::thread::sleep(hang / WORDS);
        }
    };
    std::thread::Builder::new().name("alive".to_owned()).spawn(tell).map(drop)
}
