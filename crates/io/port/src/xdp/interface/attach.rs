//! How a program comes onto an interface: first, or beside another owner's.

use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use sys::capability::Capability;
use sys::{ethtool, interface};

use super::{AttachMode, TIMEOUT};
use crate::OpenError;
use crate::xdp::bpf;
use crate::xdp::host::{self, Host};
use crate::xdp::if_xdp::{XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE};

/// How the program came to be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Native,
    Generic,
    /// Generic, because the driver said this to native.
    FellBack(Errno),
    /// By the process that passed the descriptors.
    Inherited,
    /// By another owner, who has other queues.
    Shared {
        generic: bool,
    },
}

impl Mode {
    /// Of a program that another process attached nothing is known.
    pub(super) fn is_generic(self) -> bool {
        matches!(self, Self::Generic | Self::FellBack(_) | Self::Shared { generic: true })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native => f.write_str("native"),
            Self::Generic => f.write_str("generic"),
            Self::FellBack(errno) => write!(f, "generic (the driver refused native XDP: {errno})"),
            Self::Inherited => f.write_str("attached by the parent"),
            Self::Shared { generic } => {
                let mode = if *generic { "generic" } else { "native" };
                write!(f, "{mode} (shared with the owner of other queues)")
            }
        }
    }
}

/// An interface as it was when the program came onto it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) index: u32,
    pub(super) mac: [u8; 6],
    /// Bytes of its largest packet.
    pub(super) mtu: u32,
    /// Nothing waits between what is sent and the device.
    pub(super) is_queueless: bool,
    pub(super) is_veth: bool,
    /// Receive queues in use.
    pub(super) queues: u32,
    pub(super) mode: Mode,
}

impl Found {
    pub(super) fn of(interface: &interface::Interface, mode: Mode) -> Result<Self, OpenError> {
        let interface::Interface { name, index, mac, mtu, qdisc, .. } = interface;
        Ok(Self {
            index: *index,
            mac: *mac,
            mtu: *mtu,
            is_queueless: qdisc == "noqueue",
            is_veth: ethtool::driver(name).is_ok_and(|driver| driver.name == "veth"),
            queues: ethtool::channels(name)?.rx,
            mode,
        })
    }
}

/// How we came onto an interface.
pub(super) enum Placed {
    /// Our program is attached to it.
    First(OwnedFd),
    /// Another owner's is, which has a place for ours.
    Joined(Host),
}

/// Attaches the program, or finds a place with the one that is there. One that shares nothing may
/// be just going (the kernel removes it with the last copy of its descriptor, in its own time):
/// wait that moment, so that a restart does not fail.
pub(super) fn place(
    mut interface: interface::Interface,
    program: BorrowedFd<'_>,
    mode: AttachMode,
) -> Result<(interface::Interface, Mode, Placed), OpenError> {
    let end = sys::clock::now() + TIMEOUT;
    loop {
        let refused = match link(&interface, program, mode) {
            Ok((mode, fd)) => return Ok((interface, mode, Placed::First(fd))),
            Err(refused @ OpenError::OtherProgram { .. }) => refused,
            Err(error) => return Err(error),
        };
        interface = interface::by_name(&interface.name)?;
        if let Some(attached) = interface.xdp
            && (mode == AttachMode::Probe || (mode == AttachMode::Generic) == attached.generic)
            && let Ok(Some(host)) = host::find(attached.program_id)
        {
            let mode = Mode::Shared { generic: attached.generic };
            return Ok((interface, mode, Placed::Joined(host)));
        }
        if sys::clock::now() >= end {
            return Err(refused);
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Attaches the program: in the driver, or where that is wanted on socket buffers. A driver that
/// cannot is [`OpenError::NoNativeMode`].
pub(super) fn link(
    interface: &interface::Interface,
    program: BorrowedFd<'_>,
    mode: AttachMode,
) -> Result<(Mode, OwnedFd), OpenError> {
    let attach = |flags| bpf::link_xdp(program, interface.index, flags);
    let name = || interface.name.clone();
    let failed = |errno| match errno {
        // A link or a program is there already (EBUSY), or one in the other mode (EEXIST).
        Errno::BUSY | Errno::EXIST => OpenError::OtherProgram {
            interface: name(),
            program_id: interface.xdp.map(|attached| attached.program_id),
        },
        errno => OpenError::of(
            format!("attach an XDP program to {}", interface.name),
            errno,
            &[Capability::NetAdmin, Capability::Bpf],
            "try mode=generic, or use af_packet",
        ),
    };
    if mode == AttachMode::Generic {
        return attach(XDP_FLAGS_SKB_MODE).map(|fd| (Mode::Generic, fd)).map_err(failed);
    }
    match attach(XDP_FLAGS_DRV_MODE) {
        Ok(fd) => Ok((Mode::Native, fd)),
        Err(errno @ (Errno::BUSY | Errno::EXIST | Errno::PERM | Errno::NODEV)) => {
            Err(failed(errno))
        }
        Err(errno) => Err(OpenError::NoNativeMode { interface: name(), errno }),
    }
}
