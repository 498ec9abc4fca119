//! systemd's journal, by its native protocol: a datagram an event.

use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use super::event::Event;

/// Where systemd-journald listens.
const SOCKET: &str = "/run/systemd/journal/socket";

pub(super) struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
}

/// What became of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Taken,
    /// The journal does not read fast enough.
    Full,
    /// There is no journal, or not now.
    Nobody,
}

impl Journal {
    pub(super) fn of_systemd() -> std::io::Result<Self> {
        Self::at(PathBuf::from(SOCKET))
    }

    fn at(path: PathBuf) -> std::io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, path })
    }

    /// Sends it without waiting. The path is looked up each time: the journal may have been
    /// started again.
    pub(super) fn send(&self, event: &Event) -> Sent {
        match self.socket.send_to(event.journal().as_bytes(), &self.path) {
            Ok(_) => Sent::Taken,
            Err(error) if error.kind() == ErrorKind::WouldBlock => Sent::Full,
            Err(_) => Sent::Nobody,
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    fn event() -> Event {
        Event::new(Level::INFO, "ports", "hello".to_owned())
    }

    #[test]
    fn a_journal_that_comes_back_is_found_and_one_that_does_not_read_is_not_waited_for() {
        let folder = std::env::temp_dir().join(format!("calisto-journal-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder of the test");
        let path = folder.join("socket");
        let journal = Journal::at(path.clone()).expect("a socket");
        assert_eq!(journal.send(&event()), Sent::Nobody);
        for _ in 0..2 {
            let systemd = UnixDatagram::bind(&path).expect("the path is free");
            assert_eq!(journal.send(&event()), Sent::Taken);
            let mut datagram = [0; 4096];
            let length = systemd.recv(&mut datagram).expect("it was taken");
            let text = String::from_utf8_lossy(&datagram[..length]);
            assert!(text.contains("\nMESSAGE=hello\n"), "{text}");
            std::fs::remove_file(&path).expect("it was bound");
        }
        let _systemd = UnixDatagram::bind(&path).expect("the path is free");
        let fates = (0..100_000).map(|_| journal.send(&event()));
        assert!(fates.into_iter().any(|fate| fate == Sent::Full), "a queue has an end");
        std::fs::remove_dir_all(&folder).expect("it is the test's");
    }
}
