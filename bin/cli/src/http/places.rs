//! Places for connections, and how many of them one host may have.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Connections of one other host at once, at most: a quarter of all, so that whoever opens many,
/// and reads slowly, leaves places to the rest. Those of this host are not told apart: they have
/// no share, and wait for a place.
const OF_HOST_MAX: usize = 16;

/// Who has how many.
#[derive(Clone, Default)]
pub(super) struct Places {
    taken: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
}

/// A connection's place, as long as this lives.
pub(super) struct Place {
    places: Places,
    host: IpAddr,
}

impl Places {
    /// A place for one more from that address; none: its host has its share.
    pub(super) fn take(&self, from: IpAddr) -> Option<Place> {
        let host = host_of(from);
        let most = if host.is_loopback() { usize::MAX } else { OF_HOST_MAX };
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(host).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Place { places: self.clone(), host })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = taken.get_mut(&self.host) else { return };
        *count -= 1;
        if *count == 0 {
            taken.remove(&self.host);
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
    use super::*;

    #[test]
    fn a_host_has_its_share_by_whichever_address_it_comes_and_leaves_places_to_others() {
        let places = Places::default();
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        for own in [["10.0.0.1", "::ffff:10.0.0.1"], ["fd00::1", "fd00::2"]] {
            let all: Vec<_> = (0..40).map_while(|at| places.take(ip(own[at % 2]))).collect();
            assert_eq!(all.len(), OF_HOST_MAX, "{own:?}");
            assert!(
                places.take(ip("10.0.0.2")).is_some() && places.take(ip("fd00:1::1")).is_some()
            );
            drop(all);
            assert!(places.take(ip(own[0])).is_some());
        }
        let own: Vec<_> = (0..40).map_while(|_| places.take(ip("127.0.0.1"))).collect();
        assert_eq!(own.len(), 40, "who of this host it is nobody knows");
        drop(own);
        assert!(places.taken.lock().is_ok_and(|taken| taken.is_empty()));
    }
}
