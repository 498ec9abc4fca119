//! `load http`: GET of one page, over connections that stay open.

use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use crate::protocol::{Page, Protocol};
use crate::tcp::{Link, run_streams};
use crate::{Common, Error, Report};

/// Longest URL.
const URL_MAX: usize = 4096;

/// Settings of `load http`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The page: http://HOST[:PORT][/PATH], as HOST a name or an address.
    #[arg(value_name = "URL")]
    pub url: Url,
    /// Rate, flows, time and output.
    #[command(flatten)]
    pub common: Common,
    /// Whose connections they are.
    #[command(flatten)]
    pub link: Link,
}

/// Where a page is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// What the server is called: HOST, or HOST:PORT.
    pub host: String,
    /// The page, from the slash on.
    pub path: String,
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("{text:?} {why}: write it like http://10.0.0.2:8080/page");
        if text.starts_with("https:") {
            return Err(wrong("wants TLS, which is not spoken here"));
        }
        let rest = text.strip_prefix("http://").ok_or_else(|| wrong("is no page"))?;
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(end);
        let is_clean = |part: &str| part.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || host.contains('@') || !is_clean(rest) || text.len() > URL_MAX {
            return Err(wrong("is no page"));
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self { host: host.to_owned(), path: format!("{slash}{path}") })
    }
}

impl Url {
    /// The server's address; names are looked up.
    ///
    /// # Errors
    /// There is no such host.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        let has_port = self
            .host
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.bytes().all(|digit| digit.is_ascii_digit()));
        let named = if has_port { self.host.clone() } else { format!("{}:80", self.host) };
        let mut found = named
            .to_socket_addrs()
            .map_err(|error| Error::io(format!("find {}", self.host), &error))?;
        found.next().ok_or_else(|| Error::Failed(format!("{} has no address", self.host)))
    }
}

/// Generates the load that `args` asks for, and reports; see [`crate::udp::run`].
///
/// # Errors
/// As [`crate::udp::run`]; or there is no such host.
pub fn run(args: &Args, json: bool) -> Result<Report, Error> {
    let target = args.url.address()?;
    let plan = args.common.plan(target)?;
    let page = Page::new(&args.url.host, &args.url.path);
    let protocol = move |_| Protocol::Http(page.clone());
    run_streams(&args.common, &args.link, &plan, target, protocol, || Ok(()), json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_split_into_host_and_path() {
        for (text, host, path) in [
            ("http://10.0.0.2", "10.0.0.2", "/"),
            ("http://10.0.0.2:8080/a/b?c#d", "10.0.0.2:8080", "/a/b?c"),
            ("http://[fd00::1]:80/", "[fd00::1]:80", "/"),
            ("http://localhost?x", "localhost", "/?x"),
        ] {
            let url: Url = text.parse().expect(text);
            assert_eq!((url.host.as_str(), url.path.as_str()), (host, path));
        }
        let url: Url = "http://127.0.0.1".parse().expect("it is a page");
        assert_eq!(url.address(), Ok(([127, 0, 0, 1], 80).into()));
        let url: Url = "http://[::1]:8080/x".parse().expect("it is a page");
        assert_eq!(url.address().map(|address| address.port()), Ok(8080));
    }

    #[test]
    fn what_is_no_page_of_ours_is_refused_by_a_sentence() {
        for text in [
            "",
            "10.0.0.2:80",
            "https://a/",
            "ftp://a/",
            "http://",
            "http:///x",
            "http://a@b/",
            "http://a/ b",
        ] {
            let sentence = text.parse::<Url>().expect_err(text);
            assert!(sentence.contains("http://10.0.0.2:8080/page"), "{sentence}");
        }
    }
}
