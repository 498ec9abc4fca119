//! poll and epoll.

use super::{Blocks, Calls, Fails, Outcome, Returns};
use crate::script::{Call, Value};
use crate::socket::{Descriptor, Epoll, Watch};
use crate::testbed::Testbed;

/// The words of a mask; `events=0` has none.
fn words(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Words(words)) => words.clone(),
        _ => Vec::new(),
    }
}

fn sorted(mut words: Vec<String>) -> Vec<String> {
    words.sort();
    words
}

impl Calls {
    /// Which of the events that `wanted` names are there, in the same words.
    fn ready_words(
        &mut self,
        testbed: &Testbed,
        number: i64,
        wanted: &[String],
        prefix: &str,
    ) -> Result<Vec<String>, String> {
        let ready = self.socket(number)?.ready(testbed);
        let always = ["ERR", "HUP"];
        let is_wanted = |name: &&str| {
            always.contains(name) || wanted.iter().any(|word| *word == format!("{prefix}{name}"))
        };
        let ready = ready.iter().filter(|name| is_wanted(name));
        Ok(sorted(ready.map(|name| format!("{prefix}{name}")).collect()))
    }

    pub(super) fn poll(&mut self, testbed: &Testbed, call: &Call) -> Result<Outcome, String> {
        let Some(Value::List(entries)) = call.arguments.first() else {
            return Err("poll needs a list".into());
        };
        let mut count = 0;
        for entry in entries {
            let number = entry.field("fd").and_then(Value::number).unwrap_or(-1);
            let wanted = words(entry.field("events"));
            let ready = self.ready_words(testbed, number, &wanted, "POLL")?;
            count += i64::from(!ready.is_empty());
            let expected = sorted(words(entry.field("revents")));
            if !ready.is_empty() && ready != expected {
                return Err(format!("poll should find {expected:?}: {ready:?}"));
            }
        }
        let timeout = call.arguments.get(2).and_then(Value::number).unwrap_or(0);
        Ok(if count == 0 && timeout != 0 { Blocks } else { Returns(count) })
    }

    pub(super) fn epoll_create(&mut self, call: &Call) -> Result<Outcome, String> {
        let number = call.result.ok_or("a descriptor needs a number")?;
        self.descriptors.insert(number, Descriptor::Epoll(Epoll::default()));
        Ok(Returns(number))
    }

    pub(super) fn epoll_control(&mut self, number: i64, call: &Call) -> Result<Outcome, String> {
        let [_, operation, watched, what @ ..] = call.arguments.as_slice() else {
            return Err("epoll_ctl needs an operation and a descriptor".into());
        };
        let watched = watched.number().unwrap_or(-1);
        let events = words(what.first().and_then(|what| what.field("events")));
        let Some(Descriptor::Epoll(epoll)) = self.descriptors.get_mut(&number) else {
            return Ok(Fails("EBADF"));
        };
        if operation.has_word("EPOLL_CTL_DEL") {
            epoll.watched.remove(&watched);
        } else {
            epoll.watched.insert(watched, Watch { events, told: None });
        }
        Ok(Returns(0))
    }

    pub(super) fn epoll_wait(
        &mut self,
        testbed: &Testbed,
        number: i64,
        call: &Call,
    ) -> Result<Outcome, String> {
        let Some(Descriptor::Epoll(epoll)) = self.descriptors.get(&number) else {
            return Ok(Fails("EBADF"));
        };
        let mut epoll = epoll.clone();
        let expected = call.arguments.get(1);
        let mut count = 0;
        for (watched, watch) in &mut epoll.watched {
            let edges = self.socket(*watched)?.edges;
            let is_edge = watch.events.iter().any(|word| word == "EPOLLET");
            if is_edge && watch.told == Some(edges) {
                continue;
            }
            let ready = self.ready_words(testbed, *watched, &watch.events, "EPOLL")?;
            watch.told = Some(edges);
            if ready.is_empty() {
                continue;
            }
            count += 1;
            let expected = sorted(words(expected.and_then(|event| event.field("events"))));
            if ready != expected {
                return Err(format!("epoll_wait should find {expected:?}: {ready:?}"));
            }
        }
        self.descriptors.insert(number, Descriptor::Epoll(epoll));
        let timeout = call.arguments.get(3).and_then(Value::number).unwrap_or(0);
        Ok(if count == 0 && timeout != 0 { Blocks } else { Returns(count) })
    }
}
