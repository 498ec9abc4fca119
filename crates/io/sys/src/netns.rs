//! Network namespaces, per thread.
//!
//! A thread that enters a namespace keeps its sockets of the old one; new sockets, interface
//! names and ioctls are those of the new one. /sys is *not*: it shows the namespace in which it
//! was mounted, so nothing in this crate asks it about interfaces.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::LinkNameSpaceType;

use crate::SysError;

/// Where ip-netns(8) keeps the names.
const NAMED: &str = "/run/netns";

/// A network namespace, kept alive by this handle.
#[derive(Debug)]
pub struct Netns {
    fd: OwnedFd,
}

impl Netns {
    /// The one that `ip netns add NAME` made.
    ///
    /// # Errors
    /// There is none of that name, or it may not be opened.
    pub fn named(name: &str) -> Result<Self, SysError> {
        if name.is_empty() || name.contains('/') || name == "." || name == ".." {
            let doing = format!("open network namespace {name:?}");
            return Err(SysError::new(doing, Errno::INVAL, "give a name, not a path"));
        }
        Self::open(&PathBuf::from(NAMED).join(name))
    }

    /// The one behind a path like /proc/PID/ns/net.
    ///
    /// # Errors
    /// As [`Self::named`].
    pub fn open(path: &Path) -> Result<Self, SysError> {
        let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(
            |errno| {
                let doing = format!("open network namespace {}", path.display());
                SysError::new(doing, errno, "see `ip netns list` for the names there are")
            },
        )?;
        Ok(Self { fd })
    }

    /// The one that the calling thread is in.
    ///
    /// # Errors
    /// /proc is not mounted.
    pub fn current() -> Result<Self, SysError> {
        Self::open(Path::new("/proc/thread-self/ns/net"))
    }

    /// Moves the calling thread in.
    ///
    /// # Errors
    /// CAP_SYS_ADMIN is missing, or the handle is not of a network namespace.
    pub fn enter(&self) -> Result<(), SysError> {
        rustix::thread::move_into_link_name_space(self.fd.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|errno| {
                let advice = "run as root, and name a network namespace";
                SysError::new("enter a network namespace", errno, advice)
            })
    }

    /// Runs `work` inside and brings the calling thread back.
    ///
    /// # Errors
    /// As [`Self::enter`]. When the way back fails the thread is of no more use.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> Result<T, SysError> {
        let home = Self::current()?;
        self.enter()?;
        let result = work();
        home.enter()?;
        Ok(result)
    }

    /// Equal for handles of the same namespace.
    pub fn id(&self) -> u64 {
        rustix::fs::fstat(&self.fd).map_or(0, |stat| stat.st_ino)
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Moves the calling thread into the namespace that `ip netns add NAME` made.
///
/// # Errors
/// As [`Netns::named`] and [`Netns::enter`].
pub fn enter(name: &str) -> Result<(), SysError> {
    Netns::named(name)?.enter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nobody_made_is_an_error_that_says_where_to_look() {
        let error = enter("no-such-namespace").expect_err("nobody made it").to_string();
        assert!(error.contains("ip netns list"), "{error}");
    }

    #[test]
    fn a_path_is_not_a_name() {
        for name in ["../../etc/passwd", "", ".", "a/b"] {
            let error = Netns::named(name).expect_err("not a name").to_string();
            assert!(error.contains("give a name"), "{error}");
        }
    }

    #[test]
    fn the_current_namespace_equals_itself() {
        let one = Netns::current().expect("proc is mounted").id();
        assert_ne!(one, 0);
        assert_eq!(one, Netns::current().expect("proc is mounted").id());
    }
}
