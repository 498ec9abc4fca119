//! An interface with our XDP program on it; its queues are [`super::XdpPort`]s.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::Nanos;
use rustix::io::Errno;
use sys::capability::Capability;
use sys::netns::Netns;
use sys::{SysError, interface};

use self::attach::{Found, Mode, Placed, link, place};
use super::bpf::{self, MAP_TYPE_XSKMAP, Map};
use super::host::{Host, Owners, PROGRAM_NAME, QUEUES_MAX};
use super::station_map::StationMap;
use super::{Flows, Ours, Take, program};
use crate::{Filter, Judge, OpenError, Stations};

mod attach;
mod hooked;

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
    take: Take,
    wanted: AttachMode,
    /// What the program is attached to now; looked at when ports open, never for a packet.
    place: Mutex<Place>,
    ours: Ours,
    flows: Flows,
    /// `None`: whoever gave us the maps has it.
    stations: Option<StationMap>,
    /// AF_XDP sockets by queue.
    sockets: Map,
    /// `None`: whoever gave us the maps has it.
    program: Option<OwnedFd>,
    /// Programs by queue; `None`: whoever gave us the maps has it.
    owners: Option<Owners>,
    /// What our queues get in there, when the attached program is another owner's.
    own: Option<OwnedFd>,
}

#[derive(Debug)]
struct Place {
    found: Found,
    /// `None`: attached by whoever gave us the maps.
    link: Option<OwnedFd>,
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
        let stations = StationMap::create()?;
        stations.set(&[interface.mac])?;
        let sockets =
            Map::create(MAP_TYPE_XSKMAP, "calisto_xsks", 4, 4, QUEUES_MAX, 0).map_err(|errno| {
                let advice = "the kernel lacks AF_XDP: use af_packet";
                OpenError::of("make a map of sockets", errno, &[Capability::Bpf], advice)
            })?;
        let assemble = |owners: Option<&Owners>, is_generic: bool| {
            let owners = owners.map(|owners| owners.as_fd().as_raw_fd());
            let (ours_fd, flows_fd) = (ours.as_fd().as_raw_fd(), flows.as_fd().as_raw_fd());
            let stations_fd = stations.as_fd().as_raw_fd();
            let taken = program::Taken { ours_fd, flows_fd, stations_fd };
            let long = is_generic.then_some(interface.mtu);
            load(&program::assemble(take, taken, sockets.as_fd().as_raw_fd(), owners, long), long)
        };
        // Programs that call each other must agree on whether they take packets of several pieces,
        // which those of an interface do in generic mode.
        let place = |mode| {
            let owners = Owners::create().map_err(|errno| {
                OpenError::of("make a map of programs", errno, &[Capability::Bpf], "report this")
            })?;
            let program = assemble(Some(&owners), mode == AttachMode::Generic)?;
            let placed = place(interface.clone(), program.as_fd(), mode)?;
            Ok::<_, OpenError>((owners, program, placed))
        };
        let wanted = mode;
        let (owners, program, (interface, mode, placed)) = match place(wanted) {
            Err(OpenError::NoNativeMode { errno, .. }) if wanted == AttachMode::Probe => {
                let (owners, program, (interface, _, placed)) = place(AttachMode::Generic)?;
                (owners, program, (interface, Mode::FellBack(errno), placed))
            }
            result => result?,
        };
        let (owners, link, own) = match placed {
            Placed::First(link) => (owners, link, None),
            Placed::Joined(Host { owners, link }) => {
                (owners, link, Some(assemble(None, mode.is_generic())?))
            }
        };
        let new = Self::new(interface, take, mode, (ours, flows), sockets, Some(link))?;
        let (program, owners, stations) = (Some(program), Some(owners), Some(stations));
        Ok(Self { wanted, program, owners, own, stations, ..new })
    }

    /// Uses a program that a process with the rights has attached.
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
        let place = Mutex::new(Place { found: Found::of(&interface, mode)?, link });
        Ok(Self {
            name: interface.name,
            namespace: Netns::current()?,
            take,
            wanted: AttachMode::Probe,
            place,
            ours,
            flows,
            stations: None,
            sockets,
            program: None,
            owners: None,
            own: None,
        })
    }

    /// Attaches the program to the interface that has the name now, if that is another one than the
    /// program is on: it was removed, and has come back. What is ours stays ours. Whether it was
    /// another; the sockets of ports are to be opened anew then.
    ///
    /// # Errors
    /// There is none of that name, or the program was another's, or as [`Self::attach`].
    pub fn attach_again(&self) -> Result<bool, OpenError> {
        self.at_home(|| {
            let interface = interface::by_name(&self.name)?;
            if interface.index == self.index() {
                return Ok(false);
            }
            let Some(program) = self.program.as_ref().filter(|_| self.own.is_none()) else {
                return Err(OpenError::Setting(format!(
                    "the XDP program of {} was another process's: start again to have one",
                    self.name
                )));
            };
            let (mode, link) = match link(&interface, program.as_fd(), self.wanted) {
                Err(OpenError::NoNativeMode { errno, .. }) if self.wanted == AttachMode::Probe => {
                    let (_, link) = link(&interface, program.as_fd(), AttachMode::Generic)?;
                    (Mode::FellBack(errno), link)
                }
                result => result?,
            };
            let found = Found::of(&interface, mode)?;
            *self.place() = Place { found, link: Some(link) };
            Ok(true)
        })?
    }

    /// From the next packet on, what a wildcard of ours covers is taken if it comes to one of
    /// `stations`. Nothing is done for a program of somebody else's.
    ///
    /// # Errors
    /// The map cannot be changed.
    pub fn follow(&self, stations: &Stations) -> Result<(), SysError> {
        self.stations.as_ref().map_or(Ok(()), |map| map.set(&stations.all()))
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.place().found.queues
    }

    /// The map of sockets by queue, to hand to a successor.
    pub fn sockets_fd(&self) -> BorrowedFd<'_> {
        self.sockets.as_fd()
    }

    /// The link that keeps the program attached, to hand to a successor.
    ///
    /// # Errors
    /// Out of file descriptors.
    pub fn link_fd(&self) -> Result<Option<OwnedFd>, SysError> {
        self.place().link.as_ref().map(OwnedFd::try_clone).transpose().map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            SysError::new("copy the descriptor of a link", errno, "")
        })
    }

    /// Its number in its namespace now.
    pub fn index(&self) -> u32 {
        self.place().found.index
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
        self.place().found.is_queueless
    }

    /// Whether the program gets socket buffers of the kernel's, which may hold more than the link
    /// takes at once.
    pub(super) fn is_generic(&self) -> bool {
        self.place().found.mode.is_generic()
    }

    /// Whether its other end is an interface of this host's kernel.
    pub(super) fn is_veth(&self) -> bool {
        self.place().found.is_veth
    }

    pub(super) fn mac(&self) -> [u8; 6] {
        self.place().found.mac
    }

    pub(super) fn mtu(&self) -> u32 {
        self.place().found.mtu
    }

    pub(super) fn take(&self) -> Take {
        self.take
    }

    /// How the program is attached, for people.
    pub fn mode(&self) -> String {
        self.place().found.mode.to_string()
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
        let code = program::filter::assemble(filter.program(), None, sockets)?;
        let takes_frags = self.is_generic();
        bpf::load(PROGRAM_NAME, &code, takes_frags).map_err(|refused| refused.to_string())
    }

    /// From the next packet on, packets of all queues go to the kernel, also where the program
    /// takes everything: no queue has a socket any more.
    ///
    /// # Errors
    /// The map cannot be changed.
    pub fn leave_queues(&self) -> Result<(), SysError> {
        let failed = |errno| SysError::new("leave the packets of queues", errno, "");
        for queue in 0..QUEUES_MAX {
            match self.sockets.delete(&queue.to_ne_bytes()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        Ok(())
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

/// Loads a program; one that leaves packets longer than `long` to the kernel takes long ones.
fn load(code: &[super::asm::Instruction], long: Option<u32>) -> Result<OwnedFd, OpenError> {
    bpf::load(PROGRAM_NAME, code, long.is_some()).map_err(|refused| {
        let doing = "load an XDP program";
        let needs = [Capability::Bpf, Capability::NetAdmin];
        match refused.errno {
            Errno::PERM => OpenError::of(doing, refused.errno, &needs, ""),
            errno => SysError::new(doing, errno, format!("report this; {refused}")).into(),
        }
    })
}
