//! The sockets of a process, as the kernel has them: copied for a moment, asked, and let go.

use std::fs;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketType};
use rustix::process::PidfdGetfdFlags;
use sys::pidfd::PidFd;

/// Descriptors of a process that are looked at: as many as one may have by default, many times
/// over.
const DESCRIPTORS_MAX: usize = 1 << 20;

/// A descriptor that is a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KernelSocket {
    pub(super) fd: i32,
    pub(super) inode: u64,
    /// What the kernel says of it; nothing if we may not copy the descriptor.
    pub(super) told: Option<Told>,
}

/// What the kernel says of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// SO_COOKIE.
    pub(super) cookie: u64,
    pub(super) kind: Kind,
    /// Where it is bound, if it is.
    pub(super) local: Option<SocketAddr>,
    /// To what the kernel has connected it, if it has.
    pub(super) peer: Option<SocketAddr>,
    /// The kernel takes connections for it.
    pub(super) listens: bool,
    /// The process at the other end, of a UNIX socket.
    pub(super) peer_pid: Option<u32>,
}

/// What a socket speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Tcp,
    Udp,
    /// Something that Calisto does not serve; in words.
    Other(&'static str),
}

/// The sockets of the process `pid`, by descriptor.
///
/// # Errors
/// Why nobody can know, in a sentence.
pub(super) fn of_process(pid: u32) -> Result<Vec<KernelSocket>, String> {
    let folder = format!("/proc/{pid}/fd");
    let cannot = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            format!("process {pid} is not yours to look at: run this as root, or as its user")
        }
        std::io::ErrorKind::NotFound => format!("there is no process {pid}"),
        _ => format!("cannot look at process {pid}: {error}"),
    };
    let process = PidFd::open(pid).ok();
    let mut sockets = Vec::new();
    for entry in fs::read_dir(&folder).map_err(cannot)?.take(DESCRIPTORS_MAX) {
        let entry = entry.map_err(cannot)?;
        // It may have been closed by now.
        let Some(inode) = fs::read_link(entry.path()).ok().and_then(|link| inode_of(&link)) else {
            continue;
        };
        let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let copy = process.as_ref().and_then(|process| copy(process, fd));
        let told = copy.and_then(|copy| told(copy.as_fd()));
        sockets.push(KernelSocket { fd, inode, told });
    }
    sockets.sort_by_key(|socket| socket.fd);
    Ok(sockets)
}

/// Of `socket:[4711]`.
fn inode_of(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

fn copy(process: &PidFd, fd: i32) -> Option<OwnedFd> {
    rustix::process::pidfd_getfd(process.as_fd(), fd, PidfdGetfdFlags::empty()).ok()
}

fn told(socket: BorrowedFd<'_>) -> Option<Told> {
    let family = sockopt::socket_domain(socket).ok()?;
    let over_ip = family == AddressFamily::INET || family == AddressFamily::INET6;
    let protocol = sockopt::socket_protocol(socket).ok().flatten();
    let kind = match sockopt::socket_type(socket).ok()? {
        _ if !over_ip => Kind::Other(family_name(family)),
        SocketType::STREAM if protocol == Some(rustix::net::ipproto::TCP) => Kind::Tcp,
        SocketType::DGRAM if protocol == Some(rustix::net::ipproto::UDP) => Kind::Udp,
        SocketType::STREAM => Kind::Other("a stream socket of another protocol than TCP"),
        SocketType::DGRAM => Kind::Other("a datagram socket of another protocol than UDP"),
        _ => Kind::Other("a raw socket"),
    };
    let bound = |address: &SocketAddr| address.port() != 0;
    Some(Told {
        cookie: sockopt::socket_cookie(socket).ok()?,
        kind,
        local: rustix::net::getsockname(socket).ok().and_then(|a| a.try_into().ok()).filter(bound),
        peer: rustix::net::getpeername(socket).ok().flatten().and_then(|a| a.try_into().ok()),
        listens: sockopt::socket_acceptconn(socket).unwrap_or(false),
        peer_pid: sys::unix_socket::peer_credentials(socket)
            .ok()
            .map(|who| who.pid)
            .filter(|pid| *pid != 0),
    })
}

fn family_name(family: AddressFamily) -> &'static str {
    if family == AddressFamily::UNIX {
        "a UNIX socket"
    } else if family == AddressFamily::NETLINK {
        "a netlink socket"
    } else if family == AddressFamily::PACKET {
        "a packet socket"
    } else if family == AddressFamily::XDP {
        "an AF_XDP socket"
    } else {
        "a socket of another family than IP"
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn our_own_sockets_are_seen_as_what_they_are() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let client = std::net::TcpStream::connect(address).expect("it listens");
        let udp = UdpSocket::bind("[::1]:0").expect("a port is free");
        let (unix, _other) = UnixStream::pair().expect("descriptors are left");
        let all = of_process(std::process::id()).expect("it is us");
        let find = |fd: i32| all.iter().find(|socket| socket.fd == fd).expect("it is open");
        let told = |fd: i32| find(fd).told.clone().expect("it is ours");

        let of_listener = told(listener.as_raw_fd());
        assert_eq!((of_listener.kind, of_listener.listens), (Kind::Tcp, true));
        assert_eq!((of_listener.local, of_listener.peer), (Some(address), None));
        let of_client = told(client.as_raw_fd());
        assert_eq!((of_client.peer, of_client.listens), (Some(address), false));
        assert_eq!(Ok(of_client.cookie), sockopt::socket_cookie(&client));
        let inode = rustix::fs::fstat(&client).expect("it is open").st_ino;
        assert_eq!(find(client.as_raw_fd()).inode, inode);
        assert_eq!(told(udp.as_raw_fd()).kind, Kind::Udp);
        let of_unix = told(unix.as_raw_fd());
        assert_eq!(of_unix.kind, Kind::Other("a UNIX socket"));
        assert_eq!(of_unix.peer_pid, Some(std::process::id()));
    }

    #[test]
    fn what_is_no_socket_is_left_out() {
        let file = fs::File::open("/proc/self/stat").expect("we are a process");
        let all = of_process(std::process::id()).expect("it is us");
        assert!(all.iter().all(|socket| socket.fd != file.as_raw_fd()));
        for link in ["pipe:[7]", "socket:[]", "socket:[x]", "socket:[7", "/tmp/socket:[7]"] {
            assert_eq!(inode_of(Path::new(link)), None, "{link}");
        }
        assert!(of_process(u32::MAX).expect_err("there is none").contains("there is no process"));
    }
}
