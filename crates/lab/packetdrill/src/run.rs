//! Plays a script: one event after the other, time going on from deadline to deadline in between.

use std::fmt;

use base::Nanos;

use crate::code::Names;
use crate::script::{Action, Event, Packet, Script, When};
use crate::settings::Settings;
use crate::syscalls::Calls;
use crate::testbed::{Frame, START, Testbed};
use crate::{code, inbound, outbound};

/// Why a script does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Line in the script, from 1.
    pub line: usize,
    /// What is wrong there.
    pub text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

impl std::error::Error for Failure {}

/// What may be left when a script ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Packets that the script does not mention, as packetdrill itself has it.
    Loose,
    /// Nothing: every packet that was sent is one that the script expects.
    Strict,
}

/// Plays `script`. Times may be off by `tolerance`, unless the script says by how much.
pub fn run(script: &Script, ending: Ending, tolerance: Nanos) -> Result<(), Failure> {
    let mut settings = Settings { tolerance, ..Settings::default() };
    for (name, value) in &script.options {
        settings.option(name, value);
    }
    for command in &script.setup {
        settings.command(command);
    }
    let testbed = Testbed::new(settings);
    let fail = |text: &str| Failure { line: 1, text: text.into() };
    let testbed = testbed.ok_or_else(|| fail("the addresses are of two versions"))?;
    let mut stage = Stage { testbed, calls: Calls::default(), names: Names::new() };
    for event in &script.events {
        stage.play(event).map_err(|text| Failure { line: event.line, text })?;
    }
    let line = script.events.last().map_or(1, |event| event.line);
    let end = stage.end(ending);
    end.map_err(|text| Failure { line, text })
}

struct Stage {
    testbed: Testbed,
    calls: Calls,
    names: Names,
}

/// Longer than that no script waits for a packet.
const TIMEOUT: Nanos = Nanos::from_secs(700);

impl Stage {
    fn play(&mut self, event: &Event) -> Result<(), String> {
        let When { is_relative, start, .. } = event.when;
        let base = if is_relative || event.when.is_any { self.testbed.now } else { START };
        if let Action::Expect(packet) = &event.action {
            return self.expect(packet, event.when, base);
        }
        let at = base + start;
        if at < self.testbed.now {
            return Err("this should have happened before".into());
        }
        self.wait_until(at);
        match &event.action {
            Action::Inject(packet) => {
                self.let_calls_return()?;
                for packet in inbound::cut(packet, self.testbed.settings.injected_max) {
                    let bytes = inbound::build(&packet, &self.testbed.key, &self.testbed.numbers);
                    self.testbed.inject(&bytes, inbound::ecn_bits(&packet));
                }
                self.settle();
                self.let_calls_return()
            }
            Action::Icmp(icmp) => {
                self.testbed.icmp(*icmp);
                self.settle();
                Ok(())
            }
            Action::Call(call) => {
                let returns = event.when.returns.map(|returns| base + returns);
                self.finish_call()?;
                self.calls.begin(&mut self.testbed, call, returns)?;
                self.settle();
                self.let_calls_return()
            }
            Action::Code(text) => {
                self.calls.describe(&self.testbed, &mut self.names);
                code::run(text, &mut self.names)
            }
            Action::Command(text) => {
                self.testbed.settings.command(text);
                Ok(())
            }
            Action::Expect(_) => Ok(()),
        }
    }

    /// Everything that follows from what has happened now.
    fn settle(&mut self) {
        self.testbed.turn();
        self.calls.hear(&mut self.testbed);
    }

    fn let_calls_return(&mut self) -> Result<(), String> {
        let done = self.calls.try_finish(&mut self.testbed)?;
        if done {
            self.settle();
        }
        Ok(())
    }

    /// One deadline on; false when there is none up to `until`.
    fn step(&mut self, until: Nanos) -> bool {
        match self.testbed.next_deadline() {
            Some(deadline) if deadline <= until => {
                self.testbed.now = self.testbed.now.max(deadline);
                self.settle();
                true
            }
            _ => false,
        }
    }

    fn wait_until(&mut self, at: Nanos) {
        while self.step(at) {
            // An error shows when the call is asked for.
            let _ = self.let_calls_return();
        }
        self.testbed.now = at;
        self.settle();
    }

    /// A call that blocks has to return before the next one begins.
    fn finish_call(&mut self) -> Result<(), String> {
        let until = self.testbed.now + TIMEOUT;
        while self.calls.is_blocked() {
            self.let_calls_return()?;
            if self.calls.is_blocked() && !self.step(until) {
                return Err("the call before never returns".into());
            }
        }
        Ok(())
    }

    fn expect(&mut self, expected: &Packet, when: When, base: Nanos) -> Result<(), String> {
        let until = self.testbed.now + TIMEOUT;
        let mut frames: Vec<Frame> = Vec::new();
        let mut merged: Option<Packet> = None;
        loop {
            self.let_calls_return()?;
            let Some(frame) = self.testbed.frames().pop_front() else {
                if self.step(until) {
                    continue;
                }
                let text = outbound::print(expected);
                let so_far = merged.map_or_else(String::new, |packet| {
                    format!(" after {}", outbound::print(&packet))
                });
                return Err(format!("`{text}` is never sent{so_far}"));
            };
            let packet = outbound::read(&frame, &self.testbed.numbers);
            let packet = packet.ok_or("what is sent has no header")?;
            if !outbound::is_genuine(&frame, &packet) {
                let text = outbound::print(&packet);
                return Err(format!("`{text}` carries other bytes than were written"));
            }
            frames.push(frame);
            let whole = match merged.take() {
                None => packet,
                Some(before) if before.start.wrapping_add(before.bytes) == packet.start => Packet {
                    start: before.start,
                    bytes: before.bytes + packet.bytes,
                    flags: before.flags & !wire::tcp::PSH | packet.flags,
                    ..packet
                },
                Some(before) => {
                    let (before, next) = (outbound::print(&before), outbound::print(&packet));
                    let at = frames.last().map_or(START, |frame| frame.at).since(START).0 / 1000;
                    return Err(format!("`{before}` is not continued by `{next}` at {at} us"));
                }
            };
            if whole.bytes < expected.bytes
                && whole.start == expected.start
                && !self.testbed.settings.strict_segments
            {
                merged = Some(whole);
                continue;
            }
            return self.compare(expected, &whole, &frames, when, base);
        }
    }

    fn compare(
        &mut self,
        expected: &Packet,
        actual: &Packet,
        frames: &[Frame],
        when: When,
        base: Nanos,
    ) -> Result<(), String> {
        let sent_at = frames.first().map_or(self.testbed.now, |frame| frame.at);
        let start = base + when.start;
        let end = when.range_end.map_or(start, |end| base + end);
        // As packetdrill has it: a hundredth of the time waited for may be off too.
        let tolerance = self.testbed.settings.tolerance.max(Nanos(end.since(base).0 / 100));
        let slack = self.testbed.settings.tolerance.max(Nanos(end.since(START).0 / 100));
        let slack = self.testbed.settings.has_stamps.then_some(slack);
        let is_full = self.calls.full_segment(&self.testbed) == Some(actual.bytes);
        let (count, numbers) = (frames.len(), &mut self.testbed.numbers);
        let what = outbound::difference(expected, actual, count, is_full, numbers, slack);
        if let Some(what) = what {
            let (expected, actual) = (outbound::print(expected), outbound::print(actual));
            return Err(format!("{what} differ: expected `{expected}`, sent was `{actual}`"));
        }
        let is_in_time = sent_at + tolerance >= start && sent_at <= end + tolerance;
        if !is_in_time && !when.is_any {
            let off = |at: Nanos| at.since(START).0 / 1000;
            return Err(format!("expected at {} us, sent at {} us", off(start), off(sent_at)));
        }
        Ok(())
    }

    fn end(&mut self, ending: Ending) -> Result<(), String> {
        self.let_calls_return()?;
        self.finish_call()?;
        if ending == Ending::Strict
            && let Some(frame) = self.testbed.frames().pop_front()
        {
            let packet = outbound::read(&frame, &self.testbed.numbers);
            let text = packet.map_or_else(String::new, |packet| outbound::print(&packet));
            return Err(format!("`{text}` was sent, and the script does not say so"));
        }
        Ok(())
    }
}
