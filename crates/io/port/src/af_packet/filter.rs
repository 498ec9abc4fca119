//! A filter on a socket: the kernel runs the program before a packet is queued (socket(7)).

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::filter::Instruction;
use crate::{Filter, Judge, sockopt};

/// `struct sock_fprog`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Program {
    len: u16,
    instructions: *const Instruction,
}
// SAFETY: only made in `set`, where the pointer leads to `len` instructions that outlive the call.
unsafe impl sockopt::Plain for Program {}

/// Makes `socket` receive only what `filter` wants, or everything again.
pub(crate) fn set(socket: BorrowedFd<'_>, filter: Option<&Filter>) -> Result<Judge, Errno> {
    let why = match filter.map(|filter| attach(socket, filter.program())) {
        Some(Ok(())) => return Ok(Judge::Kernel),
        // The kernel knows no loops.
        Some(Err(errno @ (Errno::INVAL | Errno::NOMEM))) => {
            Some(format!("the kernel refuses the program: {errno}"))
        }
        Some(Err(errno)) => return Err(errno),
        None => None,
    };
    match sockopt::set(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0i32) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    Ok(why.map_or(Judge::Kernel, |why| Judge::Reader { why }))
}

fn attach(socket: BorrowedFd<'_>, program: &[Instruction]) -> Result<(), Errno> {
    let len = u16::try_from(program.len()).map_err(|_| Errno::INVAL)?;
    let program = Program { len, instructions: program.as_ptr() };
    sockopt::set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}
