//! What an operator is told about sockets: those that are served, and those that are not.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use admin::{FallbackRow, FallbackTotal, ReplyBody, SocketRow, SocketState, SocketTimer, TcpRow};
use base::{Nanos, RegionId, SlotId};
use shm::sockets::{Asks, Kind, RingDesc, SlotInfo, SlotOption, SlotState, SlotWords};

use super::super::app::App;
use super::super::names::SlotKey;
use super::super::records::What;
use super::super::regions::Region;
use super::SocketTable;

/// So long workers may take to bring what is told about connections up to date.
const FRESH_WITHIN: Duration = Duration::from_millis(3);

impl SocketTable {
    /// A page of sockets, from the place `from` on: of all applications, or of one by its name or
    /// number.
    pub(crate) fn socket_rows(&self, app: Option<&str>, from: u64, count: u32) -> ReplyBody {
        let is_meant = |of: &App| app.is_none_or(|text| of.answers_to(text));
        if let Some(text) = app
            && !self.apps.iter().any(is_meant)
        {
            let shown = base::printable(text, 40);
            let message = format!("no application \"{shown}\" has sockets: see `calisto ss`");
            return ReplyBody::Error { message };
        }
        let first = (RegionId((from >> 32) as u32), SlotId(from as u32));
        let mut places: Vec<(SlotKey, &App)> = Vec::new();
        let mut next = None;
        'all: for (region, kind) in self.regions.from(first.0) {
            let Some(of) = self.owner_of(kind).filter(|of| is_meant(of)) else { continue };
            for slot in self.slots_of(kind, of) {
                let place = (region, slot);
                if place < first {
                    continue;
                }
                if places.len() == count as usize {
                    next = Some(u64::from(place.0.0) << 32 | u64::from(place.1.0));
                    break 'all;
                }
                places.push((place, of));
            }
        }
        self.refresh(&places);
        let rows = places.into_iter().filter_map(|(place, of)| self.row(place, of));
        ReplyBody::Sockets { sockets: rows.collect(), next }
    }

    /// Whose a region is.
    fn owner_of(&self, region: Region) -> Option<&App> {
        let number = match region {
            Region::App(number) => number,
            Region::LocalPair(number, side) => self.local_pairs.get(&number)?.app(side),
        };
        self.apps.get(number)
    }

    /// The slots that an application has in a region, in their order.
    fn slots_of(&self, region: Region, app: &App) -> Vec<SlotId> {
        match region {
            Region::App(_) => {
                let server = &app.streams.server;
                let slots = (0..server.memory().sizes().slots).map(SlotId);
                slots
                    .filter(|slot| server.is_taken(*slot))
                    .take(server.slots_taken() as usize)
                    .collect()
            }
            Region::LocalPair(number, side) => {
                self.local_pairs.get(&number).map(|of| of.slots(side)).unwrap_or_default()
            }
        }
    }

    /// Has workers bring what is told about connections up to date.
    fn refresh(&self, places: &[(SlotKey, &App)]) {
        let mut asked = Vec::new();
        for ((region, slot), app) in places {
            let memory = app.streams.server.memory();
            let Some(words) = memory.slot(*slot).filter(|_| *region == app.region()) else {
                continue;
            };
            if words.state().kind() != Kind::Stream || !words.state().has(SlotState::CONNECTED) {
                continue;
            }
            asked.push((words, words.info_version.load(Ordering::Acquire)));
            words.asks.fetch_or(Asks::INFO, Ordering::AcqRel);
            let ready_bits = memory.worker(words.worker.load(Ordering::Acquire));
            // All workers are woken below, so that it does not matter which of them sleep.
            let _ = ready_bits.is_some_and(|ready_bits| ready_bits.set(*slot));
        }
        if asked.is_empty() {
            return;
        }
        self.table_config.workers_doorbell.ring();
        let begun = std::time::Instant::now();
        let is_old = |(words, version): &(&SlotWords, u32)| {
            words.info_version.load(Ordering::Acquire) == *version
        };
        while begun.elapsed() < FRESH_WITHIN && asked.last().is_some_and(is_old) {
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn row(&self, place: SlotKey, app: &App) -> Option<SocketRow> {
        let (region, slot) = place;
        let local_pair = match self.regions.get(region)? {
            Region::App(_) => None,
            Region::LocalPair(number, _) => Some(self.local_pairs.get(&number)?),
        };
        let words = match local_pair {
            None => app.words(slot)?,
            Some(local_pair) => local_pair.words(slot)?,
        };
        let peer = local_pair.and_then(|local_pair| local_pair.words(slot.peer()));
        let record = self.records.get(place);
        let kind = words.state().kind();
        let load = |word: &std::sync::atomic::AtomicU64| word.load(Ordering::Relaxed);
        // Of a connection within this host, the peer's words are those that the daemon would write.
        let (came, taken) = match peer {
            Some(peer) => (load(&peer.tx_tail), load(&peer.rx_head)),
            None => (load(&words.rx_tail), load(&words.tx_head)),
        };
        let backlog_max = record.and_then(|record| match &record.what {
            What::Listener(listener) => Some(u64::from(listener.backlog_max)),
            _ => None,
        });
        let is_tcp = kind != Kind::Datagram;
        let told = |name: SocketAddr| name.to_string();
        Some(SocketRow {
            app: app.number().0.into(),
            app_name: app.name.clone(),
            pids: app.pids.clone(),
            uid: app.uid,
            profile: app.profile.word().to_owned(),
            region: region.0,
            slot: slot.0,
            protocol: if is_tcp { "tcp" } else { "udp" }.to_owned(),
            local: words.local.get().map(told).unwrap_or_default(),
            remote: words.remote.get().map(told),
            state: state(words),
            recv_q: came.saturating_sub(load(&words.rx_head)),
            send_q: backlog_max.unwrap_or_else(|| load(&words.tx_tail).saturating_sub(taken)),
            cookie: record.map_or(0, |record| record.cookie),
            inode: record.map_or(0, |record| record.inode),
            worker: (local_pair.is_none()).then(|| words.worker.load(Ordering::Relaxed) as u16),
            is_local: local_pair.is_some(),
            reset_because: (local_pair.is_none() && self.apps.has_evicted(app.number(), slot))
                .then(|| "its program did not read it, and memory was short".to_owned()),
            bytes_received: if backlog_max.is_some() { 0 } else { came },
            bytes_sent: taken,
            timer: timer(words.info(SlotInfo::Timer)),
            tcp: (kind == Kind::Stream && local_pair.is_none()).then(|| tcp(words, app)),
        })
    }

    /// Sockets that were left to the kernel, and counts of all.
    pub(crate) fn fallback_rows(&mut self, now: Nanos) -> ReplyBody {
        let put_out = self.apps.put_out().rows(now);
        let sockets = self.fallbacks.kept().collect::<Vec<_>>().into_iter().rev();
        let sockets = sockets.map(|fallback| FallbackRow {
            app: fallback.app.0.into(),
            app_name: fallback.app_name.clone(),
            pid: fallback.pid,
            cookie: fallback.cookie,
            inode: fallback.inode,
            reason: fallback.reason.word().to_owned(),
            message: fallback.reason.sentence().to_owned(),
            count: fallback.count,
        });
        let totals = self.fallbacks.totals().map(|(reason, count)| FallbackTotal {
            reason: reason.word().to_owned(),
            message: reason.sentence().to_owned(),
            count,
        });
        let (sockets, totals) = (sockets.collect(), totals.collect());
        ReplyBody::Fallbacks { sockets, totals, put_out }
    }
}

/// Where a socket stands.
fn state(words: &SlotWords) -> SocketState {
    let state = words.state();
    match state.kind() {
        Kind::Listener => SocketState::Listen,
        Kind::Datagram if words.remote.get().is_none() => SocketState::Unconn,
        Kind::Datagram => SocketState::Estab,
        _ if state.has(SlotState::CONNECTING) => SocketState::SynSent,
        // As include/net/tcp_states.h numbers them; zero: it was never asked for.
        _ => match words.info(SlotInfo::State) {
            2 => SocketState::SynSent,
            3 => SocketState::SynRecv,
            4 => SocketState::FinWait1,
            5 => SocketState::FinWait2,
            6 | 7 => SocketState::TimeWait,
            8 => SocketState::CloseWait,
            9 => SocketState::LastAck,
            11 => SocketState::Closing,
            _ if state.has(SlotState::PEER_CLOSED) => SocketState::CloseWait,
            _ => SocketState::Estab,
        },
    }
}

/// The timer of a connection, from [`SlotInfo::Timer`].
fn timer(told: u64) -> Option<SocketTimer> {
    let name = match told & 0xff {
        1 => "retransmit",
        2 => "keepalive",
        3 => "timewait",
        4 => "persist",
        _ => return None,
    };
    let expirations = (told >> 8 & 0xff) as u32;
    Some(SocketTimer { name: name.to_owned(), left_ms: told >> 32, expirations })
}

fn tcp(words: &SlotWords, app: &App) -> TcpRow {
    let small = |which| u32::try_from(words.info(which)).unwrap_or(u32::MAX);
    let unread = words.rx_tail.load(Ordering::Relaxed);
    let unread = unread.saturating_sub(words.rx_head.load(Ordering::Relaxed));
    let ring = RingDesc::of_word(words.rx_ring.load(Ordering::Relaxed));
    let threshold = small(SlotInfo::Threshold);
    let mut options = Vec::new();
    let agreed = words.info(SlotInfo::Options);
    for (bit, name) in [(1, "ts"), (2, "sack"), (8, "ecn")] {
        if agreed & bit != 0 {
            options.push(name.to_owned());
        }
    }
    if agreed & 4 != 0 {
        options.push(format!("wscale:{},{}", agreed >> 8 & 0xff, agreed >> 16 & 0xff));
    }
    TcpRow {
        rtt_us: words.info(SlotInfo::Rtt),
        rttvar_us: words.info(SlotInfo::RttVariation),
        rto_us: words.info(SlotInfo::Rto),
        cwnd: small(SlotInfo::Window),
        ssthresh: (threshold != 0 && threshold != u32::MAX).then_some(threshold),
        mss: (words.info(SlotInfo::Segments) >> 32) as u32,
        rcv_wnd: ring.bytes().saturating_sub(unread),
        snd_wnd: words.info(SlotInfo::SendWindow),
        retransmits: words.info(SlotInfo::Retransmitted),
        congestion: congestion(words, app).to_owned(),
        options,
    }
}

fn congestion(words: &SlotWords, app: &App) -> &'static str {
    let told = words.info(SlotInfo::Congestion);
    let chosen = u64::from(words.option(SlotOption::Congestion));
    match if told != 0 { told } else { chosen } {
        1 => "reno",
        2 => "cubic",
        3 => "dctcp",
        4 => "timely",
        _ => app.tenant.congestion().name(),
    }
}
