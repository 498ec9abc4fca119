//! System calls of a script, by name, and the one that may be blocked.

mod names;
mod options;
mod readiness;
mod transfer;

use std::collections::{BTreeMap, VecDeque};

use base::Nanos;
use tcp::{CloseReason, Event, FlowId, State};

use crate::code::Names;
use crate::script::{Call, Value};
use crate::socket::{Descriptor, Socket};
use crate::testbed::Testbed;

/// What a call comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Returns(i64),
    Fails(&'static str),
    /// Not yet; asked again when something has happened.
    Blocks,
}

use Outcome::{Blocks, Fails, Returns};

/// A call that blocks.
#[derive(Clone, Debug)]
struct Blocked {
    call: Call,
    returns: Nanos,
    /// Bytes moved so far.
    moved: i64,
}

/// All descriptors of the script's process.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    descriptors: BTreeMap<i64, Descriptor>,
    accepted: VecDeque<(FlowId, Option<CloseReason>)>,
    blocked: Option<Blocked>,
    /// The connection that code asks about: the one made last.
    latest: Option<i64>,
}

impl Calls {
    pub(crate) const fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// Makes a call. With `returns` it may block until then.
    pub(crate) fn begin(
        &mut self,
        testbed: &mut Testbed,
        call: &Call,
        returns: Option<Nanos>,
    ) -> Result<(), String> {
        let mut moved = 0;
        let outcome = self.attempt(testbed, call, &mut moved)?;
        match (outcome, returns) {
            (Blocks, None) => Err(format!("{} blocks", call.name)),
            (Blocks, Some(returns)) => {
                self.blocked = Some(Blocked { call: call.clone(), returns, moved });
                Ok(())
            }
            (outcome, returns) => check(testbed, call, &outcome, returns),
        }
    }

    /// Lets the blocked call go on; whether it has returned.
    pub(crate) fn try_finish(&mut self, testbed: &mut Testbed) -> Result<bool, String> {
        let Some(Blocked { call, returns, mut moved }) = self.blocked.take() else {
            return Ok(false);
        };
        match self.attempt(testbed, &call, &mut moved)? {
            Blocks => {
                self.blocked = Some(Blocked { call, returns, moved });
                Ok(false)
            }
            outcome => check(testbed, &call, &outcome, Some(returns)).map(|()| true),
        }
    }

    /// Takes the engine's events in.
    pub(crate) fn hear(&mut self, testbed: &mut Testbed) {
        for event in testbed.take_events() {
            match event {
                Event::Connected { flow, listener: Some(_) } => {
                    self.accepted.push_back((flow, None));
                }
                Event::Connected { flow, listener: None } => {
                    if let Some(socket) = self.socket_of(flow) {
                        socket.is_connected = true;
                        socket.edges += 1;
                    }
                }
                Event::Readable { flow } | Event::PeerClosed { flow } | Event::Urgent { flow } => {
                    if let Some(socket) = self.socket_of(flow) {
                        socket.edges += 1;
                    }
                }
                Event::Writable { .. } => {}
                Event::Closed { flow, reason } => {
                    if let Some(waiting) = self.accepted.iter_mut().find(|(id, _)| *id == flow) {
                        waiting.1 = Some(reason);
                    }
                    if let Some(socket) = self.socket_of(flow) {
                        socket.ended = Some(reason);
                        socket.edges += 1;
                    }
                }
            }
        }
        for descriptor in self.descriptors.values_mut() {
            if let Descriptor::Socket(socket) = descriptor {
                socket.wake_writer(testbed);
            }
        }
    }

    fn socket_of(&mut self, flow: FlowId) -> Option<&mut Socket> {
        self.descriptors.values_mut().find_map(|descriptor| match descriptor {
            Descriptor::Socket(socket) if socket.flow == Some(flow) => Some(socket),
            _ => None,
        })
    }

    fn socket(&mut self, number: i64) -> Result<&mut Socket, String> {
        match self.descriptors.get_mut(&number) {
            Some(Descriptor::Socket(socket)) => Ok(socket),
            _ => Err(format!("{number} is no socket")),
        }
    }

    /// The numbers of TCP_INFO.
    pub(crate) fn describe(&self, testbed: &Testbed, names: &mut Names) {
        let socket = self.latest.and_then(|number| self.descriptors.get(&number));
        if let Some(Descriptor::Socket(Socket { flow: Some(flow), .. })) = socket
            && let Some(info) = testbed.engine.info(*flow)
        {
            names::describe(&info, testbed.now, names);
        }
    }

    /// Payload of a full segment of the connection made last.
    pub(crate) fn full_segment(&self, testbed: &Testbed) -> Option<u32> {
        let Descriptor::Socket(socket) = self.descriptors.get(&self.latest?)? else { return None };
        Some(testbed.engine.info(socket.flow?)?.snd_mss.into())
    }

    fn attempt(
        &mut self,
        testbed: &mut Testbed,
        call: &Call,
        moved: &mut i64,
    ) -> Result<Outcome, String> {
        let number = call.arguments.first().and_then(Value::number).unwrap_or(-1);
        match call.name.as_str() {
            "socket" => {
                let number = call.result.ok_or("a socket needs a number")?;
                self.descriptors.insert(number, Descriptor::Socket(Socket::new(testbed)));
                Ok(Returns(number))
            }
            "bind" => Ok(Returns(0)),
            "listen" => self.listen(testbed, number, call),
            "accept" => self.accept(number, call),
            "connect" => self.connect(testbed, number),
            "write" | "send" | "sendto" | "sendmsg" => self.write(testbed, number, call, moved),
            "read" | "recv" | "recvfrom" | "recvmsg" => self.read(testbed, number, call),
            "shutdown" => self.shutdown(testbed, number, call),
            "close" => self.close(testbed, number),
            "fcntl" => self.fcntl(number, call),
            "ioctl" => self.ioctl(testbed, number, call),
            "setsockopt" => self.set_option(testbed, number, call),
            "getsockopt" => self.get_option(testbed, number, call),
            "poll" => self.poll(testbed, call),
            "epoll_create" => self.epoll_create(call),
            "epoll_ctl" => self.epoll_control(number, call),
            "epoll_wait" => self.epoll_wait(testbed, number, call),
            other => Err(format!("the call {other} is not known")),
        }
    }

    fn listen(
        &mut self,
        testbed: &mut Testbed,
        number: i64,
        call: &Call,
    ) -> Result<Outcome, String> {
        let backlog = call.arguments.get(1).and_then(Value::number).unwrap_or(1);
        let backlog = u32::try_from(backlog).unwrap_or(0);
        let socket = self.socket(number)?;
        let local = testbed.key.destination();
        let listened = testbed.engine.listen(local, backlog, socket.options);
        let Ok(listener) = listened else { return Ok(Fails("EADDRINUSE")) };
        socket.listener = Some(listener);
        socket.values.insert("backlog".into(), backlog.into());
        Ok(Returns(0))
    }

    fn accept(&mut self, number: i64, call: &Call) -> Result<Outcome, String> {
        let Some((flow, ended)) = self.accepted.pop_front() else {
            let is_nonblocking = self.socket(number)?.is_nonblocking;
            return Ok(if is_nonblocking { Fails("EAGAIN") } else { Blocks });
        };
        let mut socket = self.socket(number)?.clone();
        socket.flow = Some(flow);
        socket.listener = None;
        socket.is_connected = true;
        socket.is_nonblocking = false;
        socket.ended = ended;
        let accepted = call.result.ok_or("a socket needs a number")?;
        self.descriptors.insert(accepted, Descriptor::Socket(socket));
        self.latest = Some(accepted);
        Ok(Returns(accepted))
    }

    fn connect(&mut self, testbed: &mut Testbed, number: i64) -> Result<Outcome, String> {
        let (remote, local) = (testbed.key.source(), testbed.key.destination());
        let socket = self.socket(number)?;
        let outcome = match (socket.flow, socket.error()) {
            (None, _) => {
                let flow = testbed.engine.connect(testbed.now, local, remote, socket.options, 0);
                let Ok(flow) = flow else { return Ok(Fails("EADDRNOTAVAIL")) };
                socket.flow = Some(flow);
                if socket.is_nonblocking { Fails("EINPROGRESS") } else { Blocks }
            }
            (_, Some(error)) => Fails(error),
            _ if socket.is_connected => Returns(0),
            _ if socket.is_nonblocking => Fails("EALREADY"),
            _ => Blocks,
        };
        self.latest = Some(number);
        Ok(outcome)
    }

    fn shutdown(
        &mut self,
        testbed: &mut Testbed,
        number: i64,
        call: &Call,
    ) -> Result<Outcome, String> {
        let how = call.arguments.get(1).cloned().unwrap_or(Value::Null);
        let both = how.has_word("SHUT_RDWR");
        let socket = self.socket(number)?;
        if !socket.is_connected || socket.ended.is_some() {
            return Ok(Fails("ENOTCONN"));
        }
        socket.shut_read |= both || how.has_word("SHUT_RD");
        if both || how.has_word("SHUT_WR") {
            socket.shut_write = true;
            if let Some(flow) = socket.flow {
                // An error: it was shut before.
                let _ = testbed.engine.shutdown(flow);
            }
        }
        Ok(Returns(0))
    }

    fn close(&mut self, testbed: &mut Testbed, number: i64) -> Result<Outcome, String> {
        match self.descriptors.remove(&number) {
            Some(Descriptor::Socket(socket)) => {
                if let Some(listener) = socket.listener {
                    testbed.engine.unlisten(listener);
                }
                if let Some(flow) = socket.flow.filter(|_| socket.ended.is_none()) {
                    let aborts = socket.values.get("SO_LINGER") == Some(&0)
                        && testbed.engine.state(flow) != Some(State::Closed);
                    if aborts {
                        // An error: it was over already.
                        let _ = testbed.engine.abort(flow);
                    } else {
                        testbed.close(flow);
                    }
                }
                Ok(Returns(0))
            }
            Some(Descriptor::Epoll(_)) => Ok(Returns(0)),
            None => Ok(Fails("EBADF")),
        }
    }
}

/// Whether a call has come to what the script says, when it says so.
fn check(
    testbed: &Testbed,
    call: &Call,
    outcome: &Outcome,
    returns: Option<Nanos>,
) -> Result<(), String> {
    let name = &call.name;
    if let Some(returns) = returns {
        let tolerance = testbed.settings.tolerance;
        let (now, start) = (testbed.now, crate::testbed::START);
        if now + tolerance < returns || now > returns + tolerance {
            let (now, returns) = (now.since(start).0 / 1000, returns.since(start).0 / 1000);
            return Err(format!("{name} should return at {returns} us and does at {now} us"));
        }
    }
    let (result, errno) = match outcome {
        Returns(result) => (*result, None),
        Fails(errno) => (-1, Some(*errno)),
        Blocks => return Err(format!("{name} blocks")),
    };
    let is_right = call.result.is_none_or(|expected| expected == result)
        && (call.errno.is_none() || result >= 0 || call.errno.as_deref() == errno);
    if is_right {
        return Ok(());
    }
    let (expected, wanted) = (call.result.unwrap_or(0), call.errno.as_deref().unwrap_or(""));
    Err(format!("{name} should return {expected} {wanted}: {result} {}", errno.unwrap_or("")))
}
