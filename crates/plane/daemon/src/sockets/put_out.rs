//! Programs that were put out while they lived: by an operator, by filters that came, or for what
//! they wrote. A question about one later is answered with why and when.

use std::collections::VecDeque;

use admin::PutOutRow;
use base::Nanos;
use datapath::DetachReason;

use super::app::App;

/// Programs that are remembered, at most; and of one user, so that none crowds out the others.
const KEPT_MAX: usize = 256;
const KEPT_OF_USER_MAX: usize = 32;

/// One of them.
struct PutOut {
    row: PutOutRow,
    at: Nanos,
}

/// All that are remembered, the latest last.
#[derive(Default)]
pub(super) struct PutOuts {
    kept: VecDeque<PutOut>,
}

impl PutOuts {
    /// An application goes for a reason: whether it is put out, and remembered.
    pub(super) fn note(&mut self, app: &App, reason: DetachReason, now: Nanos) -> bool {
        let is_put_out = match reason {
            DetachReason::Violation(_)
            | DetachReason::Protocol
            | DetachReason::Stalled
            | DetachReason::StrayThread
            | DetachReason::Operator => true,
            DetachReason::Left | DetachReason::Died | DetachReason::DaemonEnds => false,
        };
        if !is_put_out {
            return false;
        }
        let of_user = self.kept.iter().filter(|one| one.row.uid == app.uid).count();
        let oldest = match of_user >= KEPT_OF_USER_MAX {
            true => self.kept.iter().position(|one| one.row.uid == app.uid),
            false => (self.kept.len() >= KEPT_MAX).then_some(0),
        };
        oldest.map(|at| self.kept.remove(at));
        let row = PutOutRow {
            app: app.number().0.into(),
            app_name: app.name.clone(),
            pids: app.pids.clone(),
            uid: app.uid,
            reason: reason.name().to_owned(),
            message: reason.to_string(),
            seconds_ago: 0,
        };
        self.kept.push_back(PutOut { row, at: now });
        true
    }

    /// All that are remembered, the latest first.
    pub(super) fn rows(&self, now: Nanos) -> Vec<PutOutRow> {
        let row = |one: &PutOut| {
            let seconds_ago = now.since(one.at).0 / 1_000_000_000;
            PutOutRow { seconds_ago, ..one.row.clone() }
        };
        self.kept.iter().rev().map(row).collect()
    }
}
