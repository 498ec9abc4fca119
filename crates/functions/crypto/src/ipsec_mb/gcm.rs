//! AES-128-GCM over one packet of ESP (RFC 4106).

use calisto_nf::esp::Job;

use super::{ESP_BYTES, GCM_FIXED, ICV_MAX, is_same};
use crate::Key;
use crate::layout::{Gcm, GcmContext, GcmKeys};
use crate::library::Instance;

/// Encrypts and signs.
#[inline]
pub(super) fn seal(instance: &Instance, job: &mut Job<'_, Key>, keys: &GcmKeys, salt: [u8; 4]) {
    let mut tag = [0; ICV_MAX];
    let Some((text, icv)) = run(instance.gcm_seal, job, keys, salt, &mut tag) else {
        return;
    };
    job.packet[text..][..icv].copy_from_slice(&tag);
    job.is_good = true;
}

/// Verifies and decrypts.
#[inline]
pub(super) fn open(instance: &Instance, job: &mut Job<'_, Key>, keys: &GcmKeys, salt: [u8; 4]) {
    let mut tag = [0; ICV_MAX];
    let Some((text, icv)) = run(instance.gcm_open, job, keys, salt, &mut tag) else {
        return;
    };
    job.is_good = is_same(&job.packet[text..][..icv], &tag);
}

/// Where the ICV begins, and its bytes; nothing for a packet that is shorter than its fixed parts.
#[inline]
fn run(
    cipher: Gcm,
    job: &mut Job<'_, Key>,
    keys: &GcmKeys,
    salt: [u8; 4],
    tag: &mut [u8; ICV_MAX],
) -> Option<(usize, usize)> {
    job.is_good = false;
    let end = job.packet.len().checked_sub(ICV_MAX)?;
    let (head, text) = job.packet.get_mut(..end)?.split_first_chunk_mut::<GCM_FIXED>()?;
    let [s0, s1, s2, s3, n0, n1, n2, n3, iv @ ..] = *head;
    // RFC 4106 section 5: what is signed but not encrypted.
    let (aad, aad_bytes) = match job.sequence_high.map(u32::to_be_bytes) {
        None => ([s0, s1, s2, s3, n0, n1, n2, n3, 0, 0, 0, 0], ESP_BYTES),
        Some([h0, h1, h2, h3]) => ([s0, s1, s2, s3, h0, h1, h2, h3, n0, n1, n2, n3], ESP_BYTES + 4),
    };
    let [a, b, c, d] = salt;
    let [i0, i1, i2, i3, i4, i5, i6, i7] = iv;
    let nonce = [a, b, c, d, i0, i1, i2, i3, i4, i5, i6, i7];
    let mut context = std::mem::MaybeUninit::<GcmContext>::uninit();
    let place = text.as_mut_ptr();
    // SAFETY: keys were expanded by the same library; `text` is read and written over its own
    // length, in place; 12 bytes of nonce, `aad_bytes` of AAD and 16 of tag are there, and the
    // context is scratch that the library initialises. Nothing of it is kept after the call.
    unsafe {
        cipher(
            keys,
            context.as_mut_ptr(),
            place,
            place.cast_const(),
            text.len() as u64,
            nonce.as_ptr(),
            aad.as_ptr(),
            aad_bytes as u64,
            tag.as_mut_ptr(),
            ICV_MAX as u64,
        );
    }
    Some((end, ICV_MAX))
}
