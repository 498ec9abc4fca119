//! Which addresses the page is served at, and by which names it may be asked for.

use std::net::{IpAddr, SocketAddr};

use crate::failure::Failure;

/// Refuses what others than this machine's users could reach: the page has no TLS.
pub(super) fn check(address: SocketAddr) -> Result<(), Failure> {
    match address.ip().is_loopback() {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{address} can be reached from other machines, and the page has no TLS: use \
             127.0.0.1:{port}, and from elsewhere `ssh -L {port}:127.0.0.1:{port} HOST`",
            port = address.port()
        ))),
    }
}

/// Whether a Host header names this machine by a loopback address or as `localhost`. Another name
/// that resolves to us is how a page of somebody else's would make a browser read ours (DNS
/// rebinding). Any port may stand there: `ssh -L` has one of its own.
pub(super) fn is_own(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_are_our_own() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:9465", "127.8.8.8", "[::1]:7", "[::1]"]
        {
            assert!(is_own(host), "{host}");
        }
        for host in ["", "evil.example:9465", "127.0.0.1.evil.example", "10.0.0.1:9465", "[::2]:1"]
        {
            assert!(!is_own(host), "{host}");
        }
    }

    #[test]
    fn an_address_that_others_reach_is_refused_with_the_way_to_do_it() {
        let refused = check(([0, 0, 0, 0], 9465).into()).expect_err("it is every address");
        assert!(refused.to_string().contains("ssh -L 9465:127.0.0.1:9465"), "{refused}");
        check("[::1]:9465".parse().expect("an address")).expect("a loopback address");
    }
}
