//! The library's structures as its header has them, as far as we look into them.
//!
//! Fields that we do not use are there for their room. A test compiles the header and compares
//! every offset.

use std::ffi::c_void;

/// Of `IMB_MGR`: its functions stand at its start, where newer versions of the library leave them.
#[repr(C)]
pub(crate) struct Manager {
    pub(crate) flags: u64,
    pub(crate) features: u64,
    reserved: [u64; 5],
    pub(crate) used_arch: u32,
    pub(crate) errno: i32,
    pub(crate) get_next_job: Option<GetJob>,
    pub(crate) submit_job: Option<GetJob>,
    submit_job_nocheck: usize,
    get_completed_job: usize,
    pub(crate) flush_job: Option<GetJob>,
    queue_size: usize,
    pub(crate) keyexp_128: Option<ExpandAes>,
    keyexp_192_256: [usize; 2],
    cmac_xcbc_des: [usize; 3],
    pub(crate) sha1_one_block: Option<HashBlock>,
    sha224_one_block: usize,
    pub(crate) sha256_one_block: Option<HashBlock>,
    sha384_sha512_md5_one_block: [usize; 3],
    sha: [usize; 5],
    aes128_cfb_one: usize,
    pub(crate) gcm128_enc: Option<Gcm>,
    gcm192_256_enc: [usize; 2],
    pub(crate) gcm128_dec: Option<Gcm>,
    gcm192_256_dec: [usize; 2],
    gcm_init_update_finalize_precomp: [usize; 18],
    pub(crate) gcm128_pre: Option<ExpandGcm>,
}

/// `get_next_job_t`, `submit_job_t`, `flush_job_t`.
pub(crate) type GetJob = unsafe extern "C" fn(*mut Manager) -> *mut Job;
/// `keyexp_t`: key, expanded for encryption, expanded for decryption.
pub(crate) type ExpandAes = unsafe extern "C" fn(*const u8, *mut AesKeys, *mut AesKeys);
/// `hash_one_block_t`: 64 bytes, the state after them.
pub(crate) type HashBlock = unsafe extern "C" fn(*const u8, *mut u8);
/// `aes_gcm_pre_t`.
pub(crate) type ExpandGcm = unsafe extern "C" fn(*const u8, *mut GcmKeys);
/// `aes_gcm_enc_dec_t`: keys, context, out, in, bytes, IV of 12 bytes, AAD and its bytes, tag and
/// its bytes.
pub(crate) type Gcm = unsafe extern "C" fn(
    *const GcmKeys,
    *mut GcmContext,
    *mut u8,
    *const u8,
    u64,
    *const u8,
    *const u8,
    u64,
    *mut u8,
    u64,
);

/// Round keys of AES-128.
#[repr(C, align(64))]
#[derive(Clone)]
pub(crate) struct AesKeys(pub(crate) [u8; 16 * 11]);

/// `struct gcm_key_data`.
#[repr(C, align(64))]
#[derive(Clone)]
pub(crate) struct GcmKeys(pub(crate) [u8; GCM_KEY_BYTES]);

/// Fifteen round keys and 48 powers of the hash key.
pub(crate) const GCM_KEY_BYTES: usize = 16 * 15 + 16 * 48;

/// `struct gcm_context_data`: scratch.
#[repr(C, align(64))]
pub(crate) struct GcmContext(pub(crate) [u8; 128]);

/// `IMB_JOB`, for ciphers chained with HMAC.
#[repr(C)]
pub(crate) struct Job {
    pub(crate) enc_keys: *const AesKeys,
    pub(crate) dec_keys: *const AesKeys,
    pub(crate) key_len: u64,
    pub(crate) src: *const u8,
    pub(crate) dst: *mut u8,
    pub(crate) cipher_start: u64,
    pub(crate) cipher_len: u64,
    pub(crate) hash_start: u64,
    pub(crate) hash_len: u64,
    pub(crate) iv: *const u8,
    pub(crate) iv_len: u64,
    pub(crate) tag: *mut u8,
    pub(crate) tag_len: u64,
    pub(crate) ipad: *const u8,
    pub(crate) opad: *const u8,
    /// The largest of the union that the two pads are in.
    rest_of_union: u64,
    pub(crate) status: u32,
    pub(crate) cipher_mode: u32,
    pub(crate) direction: u32,
    pub(crate) hash_alg: u32,
    pub(crate) chain_order: u32,
    pub(crate) user_data: *mut c_void,
    pub(crate) user_data2: *mut c_void,
}

/// `IMB_STATUS_COMPLETED`.
pub(crate) const COMPLETED: u32 = 3;
/// `IMB_CIPHER_CBC`.
pub(crate) const CIPHER_CBC: u32 = 1;
/// `IMB_DIR_ENCRYPT`.
pub(crate) const ENCRYPT: u32 = 1;
/// `IMB_DIR_DECRYPT`.
pub(crate) const DECRYPT: u32 = 2;
/// `IMB_AUTH_HMAC_SHA_1`.
pub(crate) const HMAC_SHA1: u32 = 1;
/// `IMB_AUTH_HMAC_SHA_256`.
pub(crate) const HMAC_SHA256: u32 = 3;
/// `IMB_ORDER_CIPHER_HASH`.
pub(crate) const CIPHER_HASH: u32 = 1;
/// `IMB_ORDER_HASH_CIPHER`.
pub(crate) const HASH_CIPHER: u32 = 2;

#[cfg(test)]
mod tests;
