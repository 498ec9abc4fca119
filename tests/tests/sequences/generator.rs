//! From a seed to a script: connections and datagrams in their usual order, with calls between them
//! that are legal and not usual.

mod scene;
mod templates;

use crate::script::{Script, Step, Who};
use whole::Random;

use templates::{BESIDE, EVENTS, EXTRA, FLAGS_IN, FLAGS_OUT, OPTIONS, PARTS};

/// Longer scripts find no more in the same time.
const EXTRAS_MAX: usize = 14;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tcp,
    Listener,
    Udp,
    Set,
}

/// A descriptor that a player should have by now.
#[derive(Clone, Debug)]
struct Name {
    who: Who,
    name: String,
    kind: Kind,
}

/// A script that is being written.
struct Writer {
    random: Random,
    steps: Vec<Step>,
    names: Vec<Name>,
    /// Addresses that something may be at.
    addresses: Vec<String>,
    /// Threads that sleep in a call.
    sleepers: Vec<(Who, String)>,
    has_child: bool,
    fresh: u32,
}

/// The script of a seed.
pub(crate) fn script(seed: u64) -> Script {
    let mut writer = Writer {
        random: Random::new(seed),
        steps: Vec::new(),
        names: Vec::new(),
        addresses: Vec::new(),
        sleepers: Vec::new(),
        has_child: false,
        fresh: 0,
    };
    writer.scene();
    if writer.random.percent(20) {
        writer.scene();
    }
    for _ in 0..2 + writer.random.below(EXTRAS_MAX) {
        writer.extra();
    }
    writer.last_looks();
    Script(writer.steps)
}

impl Writer {
    /// A line of the scene, and sometimes something before it.
    fn push(&mut self, who: Who, call: impl Into<String>) {
        while self.random.percent(30) {
            self.extra();
        }
        self.write(who, call);
    }

    fn write(&mut self, who: Who, call: impl Into<String>) {
        self.steps.push(Step::new(who, call));
    }

    fn fresh(&mut self, letter: &str) -> String {
        self.fresh += 1;
        format!("{letter}{}", self.fresh)
    }

    fn named(&mut self, who: Who, letter: &str, kind: Kind) -> String {
        let name = self.fresh(letter);
        self.names.push(Name { who, name: name.clone(), kind });
        name
    }

    /// Any call on any descriptor, mostly one of the programs under test.
    fn extra(&mut self) {
        if self.names.is_empty() {
            return;
        }
        let mut one = self.random.below(self.names.len());
        if self.names[one].who == Who::There && self.random.percent(60) {
            one = self.random.below(self.names.len());
        }
        let Name { who, name, kind } = self.names[one].clone();
        let all: Vec<&str> = EXTRA
            .iter()
            .filter(|(kinds, _)| kinds.contains(&kind))
            .flat_map(|(_, calls)| *calls)
            .copied()
            .collect();
        let template = *self.random.pick(&all);
        // The peer's own kernel is not under test.
        if who == Who::There && templates::is_about_the_process(template) {
            return;
        }
        for line in template.split("; ") {
            let line = self.filled(line, who, &name, kind);
            self.play(who, &name, line);
        }
    }

    /// A line of a template; what it changes of who has which names.
    fn play(&mut self, who: Who, name: &str, line: String) {
        if line == "fork" {
            self.has_child |= who == Who::Here;
        } else if line.starts_with("close") && !self.has_child {
            self.names.retain(|one| one.name != name);
        }
        let (who, line) = match line.strip_prefix("beside: ") {
            Some(line) => (Who::Beside, line.to_owned()),
            None => (who, line),
        };
        let is_childs = self.has_child && who == Who::Here && self.random.percent(25);
        let stays = ["fork", "start", "join", "give", "take", "child"];
        match is_childs && !stays.iter().any(|word| line.starts_with(word)) {
            true => self.write(who, format!("child {line}")),
            false => self.write(who, line),
        }
    }

    /// Fills the words in braces.
    fn filled(&mut self, template: &str, who: Who, name: &str, kind: Kind) -> String {
        let words: Vec<String> = template
            .split(' ')
            .map(|word| match word {
                "{a}" => name.to_owned(),
                "{text}" => self.text(),
                "{n}" => self.random.pick(&["1", "2", "5", "100", "20000"]).to_string(),
                "{events}" => self.random.pick(EVENTS).to_string(),
                "{out}" => self.random.pick(FLAGS_OUT).to_string(),
                "{in}" => self.random.pick(FLAGS_IN).to_string(),
                "{parts}" => self.random.pick(PARTS).to_string(),
                "{beside}" => self.random.pick(BESIDE).to_string(),
                "{option}" => self.random.pick(OPTIONS).to_string(),
                "{address}" => self.address(),
                "{set}" => self.set_of(who),
                "{other}" => self.other_of(who, name),
                "{copy}" => self.named(who, "d", kind),
                "{accepted}" => self.named(who, "c", Kind::Tcp),
                "{passed}" => self.named(Who::Beside, "g", kind),
                "{thread}" => self.thread(who),
                "{sleeping}" => self.sleeping(who),
                _ => word.to_owned(),
            })
            .collect();
        words.join(" ").trim_end().to_owned()
    }

    fn text(&mut self) -> String {
        match self.random.below(5) {
            0 => format!("k*{}", self.random.pick(&[100, 1448, 3000, 9000])),
            1 => "x".to_owned(),
            _ => self.fresh("word"),
        }
    }

    fn address(&mut self) -> String {
        match self.addresses.is_empty() || self.random.percent(5) {
            true => "lo:p4".to_owned(),
            false => self.random.pick(&self.addresses).clone(),
        }
    }

    /// A set of this player; a new one if it has none, or sometimes.
    fn set_of(&mut self, who: Who) -> String {
        let of_who = |one: &&Name| one.who == who && one.kind == Kind::Set;
        let sets: Vec<String> =
            self.names.iter().filter(of_who).map(|one| one.name.clone()).collect();
        if !sets.is_empty() && self.random.percent(85) {
            return self.random.pick(&sets).clone();
        }
        let name = self.named(who, "e", Kind::Set);
        self.write(who, format!("epoll {name}"));
        name
    }

    fn other_of(&mut self, who: Who, name: &str) -> String {
        let fits = |one: &&Name| one.who == who && one.kind != Kind::Set;
        let others: Vec<String> =
            self.names.iter().filter(fits).map(|one| one.name.clone()).collect();
        if others.is_empty() { name.to_owned() } else { self.random.pick(&others).clone() }
    }

    fn thread(&mut self, who: Who) -> String {
        let name = self.fresh("t");
        self.sleepers.push((who, name.clone()));
        name
    }

    fn sleeping(&mut self, who: Who) -> String {
        match self.sleepers.iter().position(|(whose, _)| *whose == who) {
            Some(at) => self.sleepers.remove(at).1,
            None => "nobody".to_owned(),
        }
    }

    /// What came of it all, as everyone sees it.
    fn last_looks(&mut self) {
        for (who, name) in std::mem::take(&mut self.sleepers) {
            self.write(who, format!("join {name}"));
        }
        let names = self.names.clone();
        for Name { who, name, kind } in names.clone() {
            if kind == Kind::Set {
                self.write(who, format!("wait {name} 0"));
                continue;
            }
            self.write(who, format!("poll 0 in,out,pri,rdhup {name}"));
            if self.random.percent(40) && kind != Kind::Listener {
                self.write(who, format!("recv {name} 20000 dontwait"));
            }
            for look in ["getsockname", "getpeername"] {
                if self.random.percent(25) {
                    self.write(who, format!("{look} {name}"));
                }
            }
        }
        // Nothing comes after it: how much has gone cannot be compared.
        let ours = |one: &&Name| one.kind == Kind::Tcp && one.who != Who::There;
        if let Some(Name { who, name, .. }) = names.iter().find(ours)
            && self.random.percent(5)
        {
            self.write(*who, format!("overfill {name}"));
        }
    }
}
