//! An interface with our XDP program on it; its queues are [`super::XdpPort`]s.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use base::Nanos;
use rustix::io::Errno;
use sys::capability::Capability;
use sys::netns::Netns;
use sys::{SysError, ethtool, interface};

use super::bpf::{self, MAP_TYPE_XSKMAP, Map};
use super::host::{self, Host, Owners, PROGRAM_NAME, QUEUES_MAX};
use super::if_xdp::{XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE};
use super::{Flows, Ours, Take, program};
use crate::{Filter, Judge, OpenError};

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
pub(super) const TIMEOUT: Nanos = Nanos::from_millis(500);

/// An interface with our program attached. The program goes when this is dropped or the process
/// dies, and all traffic is the kernel's again; if others of ours use it too, that of our queues.
#[derive(Debug)]
pub struct XdpInterface {
    name: String,
    /// Where [`Self::index`] means this interface: in another namespace it is another's.
    namespace: Netns,
    index: u32,
    mac: [u8; 6],
    mtu: u32,
    is_queueless: bool,
    is_veth: bool,
    queues: u32,
    take: Take,
    mode: Mode,
    ours: Ours,
    flows: Flows,
    /// AF_XDP sockets by queue.
    sockets: Map,
    /// `None`: attached by whoever gave us the maps.
    link: Option<OwnedFd>,
    /// Programs by queue; `None`: whoever gave us the maps has it.
    owners: Option<Owners>,
    /// What our queues get in there, when the attached program is another owner's.
    own: Option<OwnedFd>,
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
    /// By another owner, who has other queues.
    Shared {
        generic: bool,
    },
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

/// The descriptors of an attached program, as another process may hand them to us.
#[derive(Debug)]
pub struct XdpRights {
    /// The map of what is ours.
    pub ours: OwnedFd,
    /// The map of connections that are ours.
    pub flows: OwnedFd,
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
        let (ours, flows) = (Ours::create()?, Flows::create()?);
        let sockets =
            Map::create(MAP_TYPE_XSKMAP, "calisto_xsks", 4, 4, QUEUES_MAX, 0).map_err(|errno| {
                let advice = "the kernel lacks AF_XDP: use af_packet";
                OpenError::of("make a map of sockets", errno, &[Capability::Bpf], advice)
            })?;
        let assemble = |owners: Option<&Owners>| {
            let owners = owners.map(|owners| owners.as_fd().as_raw_fd());
            let (ours_fd, flows_fd) = (ours.as_fd().as_raw_fd(), flows.as_fd().as_raw_fd());
            let taken = program::Taken { ours_fd, flows_fd };
            load(&program::assemble(take, taken, sockets.as_fd().as_raw_fd(), owners))
        };
        let owners = Owners::create().map_err(|errno| {
            OpenError::of("make a map of programs", errno, &[Capability::Bpf], "report this")
        })?;
        let program = assemble(Some(&owners))?;
        let (interface, mode, placed) = place(interface, program.as_fd(), mode)?;
        let (owners, link, own) = match placed {
            Placed::First(link) => (owners, link, None),
            Placed::Joined(Host { owners, link }) => (owners, link, Some(assemble(None)?)),
        };
        let new = Self::new(interface, take, mode, (ours, flows), sockets, Some(link))?;
        Ok(Self { owners: Some(owners), own, ..new })
    }

    /// Uses a program that somebody with the rights has attached.
    ///
    /// # Errors
    /// No such interface.
    pub fn from_rights(name: &str, take: Take, rights: XdpRights) -> Result<Self, OpenError> {
        let interface = interface::by_name(name)?;
        let XdpRights { ours, flows, sockets, link } = rights;
        let taken = (Ours::from_fd(ours), Flows::from_fd(flows));
        Self::new(interface, take, Mode::Inherited, taken, Map::from_fd(sockets, 4, 4), link)
    }

    fn new(
        interface: interface::Interface,
        take: Take,
        mode: Mode,
        (ours, flows): (Ours, Flows),
        sockets: Map,
        link: Option<OwnedFd>,
    ) -> Result<Self, OpenError> {
        let queues = ethtool::channels(&interface.name)?.rx;
        let is_veth = ethtool::driver(&interface.name).is_ok_and(|driver| driver.name == "veth");
        let namespace = Netns::current()?;
        let interface::Interface { name, index, mac, mtu, qdisc, .. } = interface;
        Ok(Self {
            name,
            namespace,
            index,
            mac,
            mtu,
            is_queueless: qdisc == "noqueue",
            is_veth,
            queues,
            take,
            mode,
            ours,
            flows,
            sockets,
            link,
            owners: None,
            own: None,
        })
    }

    /// What the program takes, to be changed while traffic runs.
    pub fn ours(&self) -> &Ours {
        &self.ours
    }

    /// Single connections that the program takes beside, to be changed while traffic runs.
    pub fn flows(&self) -> &Flows {
        &self.flows
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
        self.link.as_ref().map(AsFd::as_fd)
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

    /// Whether its other end is an interface of this host's kernel.
    pub(super) fn is_veth(&self) -> bool {
        self.is_veth
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

    /// From the next packet on, what `filter` wants of the packets of `queue` goes to its socket,
    /// and what it does not want to the kernel; without one, what the program takes. Who applies
    /// the filter.
    pub(super) fn direct(&self, queue: u16, filter: Option<&Filter>) -> Result<Judge, OpenError> {
        let Some(owners) = &self.owners else {
            let why = "the XDP program is another process's".to_owned();
            return Ok(if filter.is_none() { Judge::Kernel } else { Judge::Reader { why } });
        };
        let (program, judge) = match filter.map(|filter| self.load_filter(filter)) {
            Some(Err(why)) => (None, Judge::Reader { why }),
            Some(Ok(program)) => (Some(program), Judge::Kernel),
            None => (None, Judge::Kernel),
        };
        let set = match program.as_ref().or(self.own.as_ref()) {
            Some(program) => owners.set(queue, program.as_fd()),
            None => owners.unset(queue),
        };
        let doing = || format!("choose the packets of queue {queue} of {}", self.name);
        set.map_err(|errno| OpenError::of(doing(), errno, &[Capability::Bpf], "report this"))?;
        Ok(judge)
    }

    /// The program of a filter; why there is none.
    fn load_filter(&self, filter: &Filter) -> Result<OwnedFd, String> {
        let sockets = self.sockets.as_fd().as_raw_fd();
        let code = program::filter::assemble(filter.program(), sockets)?;
        bpf::load(PROGRAM_NAME, &code).map_err(|refused| refused.to_string())
    }

    /// From the next packet on, packets of `queue` go to the kernel.
    pub(super) fn stop_delivery(&self, queue: u16) {
        // The kernel removes the entry too when the socket closes.
        let _ = self.sockets.delete(&u32::from(queue).to_ne_bytes());
        if let Some(owners) = &self.owners {
            // A program that stays finds no socket, and passes everything on.
            let _ = owners.unset(queue);
        }
    }
}

fn load(code: &[super::asm::Instruction]) -> Result<OwnedFd, OpenError> {
    bpf::load(PROGRAM_NAME, code).map_err(|refused| {
        let doing = "load an XDP program";
        let needs = [Capability::Bpf, Capability::NetAdmin];
        match refused.errno {
            Errno::PERM => OpenError::of(doing, refused.errno, &needs, ""),
            errno => SysError::new(doing, errno, format!("report this; {refused}")).into(),
        }
    })
}

/// How we came onto an interface.
enum Placed {
    /// Our program is attached to it.
    First(OwnedFd),
    /// Another owner's is, which has a place for ours.
    Joined(Host),
}

/// Attaches the program, or finds a place with the one that is there. One that shares nothing may
/// be just going (the kernel removes it with the last copy of its descriptor, in its own time):
/// wait that moment, so that a restart does not fail.
fn place(
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
