//! Cores that a daemon gives: the job is an application whose workers only hold core grants.

use std::os::fd::BorrowedFd;
use std::path::Path;

use calisto_client::{App, AttachOptions, CoresClass, CoresRequest, Detached, Worker};
use sys::cpu_set::CpuSet;
use sys::poll;

use super::grants::{Grants, Holding};
use crate::failure::Failure;

/// Cores at a time, at most: one descriptor each, and some to wait for besides.
pub(crate) const CORES_MAX: u32 = poll::WAIT_MAX as u32 - 4;

/// Buffers for packets, which nobody sends to a batch job: as few as the daemon takes.
const FRAMES: u32 = 64;

/// An attachment of class batch.
pub(crate) struct Attached {
    app: App,
    /// One for each core.
    core_grants: Vec<Worker>,
}

impl Attached {
    /// Attaches as `name`, for up to that many cores at a time; if not given, as many as there are.
    pub(crate) fn attach(
        socket: Option<&Path>,
        name: &str,
        cores: Option<u32>,
    ) -> Result<Self, Failure> {
        let core_grants = match cores {
            Some(cores) => cores,
            None => {
                let all = CpuSet::attainable().map_err(Failure::new)?.len();
                u32::try_from(all).unwrap_or(u32::MAX).clamp(1, CORES_MAX)
            }
        };
        let request = CoresRequest {
            guaranteed: 0,
            burst: None,
            class: CoresClass::Batch,
            queue_delay_us: 0,
        };
        let options = AttachOptions::new(name).workers(core_grants).frames(FRAMES).cores(request);
        let options = match socket {
            Some(path) => options.socket(path),
            None => options,
        };
        let (app, core_grants) = App::attach(&options).map_err(|error| {
            Failure::new(format!(
                "{error}. A batch job needs a daemon with cores to give, as in \
                 `calisto up --cores 2,3`"
            ))
        })?;
        Ok(Self { app, core_grants })
    }

    /// Gives everything back.
    pub(crate) fn leave(self) {
        self.app.detach();
    }

    fn cores(&mut self) -> Result<CpuSet, Detached> {
        // A daemon that has died says nothing in shared memory.
        if let Some(detached) = self.app.detached_reason() {
            return Err(detached);
        }
        let cores = self.core_grants.iter_mut().map(Worker::look_at_core);
        let cores = cores.collect::<Result<Vec<_>, _>>()?;
        Ok(cores.into_iter().flatten().map(usize::from).collect())
    }
}

impl Grants for Attached {
    fn look(&mut self) -> Holding {
        match self.cores() {
            Ok(cores) => Holding::Cores(cores),
            Err(detached) => Holding::Over(detached.to_string()),
        }
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.core_grants.iter().map(Worker::fd).chain([self.app.closed_fd()]).collect()
    }
}
