//! A sealed memfd, mapped, with the header that makes its layout negotiable.
//!
//! A region is the only kind of memory that may be shown to another process. Its size is sealed
//! (a peer that shrinks it cannot make us fault) and its first bytes say what it is, so that an
//! old program and a new daemon notice each other instead of misreading.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// First word of every region: "CALISTO1" in memory order.
pub const REGION_MAGIC: u64 = u64::from_le_bytes(*b"CALISTO1");

/// The first bytes of a region. Plain data, little endian like the machine (Calisto runs on
/// x86-64 and little-endian arm64).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RegionHeader {
    /// [`REGION_MAGIC`].
    pub magic: u64,
    /// [`RegionKind::layout_version`]; a reader refuses any other.
    pub version: u32,
    /// What the content is: frames, rings, flow state.
    pub kind: RegionKind,
    /// Bits of optional features; an unknown bit must be refused.
    pub features: u64,
    /// Bytes from the region's start to its content.
    pub content_offset: u64,
    /// Bytes of content.
    pub content_bytes: u64,
}

/// What a region holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RegionKind {
    /// Packet frames of one size; the header sits in chunk 0, which is never given out.
    Frames = 1,
    /// Per-flow bytes.
    FlowState = 2,
    /// The rings and buffers of one application ([`crate::app`]).
    App = 3,
    /// The bits and gates of a ready set ([`crate::ready_set`]).
    ReadySet = 4,
    /// The sockets of one application, or those between two ([`crate::stream`]).
    Stream = 5,
    /// What is to be known of an application's connections when the daemon is dead
    /// ([`crate::sockets::RepairTable`]).
    Repair = 6,
}

impl RegionKind {
    /// The version of how what a region of this kind holds is laid out.
    pub const fn layout_version(self) -> u32 {
        match self {
            Self::Frames | Self::FlowState | Self::App | Self::ReadySet | Self::Repair => 1,
            Self::Stream => 2,
        }
    }

    /// Whether most of it is never used, so that its pages come with their first touch.
    const fn is_sparse(self) -> bool {
        matches!(self, Self::Stream | Self::Repair)
    }

    /// Bytes of such a region of another process, at most: beyond it the sizes are nonsense.
    const fn mapped_bytes_max(self) -> u64 {
        match self {
            Self::Stream => 1 << 40,
            _ => 1 << 32,
        }
    }
}

/// A mapped memfd of fixed size.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    bytes: usize,
    /// Kept by whoever made it, to show it to others; a mapping needs no descriptor.
    file: Option<OwnedFd>,
}

// SAFETY: a `Region` is an address range; who may touch which bytes is decided by the types that
// hand out parts of it (`Frame`, `FlowState`), and those carry their own argument.
unsafe impl Send for Region {}
// SAFETY: as for `Send`; `&Region` gives out no reference to the bytes.
unsafe impl Sync for Region {}

impl Region {
    /// Makes a region of at least `content_bytes` after a content offset of `content_offset`,
    /// all pages present (a page fault on the data path costs 2.6 us) unless the kind is sparse.
    ///
    /// # Errors
    /// The system call that failed, and what to do.
    pub fn create(
        name: &str,
        kind: RegionKind,
        content_offset: usize,
        content_bytes: usize,
    ) -> Result<Self, RegionError> {
        let page = rustix::param::page_size();
        let bytes = content_offset
            .max(size_of::<RegionHeader>())
            .checked_add(content_bytes)
            .and_then(|bytes| bytes.checked_next_multiple_of(page))
            .ok_or(RegionError {
                step: "size",
                bytes: usize::MAX,
                errno: rustix::io::Errno::NOMEM,
            })?;
        let failed = |step| move |errno| RegionError { step, bytes, errno };
        let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(failed("memfd_create"))?;
        rustix::fs::ftruncate(&file, bytes as u64).map_err(failed("ftruncate"))?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .map_err(failed("F_ADD_SEALS"))?;
        let base = map_whole(&file, bytes, kind).map_err(failed("mmap"))?;
        let region = Self { base, bytes, file: Some(file) };
        let header = RegionHeader {
            magic: REGION_MAGIC,
            version: kind.layout_version(),
            kind,
            features: 0,
            content_offset: content_offset as u64,
            content_bytes: content_bytes as u64,
        };
        // SAFETY: the mapping is page aligned and longer than a header, and nobody else has it yet.
        unsafe { region.base.as_ptr().cast::<RegionHeader>().write(header) };
        Ok(region)
    }

    /// Maps a region that another process made, after checking that it is one: sealed against
    /// shrinking, of this `kind`, this version and no unknown feature.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn map(file: OwnedFd, kind: RegionKind) -> Result<Self, MapError> {
        let seals = rustix::fs::fcntl_get_seals(&file).map_err(|_| MapError::NotSealed)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(MapError::NotSealed);
        }
        let bytes = rustix::fs::fstat(&file).map_err(MapError::System)?.st_size as u64;
        if bytes < size_of::<RegionHeader>() as u64 || bytes > kind.mapped_bytes_max() {
            return Err(MapError::Sizes);
        }
        let bytes = bytes as usize;
        let base = map_whole(&file, bytes, kind).map_err(MapError::System)?;
        let region = Self { base, bytes, file: None };
        // SAFETY: page aligned and long enough, as was checked; read as plain numbers, because the
        // kind need not be one that we know.
        let [magic, version_and_kind, features, ..] =
            unsafe { region.base.as_ptr().cast::<[u64; 5]>().read_volatile() };
        let (version, found) = (version_and_kind as u32, (version_and_kind >> 32) as u32);
        if magic != REGION_MAGIC || found != kind as u32 {
            return Err(MapError::Kind);
        }
        if version != kind.layout_version() || features != 0 {
            return Err(MapError::Version { version, features, known: kind.layout_version() });
        }
        Ok(region)
    }

    /// The first byte. Which bytes may be touched is up to the type that owns the region.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Gives the pages of `bytes` bytes from `offset` on back to the system: they read as zeros
    /// until somebody writes there. False: this region is another process's, the stretch is not of
    /// whole pages, or the kernel refuses.
    pub(crate) fn discard(&self, offset: u64, bytes: u64) -> bool {
        let page = rustix::param::page_size() as u64;
        let is_inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes as u64);
        if !is_inside || !offset.is_multiple_of(page) || !bytes.is_multiple_of(page) {
            return false;
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let file = self.file.as_ref();
        file.is_some_and(|file| rustix::fs::fallocate(file, flags, offset, bytes).is_ok())
    }

    /// Length of the mapping.
    pub fn len_bytes(&self) -> usize {
        self.bytes
    }
}

/// Maps a file whose size is sealed, all of it, every page present if the kind wants that.
fn map_whole(
    file: &OwnedFd,
    bytes: usize,
    kind: RegionKind,
) -> Result<NonNull<u8>, rustix::io::Errno> {
    let presence = if kind.is_sparse() { MapFlags::NORESERVE } else { MapFlags::POPULATE };
    // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing of ours, and
    // the sealed size keeps every page of it backed for as long as it is mapped.
    let base = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | presence,
            file,
            0,
        )
    }?;
    // A process that dies with a core dump is not dead before all of that is written, and whoever
    // goes on with connections then waits for that. What programs say is not the dump's either.
    // SAFETY: the whole of our own mapping; what it holds does not change.
    let _ = unsafe { rustix::mm::madvise(base, bytes, rustix::mm::Advice::LinuxDontDump) };
    Ok(NonNull::new(base.cast()).expect("mmap never returns page zero"))
}

impl AsFd for Region {
    /// The memfd.
    ///
    /// # Panics
    /// For a region that was mapped, not made: whoever gave us the descriptor has it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_ref().expect("only whoever made a region shows it to others").as_fd()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: base and length are those of our own mapping; the types that lend out parts of
        // it keep it alive while anything is lent.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "unmapping a whole own mapping cannot fail");
    }
}

/// Making a region failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionError {
    step: &'static str,
    bytes: usize,
    errno: rustix::io::Errno,
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, bytes, errno } = self;
        write!(
            f,
            "cannot make a shared region of {bytes} bytes: {step}: {errno}; \
             ask for fewer or smaller frames, or raise the memory limit of this process"
        )
    }
}

impl std::error::Error for RegionError {}

/// A region of another process cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// Its maker could shrink it under us.
    NotSealed,
    /// It is no region, or not of the kind that was expected.
    Kind,
    /// Another version of the layout, or features that this program does not know.
    Version {
        /// Its version.
        version: u32,
        /// Its features.
        features: u64,
        /// The version that this program knows.
        known: u32,
    },
    /// Its sizes cannot be.
    Sizes,
    /// A system call failed.
    System(rustix::io::Errno),
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSealed => f.write_str("the shared memory is not sealed against shrinking"),
            Self::Kind => f.write_str("the shared memory is none of the expected kind"),
            Self::Version { version, features, known } => write!(
                f,
                "the shared memory has layout version {version} (features {features:#x}) and this \
                 program speaks {known}: build both from the same release"
            ),
            Self::Sizes => f.write_str("the shared memory is not as long as it says"),
            Self::System(errno) => write!(f, "cannot map the shared memory: {errno}"),
        }
    }
}

impl std::error::Error for MapError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_mapped_by_those_who_expect_its_kind_and_by_nobody_else() {
        let region = Region::create("test", RegionKind::App, 64, 8192).expect("8 KiB fit anywhere");
        let fd = || region.as_fd().try_clone_to_owned().expect("descriptors are left");
        assert_eq!(Region::map(fd(), RegionKind::App).expect("it is one").len_bytes(), 12288);
        assert_eq!(Region::map(fd(), RegionKind::Frames).expect_err("it is none"), MapError::Kind);
        // SAFETY: the header's version lies at byte 8 of a mapping that only this test has.
        unsafe { region.base().add(8).cast::<u32>().write(9) };
        let error = Region::map(fd(), RegionKind::App).expect_err("of another time");
        assert!(error.to_string().contains("version 9"), "{error}");
    }

    #[test]
    fn a_file_that_may_shrink_is_refused() {
        let file = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).expect("memory is left");
        rustix::fs::ftruncate(&file, 8192).expect("it is ours");
        assert_eq!(Region::map(file, RegionKind::App).expect_err("unsealed"), MapError::NotSealed);
    }

    #[test]
    fn a_region_is_filled_with_zeros_after_its_header_and_cannot_be_resized() {
        let region =
            Region::create("test", RegionKind::Frames, 4096, 8192).expect("12 KiB fit anywhere");
        assert_eq!(region.len_bytes(), 12288);
        // SAFETY: offset 4096 is inside the mapping and nobody else has it.
        assert_eq!(unsafe { region.base().as_ptr().add(4096).read() }, 0);
        assert!(rustix::fs::ftruncate(&region, 1 << 20).is_err());
        assert!(rustix::fs::ftruncate(&region, 0).is_err());
    }

    #[test]
    fn no_region_is_in_a_core_dump() {
        let region = Region::create("dumped", RegionKind::App, 64, 8192).expect("8 KiB fit");
        let fd = region.as_fd().try_clone_to_owned().expect("descriptors are left");
        let mapped = Region::map(fd, RegionKind::App).expect("it is one");
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("every process has one");
        for one in [&region, &mapped] {
            let begin = format!("{:x}-", one.base().as_ptr().addr());
            let mut lines = maps.lines().skip_while(|line| !line.starts_with(&begin));
            let flags = lines.find(|line| line.starts_with("VmFlags:")).expect("each has some");
            assert!(flags.split_whitespace().any(|flag| flag == "dd"), "{flags}");
        }
    }

    #[test]
    fn a_region_too_large_for_any_machine_is_refused_with_a_sentence() {
        let error = Region::create("test", RegionKind::Frames, 4096, usize::MAX - 5000)
            .expect_err("nobody has 16 EiB");
        assert!(error.to_string().contains("fewer or smaller frames"), "{error}");
    }
}
