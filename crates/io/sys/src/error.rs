//! A system call that failed, as a sentence for a person.

use std::borrow::Cow;
use std::fmt;

use rustix::io::Errno;

/// What was being done, what the kernel said, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysError {
    doing: Cow<'static, str>,
    errno: Errno,
    advice: Cow<'static, str>,
}

impl SysError {
    /// "cannot {doing}: {errno}; {advice}".
    pub fn new(
        doing: impl Into<Cow<'static, str>>,
        errno: Errno,
        advice: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { doing: doing.into(), errno, advice: advice.into() }
    }

    /// The same with the errno of the libc call that has just failed in this thread.
    pub fn last(doing: impl Into<Cow<'static, str>>, advice: impl Into<Cow<'static, str>>) -> Self {
        Self::new(doing, last_errno(), advice)
    }

    /// What the kernel said.
    pub fn errno(&self) -> Errno {
        self.errno
    }
}

/// The errno that the last failed libc call of this thread left.
pub(crate) fn last_errno() -> Errno {
    let code = std::io::Error::last_os_error().raw_os_error();
    code.map_or(Errno::IO, Errno::from_raw_os_error)
}

impl fmt::Display for SysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { doing, errno, advice } = self;
        write!(f, "cannot {doing}: {errno}")?;
        if advice.is_empty() { Ok(()) } else { write!(f, "; {advice}") }
    }
}

impl std::error::Error for SysError {}
