//! The applications whose sockets are served, as an operator is told of them.

use admin::{AppLimits, AppStatus, ServedSockets};

use super::super::app::App;
use super::super::records::What;
use super::SocketTable;

/// Addresses of one application that are told, at most.
const LISTEN_MAX: usize = 16;

impl SocketTable {
    /// All of them, by number.
    pub(crate) fn app_rows(&self) -> Vec<AppStatus> {
        self.apps.iter().map(|app| self.app_row(app)).collect()
    }

    fn app_row(&self, app: &App) -> AppStatus {
        let records = self.records.of_region(app.region());
        let listen = records.filter_map(|((_, slot), record)| {
            let protocol = match record.what {
                What::Listener(_) => "tcp",
                What::Datagram(_) => "udp",
                What::Stream | What::Unsent | What::Local => return None,
            };
            let local = app.words(slot)?.local.get()?;
            Some(format!("{protocol}:{local}"))
        });
        let memory_bytes = u64::from(app.tenant.memory_mib) << 20;
        AppStatus {
            name: app.name.clone(),
            id: app.number().0.into(),
            pid: app.pids.first().copied().unwrap_or_default(),
            uid: app.uid,
            state: "attached".to_owned(),
            reason: None,
            listen: listen.take(LISTEN_MAX).collect(),
            workers: Vec::new(),
            region_bytes: memory_bytes,
            frames: 0,
            frames_with_app: 0,
            limits: AppLimits { memory_bytes: Some(memory_bytes), ..AppLimits::default() },
            served: Some(ServedSockets {
                sockets: app.streams.server.slots_taken(),
                pids: app.pids.clone(),
                profile: app.profile.word().to_owned(),
            }),
            counters: Vec::new(),
        }
    }
}
