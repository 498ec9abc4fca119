//! Everything that may differ between two runs, drawn from a seed.

use base::Nanos;
use whole::Random;

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) is_v6: bool,
    /// Whether our side connects; otherwise it listens.
    pub(crate) is_client: bool,
    /// What each side sends, ours first.
    pub(crate) bytes: [usize; 2],
    pub(crate) chunk: usize,
    /// Whether each side closes only when it has read everything.
    pub(crate) is_patient: [bool; 2],
    /// How long readers sleep between reads.
    pub(crate) pause: Nanos,
    /// The longest packet that each side takes.
    pub(crate) mtus: [u16; 2],
    /// What our engine offers and accepts.
    pub(crate) has_timestamps: bool,
    pub(crate) has_sack: bool,
    pub(crate) has_scaling: bool,
    pub(crate) has_cookies: bool,
    pub(crate) congestion: tcp::Algorithm,
    pub(crate) no_delay: bool,
    pub(crate) pacing: bool,
    pub(crate) receive_ring_log2: u8,
    pub(crate) send_ring_log2: u8,
    /// What smoltcp does.
    pub(crate) their_timestamps: bool,
    pub(crate) their_nagle: bool,
    pub(crate) their_ack_delay: bool,
    pub(crate) their_congestion: smoltcp::socket::tcp::CongestionControl,
    pub(crate) their_buffers: [usize; 2],
    /// What the link does: each way's delay, at most so much more, and in thousandths.
    pub(crate) delay: Nanos,
    pub(crate) jitter: Nanos,
    pub(crate) lost: u64,
    pub(crate) repeated: u64,
    pub(crate) corrupted: u64,
}

impl Plan {
    pub(crate) fn from_seed(seed: u64) -> Self {
        use smoltcp::socket::tcp::CongestionControl;
        use tcp::Algorithm;
        let mut random = Random::new(seed);
        let is_v6 = random.per_mille(500);
        let mtu_min = if is_v6 { 1280 } else { 576 };
        let [one, other] = [(); 2].map(|()| {
            let drawn = mtu_min + random.below(9000 - usize::from(mtu_min)) as u16;
            *random.pick(&[1500, mtu_min, drawn])
        });
        let size = |random: &mut Random| *random.pick(&[0, 1, 500, 5_000, 40_000, 90_000]);
        let bytes = [(); 2].map(|()| {
            let limit = size(&mut random);
            random.below(limit + 1)
        });
        // Byte by byte takes for ever, even in virtual time.
        let chunk =
            (*random.pick(&[1, 100, 1_000, 100_000])).max(bytes[0].max(bytes[1]) / 300).max(1);
        let is_rough = random.per_mille(700);
        let mut rate = |max: u64| match is_rough {
            true if random.per_mille(600) => random.any() % max,
            _ => 0,
        };
        let (lost, repeated, corrupted) = (rate(60), rate(150), rate(25));
        Self {
            seed,
            is_v6,
            is_client: random.per_mille(500),
            bytes,
            chunk,
            is_patient: [(); 2].map(|()| random.per_mille(700)),
            pause: Nanos::from_millis(*random.pick(&[0, 0, 0, 3, 60])),
            mtus: [one, other],
            has_timestamps: random.per_mille(700),
            has_sack: random.per_mille(700),
            has_scaling: random.per_mille(700),
            // A cookie is lost with the acknowledgement that brings it back, if data overtakes it.
            has_cookies: !is_rough && random.per_mille(200),
            congestion: *random.pick(&[
                Algorithm::Cubic,
                Algorithm::NewReno,
                Algorithm::Dctcp,
                Algorithm::Timely,
            ]),
            no_delay: random.per_mille(500),
            pacing: random.per_mille(200),
            receive_ring_log2: 9 + random.below(10) as u8,
            send_ring_log2: 9 + random.below(10) as u8,
            their_timestamps: random.per_mille(500),
            their_nagle: random.per_mille(500),
            their_ack_delay: random.per_mille(700),
            their_congestion: *random.pick(&[
                CongestionControl::None,
                CongestionControl::Reno,
                CongestionControl::Cubic,
            ]),
            their_buffers: [(); 2].map(|()| *random.pick(&[600, 4_000, 60_000, 200_000])),
            delay: Nanos::from_millis(1 + random.any() % 50),
            jitter: if is_rough {
                Nanos::from_millis(*random.pick(&[0, 0, 2, 30]))
            } else {
                Nanos::ZERO
            },
            lost,
            repeated,
            corrupted,
        }
    }

    /// Bytes of an IP header.
    pub(crate) const fn ip_bytes(&self) -> usize {
        if self.is_v6 { 40 } else { 20 }
    }

    /// Both ends, ours first.
    pub(crate) fn ends(&self) -> [std::net::SocketAddr; 2] {
        let (ours, theirs) = if self.is_client { (40_000, 7) } else { (7, 40_000) };
        match self.is_v6 {
            true => [1, 2].map(|last| [0xfd00, 0, 0, 0, 0, 0, 0, last]).map(|ip| (ip, 0).into()),
            false => [1, 2].map(|last| ([10, 0, 0, last], 0).into()),
        }
        .into_iter()
        .zip([ours, theirs])
        .map(|(end, port): (std::net::SocketAddr, u16)| (end.ip(), port).into())
        .collect::<Vec<_>>()
        .try_into()
        .expect("there are two")
    }
}
