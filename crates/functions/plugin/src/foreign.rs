//! shared-object: runs a function that was compiled elsewhere.
//!
//! WHAT IT DOES
//!   It loads a shared object that defines `calisto_function_1`, as `calisto_function.h` says, and
//!   hands it packets, up to 64 at once: those that come here, and if it wants those that are to
//!   leave. It judges and changes them. Its counters have the names that it gives them.
//!
//! PARAMETERS
//!   file               the shared object, relative to the chain's file. It is root's or of the
//!                      user who runs the chain, and nobody else may write it, or a
//!                      folder on the way to it
//!   arguments          texts that it is made of; what they mean is its own affair
//!
//! COUNTERS
//!   misbehaved         Packets of which the object said what makes no sense, dropped: a length
//!                      that has no room, or a verdict that there is none of
//!   The object's own stand beside it.
//!
//! STANDARDS
//!   Version 1 of the interface; an object of another one is refused.
//!
//! LIMITS
//!   The object is a part of the program: what it does wrong with memory nobody stops. An object
//!   that was loaded is not loaded again from the same path: a newer one needs another name. Do not
//!   write over one that is loaded: its code changes under the chain, which may end with that. It
//!   cannot put bytes before a packet. `calisto nf check` and `calisto nf trace` load it, too.

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use base::{BURST, ChecksumState, Nanos, PortId};
use calisto_nf::{EachNamed, Function, Own, Verdict, Verdicts};
use shm::{Batch, Frame};

use crate::error::NotLoaded;
use crate::layout::{DROP, NEXT, OUT, Packet, UNKNOWN, VERIFIED};
use crate::object::{Object, State};

/// A function of a shared object, for one slice.
pub struct Foreign {
    state: State,
    packets: Packets,
    misbehaved: u64,
    /// What the object had counted for those before it that it did not take over.
    before: Vec<u64>,
}

/// Packets as the object sees them, for the time of a call.
struct Packets(Box<[Packet; BURST]>);

// SAFETY: its pointers are written before each call and not looked at after it.
unsafe impl Send for Packets {}

impl Foreign {
    /// Loads an object and makes the function of one slice of its arguments.
    ///
    /// # Errors
    /// It cannot be loaded, is none, or does not want to.
    pub fn load(
        path: &Path,
        arguments: &[String],
        port: &dyn Fn(&str) -> Option<PortId>,
    ) -> Result<Self, NotLoaded> {
        let object = Arc::new(Object::load(path)?);
        let before = vec![0; object.counters.len()];
        let state = object.make(arguments, port)?;
        let packets = Packets(Box::new([Packet::NONE; BURST]));
        Ok(Self { state, packets, misbehaved: 0, before })
    }

    /// Shows the object what `wanted` chooses, and does what it says.
    #[inline]
    fn show(&mut self, is_leaving: bool, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos) {
        let mut places = [0; BURST];
        let mut count = 0;
        for (index, frame) in batch.iter_mut().enumerate() {
            let port = match (verdicts[index], is_leaving) {
                (Verdict::Next, false) => frame.meta().port,
                (Verdict::Out(port), true) => port,
                _ => continue,
            };
            calisto_nf::complete_checksum(frame);
            self.packets.0[count] = shown(frame, port, is_leaving);
            places[count] = index;
            count += 1;
        }
        if count == 0 {
            return;
        }
        let packets = &mut self.packets.0[..count];
        self.state.call(is_leaving, packets, now.0);
        for (packet, &index) in packets.iter().zip(&places) {
            let said = match (packet.verdict, is_leaving) {
                (NEXT, false) => Some(Verdict::Next),
                (OUT, false) => Some(Verdict::Out(PortId(packet.out))),
                (OUT, true) => Some(verdicts[index]),
                (DROP, _) => Some(Verdict::Drop),
                _ => None,
            };
            let has_room = batch[index].set_len(packet.len as usize);
            verdicts[index] = said.filter(|_| has_room).unwrap_or_else(|| {
                self.misbehaved += 1;
                Verdict::Drop
            });
        }
    }
}

#[inline]
fn shown(frame: &mut Frame, port: PortId, is_leaving: bool) -> Packet {
    let (len, room, meta) = (frame.len(), frame.room(), *frame.meta());
    // So that all of the room is behind the pointer.
    let has_room = frame.set_len(room);
    let data = frame.bytes_mut().as_mut_ptr();
    let is_as_before = frame.set_len(len);
    debug_assert!(has_room && is_as_before, "the room is what there is, and it was as long");
    Packet {
        data,
        len: len as u32,
        room: room as u32,
        received_ns: meta.received_at.0,
        port: port.0,
        out: port.0,
        vlan: meta.vlan_tci,
        verdict: if is_leaving { OUT } else { NEXT },
        checksum: if meta.checksum == ChecksumState::Verified { VERIFIED } else { UNKNOWN },
    }
}

impl Function for Foreign {
    fn name(&self) -> &'static str {
        "shared-object"
    }

    fn process(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos) {
        self.show(false, batch, verdicts, now);
    }

    fn leave(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos) {
        if self.state.has_leave() {
            self.show(true, batch, verdicts, now);
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, &'static str, u64)) {
        let help = "Packets of which the object said what makes no sense, dropped.";
        each("misbehaved", help, self.misbehaved);
    }

    fn named_counters(&self, each: EachNamed<'_>) {
        let values = self.state.read();
        let names = self.state.object().counters.iter();
        for (((name, help), value), before) in names.zip(values).zip(&self.before) {
            each(name, help, value.wrapping_add(*before));
        }
    }
}

impl Own for Foreign {
    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        self.misbehaved = before.misbehaved;
        // Of another object nothing is known but what its counters are called.
        if self.state.object().counters != before.state.object().counters {
            return;
        }
        self.before.clone_from(&before.before);
        let is_same = self.state.object().is(before.state.object());
        if !is_same || !self.state.take_over(&mut before.state) {
            let counted = before.state.read();
            self.before.iter_mut().zip(counted).for_each(|(sum, value)| *sum += value);
        }
    }

    fn makes_packets(&self) -> bool {
        true
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Foreign").field("misbehaved", &self.misbehaved).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
