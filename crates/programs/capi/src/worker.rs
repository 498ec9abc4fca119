//! Receiving, answering, sending.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use calisto_client::{Batch, Detached, Worker, reply};

use crate::failure::{CALISTO_BUSY, CALISTO_NOT_UDP, Failure, call};
use crate::packet::CalistoPacket;
use crate::slots::Slots;

/// A worker: one thread's share of an application.
#[derive(Debug)]
pub struct CalistoWorker {
    /// A call for it is under way.
    busy: AtomicBool,
    inner: UnsafeCell<Inner>,
}

// SAFETY: `inner` is reached only between a successful swap of `busy` and its reset, so by one
// thread at a time, and what it holds is `Send`.
unsafe impl Sync for CalistoWorker {}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) worker: Worker,
    slots: Slots,
}

impl CalistoWorker {
    pub(crate) fn new(worker: Worker, index: u32) -> Self {
        let slots = Slots::new(worker.frames_max(), (index + 1) << 25);
        Self { busy: AtomicBool::new(false), inner: UnsafeCell::new(Inner { worker, slots }) }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Self { worker, slots } = self;
        let mut batch = Batch::new();
        for frame in slots.drain() {
            batch.push(frame);
            // A frame that does not go back keeps memory mapped, which is all the harm.
            let _ = worker.done(&mut batch);
            batch.clear();
        }
    }
}

/// Resets `busy` also when the body panics.
struct Turn<'a>(&'a AtomicBool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Runs a call for a worker, alone.
///
/// # Safety
/// `worker` is null, or is one of an application that is attached.
pub(crate) unsafe fn with(
    worker: *mut CalistoWorker,
    body: impl FnOnce(&mut Inner) -> Result<c_int, Failure>,
) -> c_int {
    call(|| {
        // SAFETY: the caller says so.
        let worker = unsafe { worker.as_ref() };
        let worker = worker.ok_or_else(|| Failure::invalid("the worker is null"))?;
        if worker.busy.swap(true, Ordering::Acquire) {
            let text = "another thread is in a call for this worker: give each thread its own";
            return Err(Failure { code: CALISTO_BUSY, errno: 0, text: text.to_owned() });
        }
        let _turn = Turn(&worker.busy);
        // SAFETY: `busy` was false and is true now, so nobody else has it until `_turn` drops.
        body(unsafe { &mut *worker.inner.get() })
    })
}

/// The packets of an array of C.
///
/// # Safety
/// `packets` is null, or `count` of them can be read and written until the call ends.
unsafe fn array<'a>(
    packets: *mut CalistoPacket,
    count: u32,
) -> Result<&'a mut [CalistoPacket], Failure> {
    if packets.is_null() && count > 0 {
        return Err(Failure::invalid("the array of packets is null"));
    }
    if count == 0 {
        return Ok(&mut []);
    }
    // SAFETY: it is not null, and the caller says the rest.
    Ok(unsafe { std::slice::from_raw_parts_mut(packets, count as usize) })
}

/// Receives up to `max` packets into `packets`; never waits. Returns how many, or a negative
/// number. What was given back before is shown to the daemon, as by calisto_flush. Give every
/// packet back soon, with calisto_send or calisto_done: flows that are to move to another worker
/// wait for it.
///
/// # Safety
/// `worker` came from calisto_worker and its application was not detached, or is null; `packets`
/// has room for `max`. The content of the array does not matter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_receive(
    worker: *mut CalistoWorker,
    packets: *mut CalistoPacket,
    max: u32,
) -> c_int {
    let receive = |inner: &mut Inner| {
        if packets.is_null() && max > 0 {
            return Err(Failure::invalid("calisto_receive: the array of packets is null"));
        }
        let max = (max as usize).min(c_int::MAX as usize);
        let mut count = 0;
        while count < max {
            let mut batch = Batch::new();
            match inner.worker.receive_up_to(&mut batch, max - count) {
                Ok(0) => break,
                Ok(_) => {}
                // What came before it is still good; the next call says it.
                Err(_) if count > 0 => break,
                Err(detached) => return Err(detached.into()),
            }
            for frame in batch {
                if let Some(packet) = keep(&mut inner.slots, frame) {
                    // SAFETY: `count < max`, and the caller says that there are that many.
                    unsafe { packets.add(count).write(packet) };
                    count += 1;
                }
            }
        }
        Ok(count as c_int)
    };
    // SAFETY: as the caller says.
    unsafe { with(worker, receive) }
}

/// Puts a frame into a slot and describes it.
fn keep(slots: &mut Slots, frame: calisto_client::Frame) -> Option<CalistoPacket> {
    // There is a slot for each frame that can be out.
    let handle = slots.put(frame).ok()?;
    slots.get(handle).map(|frame| CalistoPacket::of(frame, handle))
}

fn gone() -> Failure {
    Failure::invalid("a packet is not with this worker: it was given back, or is another worker's")
}

/// Has the first packets of the array sent, as many as the ring to the daemon has room for. Returns
/// how many; the rest stays with the application: offer it again. A packet that is wrong ends the
/// call before it, and is an error when it is the first. calisto_flush shows them to the daemon.
///
/// # Safety
/// As for calisto_receive, with `count` packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_send(
    worker: *mut CalistoWorker,
    packets: *mut CalistoPacket,
    count: u32,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { give(worker, packets, count, Worker::send) }
}

/// Gives the first packets of the array back unsent, as many as the ring to the daemon has room
/// for. As calisto_send otherwise.
///
/// # Safety
/// As for calisto_send.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_done(
    worker: *mut CalistoWorker,
    packets: *mut CalistoPacket,
    count: u32,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { give(worker, packets, count, Worker::done) }
}

/// # Safety
/// As for calisto_send.
unsafe fn give(
    worker: *mut CalistoWorker,
    packets: *mut CalistoPacket,
    count: u32,
    how: fn(&mut Worker, &mut Batch) -> Result<usize, Detached>,
) -> c_int {
    let give = |inner: &mut Inner| {
        let count = count.min(c_int::MAX as u32);
        // SAFETY: as the caller says.
        let packets = unsafe { array(packets, count) }?;
        if packets.is_empty() {
            // A loop that only sends is told of the end too.
            how(&mut inner.worker, &mut Batch::new())?;
        }
        let mut given = 0;
        let mut batch = Batch::new();
        for packet in packets {
            match give_one(inner, packet, &mut batch, how) {
                Ok(true) => given += 1,
                Ok(false) => break,
                Err(_) if given > 0 => break,
                Err(failure) => return Err(failure),
            }
        }
        Ok(given)
    };
    // SAFETY: as the caller says.
    unsafe { with(worker, give) }
}

/// Gives one packet back; false, and the packet as it was, when there is no room.
fn give_one(
    inner: &mut Inner,
    packet: &mut CalistoPacket,
    batch: &mut Batch,
    how: fn(&mut Worker, &mut Batch) -> Result<usize, Detached>,
) -> Result<bool, Failure> {
    let frame = inner.slots.get(packet.handle).ok_or_else(gone)?;
    packet.apply(frame)?;
    batch.extend(inner.slots.take(packet.handle));
    let result = how(&mut inner.worker, batch);
    *packet = match batch.pop() {
        Some(frame) => keep(&mut inner.slots, frame).unwrap_or(CalistoPacket::NONE),
        None => CalistoPacket::NONE,
    };
    Ok(result? == 1)
}

/// Stores an empty packet in `*packet`, for one that answers nothing: write it, set `len` and
/// `port`, and send it. Returns 1, or 0 while all are under way, or a negative number.
///
/// # Safety
/// As for calisto_receive, with one packet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_take(
    worker: *mut CalistoWorker,
    packet: *mut CalistoPacket,
) -> c_int {
    let take = |inner: &mut Inner| {
        if packet.is_null() {
            return Err(Failure::invalid("calisto_take: `packet` is null"));
        }
        let taken = inner.worker.take().and_then(|frame| keep(&mut inner.slots, frame));
        // SAFETY: it is not null, and the caller says that it can be written.
        unsafe { packet.write(taken.unwrap_or(CalistoPacket::NONE)) };
        Ok(c_int::from(taken.is_some()))
    };
    // SAFETY: as the caller says.
    unsafe { with(worker, take) }
}

/// Turns a received UDP packet around in place: addresses and ports change places, and both
/// checksums are computed anew. `payload` (`payload_len` bytes, not in the packet itself) replaces
/// what it carried; null keeps that. Returns 0 (send it then), or CALISTO_NOT_UDP (give it back
/// then), or another negative number.
///
/// # Safety
/// As for calisto_receive, with one packet; `payload` can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_reply(
    worker: *mut CalistoWorker,
    packet: *mut CalistoPacket,
    payload: *const u8,
    payload_len: u32,
) -> c_int {
    let turn = |inner: &mut Inner| {
        // SAFETY: the caller says that it can be read and written, if it is not null.
        let packet = unsafe { packet.as_mut() };
        let packet = packet.ok_or_else(|| Failure::invalid("calisto_reply: `packet` is null"))?;
        let frame = inner.slots.get(packet.handle).ok_or_else(gone)?;
        packet.apply(frame)?;
        let is_answered = if payload.is_null() {
            reply::turn_around(frame)
        } else {
            // SAFETY: the caller says that that many bytes can be read, none of them in the packet.
            let payload = unsafe { std::slice::from_raw_parts(payload, payload_len as usize) };
            reply::turn_around_with(frame, payload)
        };
        if !is_answered {
            let text = "no UDP packet that can be answered, or the answer has no room in it";
            return Err(Failure { code: CALISTO_NOT_UDP, errno: 0, text: text.to_owned() });
        }
        *packet = CalistoPacket::of(frame, packet.handle);
        Ok(0)
    };
    // SAFETY: as the caller says.
    unsafe { with(worker, turn) }
}
