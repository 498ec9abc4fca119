//! HTTP/1.1 as far as the tests of the project's own servers need it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Status and body of the answer to `GET path` at `address`, with headers beside `Host: localhost`.
///
/// # Panics
/// There is no answer, or it is not HTTP.
pub fn http_get(address: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    http_ask(address, "GET", path, headers, "")
}

/// Status and body of the answer to any request. A header `Host` replaces the usual one.
///
/// # Panics
/// As [`http_get`].
pub fn http_ask(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, String) {
    let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        request += "Host: localhost\r\n";
    }
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    request += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout is no zero");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers in text and closes");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    (status.unwrap_or_else(|| panic!("{answer}")), body.to_owned())
}
