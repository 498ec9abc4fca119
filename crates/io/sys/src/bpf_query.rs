//! What BPF programs there are: how many hang somewhere, and what one is called.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

/// BPF_PROG_QUERY of enum bpf_cmd.
const PROG_QUERY: libc::c_int = 16;

/// BPF_F_QUERY_EFFECTIVE: those of the control groups above as well.
pub(crate) const EFFECTIVE: u32 = 1;

/// More than union bpf_attr has in any kernel so far (168 bytes in Linux 6.18).
const UNION_BYTES: usize = 512;

/// bpf(2) with `attributes`, the head of union bpf_attr for `command`; what the kernel has written
/// into that is there afterwards.
///
/// However short the head is, the kernel may write where the whole union has its answers: of
/// BPF_PROG_QUERY the revision, 56 bytes in. So the call gets room for all of it.
///
/// # Errors
/// Those of bpf(2).
///
/// # Safety
/// `A` is `repr(C)`, has the layout of the command's part of the union and no padding that is not
/// zero, and any bytes are one; pointers in it lead to memory that outlives the call and is as long
/// as said.
unsafe fn bpf<A: Copy>(command: libc::c_int, attributes: &mut A) -> Result<libc::c_long, Errno> {
    #[repr(C)]
    struct Room<A> {
        attributes: A,
        rest: [u8; UNION_BYTES],
    }
    let mut room = Room { attributes: *attributes, rest: [0; UNION_BYTES] };
    // SAFETY: by the promise of the caller; the size says how much of the union there is, and the
    // kernel takes the rest as zero. What it writes has room.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut room, size_of::<A>()) };
    *attributes = room.attributes;
    if result < 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    Ok(result)
}

/// The head of union bpf_attr for BPF_PROG_QUERY; the kernel takes the rest as zero.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Query {
    /// A descriptor, or the number of an interface: as the kind wants it.
    target: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    program_ids: u64,
    program_count: u32,
    _padding: u32,
}

/// How many programs of a kind (enum bpf_attach_type) `target` has. CAP_NET_ADMIN is needed.
pub(crate) fn count(target: u32, attach_type: u32, query_flags: u32) -> Result<u32, Errno> {
    let mut query = Query { target, attach_type, query_flags, ..Query::default() };
    // SAFETY: the structure is the head of the union for this command, without pointers.
    unsafe { bpf(PROG_QUERY, &mut query)? };
    Ok(query.program_count)
}

/// What our own XDP programs are called.
pub const OWN_PROGRAM: &str = "calisto";

/// Of enum bpf_cmd.
const PROG_GET_FD_BY_ID: libc::c_int = 13;
const OBJ_GET_INFO_BY_FD: libc::c_int = 15;

/// The head of union bpf_attr for BPF_PROG_GET_FD_BY_ID.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ById {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

/// The same for BPF_OBJ_GET_INFO_BY_FD.
#[repr(C)]
#[derive(Clone, Copy)]
struct InfoRequest {
    fd: u32,
    info_bytes: u32,
    info: u64,
}

/// The first fields of struct bpf_prog_info, up to the name.
#[repr(C)]
#[derive(Default)]
struct ProgramInfo {
    before: [u64; 8],
    name: [u8; 16],
}
const _: () = assert!(size_of::<ProgramInfo>() == 80);

/// What the loaded program of that id is called. CAP_SYS_ADMIN is needed.
///
/// # Errors
/// There is none, or we may not look.
pub fn program_name(id: u32) -> Result<String, Errno> {
    let mut by_id = ById { id, ..ById::default() };
    // SAFETY: the structure is the head of the union for this command, without pointers.
    let fd = unsafe { bpf(PROG_GET_FD_BY_ID, &mut by_id)? };
    let fd = i32::try_from(fd).map_err(|_| Errno::IO)?;
    // SAFETY: the command that just succeeded made this descriptor for us.
    let program = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut info = ProgramInfo::default();
    let mut request = InfoRequest {
        fd: program.as_raw_fd() as u32,
        info_bytes: size_of::<ProgramInfo>() as u32,
        info: (&raw mut info).expose_provenance() as u64,
    };
    // SAFETY: the structure is the head of the union for this command; its pointer leads to as many
    // bytes as said, which outlive the call, and any bytes are a `ProgramInfo`. The counts in it
    // are zero, so that the kernel follows none of its pointers.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut request)? };
    let name = info.name.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_answers_behind_the_head_of_a_query_writes_over_nothing() {
        // BPF_TCX_INGRESS; the loopback is interface 1 of any namespace. The kernel writes a
        // revision here, since Linux 6.6.
        let query = Query { target: 1, attach_type: 46, ..Query::default() };
        let mut with_neighbours = (query, [0xa5_u8; 64]);
        // SAFETY: the structure is the head of the union for this command, without pointers.
        let done = unsafe { bpf(PROG_QUERY, &mut with_neighbours.0) };
        assert!(done.is_ok() || done == Err(Errno::INVAL), "root may ask: {done:?}");
        assert_eq!(with_neighbours.1, [0xa5; 64]);
    }

    #[test]
    fn a_program_that_there_is_not_has_no_name() {
        assert!(program_name(u32::MAX).is_err());
    }
}
