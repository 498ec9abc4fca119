//! Engines and applications, the link to an honest peer, and time. `migration.rs` moves groups from
//! one engine to the other, `ending.rs` says what must hold in the end.

use std::sync::LazyLock;

use base::{FlowHash, Nanos};
use tcp::{Config, Detached, Incoming, Seq};
use wire::Toeplitz;
use wire::tcp::Header;

use super::application::Applications;
use super::call::Call;
use super::host::Host;
use super::settings::{HASH_KEY, Settings};
use super::sink::Sink;
use super::wire_side::{HONEST, HONEST_PEER, NAMES, PORT, SIDES, checksum};

/// Groups of flows, each in one of two engines.
pub(super) const GROUPS: u32 = 2;
/// The engine of the honest peer comes after these two.
const PEER_HOST: usize = 2;
/// No timer of any flow runs for longer.
const HORIZON: Nanos = Nanos::from_secs(1000);
/// Segments that are taken in at once.
const BATCH: usize = 4;

/// The hash of each side's name, as a dispatcher has it.
static HASHES: LazyLock<[FlowHash; SIDES]> = LazyLock::new(|| {
    let hasher = Toeplitz::new(HASH_KEY);
    NAMES.map(|name| hasher.hash(&name.key))
});

/// A segment that will be taken in.
struct Packet {
    side: usize,
    bytes: Vec<u8>,
    ecn: u8,
    is_verified: bool,
}

/// Everything.
pub(super) struct Harness {
    pub(super) now: Nanos,
    pub(super) settings: Settings,
    pub(super) hosts: [Option<Host>; 3],
    /// Which engine has which group.
    pub(super) owners: [usize; GROUPS as usize],
    pub(super) sink: Sink,
    pub(super) applications: Applications,
    batch: Vec<Packet>,
    pub(super) detached: Detached,
    pub(super) is_listening: bool,
}

impl Harness {
    pub(super) fn new(settings: Settings) -> Self {
        let now = Nanos::from_secs(1000);
        let config = &settings.config;
        let sink = Sink {
            sides: Default::default(),
            events: Vec::new(),
            link: Default::default(),
            refusals: 0,
            is_answer: true,
            sent: 0,
            ring: 1 << settings.options.receive_ring_log2,
            longest: usize::from(config.mtu) - 20,
            scratch: vec![0; usize::from(config.mtu)],
        };
        let mut harness = Self {
            now,
            hosts: [Some(Host::new(config.clone(), &settings.options, now)), None, None],
            owners: [0; GROUPS as usize],
            sink,
            applications: Applications::default(),
            batch: Vec::with_capacity(BATCH),
            detached: Detached::default(),
            is_listening: true,
            settings,
        };
        harness.listen(0);
        if harness.settings.has_honest {
            harness.meet_honest_peer();
        }
        harness
    }

    pub(super) fn listen(&mut self, host: usize) {
        let Some(Host { engine, listener, .. }) = &mut self.hosts[host] else { return };
        let Settings { backlog, options, .. } = self.settings;
        let any = ([0, 0, 0, 0], PORT).into();
        *listener = Some(engine.listen(any, backlog, options).expect("nobody else listens"));
    }

    /// Both engines accept connections, or no longer.
    pub(super) fn toggle_listener(&mut self) {
        self.flush();
        self.is_listening = !self.is_listening;
        for number in 0..PEER_HOST {
            if self.is_listening {
                self.listen(number);
            } else if let Some(Host { engine, listener, .. }) = &mut self.hosts[number]
                && let Some(listener) = listener.take()
            {
                engine.unlisten(listener);
            }
        }
    }

    /// An engine that follows the rules, at the other end of a link.
    fn meet_honest_peer(&mut self) {
        let config = Config { flows_max: 2, ..self.settings.config };
        let mut host = Host::new(config, &self.settings.options, self.now);
        let local = NAMES[HONEST_PEER].local;
        host.engine.listen(local, 1, self.settings.options).expect("nobody else listens");
        self.hosts[PEER_HOST] = Some(host);
        let client = if self.settings.is_honest_client { HONEST_PEER } else { HONEST };
        self.connect(client);
        for _ in 0..3 {
            self.turn();
            self.carry(0);
            self.carry(1);
        }
        self.turn();
    }

    pub(super) fn host_of(&self, side: usize) -> usize {
        if side == HONEST_PEER {
            PEER_HOST
        } else {
            self.owners[(HASHES[side].0 & (GROUPS - 1)) as usize]
        }
    }

    /// The application of `side` opens a connection, if its name is free.
    pub(super) fn connect(&mut self, side: usize) {
        let host = self.host_of(side);
        let Some(Host { engine, .. }) = &mut self.hosts[host] else { return };
        let (local, remote) = (NAMES[side].local, NAMES[side].remote);
        let options = self.settings.options;
        if let Ok(flow) = engine.connect(self.now, local, remote, options, side as u32) {
            self.sink.sides[side].open(self.sink.ring);
            self.applications.add(flow, host, Some(side), &self.sink.sides);
        }
    }

    /// Does something with the flow that `side` had last.
    pub(super) fn with(&mut self, side: usize, act: impl FnOnce(&mut Call<'_>)) {
        let Some(record) = self.applications.of(side) else { return };
        let host = record.host;
        let Some(Host { engine, rings, .. }) = &mut self.hosts[host] else { return };
        act(&mut Call { now: self.now, engine, rings, record, sink: &mut self.sink });
        self.hear(host, None);
    }

    /// A router says that a segment was too long.
    pub(super) fn too_big(&mut self, side: usize, sequence: Seq, mtu: u32) {
        let host = self.host_of(side);
        if let Some(host) = &mut self.hosts[host] {
            host.engine.too_big(&NAMES[side].key, sequence, mtu);
        }
    }

    /// A segment arrives; it is taken in with the next flush, or before others of them are too
    /// many.
    pub(super) fn deliver(&mut self, side: usize, bytes: Vec<u8>, ecn: u8, is_verified: bool) {
        // Which acknowledgement has opened a cookie can only be told when it comes alone.
        let is_alone = self.sink.sides[side].has_cookie;
        if is_alone || self.batch.len() == BATCH {
            self.flush();
        }
        if is_verified || checksum_of_arriving(side, &bytes) {
            self.sink.sides[side].deliver(&bytes);
        }
        self.batch.push(Packet { side, bytes, ecn, is_verified });
        if is_alone {
            self.flush();
        }
    }

    /// Takes in what has arrived.
    pub(super) fn flush(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        for number in 0..self.hosts.len() {
            let is_ours = |packet: &&Packet| self.host_of(packet.side) == number;
            let mut incoming = [const { None }; BATCH];
            let mut count = 0;
            for packet in batch.iter().filter(is_ours) {
                incoming[count] = Some(Incoming {
                    key: NAMES[packet.side].key,
                    hash: HASHES[packet.side],
                    route: packet.side as u32,
                    segment: &packet.bytes,
                    ecn: packet.ecn,
                    is_verified: packet.is_verified,
                });
                count += 1;
            }
            let Some(first) = incoming[0] else { continue };
            let incoming = incoming.map(|packet| packet.unwrap_or(first));
            let Some(Host { engine, rings, .. }) = &mut self.hosts[number] else { continue };
            let (received, cookies) =
                (engine.counters().received, engine.counters().cookies_accepted);
            engine.receive(self.now, &incoming[..count], rings, &mut self.sink);
            assert_eq!(engine.counters().received, received + count as u64);
            let is_cookie = engine.counters().cookies_accepted > cookies;
            let opener = is_cookie.then_some(first.segment);
            self.hear(number, opener);
        }
        self.batch = batch;
        self.batch.clear();
    }

    fn hear(&mut self, number: usize, opener: Option<&[u8]>) {
        let Some(Host { engine, rings, .. }) = &mut self.hosts[number] else { return };
        self.applications.hear(number, engine, rings, &mut self.sink, opener);
    }

    /// What every loop around an engine does: timers, then everything that may leave.
    pub(super) fn turn(&mut self) {
        self.flush();
        for number in 0..self.hosts.len() {
            let Some(Host { engine, .. }) = &mut self.hosts[number] else { continue };
            engine.expire(self.now, &mut self.sink);
            self.hear(number, None);
            let mut rounds = 0;
            loop {
                let is_refused = self.sink.refusals != 0;
                let Some(Host { engine, rings, .. }) = &mut self.hosts[number] else { break };
                self.sink.is_answer = false;
                engine.transmit(self.now, rings, &mut self.sink);
                self.sink.is_answer = true;
                let next = engine.next_deadline();
                self.hear(number, None);
                if is_refused || next.is_none_or(|next| next > self.now) {
                    break;
                }
                assert_eq!(next, Some(Nanos::ZERO), "what is due was done");
                rounds += 1;
                assert!(rounds < 64, "whoever takes all has all in the end");
            }
        }
        self.check();
        self.check_repairs();
    }

    fn check(&self) {
        for host in self.hosts.iter().flatten() {
            assert!(host.engine.flows_in_use() <= host.flows_max);
            let next = host.engine.next_deadline().unwrap_or(self.now);
            assert!(next <= self.now + HORIZON, "nothing is to be done at {next}");
            let (sent, ranges) = host.engine.records_in_use();
            assert!(sent <= host.records_max.0 && ranges <= host.records_max.1);
        }
        for record in &self.applications.records {
            let Some(Host { engine, rings, .. }) = &self.hosts[record.host] else { continue };
            let info = engine.info(record.id).expect("who was not told of the end is not at it");
            let send = rings.send[record.id.index()].len().max(rings.send_bytes);
            assert!(info.unsent_bytes <= info.queued_bytes && info.queued_bytes as usize <= send);
            assert!(info.window >= 1 || info.lost > 0, "something may always be sent: {info:?}");
            let receive = rings.receive[record.id.index()].len().max(rings.receive_bytes);
            assert!(engine.readable(record.id).bytes as usize <= receive);
            assert!(info.rcv_wnd as usize <= receive, "{info:?}");
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        let hosts = self.hosts.iter().flatten();
        hosts.filter_map(|host| host.engine.next_deadline()).min()
    }

    /// Time passes, from one deadline to the next.
    pub(super) fn wait(&mut self, length: Nanos) {
        let end = self.now + length;
        let sent = self.sink.sent;
        self.turn();
        for _ in 0..64 {
            match self.next_deadline() {
                Some(next) if next > Nanos::ZERO && next <= end => self.now = self.now.max(next),
                _ => break,
            }
            self.turn();
        }
        // A loop may come late.
        self.now = end;
        self.turn();
        let seconds = 1 + length.0 / 1_000_000_000;
        assert!(self.sink.sent - sent < 400 + 40 * seconds, "silence is not answered by a storm");
    }

    /// Everything that is on its way over one direction of the link arrives.
    pub(super) fn carry(&mut self, direction: usize) {
        let side = if direction == 0 { HONEST } else { HONEST_PEER };
        while let Some(segment) = self.sink.link[direction].pop_front() {
            self.deliver(side, segment, 0, false);
        }
        self.flush();
    }

    /// All counters of the engine that has `side`.
    pub(super) fn counters(&self, side: usize) -> tcp::Counters {
        let host = self.hosts[self.host_of(side)].as_ref();
        host.map(|host| *host.engine.counters()).unwrap_or_default()
    }
}

/// Whether a segment that goes to `side` has its checksum.
fn checksum_of_arriving(side: usize, segment: &[u8]) -> bool {
    // The sum of both addresses is the same either way.
    Header::parse(segment).is_ok() && checksum(side, segment).fold() == 0xffff
}
