//! Who serves whom next, where requests differ in length: queues and servers, the disciplines of
//! other systems, and what each of them costs. Nothing of a data plane is in it: that is
//! [`crate::model`].
//!
//! The decisions are in `disciplines/decide.rs` and know nothing of time.

mod decide;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use base::Nanos;
use load::{Distribution, Random};

use crate::{EventQueue, Histogram};
pub use decide::{reserved_for, shortest, shortest_of};

/// Which request a server has next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// One queue, of which each server has at most this many at itself, the one in its hands
    /// included: JBSQ(k) (nanoPU, Concord); 1: a server asks for each request (Shinjuku).
    Bounded(u32),
    /// A queue for each server; a request goes to the shortest of this many drawn by lot: 1 is
    /// random, 2 the power of two choices (RackSched's front end).
    Choices(u32),
    /// DARC (Persephone): short requests may go everywhere, long ones not to this many servers,
    /// which are reserved for short ones.
    Reserved(u32),
}

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Servers, at least one.
    pub servers: u32,
    /// The mean time between two requests, which are independent of each other.
    pub gap: Nanos,
    /// How long requests take.
    pub service: Distribution,
    /// ... on average.
    pub service_mean: Nanos,
    /// A request is long when it takes longer than this.
    pub long_above: Nanos,
    /// Who is next.
    pub discipline: Discipline,
    /// Who takes longer gives way to others that wait; [`Nanos::FAR_FUTURE`]: nobody does.
    pub quantum: Nanos,
    /// What the server loses by that.
    pub preemption: Nanos,
    /// From the one queue to a server.
    pub hand_off: Nanos,
    /// A server that finds nothing sleeps for this long (Metronome); zero: it looks all the time.
    pub pause: Nanos,
    /// Requests that are measured; a tenth as many come before.
    pub requests: u64,
}

/// What became of the requests.
#[derive(Debug, Default)]
pub struct Served {
    /// From arrival to departure.
    pub all: Histogram,
    /// Of those that are not long.
    pub short: Histogram,
    /// Of the others.
    pub long: Histogram,
    /// How often a request gave way.
    pub preemptions: u64,
    /// Requests that came, that left, and that are there: the first is the sum of the others.
    pub arrived: u64,
    /// That left.
    pub left: u64,
    /// That are still there.
    pub there: u64,
    /// More came than could be served.
    pub is_saturated: bool,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    number: u64,
    arrived: Nanos,
    left: Nanos,
    is_long: bool,
    /// When it is where it was sent.
    there_at: Nanos,
}

#[derive(Debug, Default)]
struct Server {
    current: Option<Request>,
    /// What of it is done when this turn is over.
    slice: Nanos,
    queue: VecDeque<Request>,
    /// It does nothing, and will look by itself.
    pauses: bool,
}

enum Event {
    Arrive,
    /// This server's turn is over.
    Over(u32),
    /// It looks again.
    Wake(u32),
}

/// Waiting requests for each server beyond which nothing will come to an end.
const WAITING_MAX: usize = 4096;

struct Run<'a> {
    plan: &'a Plan,
    events: EventQueue<Event>,
    servers: Vec<Server>,
    /// The one queue; of two kinds of requests, that of the short ones.
    queue: VecDeque<Request>,
    /// Of long requests, where they have one.
    long: VecDeque<Request>,
    lots: Random,
    served: Served,
}

impl Plan {
    /// Runs it.
    pub fn run(&self, seed: u64) -> Served {
        let (mut arrivals, mut work) = (Random::new(seed), Random::new(!seed));
        let servers = (0..self.servers.max(1)).map(|_| Server::default()).collect();
        let mut run = Run {
            plan: self,
            events: EventQueue::default(),
            servers,
            queue: VecDeque::new(),
            long: VecDeque::new(),
            lots: Random::new(seed ^ 0x2c0f_fee5),
            served: Served::default(),
        };
        let warm_up = self.requests / 10;
        run.events.put(Nanos::ZERO, Event::Arrive);
        if self.pause > Nanos::ZERO {
            (0..self.servers.max(1)).for_each(|server| run.sleep(server));
        }
        let waiting_max = WAITING_MAX * run.servers.len();
        while run.served.left < warm_up + self.requests
            && let Some(event) = run.events.take()
        {
            match event {
                Event::Arrive => {
                    let gap = self.gap.0 as f64 * arrivals.exponential();
                    run.events.put(run.events.now() + Nanos(gap.round() as u64), Event::Arrive);
                    let left = Nanos(self.service.sample(self.service_mean.0, &mut work));
                    run.arrive(left);
                }
                Event::Over(server) => run.over(server, warm_up),
                Event::Wake(server) => {
                    run.servers[server as usize].pauses = false;
                    run.begin(server);
                }
            }
            if run.waiting() > waiting_max {
                run.served.is_saturated = true;
                break;
            }
        }
        let held = run.servers.iter().filter(|server| server.current.is_some()).count();
        run.served.there = (run.waiting() + held) as u64;
        run.served
    }
}

impl Run<'_> {
    fn waiting(&self) -> usize {
        let at_servers: usize = self.servers.iter().map(|server| server.queue.len()).sum();
        at_servers + self.queue.len() + self.long.len()
    }

    fn arrive(&mut self, left: Nanos) {
        let now = self.events.now();
        let number = self.served.arrived;
        self.served.arrived += 1;
        let is_long = left > self.plan.long_above;
        let request = Request { number, arrived: now, left, is_long, there_at: now };
        match self.plan.discipline {
            Discipline::Bounded(_) => self.queue.push_back(request),
            Discipline::Reserved(_) if is_long => self.long.push_back(request),
            Discipline::Reserved(_) => self.queue.push_back(request),
            Discipline::Choices(count) => {
                let lengths = self.servers.iter().map(Server::held);
                let lengths: Vec<usize> = lengths.collect();
                let server = shortest_of(&lengths, count, |bound| self.lots.below(bound));
                self.servers[server].queue.push_back(request);
                self.begin(server as u32);
            }
        }
        self.hand_out();
    }

    /// Whatever may go from common queues to servers goes there.
    fn hand_out(&mut self) {
        let there_at = self.events.now() + self.plan.hand_off;
        match self.plan.discipline {
            Discipline::Choices(_) => {}
            Discipline::Bounded(bound) => {
                while !self.queue.is_empty() {
                    let held = self.servers.iter().map(Server::held);
                    let Some(server) = shortest(held, bound as usize) else { return };
                    let Some(request) = self.queue.pop_front() else { return };
                    self.servers[server].queue.push_back(Request { there_at, ..request });
                    self.begin(server as u32);
                }
            }
            Discipline::Reserved(reserved) => loop {
                let is_free = |server: &Server| server.held() == 0;
                let mut open = self.servers.iter();
                // Short ones first, and on reserved servers as long as one is free.
                let (queue, server) = if self.queue.is_empty() {
                    let from = reserved as usize;
                    let found = open.skip(from).position(is_free).map(|at| at + from);
                    (&mut self.long, found)
                } else {
                    let found = open.position(is_free);
                    (&mut self.queue, found)
                };
                let (Some(server), false) = (server, queue.is_empty()) else { return };
                let Some(request) = queue.pop_front() else { return };
                self.servers[server].queue.push_back(Request { there_at, ..request });
                self.begin(server as u32);
            },
        }
    }

    /// The server begins with what it has, if it has nothing in its hands and looks.
    fn begin(&mut self, number: u32) {
        let now = self.events.now();
        let server = &mut self.servers[number as usize];
        if server.current.is_some() || server.pauses {
            return;
        }
        let Some(request) = server.queue.pop_front() else {
            if self.plan.pause > Nanos::ZERO {
                self.sleep(number);
            }
            return;
        };
        server.slice = request.left.min(self.plan.quantum);
        let over = request.there_at.max(now) + server.slice;
        server.current = Some(request);
        self.events.put(over, Event::Over(number));
    }

    fn sleep(&mut self, number: u32) {
        self.servers[number as usize].pauses = true;
        self.events.put(self.events.now() + self.plan.pause, Event::Wake(number));
    }

    fn over(&mut self, number: u32, warm_up: u64) {
        let now = self.events.now();
        let is_waited_for = !self.queue.is_empty();
        let server = &mut self.servers[number as usize];
        let Some(mut request) = server.current.take() else { return };
        request.left = request.left.since(server.slice);
        request.there_at = now;
        if request.left > Nanos::ZERO {
            if !is_waited_for && server.queue.is_empty() {
                // Nobody waits: it goes on.
                server.queue.push_front(request);
            } else {
                self.served.preemptions += 1;
                // It goes behind all that wait, and the server is late by what that costs.
                let late = now + self.plan.preemption;
                match self.plan.discipline {
                    Discipline::Choices(_) => server.queue.push_back(request),
                    Discipline::Bounded(_) => self.queue.push_back(request),
                    Discipline::Reserved(_) if request.is_long => self.long.push_back(request),
                    Discipline::Reserved(_) => self.queue.push_back(request),
                }
                if let Some(next) = server.queue.front_mut() {
                    next.there_at = next.there_at.max(late);
                } else if self.plan.preemption > Nanos::ZERO {
                    // It is busy with nothing until then.
                    server.pauses = true;
                    self.events.put(late, Event::Wake(number));
                }
            }
        } else {
            self.served.left += 1;
            if request.number >= warm_up {
                let took = now.since(request.arrived);
                self.served.all.record(took);
                let class =
                    if request.is_long { &mut self.served.long } else { &mut self.served.short };
                class.record(took);
            }
        }
        // First what waits for it: a server that finds nothing goes to sleep.
        self.hand_out();
        self.begin(number);
    }
}

impl Server {
    /// Requests that it has, the one in its hands included.
    fn held(&self) -> usize {
        self.queue.len() + usize::from(self.current.is_some())
    }
}
