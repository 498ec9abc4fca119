//! The file of tunnels and keys: TOML in, tunnels out, or a sentence that never holds a key.
//!
//! Whoever reads the file sees to it that nobody else can, and wipes the text after use; what is
//! read from it here is wiped here. Values are never repeated in messages, because one may be a key
//! in the wrong place.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use zeroize::Zeroizing;

use super::tunnel::{DEFAULT_ALGORITHM, DEFAULT_MTU, DEFAULT_WINDOW};
use super::{Algorithm, Association, Secret, Tunnel};

/// A file longer than this is none of keys.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Every key of a `[[tunnel]]`.
const KEYS: &[&str] = &[
    "name",
    "local",
    "remote",
    "local_networks",
    "remote_networks",
    "algorithm",
    "out_spi",
    "in_spi",
    "out_key",
    "in_key",
    "out_auth",
    "in_auth",
    "mtu",
    "replay_window",
    "extended",
    "address",
];

/// What a gateway needs to begin: an example of the file, with keys that are refused.
pub const EXAMPLE: &str = r#"[[tunnel]]
name = "branch"
local = "192.0.2.1"
remote = "192.0.2.2"
local_networks = ["10.1.0.0/16"]
remote_networks = ["10.2.0.0/16"]
algorithm = "aes-128-gcm"
# Draw each by `openssl rand -hex 20`. The peer has out_* and in_* the other way round.
out_spi = 0x1001
out_key = "0000000000000000000000000000000000000000"
in_spi = 0x1002
in_key = "0000000000000000000000000000000000000000"
"#;

/// Why a file is refused; its text is a sentence without a key in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeysError {
    line: Option<usize>,
    sentence: String,
}

impl KeysError {
    /// The line, from 1.
    pub const fn line(&self) -> Option<usize> {
        self.line
    }
}

impl fmt::Display for KeysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for KeysError {}

/// Reads the tunnels of a file. [`super::Gateway::new`] checks how they fit together.
///
/// # Errors
/// Text that is no such file, values that cannot be, and weak keys.
pub fn parse(text: &str) -> Result<Vec<Tunnel>, KeysError> {
    if text.len() > FILE_BYTES_MAX {
        return Err(KeysError {
            line: None,
            sentence: format!("the file is longer than {FILE_BYTES_MAX} bytes: no keys are"),
        });
    }
    let document = DeTable::parse(text).map_err(|error| KeysError {
        line: error.span().map(|span| line_of(text, span.start)),
        // What the parser says may repeat what stands there.
        sentence: "this is not TOML: look for a missing quote or bracket".to_owned(),
    })?;
    let mut tunnels = Vec::new();
    for (key, value) in document.get_ref() {
        let at = key.span().start;
        let DeValue::Array(tables) = value.get_ref() else {
            return Err(error(text, at, "there is nothing here but `[[tunnel]]`s"));
        };
        if key.get_ref() != "tunnel" {
            return Err(error(text, at, "there is nothing here but `[[tunnel]]`s"));
        }
        for table in tables {
            let start = table.span().start;
            let DeValue::Table(entries) = table.get_ref() else {
                return Err(error(text, at, "write `[[tunnel]]` and its keys below it"));
            };
            tunnels.push(Entries { text, start, entries }.tunnel()?);
        }
    }
    if tunnels.is_empty() {
        return Err(KeysError {
            line: None,
            sentence: "there is no `[[tunnel]]` in it".to_owned(),
        });
    }
    Ok(tunnels)
}

/// One `[[tunnel]]`.
struct Entries<'a> {
    text: &'a str,
    start: usize,
    entries: &'a DeTable<'a>,
}

impl<'a> Entries<'a> {
    fn tunnel(&self) -> Result<Tunnel, KeysError> {
        if let Some((key, _)) =
            self.entries.iter().find(|(key, _)| !KEYS.contains(&&**key.get_ref()))
        {
            let all = KEYS.join(", ");
            let sentence = format!("a tunnel has no such key; keys are {all}");
            return Err(error(self.text, key.span().start, &sentence));
        }
        let algorithm = match self.find("algorithm") {
            None => DEFAULT_ALGORITHM,
            Some(value) => self.string("algorithm", value).and_then(|name| {
                let names = Algorithm::ALL.map(Algorithm::name).join("\", \"");
                Algorithm::from_name(name)
                    .ok_or_else(|| self.bad(value, &format!("`algorithm` is one of \"{names}\"")))
            })?,
        };
        let addresses: Vec<IpAddr> = match self.find("address") {
            None => Vec::new(),
            Some(_) => self.list("address", "addresses, as [\"10.1.0.1\", \"fd01::1\"]")?,
        };
        let name = self.string("name", self.needed("name")?)?;
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            let says = "`name` has 1 to 64 letters, digits, `-`, `_` and `.`";
            return Err(self.bad(self.needed("name")?, says));
        }
        let networks =
            "networks, as [\"10.1.0.0/16\", \"fd01::/16\"], without bits behind the length";
        Ok(Tunnel {
            name: name.to_owned(),
            local: self.address("local")?,
            remote: self.address("remote")?,
            local_networks: self.list("local_networks", networks)?,
            remote_networks: self.list("remote_networks", networks)?,
            outbound: self.association(algorithm, ["out_spi", "out_key", "out_auth"])?,
            inbound: self.association(algorithm, ["in_spi", "in_key", "in_auth"])?,
            mtu: self.number("mtu")?.unwrap_or(DEFAULT_MTU),
            replay_window: self.number("replay_window")?.unwrap_or(DEFAULT_WINDOW),
            is_extended: match self.find("extended").map(|value| (value, value.get_ref())) {
                None => false,
                Some((_, DeValue::Boolean(is))) => *is,
                Some((value, _)) => return Err(self.bad(value, "`extended` is true or false")),
            },
            address_ipv4: addresses.iter().find_map(|address| match address {
                IpAddr::V4(address) => Some(*address),
                IpAddr::V6(_) => None,
            }),
            address_ipv6: addresses.iter().find_map(|address| match address {
                IpAddr::V4(_) => None,
                IpAddr::V6(address) => Some(*address),
            }),
        })
    }

    fn association(
        &self,
        algorithm: Algorithm,
        [spi, key, auth]: [&'static str; 3],
    ) -> Result<Association, KeysError> {
        self.needed(spi)?;
        let spi = self.number(spi)?.unwrap_or_default();
        let value = self.needed(key)?;
        let key = self.hexadecimal(key, value)?;
        let auth = match self.find(auth) {
            Some(value) => self.hexadecimal(auth, value)?,
            None => Zeroizing::default(),
        };
        let secret = Secret::new(algorithm, &key, &auth)
            .map_err(|weak| self.bad(value, &format!("{algorithm}: {weak}")))?;
        Ok(Association { spi, secret })
    }

    fn hexadecimal(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Zeroizing<Vec<u8>>, KeysError> {
        let says = format!("`{key}` is a string of hexadecimal digits, two for each byte");
        let digits = value.get_ref().as_str().ok_or_else(|| self.bad(value, &says))?;
        // In its final size from the start: what grows leaves copies behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(digits.len() / 2));
        let (pairs, odd) = digits.as_bytes().as_chunks::<2>();
        for [high, low] in pairs {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let (Some(high), Some(low)) = (digit(*high), digit(*low)) else {
                return Err(self.bad(value, &says));
            };
            bytes.push((high << 4 | low) as u8);
        }
        if odd.is_empty() { Ok(bytes) } else { Err(self.bad(value, &says)) }
    }

    fn address(&self, key: &'static str) -> Result<IpAddr, KeysError> {
        let value = self.needed(key)?;
        let text = self.string(key, value)?;
        text.parse()
            .map_err(|_| self.bad(value, &format!("`{key}` is an address, as \"192.0.2.1\"")))
    }

    fn list<T: FromStr>(&self, key: &'static str, of: &str) -> Result<Vec<T>, KeysError> {
        let value = self.needed(key)?;
        let says = format!("`{key}` is a list of {of}");
        let DeValue::Array(items) = value.get_ref() else {
            return Err(self.bad(value, &says));
        };
        let item = |item: &Spanned<DeValue<'_>>| {
            item.get_ref().as_str().and_then(|text| text.parse().ok())
        };
        items.iter().map(|one| item(one).ok_or_else(|| self.bad(one, &says))).collect()
    }

    fn number<T: FromStr + TryFrom<u64>>(&self, key: &'static str) -> Result<Option<T>, KeysError> {
        let Some(value) = self.find(key) else {
            return Ok(None);
        };
        let number = value.get_ref().as_integer().and_then(|number| {
            let number = u64::from_str_radix(number.as_str(), number.radix()).ok()?;
            T::try_from(number).ok()
        });
        let says = format!("`{key}` is a number, and not as large as this one may be");
        number.map(Some).ok_or_else(|| self.bad(value, &says))
    }

    fn string<'v>(&self, key: &str, value: &'v Spanned<DeValue<'_>>) -> Result<&'v str, KeysError> {
        value.get_ref().as_str().ok_or_else(|| self.bad(value, &format!("`{key}` is a string")))
    }

    fn needed(&self, key: &'static str) -> Result<&'a Spanned<DeValue<'a>>, KeysError> {
        let says = || error(self.text, self.start, &format!("this tunnel has no `{key}`"));
        self.find(key).ok_or_else(says)
    }

    fn find(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.entries.get(key)
    }

    fn bad(&self, value: &Spanned<DeValue<'_>>, sentence: &str) -> KeysError {
        error(self.text, value.span().start, sentence)
    }
}

const fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.')
}

fn error(text: &str, at: usize, sentence: &str) -> KeysError {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
    KeysError { line: Some(line), sentence: sentence.to_owned() }
}

fn line_of(text: &str, at: usize) -> usize {
    error(text, at, "").line.unwrap_or(1)
}

#[cfg(test)]
mod tests;
