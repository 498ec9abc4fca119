//! Who runs where in the second act: some CPUs are given out, the others are not.

/// Cores given out at most: each is a worker of the application, and load for more would be
/// missing.
const CORES_MAX: usize = 4;

/// Who runs where while cores change hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    /// The load generator's and this program's; none: wherever the kernel puts them.
    pub(super) client: Option<usize>,
    /// The daemon's loop's.
    pub(super) daemon: Option<usize>,
    /// Given out to the application and the batch job.
    pub(super) cores: Vec<usize>,
}

impl Stage {
    /// The best use of these CPUs.
    pub(super) fn of(allowed: &[usize]) -> Self {
        match *allowed {
            [] => Self { client: None, daemon: None, cores: vec![0] },
            [only] => Self { client: None, daemon: None, cores: vec![only] },
            [shared, core] => {
                Self { client: Some(shared), daemon: Some(shared), cores: vec![core] }
            }
            [client, daemon, ref cores @ ..] => Self {
                client: Some(client),
                daemon: Some(daemon),
                cores: cores.iter().copied().take(CORES_MAX).collect(),
            },
        }
    }

    /// It in words, to stand beside the figures.
    pub(super) fn sentence(&self) -> String {
        let cores = self.cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        match (self.client, self.daemon) {
            (Some(client), Some(daemon)) if client == daemon => {
                format!("client and daemon share CPU {client}; given out: CPU {cores}")
            }
            (Some(client), Some(daemon)) => {
                format!("client on CPU {client}, daemon on CPU {daemon}; given out: CPU {cores}")
            }
            _ => format!("client, daemon and the core that is given out are all CPU {cores}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_runs_on_the_cores_that_are_given_out_unless_there_is_only_one() {
        for (allowed, sentence) in [
            (&[3][..], "client, daemon and the core that is given out are all CPU 3"),
            (&[0, 1], "client and daemon share CPU 0; given out: CPU 1"),
            (&[0, 2, 5], "client on CPU 0, daemon on CPU 2; given out: CPU 5"),
            (&[0, 1, 2, 3, 4, 5, 6], "client on CPU 0, daemon on CPU 1; given out: CPU 2,3,4,5"),
        ] {
            let stage = Stage::of(allowed);
            assert_eq!(stage.sentence(), sentence);
            let others = [stage.client, stage.daemon];
            assert!(stage.cores.iter().all(|&core| !others.contains(&Some(core))), "{stage:?}");
        }
    }
}
