//! What a descriptor is that came with a call: the kernel's word, not the application's.
//!
//! A program may speak to the daemon itself, so nothing counts that only the library has checked.
//! What the library checks (`crates/programs/preload`), and where the daemon does:
//!
//! | the library's check | the daemon's |
//! |---|---|
//! | TCP or UDP over IP, not MPTCP (`sockets.rs`: `kind_of`) | here, `look` |
//! | SO_BINDTODEVICE, IP_TRANSPARENT (`sockets.rs`: `is_kept`) | here, and SO_BINDTOIFINDEX, IPV6_TRANSPARENT |
//! | no TCP_ULP on what is served (`options.rs`: `setsockopt`) | here; set later it acts on a socket without a connection |
//! | a UDP socket without broadcast (`udp.rs`: `is_plain_udp`) | here, the same option |
//! | is bound and does not listen, or listens (`listen.rs`: `is_bound_only`) | `listen.rs`: a port, and `begin_to_listen` |
//! | has no peer (`listen.rs`: `is_bound_only`) | here for TCP; a UDP socket's peer by `rights.rs` |
//! | the call's address is of the socket's family (`connect.rs`: `decide`) | `connect.rs`: `takes` |
//! | port 0, no address, multicast, broadcast (`connect.rs`: `is_hopeless`) | `connect.rs`, `udp.rs`: the kernel's route |
//! | the namespace | here; the library asks nothing |
//!
//! The library asks nothing else, and the kernel does of each packet; so the daemon asks here as
//! well: filters (SO_ATTACH_FILTER, SO_ATTACH_BPF), SO_MARK, IP_UNICAST_IF, IP_MINTTL, TCP_AO,
//! UDP_ENCAP. IP_FREEBIND is no reason to refuse: packets are taken only for addresses of our
//! interfaces, whatever a socket is bound to. What a socket has become since is `rights.rs`.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use attach::FallbackReason;
use rustix::net::sockopt;
use shm::sockets::{SlotOption, SlotWords};
use sys::socket;
use sys::socket_options::{self, FirstOptions, KernelOnly};
use wire::Protocol;

use super::aside::Passed;

/// IPPROTO_MPTCP of linux/in.h.
const MPTCP: i32 = 262;

/// A kernel socket that may be served.
#[derive(Debug)]
pub(super) struct Examined {
    pub(super) socket: Passed,
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
    /// The user that made it, which may be another than the one that has passed it.
    pub(super) owner: u32,
    /// What TCP_CONGESTION says.
    pub(super) congestion: String,
    /// What counts from its first packet on.
    first: FirstOptions,
}

impl Examined {
    /// Looks at `socket`, which must be of `protocol`, of network namespace `namespace`, and not
    /// connected. Takes as long as its program likes, which may have the socket's lock: so only
    /// threads beside do it ([`super::aside`]).
    pub(super) fn new(
        socket: Passed,
        protocol: Protocol,
        namespace: u64,
    ) -> Result<Self, FallbackReason> {
        look(&socket, protocol, namespace).map(|look| look(socket))
    }

    /// Writes what counts from its first packet on into its slot, before any worker looks there.
    pub(super) fn show_options(&self, words: &SlotWords) {
        let FirstOptions { type_of_service, time_to_live, traffic_class, .. } = self.first;
        let FirstOptions { hop_limit, max_segment, syn_count, .. } = self.first;
        let FirstOptions { defer_accept, rate_max, .. } = self.first;
        for (option, value) in [
            (SlotOption::TypeOfService, type_of_service),
            (SlotOption::TimeToLive, time_to_live),
            (SlotOption::TrafficClass, traffic_class),
            (SlotOption::HopLimit, hop_limit),
            (SlotOption::MaxSegment, max_segment),
            (SlotOption::SynCount, syn_count),
            (SlotOption::DeferAccept, defer_accept),
            (SlotOption::PacingRate, rate_max),
        ] {
            words.set_option(option, value);
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
    socket: &Passed,
    protocol: Protocol,
    namespace: u64,
) -> Result<impl FnOnce(Passed) -> Examined + use<>, FallbackReason> {
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
    if let Some(set) = socket_options::kernel_only(fd).map_err(strange)? {
        return Err(match set {
            KernelOnly::Device => FallbackReason::BoundToDevice,
            KernelOnly::Transparent => FallbackReason::Transparent,
            KernelOnly::UpperProtocol => FallbackReason::TcpUlp,
            KernelOnly::Filter | KernelOnly::Other => FallbackReason::UnsupportedOption,
        });
    }
    let (cookie, inode) = (socket::cookie_of(fd).map_err(strange)?, inode(fd)?);
    let owner = socket::user_of(fd).map_err(strange)?;
    let bound = socket::local_address(fd).map_err(strange)?;
    let local = socket::canonical(bound);
    let is_v6 = kind.is_ipv6();
    let only_v6 = socket::is_ipv6_only(fd).map_err(strange)?;
    // Bound to an IPv4-mapped address, it is an IPv4 socket in all but name.
    let is_mapped = is_v6 && local.is_ipv4();
    let (takes_v4, takes_v6) = (!is_v6 || is_mapped || !only_v6, is_v6 && !is_mapped);
    let shares_port = sockopt::socket_reuseport(socket).unwrap_or(false);
    let congestion = sockopt::tcp_congestion(socket).unwrap_or_default();
    let first = socket_options::first_options(fd).map_err(strange)?;
    Ok(move |socket| Examined {
        socket,
        cookie,
        inode,
        local,
        takes_v4,
        takes_v6,
        shares_port,
        owner,
        congestion,
        first,
    })
}

fn inode(fd: std::os::fd::BorrowedFd<'_>) -> Result<u64, FallbackReason> {
    socket::inode_of(fd).map_err(|_| FallbackReason::RawOrOtherProtocol)
}

/// What is known of a descriptor that need not be one that can be served: cookie and inode; zero:
/// it is no socket. Neither takes the socket's lock.
pub(super) fn identity(socket: &Passed) -> (u64, u64) {
    let fd = socket.as_fd();
    // Only of a socket the kernel alone answers; a file's system may be a program that does not.
    let Ok(cookie) = socket::cookie_of(fd) else { return (0, 0) };
    (cookie, socket::inode_of(fd).unwrap_or(0))
}

/// Whether it is a TCP socket that the kernel knows nothing about: neither bound nor connected, as
/// are those that stand for accepted connections. Takes as long as [`Examined::new`].
pub(super) fn is_untouched(socket: &Passed) -> bool {
    let fd = socket.as_fd();
    socket::kind_of(fd).is_ok_and(|kind| kind.is_tcp())
        && socket::local_address(fd).is_ok_and(|local| local.port() == 0)
        && rustix::net::getpeername(socket).is_err()
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
    use std::os::fd::OwnedFd;

    use super::*;

    fn examined(
        socket: impl Into<OwnedFd>,
        protocol: Protocol,
    ) -> Result<Examined, FallbackReason> {
        let namespace = own_namespace().expect("sockets can be made");
        Examined::new(Passed::new(socket.into()), protocol, namespace)
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
    fn an_option_that_only_the_kernel_honours_is_found_without_the_library() {
        let udp = || UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        let refused = |socket: UdpSocket| examined(socket, Protocol::Udp).map(drop).err();
        assert_eq!(refused(udp()), None);
        let told_beside = udp();
        sockopt::set_ip_recvtos(&told_beside, true).expect("a socket");
        assert_eq!(refused(told_beside), None, "we tell that too");
        let of_all = udp();
        of_all.set_broadcast(true).expect("a socket");
        assert_eq!(refused(of_all), Some(FallbackReason::UnsupportedOption));
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
        let elsewhere = Examined::new(Passed::new(listener.into()), Protocol::Tcp, 1);
        assert_eq!(elsewhere.err(), Some(FallbackReason::OtherNamespace));
        let (cookie, inode) = identity(&Passed::new(udp().into()));
        assert!(cookie != 0 && inode != 0);
        let file = std::fs::File::open("/dev/null").expect("it is there");
        let of_file = identity(&Passed::new(file.into()));
        assert_eq!(of_file, (0, 0), "a file is asked nothing");
    }
}
