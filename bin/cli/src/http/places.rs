//! Places for connections, and how many of them one host, or one user of this host, may have.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use sys::socket_owner::{self, Transport};

/// Connections of one other host at once, at most, and of one user of this host: a quarter of all,
/// so that whoever opens many, and reads slowly, leaves places to the rest. Root has no share.
const OF_HOST_MAX: usize = 16;

/// The loopback interface of every network namespace.
const LOOPBACK: u32 = 1;

/// Who has how many.
#[derive(Clone, Default)]
pub(super) struct Places {
    taken: Arc<Mutex<BTreeMap<Whose, usize>>>,
}

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whose {
    Host(IpAddr),
    /// A user of this host; none: the kernel does not tell which, or it has left.
    User(Option<u32>),
}

/// A connection's place, as long as this lives.
pub(super) struct Place {
    places: Places,
    whose: Whose,
}

impl Whose {
    /// Of a connection that came from `from` to `to`.
    pub(super) fn of(from: SocketAddr, to: SocketAddr) -> Self {
        let host = host_of(from.ip());
        if !host.is_loopback() {
            return Self::Host(host);
        }
        let owner = socket_owner::of_ends(Transport::Tcp, from, to, LOOPBACK).ok().flatten();
        Self::User(owner.filter(|owner| !owner.is_listener).map(|owner| owner.uid))
    }
}

impl Places {
    /// A place for one more; none: whoever it is has its share.
    pub(super) fn take(&self, whose: Whose) -> Option<Place> {
        let most = if whose == Whose::User(Some(0)) { usize::MAX } else { OF_HOST_MAX };
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(whose).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Place { places: self.clone(), whose })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = taken.get_mut(&self.whose) else { return };
        *count -= 1;
        if *count == 0 {
            taken.remove(&self.whose);
        }
    }
}

/// One address for all that a host may come from: of this host all of 127.0.0.0/8, of others with
/// IPv6 their /64.
fn host_of(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        own if own.is_loopback() => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_host_has_its_share_by_whichever_address_it_comes_and_leaves_places_to_others() {
        let places = Places::default();
        let here = SocketAddr::from(([10, 0, 0, 9], 80));
        let of = |text: &str| {
            let ip = text.parse::<IpAddr>().expect("an address");
            Whose::of(SocketAddr::new(ip, 7), here)
        };
        for own in [["10.0.0.1", "::ffff:10.0.0.1"], ["fd00::1", "fd00::2"]] {
            let all: Vec<_> = (0..40).map_while(|at| places.take(of(own[at % 2]))).collect();
            assert_eq!(all.len(), OF_HOST_MAX, "{own:?}");
            assert!(
                places.take(of("10.0.0.2")).is_some() && places.take(of("fd00:1::1")).is_some()
            );
            drop(all);
            assert!(places.take(of(own[0])).is_some());
        }
        assert!(places.taken.lock().is_ok_and(|taken| taken.is_empty()));
    }

    #[test]
    fn a_user_of_this_host_has_its_share_and_root_as_many_as_there_are() {
        let places = Places::default();
        for (user, most) in [(Some(1000), OF_HOST_MAX), (Some(0), 40), (None, OF_HOST_MAX)] {
            let own: Vec<_> = (0..40).map_while(|_| places.take(Whose::User(user))).collect();
            assert_eq!(own.len(), most, "{user:?}");
            assert!(places.take(Whose::User(Some(1001))).is_some());
        }
        assert!(places.taken.lock().is_ok_and(|taken| taken.is_empty()));
    }

    #[test]
    fn whose_a_connection_of_this_host_is_the_kernel_says() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).expect("loopback is up");
            let here = listener.local_addr().expect("it is bound");
            let caller = TcpStream::connect(here).expect("it listens");
            let from = caller.local_addr().expect("it is connected");
            assert_eq!(Whose::of(from, here), Whose::User(Some(0)));
            std::os::unix::fs::fchown(&caller, Some(65534), None).expect("this test needs root");
            assert_eq!(Whose::of(from, here), Whose::User(Some(65534)));
            let nobody = SocketAddr::new(from.ip(), 1);
            assert_eq!(Whose::of(nobody, here), Whose::User(None));
        }
    }
}
