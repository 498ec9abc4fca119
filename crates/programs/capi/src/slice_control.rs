//! What a slice is asked besides packets: its CPUs, its filter, its counters, its descriptor.

use std::ffi::{c_char, c_int};
use std::os::fd::AsRawFd;

use calisto_slice::SliceCounters;
use port::{Filter, Port};
use sys::cpu_set::{BadCpuList, CpuSet};

use crate::failure::Failure;
use crate::session::text;
use crate::slices::{CalistoSlice, Inner, with};

/// A number that a slice or one of its ports has counted.
#[repr(C)]
#[derive(Debug)]
pub struct CalistoSliceCounter {
    /// What is counted, such as "read" or "rx_packets".
    pub name: [c_char; 32],
    /// The same as a sentence.
    pub help: [c_char; 128],
    /// How many.
    pub value: u64,
}

/// Lets the calling thread, which is to be the slice's own, run on the slice's CPUs only. Returns
/// 0, or a negative number.
///
/// # Safety
/// `slice` came from calisto_slice_open and was not closed, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_slice_pin(slice: *mut CalistoSlice) -> c_int {
    let pin = |inner: &mut Inner| {
        inner.slice.pin()?;
        Ok(0)
    };
    // SAFETY: as the caller says.
    unsafe { with(slice, pin) }
}

/// Writes the CPUs of the slice's two halves as text, such as "2-3": those of its thread to `user`,
/// and to `kernel` where the kernel works for port `port`, in words. Either may be null. Each has
/// `bytes` bytes; what has no room is cut. Returns 0, or a negative number.
///
/// # Safety
/// As for calisto_slice_pin; `user` and `kernel` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_slice_get_cpus(
    slice: *mut CalistoSlice,
    port: u32,
    user: *mut c_char,
    kernel: *mut c_char,
    bytes: usize,
) -> c_int {
    let get = |inner: &mut Inner| {
        // SAFETY: as the caller says.
        unsafe { write(&inner.slice.cpus().to_string(), user, bytes) };
        if !kernel.is_null() {
            let sides = inner.slice.kernel_cpus();
            let side = sides.get(port as usize);
            let side = side.ok_or_else(|| Failure::invalid("the slice has no such port"))?;
            // SAFETY: as the caller says.
            unsafe { write(&side.to_string(), kernel, bytes) };
        }
        Ok(0)
    };
    // SAFETY: as the caller says.
    unsafe { with(slice, get) }
}

/// Changes the CPUs of the slice's two halves: `user` of its thread, which calisto_slice_pin then
/// takes; `kernel` those on which the kernel works for it (interrupts, or threads for devices
/// without). Null leaves a half as it is. Returns 0, or a negative number.
///
/// # Safety
/// As for calisto_slice_pin; both texts end with a zero or are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_slice_set_cpus(
    slice: *mut CalistoSlice,
    user: *const c_char,
    kernel: *const c_char,
) -> c_int {
    let set = |inner: &mut Inner| {
        // SAFETY: as the caller says.
        let (user, kernel) = unsafe { (cpus(user)?, cpus(kernel)?) };
        if let Some(user) = user {
            inner.slice.set_cpus(user);
        }
        if let Some(kernel) = kernel {
            inner.slice.set_kernel_cpus(&kernel)?;
        }
        Ok(0)
    };
    // SAFETY: as the caller says.
    unsafe { with(slice, set) }
}

/// From now on the slice takes only what `filter` wants, as tcpdump would say it; null: every
/// packet of its queues. What it does not take is the kernel's. Packets that came before may still
/// be read. Returns 0, or a negative number.
///
/// # Safety
/// As for calisto_slice_pin; `filter` ends with a zero or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_slice_attach_filter(
    slice: *mut CalistoSlice,
    filter: *const c_char,
) -> c_int {
    let attach = |inner: &mut Inner| {
        // SAFETY: as the caller says.
        match unsafe { text(filter) }? {
            None => inner.slice.detach_filter()?,
            Some(expression) => {
                let filter = Filter::compile(expression);
                let filter = filter.map_err(|error| Failure::invalid(&error.to_string()))?;
                inner.slice.attach_filter(&filter)?;
            }
        }
        Ok(0)
    };
    // SAFETY: as the caller says.
    unsafe { with(slice, attach) }
}

/// For a loop of the application's own: a descriptor that poll finds readable when there may be
/// something to read. Before each sleep on it call this again, and read once more with a timeout of
/// 0. From the first call on each packet costs more: without need of it, let
/// calisto_slice_read_multi wait. Do not read or close it. Returns it, or a negative number.
///
/// # Safety
/// As for calisto_slice_pin.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_slice_poll_fd(slice: *mut CalistoSlice) -> c_int {
    let fd = |inner: &mut Inner| {
        inner.slice.prepare_wait();
        Ok(inner.slice.poll_fd()?.as_raw_fd())
    };
    // SAFETY: as the caller says.
    unsafe { with(slice, fd) }
}

/// Stores counter `n` in `*counter`: of the slice itself when `port` is negative, else of that
/// port. Returns 1, or 0 when there are no more than `n`, or a negative number.
///
/// # Safety
/// As for calisto_slice_pin, and `counter` can be written or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_slice_counter(
    slice: *mut CalistoSlice,
    port: c_int,
    n: u32,
    counter: *mut CalistoSliceCounter,
) -> c_int {
    let read = |inner: &mut Inner| {
        if counter.is_null() {
            return Err(Failure::invalid("calisto_slice_counter: `counter` is null"));
        }
        let n = n as usize;
        let found = if port < 0 {
            let counters: [_; SliceCounters::COUNT] = inner.slice.counters().each();
            counters.get(n).copied()
        } else {
            let port = inner.slice.ports().get(port.unsigned_abs() as usize);
            let port = port.ok_or_else(|| Failure::invalid("the slice has no such port"))?;
            port.counters().each().get(n).copied()
        };
        let Some((name, value, help)) = found else { return Ok(0) };
        let (name, help) = (letters(name), letters(help));
        // SAFETY: it is not null, and the caller says that it can be written.
        unsafe { counter.write(CalistoSliceCounter { name, help, value }) };
        Ok(1)
    };
    // SAFETY: as the caller says.
    unsafe { with(slice, read) }
}

/// A text as C has it in an array, cut if need be.
fn letters<const N: usize>(text: &str) -> [c_char; N] {
    let mut letters = [0; N];
    let with_zero = letters.iter_mut().take(N - 1);
    with_zero.zip(text.bytes()).for_each(|(to, from)| *to = from.cast_signed());
    letters
}

/// # Safety
/// `list` ends with a zero or is null.
unsafe fn cpus(list: *const c_char) -> Result<Option<CpuSet>, Failure> {
    // SAFETY: as the caller says.
    let list = unsafe { text(list) }?;
    let parse =
        |list: &str| list.parse().map_err(|error: BadCpuList| Failure::invalid(&error.to_string()));
    list.map(parse).transpose()
}

/// Writes a text with a zero at its end, as much as has room.
///
/// # Safety
/// `to` is null, or `bytes` bytes can be written there.
unsafe fn write(text: &str, to: *mut c_char, bytes: usize) {
    if to.is_null() || bytes == 0 {
        return;
    }
    let len = text.len().min(bytes - 1);
    // SAFETY: the caller says that that many bytes can be written, and `len` is less.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, len);
        to.add(len).write(0);
    }
}
