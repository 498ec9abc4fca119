//! Programs run over a packet in the kernel, without a network.

use std::os::fd::AsFd;

use rustix::io::Errno;

use super::{Attributes, bpf, command, expose, raw};

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
}
// SAFETY: the first fields of the struct of BPF_PROG_TEST_RUN; the packet outlives the call.
unsafe impl Attributes for TestRun {}

/// Runs `program` once over `packet`; what it answers.
pub(in crate::xdp) fn test_run(program: impl AsFd, packet: &[u8]) -> Result<u32, Errno> {
    expose(packet);
    let mut attributes = TestRun {
        prog_fd: raw(program),
        data_size_in: packet.len() as u32,
        data_in: packet.as_ptr().addr() as u64,
        repeat: 1,
        ..TestRun::default()
    };
    bpf(command::PROG_TEST_RUN, &mut attributes)?;
    Ok(attributes.retval)
}
