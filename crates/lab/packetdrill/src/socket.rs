//! A socket as Linux has it, over one flow of the engine: how much a write takes, when a call
//! blocks, what is ready.

use std::collections::BTreeMap;

use tcp::{CloseReason, FlowId, FlowOptions, KeepAlive, ListenerId};

use crate::testbed::Testbed;

/// What a descriptor stands for.
#[derive(Debug)]
pub(crate) enum Descriptor {
    Socket(Socket),
    Epoll(Epoll),
}

/// A socket.
#[derive(Clone, Debug)]
pub(crate) struct Socket {
    pub(crate) options: FlowOptions,
    pub(crate) flow: Option<FlowId>,
    pub(crate) listener: Option<ListenerId>,
    pub(crate) is_connected: bool,
    pub(crate) is_nonblocking: bool,
    pub(crate) ended: Option<CloseReason>,
    /// The error was reported once and is not reported again.
    pub(crate) error_told: bool,
    pub(crate) shut_read: bool,
    pub(crate) shut_write: bool,
    pub(crate) send_buffer: u32,
    pub(crate) not_sent_low: u32,
    /// A write found no room; see [`Self::wake_writer`].
    pub(crate) wants_room: bool,
    /// Bytes in the buffer's last piece, which later writes fill up.
    pub(crate) tail: u32,
    pub(crate) written: u32,
    pub(crate) read: u32,
    /// How a silent peer is asked, once SO_KEEPALIVE says that it is.
    pub(crate) keep_alive: KeepAlive,
    /// Whether TCP_CORK holds small segments back.
    pub(crate) corked: bool,
    /// What the script has set and may ask for again.
    pub(crate) values: BTreeMap<String, i64>,
    /// Times that something to read or room to write has come up, for edges.
    pub(crate) edges: u64,
}

impl Socket {
    pub(crate) fn new(testbed: &Testbed) -> Self {
        Self {
            options: testbed.settings.flow,
            flow: None,
            listener: None,
            is_connected: false,
            is_nonblocking: false,
            ended: None,
            error_told: false,
            shut_read: false,
            shut_write: false,
            send_buffer: testbed.settings.send_buffer,
            not_sent_low: testbed.settings.not_sent_low,
            wants_room: false,
            tail: 0,
            written: 0,
            read: 0,
            keep_alive: KeepAlive::default(),
            corked: false,
            values: BTreeMap::new(),
            edges: 0,
        }
    }

    /// Bytes in the send buffer, and how many of them were never sent.
    fn queued(&self, testbed: &Testbed) -> (u32, u32) {
        let info = self.flow.and_then(|flow| testbed.engine.info(flow));
        info.map_or((0, 0), |info| (info.queued_bytes, info.unsent_bytes))
    }

    /// Whether Linux would wake who waits for room: a third of the buffer is free.
    pub(crate) fn is_writable(&self, testbed: &Testbed) -> bool {
        let (queued, unsent) = self.queued(testbed);
        let room = self.send_buffer.saturating_sub(queued);
        room >= queued / 2 && room > 0 && unsent.saturating_mul(2) < self.not_sent_low
    }

    /// Writes as much of `bytes` as Linux would take at once: pieces of up to half the peer's
    /// largest window, a new one as long as the buffer is not over its limit.
    pub(crate) fn write(&mut self, testbed: &mut Testbed, bytes: u32) -> u32 {
        let Some(flow) = self.flow else { return 0 };
        let mut taken = 0;
        while taken < bytes {
            let Some(info) = testbed.engine.info(flow) else { break };
            let mss = u32::from(info.snd_mss).max(1);
            let half = (info.snd_wnd_max / 2).min(65_000);
            let goal = (half / mss * mss).max(mss);
            self.tail = self.tail.min(info.unsent_bytes);
            if self.tail == 0 || self.tail >= goal {
                let is_full =
                    info.queued_bytes >= self.send_buffer || info.unsent_bytes >= self.not_sent_low;
                if is_full {
                    self.wants_room = true;
                    break;
                }
                self.tail = 0;
            }
            let count = (goal - self.tail).min(bytes - taken);
            if !testbed.write(flow, 1 + self.written, count) {
                break;
            }
            self.written += count;
            self.tail += count;
            taken += count;
            if self.tail >= goal {
                testbed.turn();
            }
        }
        taken
    }

    /// After acknowledgements: whether room has come up for who had met none.
    pub(crate) fn wake_writer(&mut self, testbed: &Testbed) {
        if self.wants_room && self.is_writable(testbed) {
            self.wants_room = false;
            self.edges += 1;
        }
    }

    /// What poll says.
    pub(crate) fn ready(&mut self, testbed: &Testbed) -> Vec<&'static str> {
        let mut ready = Vec::new();
        let flow = self.flow.filter(|_| self.ended.is_none());
        let unread = flow.map_or(0, |flow| testbed.engine.readable(flow).bytes);
        let is_at_end = flow.is_some_and(|flow| testbed.engine.is_at_end(flow));
        if unread > 0 || is_at_end || self.ended.is_some() || self.shut_read {
            ready.push("IN");
        }
        if self.is_connected && self.ended.is_none() {
            if self.is_writable(testbed) {
                ready.push("OUT");
            } else {
                self.wants_room = true;
            }
        }
        if self.ended.is_some() {
            ready.extend(["OUT", "ERR", "HUP"]);
        }
        ready
    }

    /// The error that a call gets once the connection is over.
    pub(crate) const fn error(&self) -> Option<&'static str> {
        match self.ended {
            None | Some(CloseReason::Finished) => None,
            Some(CloseReason::Reset | CloseReason::DataAfterClose) => Some("ECONNRESET"),
            Some(CloseReason::Refused) => Some("ECONNREFUSED"),
            Some(CloseReason::TimedOut) => Some("ETIMEDOUT"),
            Some(CloseReason::Unreachable(_)) => Some("EHOSTUNREACH"),
            Some(CloseReason::Aborted) => Some("ECONNABORTED"),
        }
    }
}

/// What an epoll descriptor watches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Epoll {
    pub(crate) watched: BTreeMap<i64, Watch>,
}

#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(crate) events: Vec<String>,
    /// The socket's edges that were told of; none before the first time.
    pub(crate) told: Option<u64>,
}
