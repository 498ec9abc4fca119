//! What there is to say of a process and its sockets: for people, and for programs.

use std::fmt::Write;
use std::net::SocketAddr;

use serde::Serialize;

use super::kernel_sockets::{KernelSocket, Kind};
use super::verdict::Verdict;
use crate::table::{Cell, Table};

/// Of the JSON; a reader that knows another one should not guess.
const SCHEMA_VERSION: u32 = 1;

/// The protocol of what Calisto does not serve.
const OTHER: &str = "other";

/// A process.
#[derive(Debug, Serialize)]
pub(super) struct Explained {
    schema_version: u32,
    pid: u32,
    name: String,
    /// The application that it is of; absent: it is not attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    app: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    app_name: Option<String>,
    /// Why it is not attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// When and why its sockets were put out last; absent: they never were, as far as is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    put_out: Option<String>,
    sockets: Vec<Socket>,
}

/// A descriptor of it.
#[derive(Debug, Serialize)]
struct Socket {
    fd: i32,
    inode: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cookie: Option<u64>,
    protocol: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    local: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remote: Option<String>,
    is_accelerated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_received: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_sent: Option<u64>,
    /// Why it is not accelerated: a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// In words.
    message: String,
}

impl Explained {
    pub(super) fn new<'a>(
        pid: u32,
        name: &str,
        app: Option<(u32, String)>,
        note: Option<String>,
        sockets: impl Iterator<Item = (&'a KernelSocket, Verdict<'a>)>,
    ) -> Self {
        let (app, app_name) = app.unzip();
        // A process may call itself anything.
        let name = base::printable(name, 64);
        let sockets = sockets.map(|(socket, verdict)| Socket::new(socket, &verdict)).collect();
        let (schema_version, put_out) = (SCHEMA_VERSION, None);
        Self { schema_version, pid, name, app, app_name, note, put_out, sockets }
    }

    /// The same of a process whose sockets were put out.
    pub(super) fn and_put_out(self, put_out: Option<String>) -> Self {
        Self { put_out, ..self }
    }

    pub(super) fn render(&self) -> String {
        let mut text = format!("process {} ({})", self.pid, self.name);
        if let (Some(app), Some(name)) = (self.app, &self.app_name) {
            let _ = write!(text, ", application {name} (number {app})");
        }
        text.push('\n');
        if let Some(note) = &self.note {
            let _ = writeln!(text, "not attached: {note}");
        }
        if let Some(put_out) = &self.put_out {
            let _ = writeln!(text, "{put_out}");
        }
        if self.sockets.is_empty() {
            text.push_str("It has no sockets.\n");
            return text;
        }
        let mut table = Table::new(["fd", "protocol", "local", "peer", "served by"]);
        for socket in &self.sockets {
            table.row([
                Cell::Number(socket.fd.to_string()),
                socket.protocol.as_str().into(),
                socket.local.as_deref().unwrap_or("-").into(),
                socket.remote.as_deref().unwrap_or("-").into(),
                socket.message.as_str().into(),
            ]);
        }
        let accelerated = self.sockets.iter().filter(|socket| socket.is_accelerated).count();
        let all = self.sockets.iter().filter(|socket| socket.protocol != OTHER).count();
        let _ = writeln!(
            text,
            "\n{}\n{accelerated} of {all} TCP and UDP sockets are accelerated",
            table.render(),
        );
        text
    }
}

impl Socket {
    fn new(socket: &KernelSocket, verdict: &Verdict<'_>) -> Self {
        let told = socket.told.as_ref();
        let protocol = match told.map(|told| &told.kind) {
            Some(Kind::Tcp) => "tcp",
            Some(Kind::Udp) => "udp",
            Some(Kind::Other(_)) => OTHER,
            None => "unknown",
        };
        let written = |address: Option<SocketAddr>| address.map(|address| address.to_string());
        let of_kernel = Self {
            fd: socket.fd,
            inode: socket.inode,
            cookie: told.map(|told| told.cookie),
            protocol: protocol.to_owned(),
            local: told.and_then(|told| written(told.local)),
            remote: told.and_then(|told| written(told.peer)),
            is_accelerated: false,
            worker: None,
            bytes_received: None,
            bytes_sent: None,
            reason: None,
            message: verdict.sentence(),
        };
        match verdict {
            Verdict::Kernel(reason, _) => Self { reason: Some((*reason).to_owned()), ..of_kernel },
            // The kernel's socket beside it is never connected: it knows less.
            Verdict::Accelerated(row) => Self {
                protocol: row.protocol.clone(),
                local: Some(row.local.clone()),
                remote: row.remote.clone(),
                is_accelerated: true,
                worker: row.worker,
                bytes_received: Some(row.bytes_received),
                bytes_sent: Some(row.bytes_sent),
                ..of_kernel
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernel_sockets::Told;
    use super::*;
    use crate::sockets::tests::row;

    fn sockets() -> [KernelSocket; 2] {
        let told = Told {
            cookie: 9,
            kind: Kind::Tcp,
            local: "127.0.0.1:40000".parse().ok(),
            peer: "127.0.0.1:80".parse().ok(),
            listens: false,
            peer_pid: None,
        };
        [
            KernelSocket { fd: 6, inode: 88_240, told: None },
            KernelSocket { fd: 7, inode: 5, told: Some(told) },
        ]
    }

    #[test]
    fn every_socket_has_a_line_that_says_who_serves_it_and_why() {
        let (sockets, row) = (sockets(), row());
        let verdicts =
            [Verdict::Accelerated(&row), Verdict::Kernel("no_memory", "it was full".to_owned())];
        let app = Some((3, "redis-server".to_owned()));
        let all = sockets.iter().zip(verdicts);
        let explained = Explained::new(4712, "redis\u{1b}[2J", app, None, all);
        let text = explained.render();
        for part in [
            "application redis-server (number 3)",
            "accelerated: worker 1, 52,100 bytes received",
            "kernel: it was full",
            "10.0.0.1:40112",
            "127.0.0.1:80",
            "1 of 2 TCP and UDP sockets are accelerated",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\u{1b}'), "no terminal acts on a name");
        let json = serde_json::to_value(&explained).expect("plain data");
        assert_eq!(json["sockets"][0]["bytes_sent"], 49_876);
        assert_eq!(json["sockets"][1]["reason"], "no_memory");
        assert!(json["sockets"][1].get("worker").is_none(), "{json}");
        assert_eq!(json["schema_version"], 1);
    }

    #[test]
    fn a_process_that_is_not_attached_says_why() {
        let note = Some("it is a Go program".to_owned());
        let text = Explained::new(7, "x", None, note, std::iter::empty()).render();
        assert!(text.contains("not attached: it is a Go program"), "{text}");
        assert!(text.contains("It has no sockets."), "{text}");
    }
}
