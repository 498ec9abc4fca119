//! Memory whose pages never come, for tests of what a program holds up by it: whoever copies from
//! it or to it in the kernel waits there, with all locks that it has, until the memory is dropped.
//!
//! An ordinary user has the same of a file system of its own (FUSE). This is userfaultfd(2), for
//! which a test needs nothing but root, on every kernel with CONFIG_USERFAULTFD.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use base::Nanos;

use crate::SysError;
use crate::poll::wait_readable;

/// `_IOWR(0xAA, 0x3f, struct uffdio_api)` and `_IOWR(0xAA, 0x00, struct uffdio_register)` of
/// linux/userfaultfd.h.
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;

/// A page of such memory.
#[derive(Debug)]
pub struct HeldMemory {
    page: Arc<Page>,
    /// Pages come once it is closed. Readable when a thread has begun to wait for one.
    holder: OwnedFd,
}

#[derive(Debug)]
struct Page {
    address: usize,
}

const PAGE_BYTES: usize = 4096;

impl HeldMemory {
    /// A page of it.
    ///
    /// # Errors
    /// The kernel has no userfaultfd(2), or this is not root.
    pub fn new() -> Result<Self, SysError> {
        let failed = |doing: &'static str| SysError::last(doing, "it takes root");
        // SAFETY: the call takes plain numbers.
        let holder =
            unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | libc::O_NONBLOCK) };
        let holder = libc::c_int::try_from(holder).unwrap_or(-1);
        if holder < 0 {
            return Err(failed("make a userfaultfd"));
        }
        // SAFETY: nobody else has that number, which the kernel has just given out.
        let holder = unsafe { OwnedFd::from_raw_fd(holder) };
        // SAFETY: new memory at a place that the kernel chooses.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(failed("map a page"));
        }
        let page = Arc::new(Page { address: address.expose_provenance() });
        // struct uffdio_api: version, features, ioctls. struct uffdio_register: start, length,
        // mode (missing pages), ioctls.
        let mut api = [0xaa_u64, 0, 0];
        let mut register = [page.address as u64, PAGE_BYTES as u64, 1, 0];
        for (request, argument) in
            [(UFFDIO_API, &mut api[..]), (UFFDIO_REGISTER, &mut register[..])]
        {
            // SAFETY: the kernel reads and writes just the words of that structure.
            if unsafe { libc::ioctl(holder.as_raw_fd(), request, argument.as_mut_ptr()) } != 0 {
                return Err(failed("have pages not come"));
            }
        }
        Ok(Self { page, holder })
    }

    /// A thread that sends from there to `socket` with flags of send(2), and has its lock until
    /// this is dropped.
    pub fn send(&self, socket: OwnedFd, flags: i32) -> JoinHandle<()> {
        self.held(move |page| {
            // SAFETY: the page is mapped for as long as this thread has it.
            unsafe { libc::send(socket.as_raw_fd(), page, PAGE_BYTES, flags | libc::MSG_NOSIGNAL) };
        })
    }

    /// A thread that reads from `from` to there.
    pub fn read(&self, from: OwnedFd) -> JoinHandle<()> {
        self.held(move |page| {
            // SAFETY: the page is mapped for as long as this thread has it, and nobody else looks
            // at it.
            unsafe { libc::read(from.as_raw_fd(), page, PAGE_BYTES) };
        })
    }

    /// A thread that waits at `epoll`, a set with something to tell, to be told of it there.
    pub fn wait(&self, epoll: OwnedFd) -> JoinHandle<()> {
        self.held(move |page| {
            // SAFETY: as for reading; an event has less bytes than the page.
            unsafe { libc::epoll_wait(epoll.as_raw_fd(), page.cast(), 1, -1) };
        })
    }

    /// Returns when the thread waits.
    fn held(&self, call: impl FnOnce(*mut libc::c_void) + Send + 'static) -> JoinHandle<()> {
        let page = Arc::clone(&self.page);
        let thread = std::thread::spawn(move || {
            call(std::ptr::with_exposed_provenance_mut(page.address));
        });
        assert!(wait_readable(self.holder.as_fd(), Nanos::from_secs(30)), "nobody copies");
        // struct uffd_msg: the next thread has one of its own.
        let _ = rustix::io::read(&self.holder, &mut [0; 32]);
        thread
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `HeldMemory::new`, and nobody has it any more.
        unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(self.address), PAGE_BYTES) };
    }
}
