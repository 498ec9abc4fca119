//! AES-128-CBC with HMAC over a batch of packets of ESP: all are handed to the library before any
//! is asked for, so that it works on as many at once as the processor has lanes.

use std::ffi::c_void;

use calisto_nf::esp::Job;

use super::{CBC_FIXED, ESP_BYTES, ICV_MAX, is_same};
use crate::Key;
use crate::key::{Expanded, Hmac};
use crate::layout::{self, AesKeys};
use crate::library::Instance;

/// Jobs that are handed over at once: fewer than the library's queue of 256 holds.
const AT_ONCE: usize = 64;
const BLOCK: usize = 16;

/// Encrypts and signs those jobs whose key is of CBC.
pub(super) fn seal(instance: &mut Instance, jobs: &mut [Job<'_, Key>]) {
    for jobs in jobs.chunks_mut(AT_ONCE) {
        let mut done = [false; AT_ONCE];
        for (index, job) in jobs.iter_mut().enumerate() {
            let Expanded::Cbc { encrypt, decrypt, hmac } = &*job.key.0 else { continue };
            job.is_good = false;
            let Some(end) = text_end(job.packet, hmac) else { continue };
            let hashed = end + put_high(&mut job.packet[end..], job.sequence_high);
            let packet = job.packet.as_mut_ptr();
            // The block in the IV's place is encrypted with the text: it is unique, so what comes
            // out cannot be foreseen, and it is the IV that CBC goes on with.
            let request = Request {
                keys: [encrypt, decrypt],
                hmac,
                packet,
                cipher: ESP_BYTES..end,
                hashed,
                iv: ZERO_IV.as_ptr(),
                // SAFETY: the ICV ends the packet, so `end` is inside it.
                tag: unsafe { packet.add(end) },
                is_sealing: true,
                index,
            };
            // SAFETY: all that it points to lives until `flush` below, and nobody else touches the
            // packet.
            unsafe { submit(instance, &request, &mut done) };
        }
        // SAFETY: everything that was handed over in this round is still there.
        unsafe { flush(instance, &mut done) };
        for (job, done) in jobs.iter_mut().zip(done) {
            job.is_good |= done;
        }
    }
}

/// Verifies and decrypts those jobs whose key is of CBC.
pub(super) fn open(instance: &mut Instance, jobs: &mut [Job<'_, Key>]) {
    for jobs in jobs.chunks_mut(AT_ONCE) {
        let mut done = [false; AT_ONCE];
        let mut computed = [[0u8; ICV_MAX]; AT_ONCE];
        let mut received = [[0u8; ICV_MAX]; AT_ONCE];
        for (index, job) in jobs.iter_mut().enumerate() {
            let Expanded::Cbc { encrypt, decrypt, hmac } = &*job.key.0 else { continue };
            job.is_good = false;
            let Some(end) = text_end(job.packet, hmac) else { continue };
            let icv = &mut job.packet[end..];
            received[index][..hmac.icv_bytes].copy_from_slice(icv);
            let hashed = end + put_high(icv, job.sequence_high);
            let packet = job.packet.as_mut_ptr();
            let request = Request {
                keys: [encrypt, decrypt],
                hmac,
                packet,
                cipher: CBC_FIXED..end,
                hashed,
                // SAFETY: `text_end` has seen that the packet is longer than what stands before the
                // text.
                iv: unsafe { packet.add(ESP_BYTES) },
                tag: computed[index].as_mut_ptr(),
                is_sealing: false,
                index,
            };
            // SAFETY: as in `seal`; the tags live as long.
            unsafe { submit(instance, &request, &mut done) };
        }
        // SAFETY: as in `seal`.
        unsafe { flush(instance, &mut done) };
        for (index, job) in jobs.iter_mut().enumerate() {
            let Expanded::Cbc { hmac, .. } = &*job.key.0 else { continue };
            let bytes = ..hmac.icv_bytes;
            job.is_good = done[index] && is_same(&received[index][bytes], &computed[index][bytes]);
        }
    }
}

static ZERO_IV: [u8; BLOCK] = [0; BLOCK];

/// Where the ICV begins; nothing when the packet is none that can be encrypted.
fn text_end(packet: &[u8], hmac: &Hmac) -> Option<usize> {
    let end = packet.len().checked_sub(hmac.icv_bytes)?;
    let text = end.checked_sub(CBC_FIXED)?;
    (text > 0 && text.is_multiple_of(BLOCK)).then_some(end)
}

/// Puts the upper half of a long sequence number behind the text, where it is signed (RFC 4303
/// section 2.2.1) until the ICV takes its place; how many bytes that makes.
fn put_high(icv: &mut [u8], high: Option<u32>) -> usize {
    let Some(high) = high else { return 0 };
    icv[..4].copy_from_slice(&high.to_be_bytes());
    4
}

/// What the library is asked for. Offsets are from the SPI.
struct Request<'a> {
    keys: [&'a AesKeys; 2],
    hmac: &'a Hmac,
    packet: *mut u8,
    cipher: std::ops::Range<usize>,
    hashed: usize,
    iv: *const u8,
    tag: *mut u8,
    is_sealing: bool,
    index: usize,
}

/// Hands a job over; `done` tells of those that are finished by then.
///
/// # Safety
/// Packet, keys, IV and tag stay where they are, untouched, until the job is done. Fewer jobs are
/// under way than the library's queue holds.
unsafe fn submit(instance: &mut Instance, request: &Request<'_>, done: &mut [bool; AT_ONCE]) {
    let &Request { keys: [encrypt, decrypt], hmac, packet, ref cipher, hashed, .. } = request;
    let manager = instance.manager();
    // SAFETY: the queue has room, so that the library returns its next job, which is ours until
    // submitted.
    let job = unsafe { &mut *(instance.get_next_job)(manager) };
    job.enc_keys = encrypt;
    job.dec_keys = decrypt;
    job.key_len = BLOCK as u64;
    job.src = packet;
    // SAFETY: the range is inside the packet.
    job.dst = unsafe { packet.add(cipher.start) };
    job.cipher_start = cipher.start as u64;
    job.cipher_len = cipher.len() as u64;
    job.hash_start = 0;
    job.hash_len = hashed as u64;
    job.iv = request.iv;
    job.iv_len = BLOCK as u64;
    job.tag = request.tag;
    job.tag_len = hmac.icv_bytes as u64;
    job.ipad = hmac.inner.0.as_ptr();
    job.opad = hmac.outer.0.as_ptr();
    job.cipher_mode = layout::CIPHER_CBC;
    job.hash_alg = hmac.algorithm;
    (job.direction, job.chain_order) = if request.is_sealing {
        (layout::ENCRYPT, layout::CIPHER_HASH)
    } else {
        (layout::DECRYPT, layout::HASH_CIPHER)
    };
    job.user_data = request.index as *mut c_void;
    // SAFETY: the job is filled in, and by the caller what it points to stays.
    let finished = unsafe { (instance.submit_job)(manager) };
    // SAFETY: the library returns a finished job or null.
    unsafe { note(finished, done) };
}

/// Waits for all that are under way.
///
/// # Safety
/// What was handed over is still there.
unsafe fn flush(instance: &mut Instance, done: &mut [bool; AT_ONCE]) {
    loop {
        let manager = instance.manager();
        // SAFETY: by the caller.
        let finished = unsafe { (instance.flush_job)(manager) };
        if finished.is_null() {
            return;
        }
        // SAFETY: a finished job.
        unsafe { note(finished, done) };
    }
}

/// Writes down that a job is done.
///
/// # Safety
/// `finished` is null or a job that the library has just returned.
unsafe fn note(finished: *mut layout::Job, done: &mut [bool; AT_ONCE]) {
    // SAFETY: by the caller; it is ours until the next one is asked for.
    let Some(job) = (unsafe { finished.as_ref() }) else { return };
    if let Some(done) = done.get_mut(job.user_data as usize) {
        *done = job.status == layout::COMPLETED;
    }
}
