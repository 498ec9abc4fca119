//! The end of a program: what must hold whatever went before.

use base::Nanos;

use super::harness::Harness;
use super::wire_side::{HONEST, HONEST_PEER};

impl Harness {
    /// Whatever went before: when all applications have let go, and time has passed, nothing is
    /// left; and the honest connection comes to its end.
    pub(super) fn end(&mut self) {
        self.sink.refusals = 0;
        for side in 0..HONEST {
            while self.applications.of(side).is_some() {
                self.with(side, |call| call.abort());
                self.turn();
            }
        }
        self.finish_honest();
        for record in self.applications.records.clone() {
            if let Some(host) = &mut self.hosts[record.host] {
                let _ = host.engine.abort(record.id);
            }
        }
        self.sink.link = Default::default();
        self.turn();
        self.wait(Nanos::from_secs(100));
        assert!(self.applications.records.is_empty(), "every flow says that it is over");
        for host in self.hosts.iter().flatten() {
            assert_eq!(host.engine.flows_in_use(), 0, "nothing stays");
            assert_eq!(host.engine.records_in_use(), (0, 0));
            assert_eq!(host.engine.next_deadline(), None);
        }
    }

    fn finish_honest(&mut self) {
        for _ in 0..2000 {
            for side in [HONEST, HONEST_PEER] {
                self.carry(side - HONEST);
                self.with(side, |call| {
                    call.read(u32::MAX);
                    call.shutdown();
                    if call.engine.is_at_end(call.record.id) {
                        call.close();
                    }
                });
                self.turn();
            }
            if self.sink.link.iter().all(|link| link.is_empty()) {
                if self.applications.of(HONEST).is_none()
                    && self.applications.of(HONEST_PEER).is_none()
                {
                    break;
                }
                let Some(next) = self.next_deadline() else { break };
                self.now = self.now.max(next);
            }
        }
        let ends = &self.applications.honest;
        let finished = Some(tcp::CloseReason::Finished);
        if ends.iter().all(|end| end.reason == finished) {
            assert_eq!(ends[0].written, ends[1].read, "the honest peer has everything");
            assert_eq!(ends[1].written, ends[0].read, "everything of the honest peer has come");
        }
    }
}
