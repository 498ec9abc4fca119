//! The open loop: requests at times that no answer can bend, latency from the intended time.

use std::collections::VecDeque;

use base::Nanos;
use load::{Latencies, Random};
use sys::clock::now;

use super::client::{Answers, Clients};
use super::dialogue::Dialogue;
use crate::error::Error;

/// Requests under way on one connection, beyond which a late one is sent later (its latency grows):
/// fewer than would fill a socket's buffer.
const DEPTH: usize = 16;

/// Offers `rate` requests a second for `length`, in Poisson arrivals, to all connections in turn.
pub(super) fn offer(
    clients: &mut Clients,
    dialogue: &mut Dialogue,
    rate: f64,
    length: Nanos,
    seed: u64,
) -> Result<Answers, Error> {
    let mut random = Random::new(seed);
    let mut latencies = Latencies::default();
    let mut answered = VecDeque::new();
    let began = now();
    let mut intended = began;
    let mut number = 0;
    while now().since(began) < length {
        while intended <= now() && clients.outstanding < DEPTH * clients.len() {
            let request = dialogue.next();
            clients.send(number, &request, intended)?;
            number = (number + 1) % clients.len();
            intended += Nanos((random.exponential() * 1e9 / rate) as u64);
        }
        clients.look(&mut latencies, &mut answered)?;
        answered.clear();
    }
    let span = now().since(began);
    let lost = clients.settle(&mut latencies)?;
    Ok(Answers::new(&latencies, lost, span))
}
