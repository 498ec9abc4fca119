//! The calls by which two ends come together.

use super::{Kind, Writer};
use crate::script::Who;

/// Who calls whom, and by which addresses: of the listener, and the one that is called.
const WITHIN: &[[&str; 3]] = &[
    ["4", "lo", "lo"],
    ["4", "any", "lo"],
    ["4", "any", "here"],
    ["4", "here", "here"],
    ["6", "any6", "lo6"],
    ["6", "here6", "here6"],
    ["6", "any6", "mapped-lo"],
    ["6", "mapped-here", "mapped-here"],
];
const LOOPBACK: &[[&str; 3]] =
    &[["4", "any", "lo"], ["4", "lo", "lo"], ["6", "any6", "lo6"], ["6", "any6", "mapped-lo"]];
const TO_THERE: &[[&str; 3]] = &[
    ["4", "any", "there"],
    ["4", "there", "there"],
    ["6", "any6", "there6"],
    ["6", "any6", "mapped-there"],
];
const TO_HERE: &[[&str; 3]] = &[
    ["4", "any", "here"],
    ["4", "here", "here"],
    ["6", "any6", "here6"],
    ["6", "any6", "mapped-here"],
];

/// Where the two ends are.
const PLACES: &[(Who, Who, &[[&str; 3]])] = &[
    (Who::Here, Who::Here, WITHIN),
    (Who::Here, Who::Beside, WITHIN),
    (Who::Beside, Who::Here, WITHIN),
    (Who::Here, Who::There, TO_THERE),
    (Who::Here, Who::There, TO_THERE),
    (Who::There, Who::Here, TO_HERE),
    (Who::There, Who::Here, TO_HERE),
];

impl Writer {
    /// Two ends that want to talk.
    pub(super) fn scene(&mut self) {
        let (from, to, families) = *self.random.pick(PLACES);
        let is_stream = self.random.percent(70);
        // What one of Calisto's sends to an own address by another way than loopback is lost.
        let families =
            if is_stream || from == Who::There || to == Who::There { families } else { LOOPBACK };
        let [family, bound, called] = *self.random.pick(families);
        let port = 1 + self.addresses.len();
        let (bound, called) = (format!("{bound}:p{port}"), format!("{called}:p{port}"));
        self.addresses.push(called.clone());
        if is_stream {
            self.connection(from, to, family, &bound, &called);
        } else {
            self.datagrams(from, to, family, &bound, &called);
        }
    }

    fn connection(&mut self, from: Who, to: Who, family: &str, bound: &str, called: &str) {
        let listener = self.socket(to, "tcp", family, Kind::Listener);
        if self.random.percent(20) {
            self.push(to, format!("set {listener} reuseaddr 1"));
        }
        let caller_is_first = self.random.percent(30);
        let early = caller_is_first.then(|| self.socket(from, "tcp", family, Kind::Tcp));
        self.push(to, format!("bind {listener} {bound}"));
        if !self.random.percent(6) {
            let backlog = 2 + self.random.below(7);
            self.push(to, format!("listen {listener} {backlog}"));
        }
        let caller = match early {
            Some(caller) => caller,
            None => self.socket(from, "tcp", family, Kind::Tcp),
        };
        if self.random.percent(12) {
            let any = if family == "4" { "any:0" } else { "any6:0" };
            self.push(from, format!("bind {caller} {any}"));
        }
        self.push(from, format!("connect {caller} {called}"));
        self.after_connect(from, &caller, called);
        if self.random.percent(85) {
            let accepted = self.named(to, "b", Kind::Tcp);
            let nonblock = if self.random.percent(60) { " nonblock" } else { "" };
            self.write(to, format!("accept {listener} {accepted}{nonblock}"));
            let word = self.fresh("word");
            self.push(from, format!("send {caller} {word}"));
            self.push(to, format!("recv {accepted} 100 dontwait"));
            if to != Who::There && self.random.percent(8) {
                self.break_in_the_middle((from, &caller), (to, &accepted));
            }
        }
    }

    /// A reset while the other end is in a call that has done a part of its work.
    fn break_in_the_middle(&mut self, (from, caller): (Who, &str), (to, accepted): (Who, &str)) {
        let thread = self.fresh("t");
        if self.random.percent(50) {
            self.write(to, format!("start {thread} recv {accepted} 5000 waitall"));
            self.write(from, format!("send {caller} part"));
        } else {
            self.write(to, format!("start {thread} pour {accepted}"));
        }
        self.write(from, format!("set {caller} linger 0"));
        self.write(from, format!("close {caller}"));
        self.write(to, format!("join {thread}"));
        let looks = ["poll 0 in,out,rdhup {}", "get {} error", "recv {} 5 dontwait", "send {} x"];
        for _ in 0..2 {
            let look = self.random.pick(&looks).replace("{}", accepted);
            self.write(to, look);
        }
    }

    fn after_connect(&mut self, from: Who, caller: &str, called: &str) {
        match self.random.below(6) {
            0 => self.push(from, format!("connect {caller} {called}")),
            1 => {
                self.push(from, format!("poll 0 out {caller}"));
                self.push(from, format!("get {caller} error"));
                self.push(from, format!("getpeername {caller}"));
            }
            2 => self.push(from, format!("get {caller} error")),
            _ => {}
        }
    }

    fn datagrams(&mut self, from: Who, to: Who, family: &str, bound: &str, called: &str) {
        let server = self.socket(to, "udp", family, Kind::Udp);
        if !self.random.percent(8) {
            self.push(to, format!("bind {server} {bound}"));
        }
        let client = self.socket(from, "udp", family, Kind::Udp);
        let word = self.fresh("word");
        if self.random.percent(60) {
            self.push(from, format!("connect {client} {called}"));
            self.push(from, format!("send {client} {word}"));
        } else {
            self.push(from, format!("sendto {client} {called} {word}"));
        }
        self.push(to, format!("recvfrom {server} 100 dontwait"));
    }

    fn socket(&mut self, who: Who, kind: &str, family: &str, named: Kind) -> String {
        let nonblock = if self.random.percent(65) { " nonblock" } else { "" };
        let letter = match named {
            Kind::Listener => "l",
            Kind::Udp => "u",
            Kind::Tcp | Kind::Set => "a",
        };
        let name = self.named(who, letter, named);
        self.write(who, format!("socket {name} {kind}{family}{nonblock}"));
        name
    }
}
