//! Who runs on which CPU: the client on one, the server on others, as far as there are any.

/// Who runs on which CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    /// The load generator's; none: wherever the kernel puts it.
    pub(super) client: Option<usize>,
    /// The dispatcher's.
    pub(super) dispatcher: Option<usize>,
    /// Worker n runs on the n-th, round and round; empty: anywhere.
    pub(super) workers: Vec<usize>,
}

impl Placement {
    /// The best use of these CPUs.
    pub(super) fn of(allowed: &[usize]) -> Self {
        match *allowed {
            [] | [_] => Self { client: None, dispatcher: None, workers: Vec::new() },
            [client, server] => {
                Self { client: Some(client), dispatcher: Some(server), workers: vec![server] }
            }
            [client, dispatcher, ref workers @ ..] => Self {
                client: Some(client),
                dispatcher: Some(dispatcher),
                workers: workers.to_vec(),
            },
        }
    }

    /// It in words, to stand beside the figures.
    pub(super) fn sentence(&self) -> String {
        match (self.client, self.dispatcher, &self.workers[..]) {
            (Some(client), Some(dispatcher), [server]) if dispatcher == *server => {
                format!("client on CPU {client}, all server threads on CPU {server}")
            }
            (Some(client), Some(dispatcher), [first, .., last]) => format!(
                "client on CPU {client}, dispatcher on CPU {dispatcher}, workers on CPUs {first} \
                 to {last}"
            ),
            (Some(client), Some(dispatcher), [worker]) => format!(
                "client on CPU {client}, dispatcher on CPU {dispatcher}, workers on CPU {worker}"
            ),
            _ => "client and server on the same CPU".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_and_server_share_a_cpu_only_when_there_is_only_one() {
        for (allowed, sentence) in [
            (&[][..], "client and server on the same CPU"),
            (&[3], "client and server on the same CPU"),
            (&[0, 1], "client on CPU 0, all server threads on CPU 1"),
            (&[0, 2, 5], "client on CPU 0, dispatcher on CPU 2, workers on CPU 5"),
            (&[0, 1, 2, 3], "client on CPU 0, dispatcher on CPU 1, workers on CPUs 2 to 3"),
        ] {
            let placement = Placement::of(allowed);
            assert_eq!(placement.sentence(), sentence);
            assert!(!placement.workers.iter().any(|&cpu| Some(cpu) == placement.client));
        }
    }
}
