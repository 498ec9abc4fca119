//! What the calls of a socket return in each of its states: Linux's answers. It decides; what the
//! state is, others have read.

use rustix::io::Errno;

use super::readiness::Readiness;

/// Where a TCP socket stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It waits for the peer's answer to its SYN.
    Connecting,
    /// Data may flow, at least in one direction.
    Open,
    /// It is a listener.
    Listening,
    /// It is over: both sides have closed, or it was refused, reset or timed out.
    Closed,
}

/// What matters of a TCP socket's state, read at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketView {
    pub(crate) phase: Phase,
    /// Bytes that can be read; of a listener: whether there is a connection to accept.
    pub(crate) unread: u64,
    /// What `unread` must reach before a poll says so (`SO_RCVLOWAT`), at least 1.
    pub(crate) low_water: u64,
    /// The peer has sent FIN; what it sent before is in `unread`.
    pub(crate) is_peer_done: bool,
    /// The application has shut its receiving half.
    pub(crate) is_read_shut: bool,
    /// The application has shut its sending half.
    pub(crate) is_write_shut: bool,
    /// Bytes that can be written at once.
    pub(crate) room: u64,
    /// Bytes that are written and not acknowledged.
    pub(crate) queued: u64,
    /// More than the application wants to have waiting is not sent yet (`TCP_NOTSENT_LOWAT`).
    pub(crate) is_backlogged: bool,
    /// An error that no call has returned yet.
    pub(crate) error: Option<Errno>,
    /// Urgent data is there.
    pub(crate) is_urgent: bool,
}

/// What a call does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It copies.
    Copy,
    /// It returns zero: the end of the stream.
    End,
    /// It takes the waiting error, which later calls do not see, and returns it.
    Error,
    /// It returns this error, as it will the next time.
    Fail(Errno),
    /// It waits, or returns EAGAIN.
    Wait,
}

impl SocketView {
    /// recv(2). Data comes before the end, and the end of a stream before an error that came later,
    /// as tcp_recvmsg has it.
    pub(crate) fn receive(&self) -> Verdict {
        match self.phase {
            Phase::Listening => Verdict::Fail(Errno::NOTCONN),
            _ if self.unread > 0 => Verdict::Copy,
            _ if self.is_peer_done => Verdict::End,
            _ if self.error.is_some() => Verdict::Error,
            Phase::Closed => Verdict::End,
            _ if self.is_read_shut => Verdict::End,
            Phase::Connecting | Phase::Open => Verdict::Wait,
        }
    }

    /// send(2): an error is said once, then it is EPIPE for ever.
    pub(crate) fn send(&self) -> Verdict {
        match self.phase {
            _ if self.error.is_some() => Verdict::Error,
            Phase::Listening | Phase::Closed => Verdict::Fail(Errno::PIPE),
            _ if self.is_write_shut => Verdict::Fail(Errno::PIPE),
            Phase::Connecting => Verdict::Wait,
            Phase::Open if self.room == 0 => Verdict::Wait,
            Phase::Open => Verdict::Copy,
        }
    }

    /// accept(2) when no connection is there.
    pub(crate) fn accept(&self) -> Verdict {
        match self.phase {
            Phase::Listening if self.unread > 0 => Verdict::Copy,
            // A listener that was shut down is none any more.
            Phase::Listening if self.is_read_shut => Verdict::Fail(Errno::INVAL),
            Phase::Listening if self.error.is_some() => Verdict::Error,
            Phase::Listening => Verdict::Wait,
            _ => Verdict::Fail(Errno::INVAL),
        }
    }

    /// A connect(2) that waits: `Copy` once it is established.
    pub(crate) fn connect(&self) -> Verdict {
        match self.phase {
            Phase::Open => Verdict::Copy,
            Phase::Connecting => Verdict::Wait,
            Phase::Listening => Verdict::Fail(Errno::ISCONN),
            _ if self.error.is_some() => Verdict::Error,
            Phase::Closed => Verdict::Fail(Errno::CONNABORTED),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// poll(2), as tcp_poll has it.
    pub(crate) fn readiness(&self) -> Readiness {
        let error = Readiness::ERR.when(self.error.is_some());
        if self.phase == Phase::Listening {
            let shut = Readiness::HUP | Readiness::IN | Readiness::RDHUP;
            return error | Readiness::IN.when(self.unread > 0) | shut.when(self.is_read_shut);
        }
        let is_closed = self.phase == Phase::Closed;
        let is_in_over = is_closed || self.is_peer_done || self.is_read_shut;
        let is_out_over = is_closed || self.is_write_shut;
        let over = Readiness::HUP.when(is_in_over && is_out_over)
            | (Readiness::IN | Readiness::RDHUP).when(is_in_over);
        if self.phase == Phase::Connecting {
            return error | over;
        }
        let is_readable = self.unread >= self.low_water.max(1);
        error
            | over
            | Readiness::IN.when(is_readable)
            | Readiness::OUT.when(is_out_over || self.is_writable())
            | Readiness::PRI.when(self.is_urgent)
    }

    /// Whether it can be written to, but for room.
    pub(crate) fn lacks_room(&self) -> bool {
        self.phase == Phase::Open && !self.is_write_shut && !self.is_writable()
    }

    /// Writing is announced when a third of the ring is free, so that a writer that waits for it
    /// does not come for every byte.
    fn is_writable(&self) -> bool {
        self.room > 0 && self.room >= self.queued / 2 && !self.is_backlogged
    }
}

/// What matters of a UDP socket's state, read at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DatagramView {
    /// A datagram waits.
    pub(crate) has_datagram: bool,
    /// The next datagram to be sent has room.
    pub(crate) has_room: bool,
    /// The application has shut its receiving half.
    pub(crate) is_read_shut: bool,
    /// The application has shut its sending half.
    pub(crate) is_write_shut: bool,
    /// The socket serves nobody any more: the daemon is gone.
    pub(crate) is_closed: bool,
    /// An error that no call has returned yet.
    pub(crate) error: Option<Errno>,
}

impl DatagramView {
    /// recv(2): an error comes before data, unlike with TCP. One that was shut down may still have
    /// datagrams, or get some; who would wait for them is told of the end instead, and who would
    /// not, that there are none.
    pub(crate) fn receive(&self) -> Verdict {
        if self.error.is_some() {
            Verdict::Error
        } else if self.has_datagram {
            Verdict::Copy
        } else if self.is_closed {
            Verdict::Fail(Errno::NETDOWN)
        } else {
            Verdict::Wait
        }
    }

    /// send(2).
    pub(crate) fn send(&self) -> Verdict {
        if self.is_write_shut {
            Verdict::Fail(Errno::PIPE)
        } else if self.error.is_some() {
            Verdict::Error
        } else if self.is_closed {
            Verdict::Fail(Errno::NETDOWN)
        } else if self.has_room {
            Verdict::Copy
        } else {
            Verdict::Wait
        }
    }

    /// Whether it can be written to, but for room.
    pub(crate) fn lacks_room(&self) -> bool {
        !self.is_closed && !self.is_write_shut && !self.has_room
    }

    /// poll(2), as datagram_poll has it. A socket that serves nobody any more is the kernel's
    /// alone: it has room, and what comes is the kernel's to tell.
    pub(crate) fn readiness(&self) -> Readiness {
        let is_over = self.is_read_shut && self.is_write_shut;
        let has_room = self.has_room || self.is_write_shut || self.is_closed;
        Readiness::ERR.when(self.error.is_some())
            | Readiness::HUP.when(is_over)
            | (Readiness::IN | Readiness::RDHUP).when(self.is_read_shut)
            | Readiness::IN.when(self.has_datagram)
            | Readiness::OUT.when(has_room)
    }
}

#[cfg(test)]
mod tests;
