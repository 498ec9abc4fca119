//! Slices: a queue of every NIC, some CPUs, their memory; without the daemon.

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use base::BURST;
use calisto_client::{Batch, Frame, Nanos};
use calisto_slice::{Slice, SliceError, SliceSpec};
use port::PortSpec;
use sys::cpu_set::BadCpuList;

use crate::failure::{CALISTO_BUSY, CALISTO_INVALID, CALISTO_SYSTEM, Failure, call};
use crate::session::{release, store, text};
use crate::slice_packet::CalistoSlicePacket;
use crate::slots::Slots;

/// What a slice is to be made of. Set all of it to zero first: zero means the default.
#[repr(C)]
#[derive(Debug)]
pub struct CalistoSliceOptions {
    /// Its ports with blanks between, such as "xdp:eth0@1 xdp:eth1@1": queue 1 of both. Queue 0 may
    /// be left out. The kernel's packet sockets instead of AF_XDP: "af_packet:eth0".
    pub ports: *const c_char,
    /// The CPUs that its thread is to run on, such as "2-3"; null: wherever it is.
    pub cpus: *const c_char,
    /// Which packets it takes, as tcpdump would say it, such as "udp port 53"; null: all of its
    /// queues. What it does not take is the kernel's.
    pub filter: *const c_char,
    /// What people call it; null: "slice".
    pub name: *const c_char,
    /// Buffers that its ports share; 0: 4096 for each port.
    pub frames: u32,
    /// Bytes of a buffer, 2048 or 4096; 0: 4096.
    pub frame_bytes: u32,
    /// Zero.
    pub reserved: [u64; 4],
}

/// A slice. One thread at a time is in a call for it.
#[derive(Debug)]
pub struct CalistoSlice {
    /// A call for it is under way.
    busy: AtomicBool,
    inner: UnsafeCell<Inner>,
}

// SAFETY: `inner` is reached only between a successful swap of `busy` and its reset, so by one
// thread at a time, and what it holds is `Send`.
unsafe impl Sync for CalistoSlice {}

pub(crate) struct Inner {
    pub(crate) slice: Slice,
    slots: Slots,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("slice", &self.slice.name()).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Self { slice, slots } = self;
        slots.drain().for_each(|frame| slice.pool().give(frame));
    }
}

impl From<SliceError> for Failure {
    fn from(error: SliceError) -> Self {
        let code = match error {
            SliceError::Port { .. } | SliceError::Sys(_) => CALISTO_SYSTEM,
            _ => CALISTO_INVALID,
        };
        Self { code, errno: 0, text: error.to_string() }
    }
}

/// Resets `busy` also when the body panics.
struct Turn<'a>(&'a AtomicBool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Runs a call for a slice, alone.
///
/// # Safety
/// `slice` is null, or came from calisto_slice_open and was not closed.
pub(crate) unsafe fn with(
    slice: *mut CalistoSlice,
    body: impl FnOnce(&mut Inner) -> Result<c_int, Failure>,
) -> c_int {
    call(|| {
        // SAFETY: the caller says so.
        let slice = unsafe { slice.as_ref() };
        let slice = slice.ok_or_else(|| Failure::invalid("the slice is null"))?;
        if slice.busy.swap(true, Ordering::Acquire) {
            let text = "another thread is in a call for this slice: give each thread its own";
            return Err(Failure { code: CALISTO_BUSY, errno: 0, text: text.to_owned() });
        }
        let _turn = Turn(&slice.busy);
        // SAFETY: `busy` was false and is true now, so nobody else has it until `_turn` drops.
        body(unsafe { &mut *slice.inner.get() })
    })
}

/// Opens a slice and stores it in `*slice`. Returns 0, or a negative number (then `*slice` is null
/// and calisto_error(NULL) says why). Needs no daemon; its queues are its alone until it is closed.
///
/// # Safety
/// `options` and what it points to can be read, and `slice` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_slice_open(
    options: *const CalistoSliceOptions,
    slice: *mut *mut CalistoSlice,
) -> c_int {
    call(|| {
        // SAFETY: the caller says that it can be read, if it is not null.
        let options = unsafe { options.as_ref() };
        let options =
            options.ok_or_else(|| Failure::invalid("calisto_slice_open: `options` is null"))?;
        // SAFETY: the caller says so of what it points to as well.
        let spec = unsafe { read(options) }?;
        let make = || {
            let slice = Slice::open(&spec)?;
            let slots = Slots::new(spec.frames as usize, 1);
            let inner = UnsafeCell::new(Inner { slice, slots });
            Ok(CalistoSlice { busy: AtomicBool::new(false), inner })
        };
        // SAFETY: the caller says that it can be written.
        unsafe { store(slice, make) }
    })
}

/// # Safety
/// What `options` points to can be read.
unsafe fn read(options: &CalistoSliceOptions) -> Result<SliceSpec, Failure> {
    if options.reserved != [0; 4] {
        return Err(Failure::invalid("calisto_slice_open: set the reserved fields to zero"));
    }
    // SAFETY: as the caller says.
    let ports = unsafe { text(options.ports) }?
        .ok_or_else(|| Failure::invalid("calisto_slice_open: `ports` is null"))?;
    let ports: Result<Vec<PortSpec>, _> = ports.split_whitespace().map(str::parse).collect();
    let ports = ports.map_err(|error| Failure::invalid(&error.to_string()))?;
    // SAFETY: as the caller says.
    let mut spec = SliceSpec::new(unsafe { text(options.name) }?.unwrap_or("slice"), ports);
    // SAFETY: as the caller says.
    if let Some(cpus) = unsafe { text(options.cpus) }? {
        let bad = |error: BadCpuList| Failure::invalid(&error.to_string());
        spec.cpus = cpus.parse().map_err(bad)?;
    }
    // SAFETY: as the caller says.
    spec.filter = unsafe { text(options.filter) }?.map(str::to_owned);
    if options.frames > 0 {
        spec.frames = options.frames;
    }
    if options.frame_bytes > 0 {
        spec.frame_bytes = options.frame_bytes;
    }
    Ok(spec)
}

/// Reads up to `max` packets into `packets`, from every port in turn. When there is none it waits,
/// `timeout_ns` nanoseconds at most (CALISTO_FOREVER: without end; 0: not at all). Returns how
/// many, or a negative number; 0 also when a signal came. Every packet must be written again, if
/// only to be skipped: the slice has `frames` buffers and no more.
///
/// # Safety
/// `slice` came from calisto_slice_open and was not closed, or is null; `packets` has room for
/// `max`. The content of the array does not matter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_slice_read_multi(
    slice: *mut CalistoSlice,
    packets: *mut CalistoSlicePacket,
    max: u32,
    timeout_ns: u64,
) -> c_int {
    let read = |inner: &mut Inner| {
        if packets.is_null() && max > 0 {
            return Err(Failure::invalid("calisto_slice_read_multi: the array is null"));
        }
        let max = (max as usize).min(c_int::MAX as usize);
        let mut count = read_now(inner, packets, max);
        if count == 0 && max > 0 && timeout_ns > 0 {
            inner.slice.wait(Nanos(timeout_ns));
            count = read_now(inner, packets, max);
        }
        Ok(count as c_int)
    };
    // SAFETY: as the caller says.
    unsafe { with(slice, read) }
}

/// Reads what is there into the first `max` places of `packets`, which can be written; how many.
fn read_now(inner: &mut Inner, packets: *mut CalistoSlicePacket, max: usize) -> usize {
    let now = sys::clock::now();
    let mut count = 0;
    while count < max {
        let mut batch = Batch::new();
        if inner.slice.read_up_to(&mut batch, max - count, now) == 0 {
            break;
        }
        for frame in batch {
            if let Some(packet) = keep(inner, frame, CalistoSlicePacket::of) {
                // SAFETY: `count < max`, and the callers' caller says that there are that many.
                unsafe { packets.add(count).write(packet) };
                count += 1;
            }
        }
    }
    count
}

/// Puts a frame into a slot and describes it.
fn keep(
    inner: &mut Inner,
    frame: Frame,
    describe: impl FnOnce(&mut Frame, u64) -> CalistoSlicePacket,
) -> Option<CalistoSlicePacket> {
    // There is a slot for each frame of the slice.
    let handle = inner.slots.put(frame).ok()?;
    inner.slots.get(handle).map(|frame| describe(frame, handle))
}

/// Sends each packet of the array by the port that it names, or takes it back unsent if its flags
/// say CALISTO_SLICE_SKIP. Returns how many were taken, or a negative number. The others, for which
/// a port had no room, are moved to the front of the array: write them again, or skip them. Packets
/// to one port keep their order.
///
/// A packet that is wrong (too long, of another slice) is an error, and none is taken.
///
/// # Safety
/// As for calisto_slice_read_multi, with `count` packets that it has given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_slice_write_multi(
    slice: *mut CalistoSlice,
    packets: *mut CalistoSlicePacket,
    count: u32,
) -> c_int {
    let write = |inner: &mut Inner| {
        if packets.is_null() && count > 0 {
            return Err(Failure::invalid("calisto_slice_write_multi: the array is null"));
        }
        let packets = if count == 0 {
            inner.slice.flush(sys::clock::now());
            &mut []
        } else {
            let count = (count as usize).min(c_int::MAX as usize);
            // SAFETY: it is not null, and the caller says the rest.
            unsafe { std::slice::from_raw_parts_mut(packets, count) }
        };
        check(inner, packets)?;
        Ok(write_all(inner, packets) as c_int)
    };
    // SAFETY: as the caller says.
    unsafe { with(slice, write) }
}

/// Puts what C has changed into the frames, or says which packet is wrong.
fn check(inner: &mut Inner, packets: &[CalistoSlicePacket]) -> Result<(), Failure> {
    for packet in packets {
        let frame = inner.slots.get(packet.handle).ok_or_else(|| {
            Failure::invalid("a packet is not with this slice: it was taken, or is another slice's")
        })?;
        packet.apply(frame)?;
    }
    Ok(())
}

/// Writes checked packets and moves those that stay to the front; how many were taken.
fn write_all(inner: &mut Inner, packets: &mut [CalistoSlicePacket]) -> usize {
    let now = sys::clock::now();
    let mut at = 0;
    while at < packets.len() {
        let (first, mut batch) = (at, Batch::new());
        while at < packets.len() && !batch.is_full() {
            batch.extend(inner.slots.take(packets[at].handle));
            at += 1;
        }
        inner.slice.write_multi(&mut batch, now);
        if !batch.is_empty() {
            // What follows a packet without room must not overtake it.
            let left = put_back(inner, batch, &mut packets[first..at]);
            packets.copy_within(at.., first + left);
            return keep_front(packets, first, left + packets.len() - at);
        }
    }
    keep_front(packets, 0, 0)
}

/// Describes what was not taken of `written` at its front; how many.
fn put_back(inner: &mut Inner, batch: Batch, written: &mut [CalistoSlicePacket]) -> usize {
    let mut stays = [CalistoSlicePacket::NONE; BURST];
    let mut left = 0;
    for frame in batch {
        let data = frame.bytes().as_ptr();
        let before = written.iter().find(|packet| packet.data.cast_const() == data);
        let before = before.copied().unwrap_or(CalistoSlicePacket::NONE);
        if let Some(packet) = keep(inner, frame, |frame, handle| before.again(frame, handle)) {
            stays[left] = packet;
            left += 1;
        }
    }
    written[..left].copy_from_slice(&stays[..left]);
    left
}

/// Moves `left` packets at `from` to the front, and empties the rest; how many that is.
fn keep_front(packets: &mut [CalistoSlicePacket], from: usize, left: usize) -> usize {
    packets.copy_within(from..from + left, 0);
    packets[left..].fill(CalistoSlicePacket::NONE);
    packets.len() - left
}

/// Closes the slice: its queues are the kernel's again, packets that were not written are lost. No
/// other thread may be in a call for it, and nothing of it may be used afterwards. Null does
/// nothing.
///
/// # Safety
/// As for calisto_slice_read_multi, and as said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_slice_close(slice: *mut CalistoSlice) {
    // SAFETY: as the caller says.
    unsafe { release(slice) };
}
