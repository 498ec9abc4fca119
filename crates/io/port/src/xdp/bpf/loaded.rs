//! What the kernel has loaded already: programs, maps and links by their ids.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::{Attributes, bpf, command, owned, raw};

/// Maps of a program that are looked at. Ours have three at most.
const MAPS_MAX: usize = 16;

/// Links that are looked at, at most: a machine has some hundred.
const LINKS_MAX: usize = 1 << 16;

/// `BPF_LINK_TYPE_XDP` of enum bpf_link_type.
const LINK_TYPE_XDP: u32 = 6;

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct ById {
    /// Of what is meant, or after which the next one is wanted.
    id: u32,
    next_id: u32,
    open_flags: u32,
}
// SAFETY: the anonymous struct of the BPF_*_GET_*_ID commands; no pointers.
unsafe impl Attributes for ById {}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct InfoRequest {
    fd: u32,
    info_bytes: u32,
    info: u64,
}
// SAFETY: the struct of BPF_OBJ_GET_INFO_BY_FD; only made in `ask`, where `info` leads to as many
// bytes.
unsafe impl Attributes for InfoRequest {}

/// What the kernel tells of an object.
///
/// # Safety
/// `repr(C)`, the first fields of the kernel's structure, every bit pattern valid; pointers in it
/// lead to memory that outlives the question and is as long as said.
unsafe trait Info: Default {}

#[derive(Default)]
#[repr(C)]
struct ProgramInfo {
    kind: u32,
    id: u32,
    tag: [u8; 8],
    code_bytes: [u32; 2],
    code: [u64; 2],
    load_time: u64,
    uid: u32,
    map_count: u32,
    map_ids: u64,
    name: [u8; 16],
}
// SAFETY: the first fields of struct bpf_prog_info; of the pointers only `map_ids` is ever set, by
// `maps_of`.
unsafe impl Info for ProgramInfo {}
const _: () = assert!(size_of::<ProgramInfo>() == 80);

#[derive(Default)]
#[repr(C)]
struct MapInfo {
    kind: u32,
    id: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
    name: [u8; 16],
}
// SAFETY: the first fields of struct bpf_map_info; no pointers.
unsafe impl Info for MapInfo {}

#[derive(Default)]
#[repr(C)]
struct LinkInfo {
    kind: u32,
    id: u32,
    program_id: u32,
    padding: u32,
}
// SAFETY: the first fields of struct bpf_link_info; no pointers.
unsafe impl Info for LinkInfo {}

fn by_id(command: libc::c_int, id: u32) -> Result<OwnedFd, Errno> {
    bpf(command, &mut ById { id, ..ById::default() }).map(owned)
}

fn ask<I: Info>(fd: &OwnedFd, info: &mut I) -> Result<(), Errno> {
    let mut request = InfoRequest {
        fd: raw(fd),
        info_bytes: size_of::<I>() as u32,
        info: std::ptr::from_mut(info).expose_provenance() as u64,
    };
    bpf(command::OBJ_GET_INFO_BY_FD, &mut request).map(drop)
}

fn is_called(name: [u8; 16], text: &str) -> bool {
    name == super::name_bytes(text)
}

/// The map of type `map_type` called `map`, of keys and values of four bytes, that the program with
/// id `program` uses, if that is called `name`.
pub(in crate::xdp) fn map_of(
    program: u32,
    name: &str,
    map: &str,
    map_type: u32,
) -> Result<Option<OwnedFd>, Errno> {
    let program = by_id(command::PROG_GET_FD_BY_ID, program)?;
    let mut ids = [0u32; MAPS_MAX];
    let mut info = ProgramInfo {
        map_count: MAPS_MAX as u32,
        map_ids: ids.as_mut_ptr().expose_provenance() as u64,
        ..ProgramInfo::default()
    };
    ask(&program, &mut info)?;
    if !is_called(info.name, name) {
        return Ok(None);
    }
    for &id in ids.iter().take(info.map_count as usize) {
        let fd = by_id(command::MAP_GET_FD_BY_ID, id)?;
        let mut info = MapInfo::default();
        ask(&fd, &mut info)?;
        let is_it = info.kind == map_type && (info.key_bytes, info.value_bytes) == (4, 4);
        if is_it && is_called(info.name, map) {
            return Ok(Some(fd));
        }
    }
    Ok(None)
}

/// The link by which the program with id `program` is attached to an interface.
pub(in crate::xdp) fn link_of(program: u32) -> Result<Option<OwnedFd>, Errno> {
    let mut at = ById::default();
    for _ in 0..LINKS_MAX {
        match bpf(command::LINK_GET_NEXT_ID, &mut at) {
            Ok(_) => at.id = at.next_id,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno),
        }
        // It may be gone by now.
        let Ok(fd) = by_id(command::LINK_GET_FD_BY_ID, at.id) else { continue };
        let mut info = LinkInfo::default();
        ask(&fd, &mut info)?;
        if info.kind == LINK_TYPE_XDP && info.program_id == program {
            return Ok(Some(fd));
        }
    }
    Ok(None)
}
