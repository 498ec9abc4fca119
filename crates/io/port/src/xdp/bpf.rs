//! Raw bpf(2): maps, one program, one link. No library, no compiler.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use super::asm::Instruction;
use crate::sockopt::last_errno;

pub(super) mod loaded;
#[cfg(test)]
mod trial;

#[cfg(test)]
pub(super) use trial::test_run;

/// Commands of enum bpf_cmd (linux/bpf.h).
mod command {
    pub(super) const MAP_CREATE: libc::c_int = 0;
    pub(super) const MAP_LOOKUP_ELEM: libc::c_int = 1;
    pub(super) const MAP_UPDATE_ELEM: libc::c_int = 2;
    pub(super) const MAP_DELETE_ELEM: libc::c_int = 3;
    pub(super) const MAP_GET_NEXT_KEY: libc::c_int = 4;
    pub(super) const PROG_LOAD: libc::c_int = 5;
    #[cfg(test)]
    pub(super) const PROG_TEST_RUN: libc::c_int = 10;
    pub(super) const PROG_GET_FD_BY_ID: libc::c_int = 13;
    pub(super) const MAP_GET_FD_BY_ID: libc::c_int = 14;
    pub(super) const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
    pub(super) const LINK_CREATE: libc::c_int = 28;
    pub(super) const LINK_GET_FD_BY_ID: libc::c_int = 30;
    pub(super) const LINK_GET_NEXT_ID: libc::c_int = 31;
}

/// `BPF_MAP_TYPE_HASH`.
pub(super) const MAP_TYPE_HASH: u32 = 1;
/// `BPF_MAP_TYPE_PROG_ARRAY`.
pub(super) const MAP_TYPE_PROG_ARRAY: u32 = 3;
/// `BPF_MAP_TYPE_PERCPU_ARRAY`.
pub(super) const MAP_TYPE_PERCPU_ARRAY: u32 = 6;
/// `BPF_MAP_TYPE_XSKMAP`.
pub(super) const MAP_TYPE_XSKMAP: u32 = 17;
/// `BPF_F_NO_PREALLOC`: memory of a hash map's entries is taken as they come.
pub(super) const F_NO_PREALLOC: u32 = 1;
/// `BPF_F_XDP_HAS_FRAGS`: the program takes packets of which it sees the first part only.
const F_XDP_HAS_FRAGS: u32 = 1 << 5;
const PROG_TYPE_XDP: u32 = 6;
/// What programs of ours are under, as all of this tree.
const OWN_LICENCE: &CStr = c"Apache-2.0";
/// What one is under that asks for the kernel's routes: that helper is there only for programs
/// under the GPL or a licence beside it (`gpl_only` of its prototype). What such a program is made
/// by, [`super::program::hook`], is offered under either of these, too.
pub(super) const GPL_TOO: &CStr = c"Dual BSD/GPL";
/// `BPF_XDP` of enum bpf_attach_type.
const ATTACH_TYPE_XDP: u32 = 37;

/// What a command takes.
///
/// # Safety
/// `repr(C)`, the layout of the command's part of union bpf_attr, without padding that is not
/// zero, and any bytes are one; pointers in it lead to memory that outlives the call and is as long
/// as said.
unsafe trait Attributes: Copy {}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
}
// SAFETY: the first fields of the anonymous struct of BPF_MAP_CREATE; no pointers.
unsafe impl Attributes for MapCreate {}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct MapElement {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}
// SAFETY: the anonymous struct of the BPF_MAP_*_ELEM commands; only made in this file, from
// slices whose lengths are the map's.
unsafe impl Attributes for MapElement {}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct ProgramLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}
// SAFETY: the first fields of the anonymous struct of BPF_PROG_LOAD; only made in `load`.
unsafe impl Attributes for ProgramLoad {}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}
// SAFETY: the first fields of link_create; no pointers.
unsafe impl Attributes for LinkCreate {}

fn bpf<A: Attributes>(command: libc::c_int, attributes: &mut A) -> Result<libc::c_long, Errno> {
    /// More than union bpf_attr has in any kernel so far: for some commands it writes answers
    /// behind the head that it was given.
    const UNION_BYTES: usize = 512;
    #[repr(C)]
    struct Room<A>(A, [u8; UNION_BYTES]);
    let mut room = Room(*attributes, [0; UNION_BYTES]);
    // SAFETY: by the promise of `Attributes`; the size says how much of the union there is, and
    // the kernel takes the rest as zero. What it writes has room.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut room, size_of::<A>()) };
    *attributes = room.0;
    if result < 0 { Err(last_errno()) } else { Ok(result) }
}

fn owned(result: libc::c_long) -> OwnedFd {
    let fd = libc::c_int::try_from(result).expect("descriptors are small numbers");
    // SAFETY: the command that just succeeded made this descriptor for us.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn raw(fd: impl AsFd) -> u32 {
    u32::try_from(fd.as_fd().as_raw_fd()).expect("open descriptors are not negative")
}

fn name_bytes(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().take(15).zip(name.bytes()) {
        *to = from;
    }
    bytes
}

/// A map whose keys and values have known sizes.
#[derive(Debug)]
pub(super) struct Map {
    fd: OwnedFd,
    key_bytes: usize,
    value_bytes: usize,
}

impl Map {
    pub(super) fn create(
        map_type: u32,
        name: &str,
        key_bytes: usize,
        value_bytes: usize,
        entries: u32,
        flags: u32,
    ) -> Result<Self, Errno> {
        let mut attributes = MapCreate {
            map_type,
            key_size: key_bytes as u32,
            value_size: value_bytes as u32,
            max_entries: entries,
            map_flags: flags,
            map_name: name_bytes(name),
            ..MapCreate::default()
        };
        let fd = owned(bpf(command::MAP_CREATE, &mut attributes)?);
        Ok(Self { fd, key_bytes, value_bytes })
    }

    /// A map that somebody with the rights made and handed to us.
    pub(super) fn from_fd(fd: OwnedFd, key_bytes: usize, value_bytes: usize) -> Self {
        Self { fd, key_bytes, value_bytes }
    }

    pub(super) fn update(&self, key: &[u8], value: &[u8]) -> Result<(), Errno> {
        assert_eq!((key.len(), value.len()), (self.key_bytes, self.value_bytes));
        let mut attributes = MapElement {
            map_fd: raw(&self.fd),
            key: key.as_ptr().addr() as u64,
            value: value.as_ptr().addr() as u64,
            ..MapElement::default()
        };
        expose(key);
        expose(value);
        bpf(command::MAP_UPDATE_ELEM, &mut attributes).map(drop)
    }

    pub(super) fn delete(&self, key: &[u8]) -> Result<(), Errno> {
        assert_eq!(key.len(), self.key_bytes);
        expose(key);
        let mut attributes = MapElement {
            map_fd: raw(&self.fd),
            key: key.as_ptr().addr() as u64,
            ..MapElement::default()
        };
        bpf(command::MAP_DELETE_ELEM, &mut attributes).map(drop)
    }

    pub(super) fn contains(&self, key: &[u8]) -> Result<bool, Errno> {
        assert_eq!(key.len(), self.key_bytes);
        let mut value = vec![0u8; self.value_bytes];
        expose(key);
        let mut attributes = MapElement {
            map_fd: raw(&self.fd),
            key: key.as_ptr().addr() as u64,
            value: value.as_mut_ptr().expose_provenance() as u64,
            ..MapElement::default()
        };
        match bpf(command::MAP_LOOKUP_ELEM, &mut attributes) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// What each possible CPU has at `key`, one behind the other in `values`: the value of a map
    /// for each CPU takes whole words of eight bytes.
    pub(super) fn lookup_each_cpu(&self, key: &[u8], values: &mut [u8]) -> Result<(), Errno> {
        assert_eq!((key.len(), self.value_bytes), (self.key_bytes, 8));
        expose(key);
        let mut attributes = MapElement {
            map_fd: raw(&self.fd),
            key: key.as_ptr().addr() as u64,
            value: values.as_mut_ptr().expose_provenance() as u64,
            ..MapElement::default()
        };
        bpf(command::MAP_LOOKUP_ELEM, &mut attributes).map(drop)
    }

    /// The key after `key`, or the first; `None` at the end.
    pub(super) fn next_key(&self, key: Option<&[u8]>) -> Result<Option<Vec<u8>>, Errno> {
        let mut next = vec![0u8; self.key_bytes];
        if let Some(key) = key {
            assert_eq!(key.len(), self.key_bytes);
            expose(key);
        }
        let mut attributes = MapElement {
            map_fd: raw(&self.fd),
            key: key.map_or(0, |key| key.as_ptr().addr() as u64),
            value: next.as_mut_ptr().expose_provenance() as u64,
            ..MapElement::default()
        };
        match bpf(command::MAP_GET_NEXT_KEY, &mut attributes) {
            Ok(_) => Ok(Some(next)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The kernel will reach these bytes through a number.
fn expose(bytes: &[u8]) {
    bytes.as_ptr().expose_provenance();
}

/// A program was refused.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) errno: Errno,
    /// What the verifier said; empty when it was not asked.
    pub(super) log: String,
}

impl std::fmt::Display for Refused {
    /// The last words, which are those that matter.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.log.is_empty() {
            return write!(f, "the kernel refused its program: {}", self.errno);
        }
        let lines: Vec<_> = self.log.trim_end().lines().collect();
        let tail = &lines[lines.len().saturating_sub(4)..];
        write!(f, "the verifier said: {}", tail.join(" / "))
    }
}

/// Loads an XDP program, one that `takes_frags` (packets of several pieces) where the kernel knows
/// those. When the kernel refuses it, it is asked again for its reasons.
pub(super) fn load(
    name: &str,
    program: &[Instruction],
    takes_frags: bool,
) -> Result<OwnedFd, Refused> {
    load_under(OWN_LICENCE, name, program, takes_frags)
}

/// The same under another licence.
pub(super) fn load_under(
    licence: &CStr,
    name: &str,
    program: &[Instruction],
    takes_frags: bool,
) -> Result<OwnedFd, Refused> {
    let flags = if takes_frags { F_XDP_HAS_FRAGS } else { 0 };
    match load_with(licence, name, program, flags) {
        // Before Linux 5.18 there is no such flag.
        Err(Refused { errno: Errno::INVAL, .. }) if takes_frags => {
            load_with(licence, name, program, 0)
        }
        result => result,
    }
}

fn load_with(
    license: &CStr,
    name: &str,
    program: &[Instruction],
    flags: u32,
) -> Result<OwnedFd, Refused> {
    let mut attributes = ProgramLoad {
        prog_flags: flags,
        prog_type: PROG_TYPE_XDP,
        insn_cnt: program.len() as u32,
        insns: program.as_ptr().expose_provenance() as u64,
        license: license.as_ptr().expose_provenance() as u64,
        prog_name: name_bytes(name),
        expected_attach_type: ATTACH_TYPE_XDP,
        ..ProgramLoad::default()
    };
    let errno = match bpf(command::PROG_LOAD, &mut attributes) {
        Ok(fd) => return Ok(owned(fd)),
        Err(errno @ (Errno::PERM | Errno::NOSYS)) => {
            return Err(Refused { errno, log: String::new() });
        }
        Err(errno) => errno,
    };
    let mut log = vec![0u8; 64 << 10];
    attributes.log_level = 1;
    attributes.log_size = log.len() as u32;
    attributes.log_buf = log.as_mut_ptr().expose_provenance() as u64;
    match bpf(command::PROG_LOAD, &mut attributes) {
        // It may pass the second time, when memory was short the first time.
        Ok(fd) => Ok(owned(fd)),
        Err(_) => {
            let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
            Err(Refused { errno, log: String::from_utf8_lossy(&log[..end]).into_owned() })
        }
    }
}

/// Attaches `program` to interface `ifindex`; it stays while the link's descriptor is open.
pub(super) fn link_xdp(program: impl AsFd, ifindex: u32, flags: u32) -> Result<OwnedFd, Errno> {
    let mut attributes = LinkCreate {
        prog_fd: raw(program),
        target_ifindex: ifindex,
        attach_type: ATTACH_TYPE_XDP,
        flags,
    };
    bpf(command::LINK_CREATE, &mut attributes).map(owned)
}
