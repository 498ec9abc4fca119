//! What a script says, as data.

use base::Nanos;

/// A script, read.
#[derive(Clone, Debug)]
pub struct Script {
    /// Settings from `--name=value` lines and the commands in back-ticks before the first event.
    pub(crate) options: Vec<(String, String)>,
    pub(crate) setup: Vec<String>,
    pub(crate) events: Vec<Event>,
}

/// Something that happens, and when.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// Line in the script, from 1.
    pub(crate) line: usize,
    pub(crate) when: When,
    pub(crate) action: Action,
}

/// When it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct When {
    /// Counted from what went before, not from the start.
    pub(crate) is_relative: bool,
    pub(crate) start: Nanos,
    /// The end of a range (`~`) of times that are all right.
    pub(crate) range_end: Option<Nanos>,
    /// When a call that blocks returns (`...`).
    pub(crate) returns: Option<Nanos>,
    /// Any time is right (`*`).
    pub(crate) is_any: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// The peer sends.
    Inject(Packet),
    /// The host has to send.
    Expect(Packet),
    /// A router or the peer reports an ICMP error.
    Icmp(Icmp),
    Call(Call),
    Code(String),
    Command(String),
}

/// A TCP packet.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    /// Both ECN bits, if the script names them.
    pub(crate) ecn: Option<Ecn>,
    pub(crate) flags: u8,
    pub(crate) start: u32,
    pub(crate) bytes: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) window: Option<u16>,
    pub(crate) urgent: u16,
    /// None: not compared (`<...>`).
    pub(crate) options: Option<Vec<TcpOption>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ecn {
    NotEct,
    Ect0,
    Ect1,
    EitherEct,
    Ce,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TcpOption {
    Mss(u16),
    Nop,
    End,
    WindowScale(u8),
    SackPermitted,
    Sack(Vec<(u32, u32)>),
    Timestamps(u32, u32),
    Other(Vec<u8>),
}

/// Fragmentation needed, or packet too big: what the router could forward, and which of the host's
/// packets it could not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Icmp {
    pub(crate) mtu: u32,
    pub(crate) start: u32,
}

/// A system call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: Vec<Value>,
    /// None: any (`?`).
    pub(crate) result: Option<i64>,
    pub(crate) errno: Option<String>,
}

/// An argument, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// `...`: whatever the caller likes.
    Any,
    Null,
    Number(i64),
    Text(String),
    /// Names joined by `|`.
    Words(Vec<String>),
    List(Vec<Self>),
    Struct(Vec<(String, Self)>),
}

impl Value {
    pub(crate) fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::List(values) => values.first()?.number(),
            _ => None,
        }
    }

    pub(crate) fn has_word(&self, word: &str) -> bool {
        matches!(self, Self::Words(words) if words.iter().any(|other| other == word))
    }

    /// The field of a structure.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        let Self::Struct(fields) = self else { return None };
        fields.iter().find(|(other, _)| other == name).map(|(_, value)| value)
    }
}
