//! AF_XDP ports on the server's side of a pair of namespaces.

use std::net::IpAddr;
use std::sync::Arc;

use base::{PortId, QueueId};
use port::OpenError;
use port::xdp::{AttachMode, Destination, Protocol, Take, Umem, XdpInterface, XdpOptions, XdpPort};
use shm::FramePool;
use testbed::{Side, Testbed};

use super::*;

pub(crate) fn attach(
    side: &Side,
    mode: AttachMode,
    take: Take,
) -> Result<Arc<XdpInterface>, OpenError> {
    inside(side, || XdpInterface::attach(side.interface(), mode, take)).map(Arc::new)
}

pub(crate) fn open(
    interface: &Arc<XdpInterface>,
    queue: u16,
    umem: &Umem,
    pool: &mut FramePool,
    options: &XdpOptions,
) -> Result<XdpPort, OpenError> {
    XdpPort::open(interface, PortId(5), QueueId(queue), umem, pool, options)
}

/// Our port on the server's side, with the echo port ours.
pub(crate) fn server(
    bed: &Testbed,
    mode: AttachMode,
    pool: &mut FramePool,
    options: &XdpOptions,
) -> XdpPort {
    let interface =
        attach(bed.server(), mode, Take::Ours).unwrap_or_else(|error| panic!("{error}"));
    interface.ours().add(echo_of(bed)).expect("the map has room");
    let umem = Umem::new(pool);
    open(&interface, 0, &umem, pool, options).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn echo_of(bed: &Testbed) -> Destination {
    let address = Some(IpAddr::V4(bed.server().ipv4()));
    Destination { protocol: Protocol::Udp, address, port: Some(ECHO_PORT) }
}

pub(crate) fn client(bed: &Testbed) -> std::net::UdpSocket {
    let socket = socket(bed.client(), (bed.client().ipv4(), 0));
    socket.connect((bed.server().ipv4(), ECHO_PORT)).expect("a UDP socket connects");
    socket
}
