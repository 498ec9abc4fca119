//! A shared object that was loaded, and its calls.

use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use base::PortId;
use libloading::Library;
use libloading::os::unix;

use crate::error::NotLoaded;
use crate::layout::{COUNTERS_MAX, Counter, Host, Make, Packet, Process, SYMBOL, Table, VERSION};

/// Bytes of what an object says why it makes nothing.
const ERROR_BYTES: usize = 512;

/// An object, loaded for as long as anybody has it.
pub(crate) struct Object {
    make: Make,
    process: Process,
    leave: Option<Process>,
    read: Option<unsafe extern "C" fn(*const c_void, *mut u64)>,
    take_over: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    destroy: unsafe extern "C" fn(*mut c_void),
    /// Names of counters, and what they count.
    pub(crate) counters: Vec<(Arc<str>, Arc<str>)>,
    /// Last: the functions above are in it.
    _library: Library,
}

impl Object {
    pub(crate) fn load(path: &Path) -> Result<Self, NotLoaded> {
        // Without a slash the loader would look elsewhere.
        let path = path.canonicalize().map_err(|error| NotLoaded::Library(error.to_string()))?;
        refuse_what_others_change(&path)?;
        // All that it calls is looked up now: what is missing would end the process with the first
        // packet that needs it.
        let flags = unix::RTLD_NOW | unix::RTLD_LOCAL;
        // SAFETY: its constructors run in our process: the operator has named it to be run there.
        let library = unsafe { unix::Library::open(Some(path.as_os_str()), flags) };
        // What the loader says stands behind the error.
        let why = |error: libloading::Error| match error.source() {
            Some(said) => NotLoaded::Library(said.to_string()),
            None => NotLoaded::Library(error.to_string()),
        };
        let library = library.map_err(why)?;
        let library = Library::from(library);
        // SAFETY: that name is of this function in whatever defines it, by the header.
        let found = unsafe { library.get::<unsafe extern "C" fn() -> *const Table>(SYMBOL) };
        let table = *found.map_err(|_| NotLoaded::NoSymbol)?;
        // SAFETY: as the header has it: it takes nothing, and returns a table that stays.
        let table = unsafe { table().as_ref() }.ok_or(NotLoaded::Incomplete("table"))?;
        if table.version != VERSION {
            return Err(NotLoaded::Version(table.version));
        }
        if table.counter_count > COUNTERS_MAX {
            return Err(NotLoaded::Counters(table.counter_count));
        }
        if table.counter_count > 0 && (table.counters.is_null() || table.read.is_none()) {
            return Err(NotLoaded::Incomplete("counters and read"));
        }
        // SAFETY: the header says that there are as many, and one is there if any.
        let counters = (0..table.counter_count as usize).map(|at| unsafe { names(table, at) });
        Ok(Self {
            make: table.make.ok_or(NotLoaded::Incomplete("make"))?,
            process: table.process.ok_or(NotLoaded::Incomplete("process"))?,
            leave: table.leave,
            read: table.read.filter(|_| table.counter_count > 0),
            take_over: table.take_over,
            destroy: table.destroy.ok_or(NotLoaded::Incomplete("destroy"))?,
            counters: counters.collect(),
            _library: library,
        })
    }

    /// Whether the other one is the same object in memory.
    pub(crate) fn is(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.make, other.make)
    }

    /// The function for one slice.
    pub(crate) fn make(
        self: &Arc<Self>,
        arguments: &[String],
        port: &dyn Fn(&str) -> Option<PortId>,
    ) -> Result<State, NotLoaded> {
        let texts = arguments.iter().map(|text| CString::new(text.as_str()));
        let texts: Vec<CString> =
            texts.collect::<Result<_, _>>().map_err(|_| NotLoaded::Refused("a zero".to_owned()))?;
        let pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        let mut error = [0_u8; ERROR_BYTES];
        let host = Host { chain: (&raw const port).cast(), port: port_of };
        // SAFETY: host, arguments and error live until the call is over, as the header says; the
        // last byte of `error` is not the object's.
        let state = unsafe {
            let (pointers, count) = (pointers.as_ptr(), pointers.len());
            (self.make)(
                &raw const host,
                count,
                pointers,
                error.as_mut_ptr().cast(),
                ERROR_BYTES - 1,
            )
        };
        match NonNull::new(state) {
            Some(state) => Ok(State { state, object: Arc::clone(self) }),
            None => {
                let said = CStr::from_bytes_until_nul(&error).unwrap_or_default();
                Err(NotLoaded::Refused(said.to_string_lossy().into_owned()))
            }
        }
    }
}

/// The state of a function for one slice.
pub(crate) struct State {
    state: NonNull<c_void>,
    object: Arc<Object>,
}

// SAFETY: the header demands of objects that a state may be called from one thread after another.
unsafe impl Send for State {}

impl State {
    pub(crate) fn object(&self) -> &Arc<Object> {
        &self.object
    }

    pub(crate) fn has_leave(&self) -> bool {
        self.object.leave.is_some()
    }

    /// Shows it packets, which come or are to leave. What it writes there is its own word.
    pub(crate) fn call(&mut self, is_leaving: bool, packets: &mut [Packet], now_ns: u64) {
        let call = if is_leaving { self.object.leave } else { Some(self.object.process) };
        let Some(call) = call else { return };
        // SAFETY: `state` is of this object and nobody else is in a call for it; each packet has
        // `room` bytes at `data`, which are only ours until the call is over.
        unsafe { call(self.state.as_ptr(), packets.as_mut_ptr(), packets.len(), now_ns) };
    }

    /// Passes on what it has counted, by the counter's place.
    pub(crate) fn read(&self) -> [u64; COUNTERS_MAX as usize] {
        let mut values = [0; COUNTERS_MAX as usize];
        if let Some(read) = self.object.read {
            // SAFETY: as above, and there is room for the most that an object may have.
            unsafe { read(self.state.as_ptr(), values.as_mut_ptr()) };
        }
        values
    }

    /// Goes on where one of the same object has come to; whether it does.
    pub(crate) fn take_over(&mut self, before: &mut Self) -> bool {
        let Some(take_over) = self.object.take_over else { return false };
        // SAFETY: both are of this object, and nobody else is in a call for either.
        unsafe { take_over(self.state.as_ptr(), before.state.as_ptr()) };
        true
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: made by this object, and not used after this.
        unsafe { (self.object.destroy)(self.state.as_ptr()) };
    }
}

/// Name and sentence of a counter.
///
/// # Safety
/// The table has a counter at `at`, with texts that end with a zero, or null.
unsafe fn names(table: &Table, at: usize) -> (Arc<str>, Arc<str>) {
    // SAFETY: by the caller.
    let Counter { name, help } = unsafe { &*table.counters.add(at) };
    let read = |text: *const c_char| -> Arc<str> {
        if text.is_null() {
            return "unnamed".into();
        }
        // SAFETY: by the caller.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into()
    };
    (read(*name), read(*help))
}

/// The number of a port, for an object that is being made.
///
/// # Safety
/// `chain` is what [`Object::make`] has handed out, in a call of which this is; `interface` ends
/// with a zero, or is null.
unsafe extern "C" fn port_of(chain: *const c_void, interface: *const c_char) -> c_int {
    if chain.is_null() || interface.is_null() {
        return -1;
    }
    // SAFETY: by the caller: it points at a reference that lives for as long as the call.
    let port = unsafe { &*chain.cast::<&dyn Fn(&str) -> Option<PortId>>() };
    // SAFETY: by the caller.
    let name = unsafe { CStr::from_ptr(interface) };
    name.to_str().ok().and_then(port).map_or(-1, |port| c_int::from(port.0))
}

/// Whoever may write the object, or put another one in its place, runs code as us. `path` has no
/// links in it: what is found here is loaded then, as nobody else can change what it names.
fn refuse_what_others_change(path: &Path) -> Result<(), NotLoaded> {
    const OTHERS_WRITE: u32 = 0o022;
    /// In such a folder others leave alone what is not theirs.
    const STICKY: u32 = 0o1000;
    for place in path.ancestors() {
        let found = std::fs::symlink_metadata(place);
        let found = found.map_err(|error| NotLoaded::Library(error.to_string()))?;
        let is_ours = found.uid() == 0 || found.uid() == rustix::process::geteuid().as_raw();
        let is_open = found.mode() & OTHERS_WRITE != 0;
        if place != path {
            if !is_ours || is_open && found.mode() & STICKY == 0 {
                return Err(NotLoaded::OpenFolder(place.display().to_string()));
            }
        } else if !found.is_file() || !is_ours || is_open {
            return Err(NotLoaded::NotOurs);
        }
    }
    Ok(())
}
