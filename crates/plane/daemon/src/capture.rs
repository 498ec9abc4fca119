//! A capture on its way to a client: chunks of the loop become a pcapng file on the connection.
//!
//! What the loop decides per packet is host, port and attached application. Whose socket of a
//! program a packet is for only the attach server knows, so that is decided here, by the local
//! addresses of that program.

use std::collections::HashSet;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use admin::{
    CAPTURE_SNAPLEN, CaptureRequest, CaptureWriter, Captured, Command, Direction, ReplyBody,
    SOCKET_ROWS_MAX,
};
use base::Nanos;
use datapath::{
    CaptureChunk, CaptureDirection, CaptureFilter, CaptureReader, CapturedPacket, capture,
};

use crate::admin_socket::{error, respond};
use crate::ask::Asks;
use crate::stream::Listening;

/// Time between two looks for packets.
const TAKE_EVERY: Duration = Duration::from_millis(5);

/// A program's new sockets are known after this long. Its listeners answer for what they accept.
const ADDRESSES_EVERY: Duration = Duration::from_millis(200);

/// Local addresses of a program that are kept in mind, at most.
const ADDRESSES_MAX: usize = 1 << 16;

/// Bytes of a packet's block in the file beside its own, which fill whole words.
const BLOCK_BYTES: u64 = 44;

/// Numbers captures.
static CAPTURES: AtomicU64 = AtomicU64::new(0);

/// Answers a request for a capture; then the connection closes.
pub(crate) fn serve(
    stream: &mut UnixStream,
    asks: &Asks,
    app: Option<String>,
    request: CaptureRequest,
) -> io::Result<()> {
    let snaplen = request.snaplen.unwrap_or(CAPTURE_SNAPLEN);
    let filter = CaptureFilter { host: request.host, port: request.port, app: None };
    let (tap, reader) = capture(filter, snaplen as usize);
    let id = CAPTURES.fetch_add(1, Ordering::Relaxed);
    // A program's sockets are the own workers', so that the loop knows nothing of its name.
    let sockets = app.clone().map(|app| Sockets::new(app, asks));
    let program = sockets.filter(|sockets| sockets.is_known);
    let attached = if program.is_some() { None } else { app };
    let ports = match asks.begin_capture(id, attached, tap) {
        Ok(ports) => ports,
        Err(why) => {
            // The loop may have begun it although nobody waited for the answer any more.
            drop(asks.end_capture(id));
            return respond(stream, error(&why));
        }
    };
    let served = write(stream, asks, id, reader, program, &ports, request, snaplen);
    drop(asks.end_capture(id));
    served
}

#[expect(clippy::too_many_arguments, reason = "what a capture consists of")]
fn write(
    stream: &mut UnixStream,
    asks: &Asks,
    id: u64,
    mut reader: CaptureReader,
    program: Option<Sockets<'_>>,
    ports: &[String],
    request: CaptureRequest,
    snaplen: u32,
) -> io::Result<()> {
    let mut budget = match Budget::new(&request, ports, snaplen) {
        Ok(budget) => budget,
        Err(why) => return respond(stream, error(&why)),
    };
    respond(stream, ReplyBody::Capturing { snaplen, ports: ports.to_vec() })?;
    let listens = stream.try_clone()?;
    let mut client = Listening::new(&listens);
    let began = since_1970();
    let output = BufWriter::with_capacity(1 << 18, stream);
    let writer = CaptureWriter::new(output, ports, snaplen, began)?;
    let offset = began.0.saturating_sub(sys::clock::now().0);
    let written = vec![0; ports.len()];
    let mut file = File { writer, offset, written, budget: &mut budget, program };
    file.writer.flush()?;
    let mut goes_on = true;
    while goes_on && client.wait(TAKE_EVERY) {
        while goes_on && let Some(chunk) = reader.next_chunk() {
            goes_on = file.append(&chunk)?;
            reader.give_back(chunk);
        }
        file.writer.flush()?;
    }
    let (rest, dropped) = asks.end_capture(id).map(|tap| tap.into_rest()).unwrap_or_default();
    while goes_on && let Some(chunk) = reader.next_chunk() {
        goes_on = file.append(&chunk)?;
    }
    if goes_on && let Some(chunk) = rest {
        file.append(&chunk)?;
    }
    file.end(&dropped)
}

/// What is being written.
struct File<'a, W: Write> {
    writer: CaptureWriter<W>,
    /// From the loop's clock to the time since 1970.
    offset: u64,
    /// Packets, by port.
    written: Vec<u64>,
    budget: &'a mut Budget,
    program: Option<Sockets<'a>>,
}

impl<W: Write> File<'_, W> {
    /// The packets of a chunk; false when a limit is reached.
    fn append(&mut self, chunk: &CaptureChunk) -> io::Result<bool> {
        if let Some(program) = &mut self.program {
            program.renew();
        }
        for packet in chunk.packets() {
            if self.program.as_ref().is_some_and(|program| !program.has(&packet)) {
                continue;
            }
            if !self.budget.takes(packet.bytes.len()) {
                return Ok(false);
            }
            let CapturedPacket { port, time, direction, flow: _, len, bytes } = packet;
            let direction = match direction {
                CaptureDirection::In => Direction::In,
                CaptureDirection::Out => Direction::Out,
            };
            let time = Nanos(time.0.saturating_add(self.offset));
            let port = u32::from(port);
            self.writer.packet(&Captured { port, time, direction, len, bytes })?;
            if let Some(written) = self.written.get_mut(port as usize) {
                *written += 1;
            }
        }
        Ok(!self.budget.is_spent())
    }

    fn end(self, dropped: &[u64]) -> io::Result<()> {
        let mut dropped = dropped.to_vec();
        dropped.resize(self.written.len(), 0);
        let counts = self.written.iter().zip(&dropped);
        let accepted: Vec<u64> = counts.map(|(written, dropped)| written + dropped).collect();
        self.writer.end(since_1970(), &accepted, &dropped).map(drop)
    }
}

/// How much may follow.
struct Budget {
    packets: u64,
    bytes: u64,
}

impl Budget {
    /// Without the head and the end of the file, or why not even these fit.
    fn new(request: &CaptureRequest, ports: &[String], snaplen: u32) -> Result<Self, String> {
        let now = Nanos::ZERO;
        let zeros = vec![0; ports.len()];
        let empty = CaptureWriter::new(Vec::new(), ports, snaplen, now)
            .and_then(|writer| writer.end(now, &zeros, &zeros))
            .map_err(|error| error.to_string())?;
        let (empty, bytes) = (empty.len() as u64, request.bytes.unwrap_or(u64::MAX));
        let packets = request.packets.unwrap_or(u64::MAX);
        let bytes = bytes.checked_sub(empty).ok_or_else(|| {
            format!("a capture without a packet has {empty} bytes: ask for more than {bytes}")
        })?;
        Ok(Self { packets, bytes })
    }

    /// Whether a packet of which so much is kept may be written; then it is accounted for.
    fn takes(&mut self, kept: usize) -> bool {
        let block = BLOCK_BYTES + kept.next_multiple_of(4) as u64;
        if self.packets == 0 || self.bytes < block {
            // Nothing shorter may follow what was left out.
            self.packets = 0;
            return false;
        }
        self.packets -= 1;
        self.bytes -= block;
        true
    }

    fn is_spent(&self) -> bool {
        self.packets == 0
    }
}

/// The local addresses of a program's sockets, as far as they are known.
struct Sockets<'a> {
    app: String,
    asks: &'a Asks,
    local: HashSet<(bool, Option<IpAddr>, u16)>,
    /// The attach server knows a program of that name.
    is_known: bool,
    renewed: Instant,
}

impl<'a> Sockets<'a> {
    fn new(app: String, asks: &'a Asks) -> Self {
        let local = HashSet::new();
        let mut sockets = Self { app, asks, local, is_known: false, renewed: Instant::now() };
        sockets.ask();
        sockets
    }

    fn renew(&mut self) {
        if self.renewed.elapsed() >= ADDRESSES_EVERY {
            self.ask();
        }
    }

    /// Adds what there is now. What has gone stays: its last packets may still come.
    fn ask(&mut self) {
        let mut next = Some(0);
        while let Some(from) = next.take() {
            let page = Command::Sockets { from, count: SOCKET_ROWS_MAX };
            let ReplyBody::Sockets { sockets, next: more } =
                self.asks.ask_attach_server(page, Some(self.app.clone()))
            else {
                break;
            };
            self.is_known = true;
            for row in sockets {
                let Ok(local) = row.local.parse::<SocketAddr>() else { continue };
                let ip = Some(local.ip()).filter(|ip| !ip.is_unspecified());
                if self.local.len() < ADDRESSES_MAX {
                    self.local.insert((row.protocol == "tcp", ip, local.port()));
                }
            }
            next = more;
        }
        self.renewed = Instant::now();
    }

    fn has(&self, packet: &CapturedPacket<'_>) -> bool {
        let local = packet.flow.destination();
        let is_tcp = packet.flow.protocol() == wire::Protocol::Tcp;
        let known = |ip| self.local.contains(&(is_tcp, ip, local.port()));
        known(Some(local.ip())) || known(None)
    }
}

fn since_1970() -> Nanos {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_to_have_so_many_bytes_has_no_more_and_hardly_fewer() {
        let ports = ["xdp:eth1".to_owned(), "xdp:eth2".to_owned()];
        for bytes in [1000, 1001, 1999, 4096] {
            let request = CaptureRequest { bytes: Some(bytes), ..CaptureRequest::default() };
            let mut budget = Budget::new(&request, &ports, 96).expect("it is enough for some");
            let mut writer =
                CaptureWriter::new(Vec::new(), &ports, 96, Nanos::ZERO).expect("memory");
            for kept in [14, 61, 96, 60].into_iter().cycle() {
                if !budget.takes(kept) {
                    break;
                }
                let (time, len, data) = (Nanos::ZERO, 1514, [7; 96]);
                let bytes = &data[..kept];
                let packet = Captured { port: 1, time, direction: Direction::In, len, bytes };
                writer.packet(&packet).expect("memory");
            }
            let file = writer.end(Nanos::ZERO, &[0, 9], &[0, 0]).expect("memory").len() as u64;
            assert!(file <= bytes && file + BLOCK_BYTES + 96 >= bytes, "{file} of {bytes}");
        }
        let tiny = CaptureRequest { bytes: Some(10), ..CaptureRequest::default() };
        assert!(Budget::new(&tiny, &ports, 96).is_err());
    }
}
