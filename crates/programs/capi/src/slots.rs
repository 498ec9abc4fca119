//! The frames that are with C, each under a number that is never used twice.

use calisto_client::Frame;

/// Frames by handle. A handle that was used up, was never given, or is another worker's finds
/// nothing.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    /// Counts its uses; the upper half of the handle. Never zero, so no handle is.
    turn: u32,
    frame: Option<Frame>,
}

impl Slots {
    /// Room for `count` frames; `first_turn` tells the handles of workers apart.
    pub(crate) fn new(count: usize, first_turn: u32) -> Self {
        let slots = (0..count).map(|_| Slot { turn: first_turn.max(1), frame: None }).collect();
        Self { slots, free: (0..count as u32).rev().collect() }
    }

    /// Keeps a frame; its handle. Gives it back when there is no room, which cannot be while
    /// there are as many slots as frames.
    pub(crate) fn put(&mut self, frame: Frame) -> Result<u64, Frame> {
        let Some(index) = self.free.pop() else { return Err(frame) };
        let slot = &mut self.slots[index as usize];
        slot.frame = Some(frame);
        Ok(u64::from(slot.turn) << 32 | u64::from(index))
    }

    /// The frame of a handle.
    pub(crate) fn get(&mut self, handle: u64) -> Option<&mut Frame> {
        self.slot(handle)?.frame.as_mut()
    }

    /// Takes the frame of a handle, which means nothing afterwards.
    pub(crate) fn take(&mut self, handle: u64) -> Option<Frame> {
        let slot = self.slot(handle)?;
        let frame = slot.frame.take()?;
        slot.turn = slot.turn.wrapping_add(1).max(1);
        self.free.push(handle as u32);
        Some(frame)
    }

    fn slot(&mut self, handle: u64) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(handle as u32 as usize)?;
        (u64::from(slot.turn) == handle >> 32).then_some(slot)
    }

    /// Takes every frame.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Frame> {
        self.slots.iter_mut().filter_map(|slot| slot.frame.take())
    }
}
