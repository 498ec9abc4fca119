//! Opening the library, and one manager of it for each thread.

use std::ffi::CStr;
use std::ptr::NonNull;

use libloading::Library;

use crate::CryptoError;
use crate::layout::{ExpandAes, ExpandGcm, Gcm, GetJob, HashBlock, Manager};

/// The library's name with the version of its interface.
const NAME: &str = "libIPSec_MB.so.1";
/// Versions whose layout is that of the header that we were tested with.
const VERSIONS: std::ops::Range<u32> = 0x1_03_00..0x1_06_00;

/// A manager: the library's state for one thread, with the functions that it chose for this
/// processor.
pub(crate) struct Instance {
    manager: NonNull<Manager>,
    free: unsafe extern "C" fn(*mut Manager),
    pub(crate) get_next_job: GetJob,
    pub(crate) submit_job: GetJob,
    pub(crate) flush_job: GetJob,
    pub(crate) expand_aes: ExpandAes,
    pub(crate) sha1_block: HashBlock,
    pub(crate) sha256_block: HashBlock,
    pub(crate) gcm_seal: Gcm,
    pub(crate) gcm_open: Gcm,
    pub(crate) expand_gcm: ExpandGcm,
    version: u32,
    arch: u32,
    /// Last: the functions above are in it.
    _library: Library,
}

// SAFETY: a manager is plain memory that the library looks at only when called with it, on whatever
// thread, and we call only through `&mut`.
unsafe impl Send for Instance {}

impl Instance {
    /// Opens the library and makes a manager.
    pub(crate) fn open() -> Result<Self, CryptoError> {
        // SAFETY: the library's constructors only look at the processor.
        let library = unsafe { Library::new(NAME) };
        let library = library.map_err(|error| CryptoError::Missing(error.to_string()))?;
        // SAFETY: `unsigned imb_get_version(void)`.
        let get_version =
            unsafe { symbol::<unsafe extern "C" fn() -> u32>(&library, "imb_get_version")? };
        // SAFETY: it takes nothing and returns a constant.
        let version = unsafe { get_version() };
        if !VERSIONS.contains(&version) {
            return Err(CryptoError::Version(version));
        }
        // SAFETY: `IMB_MGR *alloc_mb_mgr(uint64_t flags)`.
        let allocate = unsafe {
            symbol::<unsafe extern "C" fn(u64) -> *mut Manager>(&library, "alloc_mb_mgr")?
        };
        // SAFETY: `void free_mb_mgr(IMB_MGR *)`.
        let free =
            unsafe { symbol::<unsafe extern "C" fn(*mut Manager)>(&library, "free_mb_mgr")? };
        // SAFETY: `void init_mb_mgr_auto(IMB_MGR *, IMB_ARCH *)`, the second of which is an enum.
        let choose = unsafe {
            symbol::<unsafe extern "C" fn(*mut Manager, *mut u32)>(&library, "init_mb_mgr_auto")?
        };
        // SAFETY: `const char *imb_get_strerror(int)`.
        let say = unsafe {
            symbol::<unsafe extern "C" fn(i32) -> *const std::ffi::c_char>(
                &library,
                "imb_get_strerror",
            )?
        };
        // SAFETY: no flags: everything that the processor has may be used.
        let Some(manager) = NonNull::new(unsafe { allocate(0) }) else {
            return Err(CryptoError::Missing("no memory for its manager".to_owned()));
        };
        let mut arch = 0;
        // SAFETY: the manager was just allocated, and `arch` is written as an enum.
        unsafe { choose(manager.as_ptr(), &mut arch) };
        // SAFETY: the library has made it, with at least this layout (see `VERSIONS`), and nobody
        // else has it.
        let made = unsafe { manager.as_ref() };
        let functions = (|| {
            Some(Self {
                manager,
                free,
                get_next_job: made.get_next_job?,
                submit_job: made.submit_job?,
                flush_job: made.flush_job?,
                expand_aes: made.keyexp_128?,
                sha1_block: made.sha1_one_block?,
                sha256_block: made.sha256_one_block?,
                gcm_seal: made.gcm128_enc?,
                gcm_open: made.gcm128_dec?,
                expand_gcm: made.gcm128_pre?,
                version,
                arch,
                _library: library,
            })
        })();
        let errno = made.errno;
        match functions {
            Some(instance) if errno == 0 => Ok(instance),
            // Whoever was made gives its manager back itself.
            made => {
                // SAFETY: it returns a string that is never freed, for any number.
                let says = unsafe { CStr::from_ptr(say(errno)) }.to_string_lossy().into_owned();
                if made.is_none() {
                    // SAFETY: allocated above, and nobody has it.
                    unsafe { free(manager.as_ptr()) };
                }
                Err(CryptoError::Processor(says))
            }
        }
    }

    /// What every function of the library takes first.
    pub(crate) fn manager(&mut self) -> *mut Manager {
        self.manager.as_ptr()
    }

    /// The library's version and what of the processor it uses.
    pub(crate) fn describe(&self) -> String {
        let arch = match self.arch {
            2 => "SSE",
            3 => "AVX",
            4 => "AVX2",
            5 => "AVX-512",
            _ => "an unknown instruction set",
        };
        let version = self.version;
        format!("libipsec-mb {}.{}.{}, {arch}", version >> 16, version >> 8 & 0xff, version & 0xff)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: made by the library's `alloc_mb_mgr`, and not used after this.
        unsafe { (self.free)(self.manager.as_ptr()) };
    }
}

/// A function of the library.
///
/// # Safety
/// `F` is the function's type.
unsafe fn symbol<F: Copy>(library: &Library, name: &'static str) -> Result<F, CryptoError> {
    // SAFETY: by the caller.
    let found = unsafe { library.get::<F>(name) };
    found.map(|function| *function).map_err(|_| CryptoError::Symbol(name))
}
