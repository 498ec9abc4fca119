//! Messages as text: `{"v":1,"KIND":{...}}`.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::message::{ToApp, ToDaemon};
use crate::{MESSAGE_BYTES_MAX, VERSION};

/// Of what a message said, so much is repeated in a sentence about it.
const SENTENCE_CHARS_MAX: usize = 200;

#[derive(Serialize, Deserialize)]
struct Envelope<Body> {
    v: u32,
    #[serde(flatten)]
    body: Body,
}

/// Read before the rest, which another version may write differently.
#[derive(Deserialize)]
struct VersionOnly {
    v: u32,
}

/// What an application said.
///
/// # Errors
/// A sentence: it is no message, none of this version, or breaks a limit.
pub fn decode_to_daemon(text: &[u8]) -> Result<ToDaemon, String> {
    let message: ToDaemon = decode(text)?;
    message.check()?;
    Ok(message)
}

/// What the daemon said.
///
/// # Errors
/// A sentence: it is no message, or none of this version.
pub fn decode_to_app(text: &[u8]) -> Result<ToApp, String> {
    decode(text)
}

/// The text of a message; `None` when it is longer than a message may be.
pub(crate) fn encode(body: &impl Serialize) -> Option<Vec<u8>> {
    let text = serde_json::to_vec(&Envelope { v: VERSION, body })
        .expect("messages are structs of strings and numbers");
    (text.len() <= MESSAGE_BYTES_MAX).then_some(text)
}

fn decode<Body: DeserializeOwned>(text: &[u8]) -> Result<Body, String> {
    let head: VersionOnly = serde_json::from_slice(text)
        .map_err(|error| sentence("that is no message of the attach protocol", &error))?;
    if head.v != VERSION {
        return Err(format!(
            "version {} of the attach protocol is not spoken here, only {VERSION}: build the \
             application and the daemon from releases that fit",
            head.v
        ));
    }
    let envelope: Envelope<Body> = serde_json::from_slice(text).map_err(|error| {
        sentence("version 1 of the attach protocol has no such message", &error)
    })?;
    Ok(envelope.body)
}

/// What is wrong, on one short line and safe to print, whatever the message said.
fn sentence(what: &str, error: &serde_json::Error) -> String {
    format!("{what}: {}", base::printable(&error.to_string(), SENTENCE_CHARS_MAX))
}

/// Ethernet addresses as people write them.
pub(crate) mod mac {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        mac: &Option<[u8; 6]>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text = mac
            .map(|[a, b, c, d, e, f]| format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}"));
        text.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<[u8; 6]>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        let mac = parse(&text);
        mac.map(Some)
            .ok_or_else(|| D::Error::custom("a MAC address is six bytes: 02:00:00:00:00:01"))
    }

    fn parse(text: &str) -> Option<[u8; 6]> {
        let mut parts = text.split(':');
        let mut mac = [0; 6];
        for byte in &mut mac {
            let part = parts.next().filter(|part| part.len() == 2)?;
            // `from_str_radix` takes a sign.
            let is_hex = part.bytes().all(|digit| digit.is_ascii_hexdigit());
            *byte = u8::from_str_radix(part, 16).ok().filter(|_| is_hex)?;
        }
        parts.next().is_none().then_some(mac)
    }
}

#[cfg(test)]
mod tests;
