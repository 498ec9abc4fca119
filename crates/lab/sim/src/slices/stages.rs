//! A queue of bounded length and who serves it.

use std::collections::VecDeque;

/// First come first served, each packet for as long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    /// For each packet.
    pub(super) nanos: f64,
    /// Packets that are there at once, the one in service included.
    pub(super) ring: usize,
}

impl Stage {
    /// When packets that arrive at these times leave; those that find the queue full never do.
    pub(super) fn serve(self, arrivals: &[f64]) -> Vec<f64> {
        let mut ends = Vec::with_capacity(arrivals.len());
        // The first of `ends` that is still there.
        let mut there = 0;
        let mut free = 0.0_f64;
        for &arrival in arrivals {
            while ends.get(there).is_some_and(|end| *end <= arrival) {
                there += 1;
            }
            if ends.len() - there >= self.ring {
                continue;
            }
            free = free.max(arrival) + self.nanos;
            ends.push(free);
        }
        ends
    }

    /// The same on a CPU that receives these packets first, which goes before: a packet that
    /// arrives interrupts whatever is served.
    pub(super) fn in_the_gaps_of(self, receive: Self, arrivals: &[f64]) -> Vec<f64> {
        let mut ends = Vec::with_capacity(arrivals.len());
        // What is still to be done for each packet that waits, the first one in service.
        let mut waiting: VecDeque<f64> = VecDeque::new();
        let received = receive.serve(arrivals);
        let mut now = 0.0;
        for (number, end) in received.iter().enumerate() {
            // Until this packet's reception begins the CPU is the program's.
            let begin = end - receive.nanos;
            spend(&mut waiting, &mut now, begin, &mut ends);
            now = *end;
            if waiting.len() < self.ring {
                waiting.push_back(self.nanos);
            }
            if number + 1 == received.len() {
                spend(&mut waiting, &mut now, f64::INFINITY, &mut ends);
            }
        }
        ends
    }
}

/// Serves what waits until a time at the latest.
fn spend(waiting: &mut VecDeque<f64>, now: &mut f64, until: f64, ends: &mut Vec<f64>) {
    while let Some(left) = waiting.front_mut() {
        if *now + *left > until {
            *left -= (until - *now).max(0.0);
            *now = until;
            return;
        }
        *now += *left;
        ends.push(*now);
        waiting.pop_front();
    }
}
