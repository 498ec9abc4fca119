//! TCP as seen from between its two ends: how far a connection is, and which segments can be of it.
//!
//! What either end may send is bounded by what the other has acknowledged and by the window that it
//! has offered, which both go by (G. van Rooij, Real Stateful TCP Packet Filtering in IP Filter,
//! 2000).

use super::invalid::Invalid;
use wire::tcp::{ACK, FIN, RST, SYN, URG};

/// An acknowledgement may be behind what was sent by as much as this, or by the largest window
/// seen: it may be late.
const LATE_MAX: u32 = 66_000;

/// What a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    pub(super) flags: u8,
    /// Not shifted.
    pub(super) window: u16,
    /// Of a SYN that says how windows are shifted.
    pub(super) scale: Option<u8>,
    pub(super) payload_bytes: u32,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TcpState {
    SynSent,
    SynReceived,
    Established,
    FinWait,
    CloseWait,
    LastAck,
    TimeWait,
    Closed,
}

/// What is known of one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct End {
    /// Behind the last byte that it has sent.
    sent: u32,
    /// It may send up to here.
    limit: u32,
    /// The largest window that it has offered.
    window: u32,
    scale: u8,
    /// Its SYN said so.
    shifts: bool,
    /// It has sent something.
    has_spoken: bool,
    /// It has said that it is done, and the other end has acknowledged that.
    has_finished: bool,
    is_finish_known: bool,
}

/// A connection: its ends by who began it, and who answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tcp {
    ends: [End; 2],
    is_established: bool,
    is_reset: bool,
}

impl Segment {
    /// Behind the last number that it takes.
    const fn end(&self) -> u32 {
        let flags = (self.flags & SYN != 0) as u32 + (self.flags & FIN != 0) as u32;
        self.sequence.wrapping_add(self.payload_bytes).wrapping_add(flags)
    }

    const fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// Whether nobody sends such flags: none, or two that exclude each other.
    const fn is_nonsense(&self) -> bool {
        match self.flags & (SYN | FIN | RST | ACK) {
            0 | FIN => true,
            flags if flags & SYN != 0 => flags & (FIN | RST) != 0 || self.has(URG),
            flags => flags & FIN != 0 && flags & RST != 0,
        }
    }

    /// Whether a connection begins like that, or, where those are taken up, is in use.
    pub(super) const fn may_begin(&self, picks_up: bool) -> bool {
        let is_syn = self.flags & (SYN | ACK) == SYN;
        let is_in_use = picks_up && self.flags & (SYN | RST | ACK) == ACK;
        !self.is_nonsense() && (is_syn || is_in_use)
    }

    /// Whether it begins a connection in the place of one that is over.
    pub(super) fn begins_again(&self, before: &Tcp) -> bool {
        self.may_begin(false) && matches!(before.state(), TcpState::TimeWait | TcpState::Closed)
    }
}

const fn is_after(one: u32, other: u32) -> bool {
    one.wrapping_sub(other) as i32 > 0
}

impl Tcp {
    /// The first segment, from the end that begins.
    pub(super) fn begin(&mut self, segment: &Segment) {
        let scale = segment.scale.unwrap_or(0);
        let window = u32::from(segment.window).max(1);
        let shifts = segment.scale.is_some();
        let sent = segment.end();
        let end = End { sent, has_spoken: true, scale, shifts, window, ..End::default() };
        self.ends[0] = End { limit: end.sent, ..end };
        if !segment.has(SYN) {
            // Taken up in the middle: what the other end may send is what this one offers, and how
            // that is shifted nobody knows.
            const SCALE_MAX: u8 = 14;
            let window = u32::from(segment.window).max(1) << SCALE_MAX;
            self.is_established = true;
            self.ends[0] = End {
                limit: end.sent.wrapping_add(window),
                window,
                scale: SCALE_MAX,
                shifts: true,
                ..end
            };
            self.ends[1] = End {
                sent: segment.acknowledgement,
                limit: segment.acknowledgement.wrapping_add(window),
                window,
                scale: SCALE_MAX,
                shifts: true,
                has_spoken: true,
                ..End::default()
            };
        }
    }

    /// Whether the handshake is over, or was over before we looked.
    pub(super) const fn is_established(&self) -> bool {
        self.is_established
    }

    /// Whether there is nothing more to come but what is late.
    pub(super) const fn is_ending(&self) -> bool {
        let [begun, answered] = &self.ends;
        self.is_reset || (begun.has_finished && answered.has_finished)
    }

    pub(super) fn state(&self) -> TcpState {
        let [begun, answered] = &self.ends;
        let finished = usize::from(begun.has_finished) + usize::from(answered.has_finished);
        let known = usize::from(begun.is_finish_known) + usize::from(answered.is_finish_known);
        match (finished, known) {
            _ if self.is_reset => TcpState::Closed,
            (2, 2) => TcpState::TimeWait,
            (2, _) => TcpState::LastAck,
            (1, 1) => TcpState::CloseWait,
            (1, _) => TcpState::FinWait,
            _ if self.is_established => TcpState::Established,
            _ if answered.has_spoken => TcpState::SynReceived,
            _ => TcpState::SynSent,
        }
    }

    /// Whether the end that a packet of this direction is of has sent that number.
    pub(super) fn has_sent(&self, sequence: u32, is_reply: bool) -> bool {
        let [from, to] = self.ends_of(is_reply);
        !is_after(sequence, from.sent)
            && is_after(sequence, from.sent.wrapping_sub(to.window.max(LATE_MAX)).wrapping_sub(1))
    }

    /// Takes a segment in.
    pub(super) fn take(&mut self, segment: &Segment, is_reply: bool) -> Result<(), Invalid> {
        if segment.is_nonsense() {
            return Err(Invalid::Tcp);
        }
        let [from, to] = self.ends_of(is_reply);
        if !from.has_spoken {
            return self.answer(segment);
        }
        if !self.ends[1].has_spoken {
            // Nobody has answered: there is nothing to say but the same again.
            return match segment.flags & (SYN | ACK | RST) {
                SYN if segment.end() == from.sent => Ok(()),
                // Another attempt, with another number, in the place of the first.
                SYN => {
                    self.begin(segment);
                    Ok(())
                }
                _ if segment.has(RST) && segment.sequence == from.sent => {
                    self.is_reset = true;
                    Ok(())
                }
                _ => Err(Invalid::Tcp),
            };
        }
        if is_reply
            && !self.is_established
            && segment.flags & (SYN | ACK) == SYN | ACK
            && segment.acknowledgement == to.sent
            && self.check(segment, &from, &to).is_err()
        {
            // It knows the number of the other's SYN; who sent a SYN before need not have.
            return self.answer(segment);
        }
        if segment.has(SYN) {
            // One that was repeated, or that asks for a challenge (RFC 5961 section 4): it passes
            // and changes nothing.
            return Ok(());
        }
        self.check(segment, &from, &to)?;
        if segment.has(RST) {
            // One that is not the next in order is asked about, not believed (RFC 5961 section 3).
            self.is_reset |= segment.sequence == from.sent;
            return Ok(());
        }
        let place = usize::from(is_reply);
        // Both ends shift, or neither does (RFC 7323 section 2.2).
        let scale = if from.shifts && to.shifts { from.scale } else { 0 };
        let window = u32::from(segment.window) << scale;
        let sender = &mut self.ends[place];
        sender.window = sender.window.max(window);
        if is_after(segment.end(), sender.sent) {
            sender.sent = segment.end();
        }
        sender.has_finished |= segment.has(FIN);
        let receiver = &mut self.ends[1 - place];
        let limit = segment.acknowledgement.wrapping_add(window.max(1));
        if is_after(limit, receiver.limit) {
            receiver.limit = limit;
        }
        // All that it had to say, its end too, is acknowledged.
        receiver.is_finish_known |=
            receiver.has_finished && segment.acknowledgement == receiver.sent;
        self.is_established |= !is_reply;
        Ok(())
    }

    /// The first segment of the end that answers.
    fn answer(&mut self, segment: &Segment) -> Result<(), Invalid> {
        let [begun, answered] = &mut self.ends;
        match segment.flags & (SYN | ACK | RST) {
            // It acknowledges the SYN, or is its own at the same time (RFC 9293 figure 8).
            flags if flags & RST == 0 && flags & SYN != 0 => {
                if flags & ACK != 0 && segment.acknowledgement != begun.sent {
                    return Err(Invalid::Window);
                }
                let window = u32::from(segment.window).max(1);
                *answered = End {
                    sent: segment.end(),
                    limit: segment.end().wrapping_add(begun.window),
                    window,
                    scale: segment.scale.unwrap_or(0),
                    shifts: segment.scale.is_some(),
                    has_spoken: true,
                    ..End::default()
                };
                begun.limit = begun.sent.wrapping_add(window);
                Ok(())
            }
            // RFC 9293 section 3.5.2: the port is closed.
            flags if flags & RST != 0 => {
                if flags & ACK == 0 || segment.acknowledgement != begun.sent {
                    return Err(Invalid::Window);
                }
                self.is_reset = true;
                Ok(())
            }
            // It has a connection of before in mind (RFC 9293 figure 9), and will be told.
            ACK => Ok(()),
            _ => Err(Invalid::Tcp),
        }
    }

    /// Whether the numbers of a segment can be.
    fn check(&self, segment: &Segment, from: &End, to: &End) -> Result<(), Invalid> {
        let late = from.window.max(LATE_MAX);
        let is_data_possible = !is_after(segment.sequence, later(from.limit, from.sent))
            && !is_after(from.sent.wrapping_sub(to.window.max(1)), segment.end());
        let is_ack_possible = !segment.has(ACK)
            || (!is_after(segment.acknowledgement, to.sent)
                && !is_after(to.sent.wrapping_sub(late), segment.acknowledgement));
        if is_data_possible && is_ack_possible { Ok(()) } else { Err(Invalid::Window) }
    }

    const fn ends_of(&self, is_reply: bool) -> [End; 2] {
        let [begun, answered] = self.ends;
        if is_reply { [answered, begun] } else { [begun, answered] }
    }
}

/// The later of two numbers.
const fn later(one: u32, other: u32) -> u32 {
    if is_after(other, one) { other } else { one }
}
