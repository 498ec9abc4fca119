//! How many BPF programs hang somewhere: BPF_PROG_QUERY of bpf(2).

use rustix::io::Errno;

/// BPF_PROG_QUERY of enum bpf_cmd.
const PROG_QUERY: libc::c_int = 16;

/// BPF_F_QUERY_EFFECTIVE: those of the control groups above as well.
pub(crate) const EFFECTIVE: u32 = 1;

/// The head of union bpf_attr for BPF_PROG_QUERY; the kernel takes the rest as zero.
#[repr(C)]
#[derive(Default)]
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
    // SAFETY: the structure is the head of union bpf_attr for this command, as long as said, and
    // without pointers; the kernel writes into it only.
    let done =
        unsafe { libc::syscall(libc::SYS_bpf, PROG_QUERY, &raw mut query, size_of::<Query>()) };
    if done < 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    Ok(query.program_count)
}
