//! curl, as the client that both ends of a transfer are checked with.

use std::path::Path;

use whole::{Accelerated, Carried};

/// Sizes as curl counts them, of what it sent and received with the headers of HTTP.
const COUNTS: &str = "%{stderr}%{size_request} %{size_upload} %{size_header} %{size_download}";

/// Who runs it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    /// Linux, at the other end.
    Linux,
    /// Calisto, beside the daemon.
    Calisto,
}

/// Runs `curl WORDS`, which must succeed; what it sent and received, and its standard output.
pub(crate) fn curl(accelerated: &Accelerated, by: By, words: &[&str]) -> (u64, u64, String) {
    let all: Vec<&str> =
        ["curl", "-sS", "--fail", "-w", COUNTS].into_iter().chain(words.iter().copied()).collect();
    let program = match by {
        By::Linux => accelerated.run_there(&all),
        By::Calisto => accelerated.run(&all),
    };
    let ended = program.end();
    assert!(ended.status.success(), "curl {words:?}: {}", ended.said);
    let counts = ended.said.lines().last().unwrap_or_default();
    let counts: Vec<u64> = counts.split(' ').filter_map(|count| count.parse().ok()).collect();
    let [request, upload, header, download] = counts[..] else { panic!("{}", ended.said) };
    (request + upload, header + download, ended.out)
}

/// Fetches `url` into a file.
pub(crate) fn fetch(accelerated: &Accelerated, by: By, url: &str, to: &Path) -> (u64, u64) {
    let to = to.display().to_string();
    let (sent, received, _) = curl(accelerated, by, &["-o", &to, url]);
    (sent, received)
}

/// Uploads a file to `url`; what the server says to it.
pub(crate) fn upload(
    accelerated: &Accelerated,
    by: By,
    from: &Path,
    url: &str,
) -> (u64, u64, String) {
    let from = from.display().to_string();
    curl(accelerated, by, &["-T", &from, url])
}

/// The counts of a server from those of its client.
pub(crate) fn of_server((sent, received): (u64, u64)) -> Carried {
    Carried { received: sent, sent: received }
}

/// The counts of a client.
pub(crate) fn of_client((sent, received): (u64, u64)) -> Carried {
    Carried { received, sent }
}
