//! The differences that are documented, each with its reason: the table of
//! `docs/reference/differences.md`, whose rows these are, and of each there is a script in
//! `tests/sequences/differences`.

mod cast;

use crate::comparison::Played;
use crate::script::{Step, Who};

use cast::{Cast, Protocol};

/// One of them.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Its row in the table, and its script.
    pub(crate) name: &'static str,
    /// Whether it is why a call has two outcomes.
    applies: fn(&Moment<'_>) -> bool,
}

/// A call with two outcomes, and what came before it.
pub(crate) struct Moment<'played> {
    played: &'played Played,
    at: usize,
    linux: &'played str,
    calisto: &'played str,
    cast: Cast,
}

/// All of them. The first that applies is the reason, so those that apply to less stand first.
pub(crate) const RULES: &[Rule] = &[
    Rule { name: "closed-while-waited-for", applies: closed_while_waited_for },
    Rule { name: "closed-here-open-elsewhere", applies: closed_here_open_elsewhere },
    Rule { name: "first-ring", applies: first_ring },
    Rule { name: "edge-again", applies: edge_again },
    Rule { name: "accepted-reuseaddr", applies: accepted_reuseaddr },
    Rule { name: "cork-within-host", applies: cork_within_host },
    Rule { name: "held-back", applies: held_back },
    Rule { name: "two-ways", applies: two_ways },
    Rule { name: "kernel-half-later", applies: kernel_half_later },
    Rule { name: "offered-anew", applies: offered_anew },
    Rule { name: "reset-by-receiver", applies: reset_by_receiver },
    Rule { name: "given-away", applies: given_away },
    Rule { name: "set-of-a-fork", applies: set_of_a_fork },
    Rule { name: "passed-before", applies: passed_before },
    Rule { name: "own-name", applies: own_name },
    Rule { name: "own-family", applies: own_family },
    Rule { name: "disconnect", applies: disconnect },
    Rule { name: "shutdown-before", applies: shutdown_before },
    Rule { name: "waits-since-before", applies: waits_since_before },
    Rule { name: "refusal-forgotten", applies: refusal_forgotten },
    Rule { name: "listener-set-late", applies: listener_set_late },
    Rule { name: "urgent-after-urgent", applies: urgent_after_urgent },
    Rule { name: "reset-under-way", applies: reset_under_way },
    Rule { name: "listener-shut", applies: listener_shut },
];

/// The documented reason for which a call has two outcomes, if there is one.
pub(crate) fn rule_of(played: &Played, at: usize) -> Option<&'static Rule> {
    let (linux, calisto) = (played.linux.get(at)?.as_str(), played.calisto.get(at)?.as_str());
    let cast = Cast::of(&played.script.0[..=at]);
    let moment = Moment { played, at, linux, calisto, cast };
    RULES.iter().find(|rule| (rule.applies)(&moment))
}

const SENDS: [&str; 8] =
    ["send", "sendto", "write", "sendmsg", "writev", "sendmmsg", "sendbeside", "sendfile"];
const LOOKS: [&str; 5] = ["poll", "select", "wait", "join", "fionread"];
/// Payload of the longest datagram that is one packet.
const PACKET_BYTES: u32 = 1472;

const RECEIVES: [&str; 9] = [
    "recv",
    "read",
    "recvfrom",
    "recvmsg",
    "readv",
    "recvmmsg",
    "recvbeside",
    "splice-in",
    "drain",
];

impl Moment<'_> {
    fn verb(&self) -> &str {
        self.played.script.0[self.at].verb()
    }

    fn is_one_of(&self, verbs: &[&str]) -> bool {
        verbs.contains(&self.verb())
    }

    /// The words of the calls before, each with what Linux made of it.
    fn before(&self) -> impl Iterator<Item = (Vec<&str>, &str)> {
        let calls = self.played.script.0[..self.at].iter();
        calls.map(|step| step.words().collect()).zip(self.played.linux.iter().map(String::as_str))
    }

    /// The words of the calls before that the programs under test have made.
    fn of_the_host(&self) -> impl Iterator<Item = Vec<&str>> {
        let calls = self.played.script.0[..self.at].iter();
        calls.filter(|step| step.who != Who::There).map(|step| step.words().collect())
    }

    fn has_before(&self, verb: &str) -> bool {
        self.before().any(|(words, _)| words[0] == verb)
    }

    /// Some connection is, or was to be, between two programs of this host.
    fn has_a_call_within_the_host(&self) -> bool {
        let calls = |step: &Step| {
            let to = step.words().nth(2).unwrap_or_default();
            step.who != Who::There && step.verb() == "connect" && !to.contains("there")
        };
        self.played.script.0[..self.at].iter().any(calls)
    }
}

/// A call that waits on a number which is closed: Linux lets it wait on, and the file lives on.
fn closed_while_waited_for(moment: &Moment<'_>) -> bool {
    let closes = moment.has_before("close") || moment.has_before("dup2");
    closes && moment.has_before("start")
}

/// A member of a set that this process has closed, and another one not, or a call under way.
fn closed_here_open_elsewhere(moment: &Moment<'_>) -> bool {
    let closes = moment.has_before("close") || moment.has_before("dup2");
    let is_elsewhere = ["fork", "give", "start"].iter().any(|verb| moment.has_before(verb));
    moment.is_one_of(&["wait", "join"]) && closes && is_elsewhere
}

/// A write that is cut at what the ring of a young connection has room for.
fn first_ring(moment: &Moment<'_>) -> bool {
    let counts = |outcome: &str| -> Vec<u64> {
        outcome.split(' ').map_while(|word| word.parse().ok()).collect()
    };
    // Of several messages one may be cut, and those behind it are others then.
    let calisto = counts(moment.calisto);
    let is_short = !calisto.is_empty() && calisto < counts(moment.linux);
    let is_short = is_short || moment.calisto == "EAGAIN";
    is_short && (moment.is_one_of(&SENDS) || moment.verb() == "splice-out")
}

/// A member that is told at edges, or once, is told once more, or once less of its room or its end.
fn edge_again(moment: &Moment<'_>) -> bool {
    let is_such = |words: &[&str]| {
        words.last().is_some_and(|events| events.contains("et") || events.contains("oneshot"))
    };
    let has_such = moment.before().any(|(words, _)| words[0] == "add" && is_such(&words));
    let is_none = |outcome: &str| ["0", "waits"].contains(&outcome);
    let is_old = |outcome: &str| outcome.ends_with(":out") || outcome.ends_with("hup");
    let is_such = is_none(moment.linux) || is_none(moment.calisto) && is_old(moment.linux);
    moment.is_one_of(&["wait", "join"]) && has_such && is_such
}

/// SO_REUSEADDR of an accepted connection.
fn accepted_reuseaddr(moment: &Moment<'_>) -> bool {
    moment.verb() == "get" && moment.played.script.0[moment.at].call.ends_with(" reuseaddr")
}

/// MSG_MORE within a host holds nothing back.
fn cork_within_host(moment: &Moment<'_>) -> bool {
    let corks = moment.before().any(|(words, _)| words.contains(&"more"));
    corks && moment.has_a_call_within_the_host() && moment.cast.has(Protocol::Tcp)
}

/// What MSG_MORE holds back over the wire leaves at other moments.
fn held_back(moment: &Moment<'_>) -> bool {
    let calls = &moment.played.script.0[..moment.at];
    let holds_back = calls.iter().any(|step| step.words().any(|word| word == "more"));
    let is_wire = moment.played.script.0.iter().any(|step| step.who == Who::There);
    let is_reset = ["EPIPE", "ECONNRESET"].contains(&moment.linux) && moment.is_one_of(&SENDS);
    let looks = moment.is_one_of(&LOOKS) || moment.is_one_of(&RECEIVES) || is_reset;
    let is_udp = moment.cast.subject_protocol() == Some(Protocol::Udp);
    is_wire && holds_back && looks && !is_udp
}

/// Datagrams that came by two ways: over the wire, and from within the host by the kernel.
fn two_ways(moment: &Moment<'_>) -> bool {
    let sends = |step: &&Step| SENDS.contains(&step.verb());
    let is_there = |step: &Step| step.who == Who::There;
    let sent: Vec<&Step> = moment.played.script.0[..moment.at].iter().filter(sends).collect();
    let came_by_both =
        sent.iter().any(|step| is_there(step)) && !sent.iter().all(|step| is_there(step));
    let is_cut = |word: &str| {
        word.strip_prefix("k*")
            .and_then(|bytes| bytes.parse().ok())
            .is_some_and(|bytes: u32| bytes > PACKET_BYTES)
    };
    let in_pieces = sent.iter().any(|step| is_there(step) && step.words().any(is_cut));
    // Each side has one, of which the other one has another first.
    let has_one = |outcome: &str| !outcome.starts_with('E') && outcome != "waits";
    let looks = moment.is_one_of(&RECEIVES) || moment.verb() == "fionread";
    let is_udp = moment.cast.subject_protocol() == Some(Protocol::Udp);
    looks
        && is_udp
        && (came_by_both || in_pieces)
        && has_one(moment.linux)
        && has_one(moment.calisto)
}

/// What comes to a UDP socket by the kernel, or is a member of the kernel's, beside room that is
/// Calisto's to tell.
fn kernel_half_later(moment: &Moment<'_>) -> bool {
    let events = |outcome: &str| outcome.split(' ').filter(|word| word.contains(':')).count();
    let told = events(moment.calisto);
    let comes = moment.linux.contains(":in,out") || told > 0 && told < events(moment.linux);
    moment.is_one_of(&["wait", "join"]) && comes && moment.cast.has(Protocol::Udp)
}

/// Datagrams that had come to a UDP socket before it was connected or disconnected.
fn offered_anew(moment: &Moment<'_>) -> bool {
    let udp = |words: &[&str]| moment.cast.protocol(words[1]) == Some(Protocol::Udp);
    let connects = moment.of_the_host().any(|words| words[0] == "connect" && udp(&words));
    let is_refused = moment.linux == "ECONNREFUSED" && moment.is_one_of(&SENDS);
    connects && (moment.is_one_of(&LOOKS) || moment.is_one_of(&RECEIVES) || is_refused)
}

/// SO_LINGER without a time, set or closed by a process that was given the connection.
fn reset_by_receiver(moment: &Moment<'_>) -> bool {
    let lingers = moment.before().any(|(words, _)| words.contains(&"linger"));
    lingers && (moment.has_before("give") || moment.has_before("fork"))
}

/// A connection that was passed to a program without the library.
fn given_away(moment: &Moment<'_>) -> bool {
    let is_given = |(words, _): (Vec<&str>, &str)| words[0] == "give" && words[2] == "there";
    moment.played.script.0[moment.at].who == Who::There && moment.before().any(is_given)
}

/// A set of epoll(7) that a child has changed.
fn set_of_a_fork(moment: &Moment<'_>) -> bool {
    let changes = ["child add", "child mod", "child del"];
    let mut calls = moment.played.script.0[..moment.at].iter();
    let has_changed = calls.any(|step| changes.iter().any(|change| step.call.starts_with(change)));
    let is_wait = moment.played.script.0[moment.at].words().any(|word| word == "wait");
    (is_wait || moment.verb() == "join") && has_changed
}

/// A socket that was passed on, or that a child has, from before it was Calisto's.
fn passed_before(moment: &Moment<'_>) -> bool {
    moment.has_before("give") || moment.has_before("fork")
}

/// The address of a socket that was connected, or was to be, and is not any more.
fn own_name(moment: &Moment<'_>) -> bool {
    let is_free = |(words, linux): (Vec<&str>, &str)| {
        words[0] == "connect" && (words[2] == "unspec" || linux.starts_with('E'))
    };
    let connects = moment.has_before("connect");
    moment.verb() == "bind" && connects
        || moment.verb() == "getsockname" && moment.before().any(is_free)
        || moment.verb() == "connect" && moment.linux == "waits" && moment.before().any(is_free)
}

/// A datagram for the other family than that of the address that connect(2) has bound a socket to.
fn own_family(moment: &Moment<'_>) -> bool {
    let sends = moment.is_one_of(&SENDS) || moment.verb() == "connect";
    let is_udp = moment.cast.subject_protocol() == Some(Protocol::Udp);
    let says_so = ["ENETUNREACH", "EAFNOSUPPORT"].contains(&moment.calisto);
    is_udp && sends && says_so && moment.has_before("connect")
}

/// connect(2) to AF_UNSPEC on a connection.
fn disconnect(moment: &Moment<'_>) -> bool {
    let of_tcp = |words: &[&str]| moment.cast.protocol(words[1]) == Some(Protocol::Tcp);
    moment
        .before()
        .any(|(words, _)| words[0] == "connect" && words[2] == "unspec" && of_tcp(&words))
}

/// shutdown(2) of what is not connected, which Linux refuses and remembers.
fn shutdown_before(moment: &Moment<'_>) -> bool {
    moment.before().any(|(words, linux)| words[0] == "shutdown" && linux == "ENOTCONN")
}

/// A thread that has slept in a call since before the socket was Calisto's.
fn waits_since_before(moment: &Moment<'_>) -> bool {
    let starts = moment.before().position(|(words, _)| words[0] == "start");
    let becomes = ["bind", "connect", "listen", "sendto", "sendmsg", "sendmmsg", "sendbeside"];
    let after =
        |start: usize| moment.before().skip(start).any(|(words, _)| becomes.contains(&words[0]));
    starts.is_some_and(after)
}

/// connect(2) again, where the kernel's half was refused and somebody listens by now.
fn refusal_forgotten(moment: &Moment<'_>) -> bool {
    let is_again = moment.verb() == "connect" && moment.has_before("connect");
    let refusals = ["ECONNREFUSED", "ECONNABORTED"];
    is_again && refusals.contains(&moment.linux) && moment.has_a_call_within_the_host()
}

/// An option of a listener that is set while a connection waits there.
fn listener_set_late(moment: &Moment<'_>) -> bool {
    let waits = |(words, _): &(Vec<&str>, &str)| words[0] != "connect";
    let mut since = moment.before().skip_while(waits);
    let sets =
        |(words, _): (Vec<&str>, &str)| words[0] == "set" && moment.cast.is_listener(words[1]);
    let looks = moment.is_one_of(&LOOKS) || moment.is_one_of(&RECEIVES) || moment.verb() == "get";
    let is_so = moment.has_a_call_within_the_host() || moment.verb() == "get";
    looks && is_so && since.any(sets)
}

/// A second urgent byte, sent before anybody looked at the first.
fn urgent_after_urgent(moment: &Moment<'_>) -> bool {
    let urgent = moment.before().filter(|(words, _)| words.contains(&"oob") && words[0] == "send");
    let looks = moment.is_one_of(&RECEIVES) || moment.is_one_of(&["poll", "wait", "fionread"]);
    looks && urgent.count() > 1
}

/// Bytes for a peer over the wire that resets what comes, or datagrams that one refuses.
fn reset_under_way(moment: &Moment<'_>) -> bool {
    let ends = |(words, _): (Vec<&str>, &str)| {
        words[0] == "close" || (words[0] == "shutdown" && words.contains(&"both"))
    };
    let is_there = moment.played.script.0.iter().any(|step| step.who == Who::There);
    let is_udp = moment.cast.subject_protocol() == Some(Protocol::Udp);
    moment.is_one_of(&["sendmmsg"]) && (is_udp || is_there && moment.before().any(ends))
}

/// A listener that was shut down, which is the kernel's: it listens again though accepted
/// connections have its port, or a set tells of it alone.
fn listener_shut(moment: &Moment<'_>) -> bool {
    let shut = moment
        .before()
        .any(|(words, _)| words[0] == "shutdown" && moment.cast.is_listener(words[1]));
    shut && moment.is_one_of(&["listen", "wait", "join"])
}
