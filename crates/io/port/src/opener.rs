//! Opens ports over one pool: queues of one interface share its program, all ports share a UMEM.

use std::sync::Arc;

use base::{Nanos, PortId, QueueId};
use shm::FramePool;

use crate::af_packet::AfPacketPort;
use crate::pcap::{PcapOptions, PcapPort};
use crate::tap::TapPort;
use crate::xdp::{AttachMode, Take, Umem, XdpInterface, XdpPort, XdpSockets};
use crate::{AnyPort, Filter, OpenError, Port, PortSpec};

/// Opens the ports of one pool.
#[derive(Debug)]
pub struct Opener {
    umem: Umem,
    interfaces: Vec<Attached>,
    filter: Option<Filter>,
}

#[derive(Debug)]
struct Attached {
    interface: Arc<XdpInterface>,
    mode: AttachMode,
    take: Take,
}

impl Opener {
    /// For ports over `pool`.
    pub fn new(pool: &FramePool) -> Self {
        Self { umem: Umem::new(pool), interfaces: Vec::new(), filter: None }
    }

    /// What the ports that are opened from now on receive, as far as the kernel can tell
    /// ([`Port::set_filter`] says which can).
    pub fn set_filter(&mut self, filter: Option<Filter>) {
        self.filter = filter;
    }

    /// Opens the port that `spec` names, in the calling thread's network namespace.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn open(
        &mut self,
        spec: &PortSpec,
        id: PortId,
        pool: &mut FramePool,
    ) -> Result<AnyPort, OpenError> {
        let filter = self.filter.clone();
        let mut port = match spec {
            PortSpec::Xdp { interface, queue, attach, take, options } => {
                let interface = self.interface(interface, *attach, *take)?;
                let (umem, filter) = (&self.umem, filter.as_ref());
                let sockets = XdpSockets::open(&interface, id, *queue, umem, options)?;
                let port = XdpPort::with_sockets(&interface, sockets, umem, pool, filter)?;
                return Ok(AnyPort::Xdp(Box::new(port)));
            }
            PortSpec::AfPacket { interface, options } => {
                let port = AfPacketPort::open(interface, id, QueueId(0), pool, options)?;
                AnyPort::AfPacket(Box::new(port))
            }
            PortSpec::Tap { interface, options } => {
                let port = TapPort::open(interface, id, QueueId(0), pool, options)?;
                AnyPort::Tap(Box::new(port))
            }
            PortSpec::Pcap(options) => {
                let options = match options.epoch {
                    Nanos::ZERO => PcapOptions { epoch: epoch(), ..options.clone() },
                    _ => options.clone(),
                };
                AnyPort::Pcap(Box::new(PcapPort::open(id, pool, &options)?))
            }
        };
        match port.set_filter(filter.as_ref()) {
            Ok(_) => Ok(port),
            Err(error) => {
                port.close(pool);
                Err(error)
            }
        }
    }

    /// The program on `name`, attached now if no port of ours has done so.
    ///
    /// # Errors
    /// As [`XdpInterface::attach`]; or ports of one interface want it in different ways.
    pub fn interface(
        &mut self,
        name: &str,
        mode: AttachMode,
        take: Take,
    ) -> Result<Arc<XdpInterface>, OpenError> {
        if let Some(attached) =
            self.interfaces.iter().find(|attached| attached.interface.name() == name)
        {
            if (attached.mode, attached.take) != (mode, take) {
                return Err(OpenError::Setting(format!(
                    "the queues of {name} share one XDP program: give them all the same mode= \
                     and take="
                )));
            }
            return Ok(Arc::clone(&attached.interface));
        }
        let interface = Arc::new(XdpInterface::attach(name, mode, take)?);
        self.interfaces.push(Attached { interface: Arc::clone(&interface), mode, take });
        Ok(interface)
    }

    /// Takes an interface whose program another process attached.
    pub fn adopt(&mut self, interface: Arc<XdpInterface>, mode: AttachMode, take: Take) {
        self.interfaces.push(Attached { interface, mode, take });
    }

    /// The frames of the pool, as the kernel knows them.
    pub fn umem(&self) -> &Umem {
        &self.umem
    }

    /// The interfaces with a program of ours.
    pub fn interfaces(&self) -> impl Iterator<Item = &Arc<XdpInterface>> {
        self.interfaces.iter().map(|attached| &attached.interface)
    }
}

/// What to add to the monotonic clock for the time since 1970.
fn epoch() -> Nanos {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Nanos::from(since_1970.unwrap_or_default()).since(sys::clock::now())
}
