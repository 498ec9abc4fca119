//! Filter expressions in the language of tcpdump, compiled by libpcap; pcap-filter(7).
//!
//! The library is loaded when the first expression is compiled, so that nothing else needs it.

use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use libloading::{Library, Symbol};

/// One instruction of classic BPF, `struct bpf_insn` of pcap/bpf.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// Instructions to skip when a comparison holds.
    pub if_true: u8,
    /// Instructions to skip when it does not.
    pub if_false: u8,
    /// The constant of it.
    pub value: u32,
}

const _: () = assert!(size_of::<Instruction>() == 8);

/// Why an expression was not compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PcapError {
    /// There is no libpcap on this machine.
    NoLibrary {
        /// What the loader said.
        reason: String,
    },
    /// The expression makes no sense.
    Expression {
        /// What the library said.
        reason: String,
    },
}

impl fmt::Display for PcapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLibrary { reason } => write!(
                f,
                "filter expressions need libpcap, which is not here: install it (Debian: \
                 libpcap0.8); the loader said: {reason}"
            ),
            Self::Expression { reason } => f.write_str(reason),
        }
    }
}

impl std::error::Error for PcapError {}

/// Names of the library: what it is called at run time here, and elsewhere.
const LIBRARIES: [&str; 2] = ["libpcap.so.0.8", "libpcap.so.1"];

/// `DLT_EN10MB`: packets begin with an Ethernet header.
const ETHERNET: c_int = 1;
/// `PCAP_NETMASK_UNKNOWN`.
const NETMASK_UNKNOWN: u32 = u32::MAX;

/// `struct bpf_program`.
#[repr(C)]
struct Program {
    len: c_uint,
    instructions: *mut Instruction,
}

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut Handle;
type Compile = unsafe extern "C" fn(*mut Handle, *mut Program, *const c_char, c_int, u32) -> c_int;
type Error = unsafe extern "C" fn(*mut Handle) -> *mut c_char;
type FreeCode = unsafe extern "C" fn(*mut Program);
type Close = unsafe extern "C" fn(*mut Handle);

/// `pcap_t`.
#[repr(C)]
struct Handle {
    _opaque: [u8; 0],
}

/// Before libpcap 1.8 the compiler kept its state in globals.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Compiles `expression` for Ethernet packets of which all that are taken are taken in `snaplen`
/// bytes. A name in it is looked up (DNS) now. Empty: every packet.
///
/// # Errors
/// There is no libpcap, or the library's own sentence about the expression.
pub fn compile(expression: &str, snaplen: u32) -> Result<Vec<Instruction>, PcapError> {
    let bad = |reason: &str| PcapError::Expression { reason: reason.to_owned() };
    let text = CString::new(expression).map_err(|_| bad("a filter has no zero bytes"))?;
    let snaplen = c_int::try_from(snaplen).map_err(|_| bad("no packet is as long"))?;
    let library = load()?;
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the prototypes of pcap/pcap.h.
    let symbols = unsafe { Symbols::find(&library) };
    let symbols = symbols.map_err(|error| PcapError::NoLibrary { reason: error.to_string() })?;
    // SAFETY: two numbers.
    let handle = NonNull::new(unsafe { (symbols.open_dead)(ETHERNET, snaplen) })
        .ok_or_else(|| bad("libpcap is out of memory"))?;
    let mut program = Program { len: 0, instructions: std::ptr::null_mut() };
    // SAFETY: an open handle, a program to be written, a text with its zero.
    let result = unsafe {
        (symbols.compile)(handle.as_ptr(), &raw mut program, text.as_ptr(), 1, NETMASK_UNKNOWN)
    };
    let compiled = if result == 0 && !program.instructions.is_null() {
        // SAFETY: the library has written that many instructions there, and frees them below.
        let code = unsafe {
            std::slice::from_raw_parts(program.instructions.cast_const(), program.len as usize)
        };
        Ok(code.to_vec())
    } else {
        // SAFETY: the handle's last error, a text with its zero inside of the handle.
        let reason = unsafe { CStr::from_ptr((symbols.error)(handle.as_ptr())) };
        Err(bad(&reason.to_string_lossy()))
    };
    // SAFETY: written by the library, or empty, which it takes too.
    unsafe { (symbols.free_code)(&raw mut program) };
    // SAFETY: opened above, and not used any more.
    unsafe { (symbols.close)(handle.as_ptr()) };
    compiled
}

fn load() -> Result<Library, PcapError> {
    let mut reason = String::new();
    for name in LIBRARIES {
        // SAFETY: libpcap has no constructors that could harm.
        match unsafe { Library::new(name) } {
            Ok(library) => return Ok(library),
            Err(error) => reason = error.to_string(),
        }
    }
    Err(PcapError::NoLibrary { reason })
}

struct Symbols<'library> {
    open_dead: Symbol<'library, OpenDead>,
    compile: Symbol<'library, Compile>,
    error: Symbol<'library, Error>,
    free_code: Symbol<'library, FreeCode>,
    close: Symbol<'library, Close>,
}

impl<'library> Symbols<'library> {
    /// # Safety
    /// `library` is libpcap.
    unsafe fn find(library: &'library Library) -> Result<Self, libloading::Error> {
        // SAFETY: the promise of the caller: these names have these types.
        unsafe {
            Ok(Self {
                open_dead: library.get(b"pcap_open_dead\0")?,
                compile: library.get(b"pcap_compile\0")?,
                error: library.get(b"pcap_geterr\0")?,
                free_code: library.get(b"pcap_freecode\0")?,
                close: library.get(b"pcap_close\0")?,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_becomes_the_instructions_that_tcpdump_prints() {
        // tcpdump -dd -y EN10MB -s 65535 ip
        let code = compile("ip", 65535).expect("libpcap is installed where tests run");
        let numbers: Vec<_> =
            code.iter().map(|i| (i.code, i.if_true, i.if_false, i.value)).collect();
        assert_eq!(
            numbers,
            [(0x28, 0, 0, 12), (0x15, 0, 1, 0x800), (0x06, 0, 0, 65535), (0x06, 0, 0, 0)]
        );
        assert_eq!(compile("", 65535).expect("it is everything").len(), 1);
    }

    #[test]
    fn an_expression_that_makes_no_sense_is_answered_with_the_librarys_sentence() {
        for (expression, word) in
            [("prot udp", "syntax"), ("ip and arp", "reject"), ("a\0b", "zero")]
        {
            let error = compile(expression, 65535).expect_err("nonsense").to_string();
            assert!(error.contains(word), "{expression:?}: {error}");
        }
    }
}
