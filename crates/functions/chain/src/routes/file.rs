//! A file of routes: one a line, `#` begins a comment.
//!
//! ```text
//! 10.1.0.0/16 via 10.0.0.2 dev eth1      to another router
//! 10.0.0.0/24 dev eth0                   to hosts on the link itself
//! default via fd00::1 dev eth1           0.0.0.0/0, or ::/0 when the gateway is an IPv6 address
//! blackhole 10.2.0.0/16                  dropped; also unreachable, prohibit (the sender is told)
//! nexthop 7 via 10.0.0.3 dev eth1        a next hop with a number, for lines such as
//! 192.0.2.0/24 7                         this one: tables of millions are shorter and read faster so
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;

use calisto_nf::{NextHop, Prefix};

use crate::file::FileError;
use crate::ports::Ports;

/// Bytes of a file that anybody would write: ten times a full table.
pub const FILE_BYTES_MAX: u64 = 1 << 30;

/// Lines between two reports of progress.
const LINES_A_REPORT: usize = 1 << 14;

/// Passes each route of `text` to `each`, in the order of the text. `progress` is told, now and
/// then, how many bytes have been read.
///
/// # Errors
/// The first line that is wrong; the routes before it were passed on.
pub fn read(
    text: &str,
    file: &str,
    ports: &Ports,
    mut each: impl FnMut(Prefix, NextHop),
    mut progress: impl FnMut(usize),
) -> Result<(), FileError> {
    let mut hops = BTreeMap::new();
    let mut bytes = 0;
    for (number, line) in text.lines().enumerate() {
        if number % LINES_A_REPORT == 0 {
            progress(bytes);
        }
        bytes += line.len() + 1;
        let wrong =
            |(field, says): (&str, String)| FileError::new(file, Some(number + 1), field, says);
        let line = line.split_once('#').map_or(line, |(before, _)| before);
        let mut words = Words(line.split_ascii_whitespace());
        let Some(first) = words.0.next() else { continue };
        match first {
            "nexthop" => {
                let (id, hop) = numbered(&mut words, ports).map_err(wrong)?;
                hops.insert(id, hop);
            }
            "blackhole" | "unreachable" | "prohibit" => {
                let prefix = words.next("destination").and_then(destination).map_err(wrong)?;
                words.end().map_err(wrong)?;
                each(prefix, nowhere(first).expect("these three are nowhere"));
            }
            _ => {
                let (prefix, hop) = route(first, &mut words, ports, &hops).map_err(wrong)?;
                each(prefix, hop);
            }
        }
    }
    progress(bytes);
    Ok(())
}

/// Which field is wrong, and how.
type Wrong = (&'static str, String);

/// The words of a line that are still to be read.
struct Words<'a>(std::str::SplitAsciiWhitespace<'a>);

impl<'a> Words<'a> {
    fn next(&mut self, field: &'static str) -> Result<&'a str, Wrong> {
        let says = "is missing: write for example `10.1.0.0/16 via 10.0.0.2 dev eth1`";
        self.0.next().ok_or_else(|| (field, says.to_owned()))
    }

    fn end(&mut self) -> Result<(), Wrong> {
        match self.0.next() {
            None => Ok(()),
            Some(word) => Err(("", format!("{:?} is one word too many", shorten(word)))),
        }
    }
}

fn route(
    first: &str,
    words: &mut Words<'_>,
    ports: &Ports,
    hops: &BTreeMap<u32, NextHop>,
) -> Result<(Prefix, NextHop), Wrong> {
    let word = words.next("nexthop")?;
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        let hop = word.parse().ok().and_then(|id: u32| hops.get(&id).copied());
        let hop = hop.ok_or_else(|| {
            let says = format!(
                "is {}, which no line above describes: write `nexthop {0} via ADDRESS dev INTERFACE`",
                shorten(word)
            );
            ("nexthop", says)
        })?;
        words.end()?;
        return Ok((destination(first)?, hop));
    }
    let hop = hop(word, words, ports)?;
    let prefix = match (first, hop) {
        ("default", NextHop::Gateway { address: IpAddr::V6(_), .. }) => Prefix::ALL_IPV6,
        ("default", _) => Prefix::ALL_IPV4,
        _ => destination(first)?,
    };
    // An IPv6 link may carry IPv4 packets (RFC 8950), not the other way round.
    if let NextHop::Gateway { address, .. } = hop
        && prefix.address().is_ipv6()
        && address.is_ipv4()
    {
        let says = format!("is {address}: an IPv6 destination needs an IPv6 gateway");
        return Err(("via", says));
    }
    Ok((prefix, hop))
}

fn numbered(words: &mut Words<'_>, ports: &Ports) -> Result<(u32, NextHop), Wrong> {
    let id = words.next("nexthop")?;
    let id = id.parse().map_err(|_| {
        (
            "nexthop",
            format!("is {:?}; allowed is a whole number from 0 to {}", shorten(id), u32::MAX),
        )
    })?;
    let word = words.next("via")?;
    Ok((id, hop(word, words, ports)?))
}

/// `via ADDRESS dev INTERFACE`, `dev INTERFACE`, or one of the words for nowhere.
fn hop(word: &str, words: &mut Words<'_>, ports: &Ports) -> Result<NextHop, Wrong> {
    let hop = match word {
        "via" => {
            let text = words.next("via")?;
            let address: IpAddr = text.parse().map_err(|_| {
                ("via", format!("is {:?}; allowed is an address, such as 10.0.0.2", shorten(text)))
            })?;
            if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
                return Err(("via", format!("is {address}, which is no address of a router")));
            }
            match words.next("dev")? {
                "dev" => NextHop::Gateway { port: port(words, ports)?, address },
                word => {
                    let says = format!(
                        "is missing before {:?}: write `via {address} dev INTERFACE`",
                        shorten(word)
                    );
                    return Err(("dev", says));
                }
            }
        }
        "dev" => NextHop::OnLink { port: port(words, ports)? },
        word => nowhere(word).ok_or_else(|| {
            let says = format!(
                "{:?} is not understood; allowed are `via ADDRESS dev INTERFACE`, `dev INTERFACE`, \
                 `blackhole`, `unreachable`, `prohibit`, and the number of a next hop",
                shorten(word)
            );
            ("", says)
        })?,
    };
    words.end()?;
    Ok(hop)
}

fn port(words: &mut Words<'_>, ports: &Ports) -> Result<base::PortId, Wrong> {
    let name = words.next("dev")?;
    ports.named(name).ok_or_else(|| {
        let says =
            format!("is {:?}; allowed are the chain's ports: {}", shorten(name), ports.names());
        ("dev", says)
    })
}

fn nowhere(word: &str) -> Option<NextHop> {
    match word {
        "blackhole" => Some(NextHop::Blackhole),
        "unreachable" => Some(NextHop::Unreachable),
        "prohibit" => Some(NextHop::Prohibit),
        _ => None,
    }
}

fn destination(word: &str) -> Result<Prefix, Wrong> {
    word.parse().map_err(|error: calisto_nf::PrefixError| {
        ("destination", format!("is {:?}: {error}", shorten(word)))
    })
}

fn shorten(word: &str) -> String {
    crate::file::shorten(word)
}

#[cfg(test)]
mod tests;
