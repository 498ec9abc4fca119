//! What a descriptor is that came with a call: the kernel's word, not the application's.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use attach::FallbackReason;
use rustix::net::sockopt;
use sys::socket;
use wire::Protocol;

/// IPPROTO_MPTCP of linux/in.h.
const MPTCP: i32 = 262;

/// A kernel socket that may be served.
#[derive(Debug)]
pub(super) struct Examined {
    pub(super) socket: OwnedFd,
    pub(super) cookie: u64,
    pub(super) inode: u64,
    /// Where it is bound; port zero: nowhere. IPv4 as IPv4.
    pub(super) local: SocketAddr,
    /// It may take IPv4.
    pub(super) takes_v4: bool,
    /// It may take IPv6.
    pub(super) takes_v6: bool,
    /// SO_REUSEPORT.
    pub(super) shares_port: bool,
    /// What TCP_CONGESTION says.
    pub(super) congestion: String,
}

impl Examined {
    /// Looks at `socket`, which must be of `protocol`, of network namespace `namespace`, and not connected.
    pub(super) fn new(
        socket: OwnedFd,
        protocol: Protocol,
        namespace: u64,
    ) -> Result<Self, (FallbackReason, OwnedFd)> {
        match look(&socket, protocol, namespace) {
            Ok(look) => Ok(look(socket)),
            Err(reason) => Err((reason, socket)),
        }
    }

    /// Whether its address stands for all of the host's.
    pub(super) fn is_wildcard(&self) -> bool {
        self.local.ip().is_unspecified()
    }
}

/// Whether a socket at `own` that takes IPv4, IPv6 or both takes packets to `address`.
pub(super) fn covers(own: IpAddr, takes: (bool, bool), address: IpAddr) -> bool {
    match own.is_unspecified() {
        true => {
            if address.is_ipv4() {
                takes.0
            } else {
                takes.1
            }
        }
        false => own == address,
    }
}

fn look(
    socket: &OwnedFd,
    protocol: Protocol,
    namespace: u64,
) -> Result<impl FnOnce(OwnedFd) -> Examined + use<>, FallbackReason> {
    let fd = socket.as_fd();
    let strange = |_| FallbackReason::RawOrOtherProtocol;
    let kind = socket::kind_of(fd).map_err(strange)?;
    if kind.is_ip() && kind.protocol == MPTCP {
        return Err(FallbackReason::Mptcp);
    }
    let fits = match protocol {
        Protocol::Tcp => kind.is_tcp(),
        Protocol::Udp => kind.is_udp(),
    };
    if !fits {
        return Err(FallbackReason::RawOrOtherProtocol);
    }
    if socket::netns_cookie_of(fd).map_err(strange)? != namespace {
        return Err(FallbackReason::OtherNamespace);
    }
    if protocol == Protocol::Tcp && rustix::net::getpeername(socket).is_ok() {
        return Err(FallbackReason::WrongState);
    }
    let (cookie, inode) = (socket::cookie_of(fd).map_err(strange)?, inode(fd)?);
    let bound = socket::local_address(fd).map_err(strange)?;
    let local = socket::canonical(bound);
    let is_v6 = kind.is_ipv6();
    let only_v6 = socket::is_ipv6_only(fd).map_err(strange)?;
    // Bound to an IPv4-mapped address, it is an IPv4 socket in all but name.
    let is_mapped = is_v6 && local.is_ipv4();
    let (takes_v4, takes_v6) = (!is_v6 || is_mapped || !only_v6, is_v6 && !is_mapped);
    let shares_port = sockopt::socket_reuseport(socket).unwrap_or(false);
    let congestion = sockopt::tcp_congestion(socket).unwrap_or_default();
    Ok(move |socket| Examined {
        socket,
        cookie,
        inode,
        local,
        takes_v4,
        takes_v6,
        shares_port,
        congestion,
    })
}

fn inode(fd: std::os::fd::BorrowedFd<'_>) -> Result<u64, FallbackReason> {
    socket::inode_of(fd).map_err(|_| FallbackReason::RawOrOtherProtocol)
}

/// What is known of a descriptor that need not be one that can be served: cookie and inode; zero: it is no socket.
pub(super) fn identity(socket: &OwnedFd) -> (u64, u64) {
    let fd = socket.as_fd();
    // Only of a socket the kernel alone answers; a file's system may be a program that does not.
    let Ok(cookie) = socket::cookie_of(fd) else { return (0, 0) };
    (cookie, socket::inode_of(fd).unwrap_or(0))
}

/// The network namespace of this thread.
pub(super) fn own_namespace() -> Result<u64, sys::SysError> {
    let made = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    );
    let made = made.map_err(|errno| sys::SysError::new("make a socket", errno, ""))?;
    socket::netns_cookie_of(made.as_fd())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    fn examined(
        socket: impl Into<OwnedFd>,
        protocol: Protocol,
    ) -> Result<Examined, FallbackReason> {
        let namespace = own_namespace().expect("sockets can be made");
        Examined::new(socket.into(), protocol, namespace).map_err(|(reason, _)| reason)
    }

    #[test]
    fn a_socket_is_what_the_kernel_says() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let local = listener.local_addr().expect("it is bound");
        let listener = examined(listener, Protocol::Tcp).expect("TCP, here, not connected");
        assert_eq!(listener.local, local);
        assert!(listener.takes_v4 && !listener.takes_v6 && !listener.shares_port);
        assert!(listener.cookie != 0 && listener.inode != 0);
        assert!(!listener.congestion.is_empty());
        let both = TcpListener::bind("[::]:0").expect("a port is free");
        let both = examined(both, Protocol::Tcp).expect("TCP");
        assert!(both.is_wildcard() && both.takes_v4 && both.takes_v6);
        assert!(covers(both.local.ip(), (true, true), IpAddr::from([10, 0, 0, 1])));
        let mapped = UdpSocket::bind("[::ffff:127.0.0.1]:0").expect("a port is free");
        let mapped = examined(mapped, Protocol::Udp).expect("UDP");
        assert!(mapped.local.is_ipv4() && mapped.takes_v4 && !mapped.takes_v6);
    }

    #[test]
    fn what_cannot_be_served_is_refused_with_its_reason() {
        let udp = || UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        let refused = |socket: OwnedFd| examined(socket, Protocol::Tcp).expect_err("no");
        assert_eq!(refused(udp().into()), FallbackReason::RawOrOtherProtocol);
        let file = std::fs::File::open("/dev/null").expect("it is there");
        assert_eq!(refused(file.into()), FallbackReason::RawOrOtherProtocol);
        let (unix, _other) = std::os::unix::net::UnixStream::pair().expect("descriptors are left");
        assert_eq!(refused(unix.into()), FallbackReason::RawOrOtherProtocol);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let to = listener.local_addr().expect("it is bound");
        let connected = TcpStream::connect(to).expect("it listens");
        assert_eq!(refused(connected.into()), FallbackReason::WrongState);
        let elsewhere = Examined::new(listener.into(), Protocol::Tcp, 1);
        assert_eq!(elsewhere.map_err(|(why, _)| why).err(), Some(FallbackReason::OtherNamespace));
        let (cookie, inode) = identity(&udp().into());
        assert!(cookie != 0 && inode != 0);
        let file = std::fs::File::open("/dev/null").expect("it is there");
        assert_eq!(identity(&file.into()), (0, 0), "a file is asked nothing");
    }
}
