//! An interface with our XDP program on it; its queues are [`super::XdpPort`]s.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use base::Nanos;
use rustix::io::Errno;
use sys::capability::Capability;
use sys::netns::Netns;
use sys::{SysError, ethtool, interface};

use super::bpf::{self, MAP_TYPE_XSKMAP, Map};
use super::if_xdp::{XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE};
use super::{Ours, Take, program};
use crate::OpenError;

/// How the program hooks in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttachMode {
    /// Native where the driver has it, else generic, said in the port's mode.
    #[default]
    Probe,
    /// In the driver, before a socket buffer exists; fail where that is not possible.
    Native,
    /// On socket buffers: works on every interface, costs a copy more.
    Generic,
}

/// How long what a dead predecessor held may still be busy.
pub(super) const PATIENCE: Nanos = Nanos::from_millis(500);

/// Queues that the map of sockets has room for.
const QUEUES_MAX: u32 = 1024;

/// An interface with our program attached. The program goes when this is dropped or the process
/// dies, and all traffic is the kernel's again.
#[derive(Debug)]
pub struct XdpInterface {
    name: String,
    /// Where [`Self::index`] means this interface: in another namespace it is another's.
    namespace: Netns,
    index: u32,
    mac: [u8; 6],
    mtu: u32,
    is_queueless: bool,
    queues: u32,
    take: Take,
    mode: Mode,
    ours: Ours,
    /// AF_XDP sockets by queue.
    sockets: Map,
    /// `None`: attached by whoever gave us the maps.
    _link: Option<OwnedFd>,
}

/// How the program came to be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Native,
    Generic,
    /// Generic, because the driver said this to native.
    FellBack(Errno),
    /// By the process that passed the descriptors.
    Inherited,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native => f.write_str("native"),
            Self::Generic => f.write_str("generic"),
            Self::FellBack(errno) => write!(f, "generic (the driver refused native XDP: {errno})"),
            Self::Inherited => f.write_str("attached by the parent"),
        }
    }
}

/// The descriptors of an attached program, as another process may hand them to us.
#[derive(Debug)]
pub struct XdpRights {
    /// The map of what is ours.
    pub ours: OwnedFd,
    /// The map of sockets by queue.
    pub sockets: OwnedFd,
    /// The link that keeps the program attached, when we are to keep it.
    pub link: Option<OwnedFd>,
}

impl XdpInterface {
    /// Attaches our program to the interface called `name` in the calling thread's namespace.
    ///
    /// # Errors
    /// No such interface, missing rights, another program there, or a driver that refuses.
    pub fn attach(name: &str, mode: AttachMode, take: Take) -> Result<Self, OpenError> {
        let interface = interface::by_name(name)?;
        let ours = Ours::create()?;
        let sockets =
            Map::create(MAP_TYPE_XSKMAP, "calisto_xsks", 4, 4, QUEUES_MAX, 0).map_err(|errno| {
                let advice = "the kernel lacks AF_XDP: use af_packet";
                OpenError::of("make a map of sockets", errno, &[Capability::Bpf], advice)
            })?;
        let code = program::assemble(take, ours.as_fd().as_raw_fd(), sockets.as_fd().as_raw_fd());
        let program = bpf::load("calisto", &code).map_err(|refused| {
            let needs = [Capability::Bpf, Capability::NetAdmin];
            match refused.errno {
                Errno::PERM => OpenError::of("load an XDP program", refused.errno, &needs, ""),
                errno => {
                    let tail = refused.log.trim_end().lines().rev().take(4).collect::<Vec<_>>();
                    let tail = tail.into_iter().rev().collect::<Vec<_>>().join(" / ");
                    let advice = format!("report this; the verifier said: {tail}");
                    SysError::new("load an XDP program", errno, advice).into()
                }
            }
        })?;
        let (interface, mode, link) = link_patiently(interface, program.as_fd(), mode)?;
        Self::new(interface, take, mode, ours, sockets, Some(link))
    }

    /// Uses a program that somebody with the rights has attached.
    ///
    /// # Errors
    /// No such interface.
    pub fn from_rights(name: &str, take: Take, rights: XdpRights) -> Result<Self, OpenError> {
        let interface = interface::by_name(name)?;
        let XdpRights { ours, sockets, link } = rights;
        let (ours, sockets) = (Ours::from_fd(ours), Map::from_fd(sockets, 4, 4));
        Self::new(interface, take, Mode::Inherited, ours, sockets, link)
    }

    fn new(
        interface: interface::Interface,
        take: Take,
        mode: Mode,
        ours: Ours,
        sockets: Map,
        link: Option<OwnedFd>,
    ) -> Result<Self, OpenError> {
        let queues = ethtool::channels(&interface.name)?.rx;
        let namespace = Netns::current()?;
        let interface::Interface { name, index, mac, mtu, qdisc, .. } = interface;
        Ok(Self {
            name,
            namespace,
            index,
            mac,
            mtu,
            is_queueless: qdisc == "noqueue",
            queues,
            take,
            mode,
            ours,
            sockets,
            _link: link,
        })
    }

    /// What the program takes, to be changed while traffic runs.
    pub fn ours(&self) -> &Ours {
        &self.ours
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Queues that the interface used when we attached: ids are below it.
    pub fn queues(&self) -> u32 {
        self.queues
    }

    /// The map of sockets by queue, to hand to a successor.
    pub fn sockets_fd(&self) -> BorrowedFd<'_> {
        self.sockets.as_fd()
    }

    /// The link that keeps the program attached, to hand to a successor.
    pub fn link_fd(&self) -> Option<BorrowedFd<'_>> {
        self._link.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// Runs `work` in the interface's namespace: a port may be opened by a thread that is
    /// elsewhere, where the same index is an interface that is none of our business.
    pub(super) fn at_home<T>(&self, work: impl FnOnce() -> T) -> Result<T, OpenError> {
        if Netns::current()?.id() == self.namespace.id() {
            return Ok(work());
        }
        Ok(self.namespace.within(work)?)
    }

    /// Whether what is sent by whatever socket leaves at once, so that it keeps its order.
    pub(super) fn is_queueless(&self) -> bool {
        self.is_queueless
    }

    pub(super) fn mac(&self) -> [u8; 6] {
        self.mac
    }

    pub(super) fn mtu(&self) -> u32 {
        self.mtu
    }

    pub(super) fn take(&self) -> Take {
        self.take
    }

    /// How the program is attached, for people.
    pub fn mode(&self) -> String {
        self.mode.to_string()
    }

    /// From the next packet on, packets of `queue` that are ours go to `socket`.
    pub(super) fn deliver(&self, queue: u16, socket: BorrowedFd<'_>) -> Result<(), OpenError> {
        let key = u32::from(queue).to_ne_bytes();
        self.sockets.update(&key, &socket.as_raw_fd().to_ne_bytes()).map_err(|errno| {
            let doing = format!("direct queue {queue} of {} to its socket", self.name);
            OpenError::of(doing, errno, &[Capability::Bpf], "")
        })
    }

    /// From the next packet on, packets of `queue` go to the kernel.
    pub(super) fn stop_delivery(&self, queue: u16) {
        // The kernel removes the entry too when the socket closes.
        let _ = self.sockets.delete(&u32::from(queue).to_ne_bytes());
    }
}

/// Attaches the program. One of a process that has just ended, or ours of a moment ago, may still
/// be there (the kernel removes it with the last copy of its descriptor, in its own time): wait
/// that moment, so that a restart does not fail.
fn link_patiently(
    mut interface: interface::Interface,
    program: BorrowedFd<'_>,
    mode: AttachMode,
) -> Result<(interface::Interface, Mode, OwnedFd), OpenError> {
    let end = sys::clock::now() + PATIENCE;
    loop {
        match link(&interface, program, mode) {
            Ok((mode, fd)) => return Ok((interface, mode, fd)),
            Err(OpenError::OtherProgram { .. }) if sys::clock::now() < end => {
                std::thread::sleep(std::time::Duration::from_millis(5));
                interface = interface::by_name(&interface.name)?;
            }
            Err(error) => return Err(error),
        }
    }
}

fn link(
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
        Err(errno) if mode == AttachMode::Native => {
            Err(OpenError::NoNativeMode { interface: name(), errno })
        }
        Err(errno) => {
            attach(XDP_FLAGS_SKB_MODE).map(|fd| (Mode::FellBack(errno), fd)).map_err(failed)
        }
    }
}
