//! One connection of an attacker: what it says, and what it answers. No clock and no socket.

use std::net::SocketAddrV4;

use base::Nanos;
use wire::tcp::{ACK, FIN, Header, PSH, RST, SYN};

use crate::Forged;

/// Shift of all its windows (RFC 7323 section 2).
const WINDOW_SHIFT: u8 = 7;

/// The window of most, unscaled: 64 KiB.
const WINDOW: u16 = 512;

/// The window of those that are to be sent much: 4 MiB.
const WIDE_WINDOW: u16 = 32_768;

/// The window of those that read slowly: 512 bytes.
const NARROW_WINDOW: u16 = 4;

/// Between two acknowledgements of those that read slowly.
const SLOW: Nanos = Nanos::from_millis(100);

/// Between two selective acknowledgements that mean nothing.
const SPAM: Nanos = Nanos::from_millis(1);

/// The smallest segment that Linux sends (its `TCP_MIN_SND_MSS`), headers of 40 bytes left out.
pub const TINY_MSS: u16 = 48;

/// What most say that they take.
pub const USUAL_MSS: u16 = 1460;

/// Bytes that are sent with a request and that the server has not asked for.
const UNREAD_BYTES: usize = 1200;

/// How a connection is abused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abuse {
    /// A reset when the answer begins to come.
    ResetWhileWriting,
    /// More bytes than were asked for and FIN at once; a reset to whatever comes then.
    UnreadThenFin,
    /// FIN with the request; everything is read to the end.
    HalfClose,
    /// Nothing more after the request, not even an acknowledgement.
    Silence,
    /// Tiny segments, some of which are acknowledged; then nothing more.
    TinySegments,
    /// A window of zero from the request on.
    ZeroWindow,
    /// A thousand selective acknowledgements a second of pieces of what is out.
    SackSpam,
    /// A few bytes are read every 100 ms.
    SlowRead,
    /// The answer is read and FIN answered by FIN: the server keeps the name in TIME-WAIT.
    Polite,
    /// A SYN, and nothing more.
    SynOnly,
}

impl Abuse {
    /// Every way of aborting a connection or of letting it hang.
    pub const ABORTS: [Self; 7] = [
        Self::ResetWhileWriting,
        Self::UnreadThenFin,
        Self::HalfClose,
        Self::Silence,
        Self::TinySegments,
        Self::ZeroWindow,
        Self::SackSpam,
    ];
}

/// What connections of an attack do.
#[derive(Clone, Debug)]
pub struct Conduct {
    /// How they are abused.
    pub abuse: Abuse,
    /// What the server is asked.
    pub request: Vec<u8>,
    /// Largest segment that they say they take.
    pub mss: u16,
    /// Bytes of the answer that are acknowledged before tiny segments or selective
    /// acknowledgements become an abuse.
    pub reads: u32,
}

impl Conduct {
    /// The abuse of a connection over which a long answer was asked for.
    pub fn new(abuse: Abuse, request: &[u8]) -> Self {
        let mss = if abuse == Abuse::TinySegments { TINY_MSS } else { USUAL_MSS };
        Self { abuse, request: request.to_vec(), mss, reads: 4096 }
    }

    fn window(&self) -> u16 {
        match self.abuse {
            Abuse::SackSpam | Abuse::TinySegments => WIDE_WINDOW,
            Abuse::SlowRead => NARROW_WINDOW,
            _ => WINDOW,
        }
    }
}

/// Where frames go that a peer sends.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) source_mac: [u8; 6],
    pub(super) destination_mac: [u8; 6],
    pub(super) frames: Vec<Vec<u8>>,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing was heard.
    Opening,
    /// The server has accepted.
    Open,
    /// It is over as it was meant to be.
    Ended,
    /// The server has reset it.
    Reset,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Peer {
    local: SocketAddrV4,
    server: SocketAddrV4,
    pub(super) conduct: usize,
    pub(super) state: State,
    /// The next number that it sends.
    next: u32,
    /// The next number that it expects.
    expected: u32,
    /// Behind the last number that was heard.
    highest: u32,
    /// Where the answer began.
    began: u32,
    /// Pieces that it has pretended to have, or 1 when it has sent FIN.
    said: u32,
    /// When its timer is due.
    pub(super) due: Option<Nanos>,
}

impl Peer {
    pub(super) fn new(
        local: SocketAddrV4,
        server: SocketAddrV4,
        conduct: usize,
        now: Nanos,
    ) -> Self {
        // By the clock (RFC 9293 section 3.4.1): a name that comes again has a later number.
        let next = (now.0 / 4000) as u32;
        let (state, due) = (State::Opening, None);
        let (expected, highest, began, said) = (0, 0, 0, 0);
        Self { local, server, conduct, state, next, expected, highest, began, said, due }
    }

    /// Its first segment.
    pub(super) fn open(&mut self, conduct: &Conduct, out: &mut Outgoing) {
        let [high, low] = conduct.mss.to_be_bytes();
        // Maximum segment size, SACK permitted, window scale; RFC 9293, 2018, 7323.
        let options = [2, 4, high, low, 1, 1, 4, 2, 1, 3, 3, WINDOW_SHIFT];
        let syn = Forged { flags: SYN, window: 65_535, options: &options, ..self.bare() };
        out.frames.push(syn.frame(out.source_mac, out.destination_mac));
        self.next = self.next.wrapping_add(1);
    }

    /// Takes a segment of the server that carries `bytes` bytes.
    pub(super) fn hear(
        &mut self,
        conduct: &Conduct,
        header: &Header,
        bytes: u32,
        now: Nanos,
        out: &mut Outgoing,
    ) {
        if conduct.abuse == Abuse::SynOnly {
            return;
        }
        if header.flags & RST != 0 {
            self.state = State::Reset;
            return;
        }
        if header.flags & SYN != 0 {
            if header.acknowledgement == self.next {
                self.state = State::Open;
                self.expected = header.sequence.wrapping_add(1);
                (self.began, self.highest) = (self.expected, self.expected);
                self.ask(conduct, out);
            }
            return;
        }
        if self.state != State::Open {
            return;
        }
        let fin = u32::from(header.flags & FIN != 0);
        let end = header.sequence.wrapping_add(bytes + fin);
        let is_news = bytes + fin > 0;
        if conduct.abuse != Abuse::ZeroWindow
            && !is_behind(self.expected, header.sequence)
            && is_behind(self.expected, end)
        {
            self.expected = end;
        }
        let has_closed = fin == 1 && self.expected == end;
        if is_behind(self.highest, end) {
            self.highest = end;
        }
        let answer = Answer { is_news, has_closed, acknowledgement: header.acknowledgement };
        self.answer(conduct, answer, now, out);
    }

    /// The request, and what comes with it.
    fn ask(&mut self, conduct: &Conduct, out: &mut Outgoing) {
        let mut payload = conduct.request.clone();
        let mut flags = ACK | PSH;
        match conduct.abuse {
            Abuse::UnreadThenFin => {
                payload.resize(payload.len().max(UNREAD_BYTES), b'\n');
                flags |= FIN;
            }
            Abuse::HalfClose => flags |= FIN,
            _ => {}
        }
        let window = if conduct.abuse == Abuse::ZeroWindow { 0 } else { conduct.window() };
        let request = Forged { flags, window, payload: &payload, ..self.bare() };
        out.frames.push(request.frame(out.source_mac, out.destination_mac));
        self.next = self.next.wrapping_add(payload.len() as u32 + u32::from(flags & FIN));
    }

    fn answer(&mut self, conduct: &Conduct, answer: Answer, now: Nanos, out: &mut Outgoing) {
        let read = self.expected.wrapping_sub(self.began);
        match conduct.abuse {
            Abuse::ResetWhileWriting | Abuse::UnreadThenFin if answer.is_news => self.reset(out),
            Abuse::HalfClose if answer.is_news => {
                self.acknowledge(conduct.window(), &[], out);
                if answer.has_closed {
                    self.state = State::Ended;
                }
            }
            Abuse::Polite if answer.has_closed => {
                self.next = self.next.wrapping_add(u32::from(self.said == 0));
                self.said = 1;
                // Again, if it was lost: the same number.
                let (sequence, flags) = (self.next.wrapping_sub(1), ACK | FIN);
                let fin = Forged { sequence, flags, window: conduct.window(), ..self.bare() };
                out.frames.push(fin.frame(out.source_mac, out.destination_mac));
            }
            // This acknowledges its FIN.
            Abuse::Polite if answer.acknowledgement == self.next && self.said == 1 => {
                self.state = State::Ended;
            }
            Abuse::Polite if answer.is_news => self.acknowledge(conduct.window(), &[], out),
            Abuse::TinySegments if answer.is_news && read <= conduct.reads => {
                self.acknowledge(conduct.window(), &[], out);
            }
            Abuse::SackSpam if answer.is_news => {
                if read <= conduct.reads {
                    self.acknowledge(conduct.window(), &[], out);
                }
                self.due.get_or_insert(now + SPAM);
            }
            Abuse::ZeroWindow if answer.is_news => self.acknowledge(0, &[], out),
            Abuse::SlowRead if answer.is_news => {
                self.due.get_or_insert(now + SLOW);
            }
            _ => {}
        }
    }

    /// Its timer is due.
    pub(super) fn tick(&mut self, conduct: &Conduct, out: &mut Outgoing) {
        let due = self.due.take();
        if self.state != State::Open {
            return;
        }
        match conduct.abuse {
            Abuse::SackSpam => {
                let options = self.nonsense(conduct.mss);
                self.acknowledge(conduct.window(), &options, out);
                self.due = due.map(|due| due + SPAM);
            }
            // The next segment sets the timer again.
            _ => self.acknowledge(conduct.window(), &[], out),
        }
    }

    /// Ends it by a reset, unless the server has.
    pub(super) fn reset(&mut self, out: &mut Outgoing) {
        if self.state == State::Open {
            self.say_closing(out);
        }
        self.state = State::Ended;
    }

    /// A reset.
    pub(super) fn say_closing(&self, out: &mut Outgoing) {
        self.say(RST | ACK, 0, &[], out);
    }

    /// A SACK option of three pieces of what is out, other ones each time; nothing is out: none.
    fn nonsense(&mut self, mss: u16) -> Vec<u8> {
        let mss = u32::from(mss);
        let segments = self.highest.wrapping_sub(self.expected) / mss;
        if segments < 8 {
            return Vec::new();
        }
        let mut options = vec![1, 1, 5, 26];
        for _ in 0..3 {
            self.said = self.said.wrapping_add(1);
            let at = self.said.wrapping_mul(0x9e37_79b9) >> 8;
            let left = self.expected.wrapping_add((1 + at % (segments - 2)) * mss);
            options.extend(left.to_be_bytes());
            options.extend(left.wrapping_add(mss).to_be_bytes());
        }
        options
    }

    fn acknowledge(&self, window: u16, options: &[u8], out: &mut Outgoing) {
        self.say(ACK, window, options, out);
    }

    fn say(&self, flags: u8, window: u16, options: &[u8], out: &mut Outgoing) {
        let segment = Forged { flags, window, options, ..self.bare() };
        out.frames.push(segment.frame(out.source_mac, out.destination_mac));
    }

    fn bare(&self) -> Forged<'static> {
        Forged {
            sequence: self.next,
            acknowledgement: self.expected,
            ..Forged::between(self.local, self.server)
        }
    }
}

/// What a segment of the server was.
#[derive(Clone, Copy)]
struct Answer {
    /// It carries something.
    is_news: bool,
    /// It was the end, and everything before has been heard.
    has_closed: bool,
    acknowledgement: u32,
}

/// Whether `number` comes before `other` (RFC 9293 section 3.4).
fn is_behind(number: u32, other: u32) -> bool {
    (other.wrapping_sub(number) as i32) > 0
}
