//! Settings of one AF_XDP queue.

use crate::OpenError;

/// Whether the NIC writes into our frames itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyMode {
    /// It does where the driver can; otherwise the kernel copies.
    #[default]
    Probe,
    /// The kernel copies.
    Copy,
    /// It does; fail where the driver cannot.
    ZeroCopy,
}

/// Settings of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpOptions {
    /// Zero copy or not. The first port of a [`super::Umem`] decides for all.
    pub copy: CopyMode,
    /// Entries of each of the four rings: a power of two.
    pub ring_entries: u32,
    /// Frames kept in the fill ring of each queue; `None`: as many as fit, but a quarter of the
    /// pool at most in all queues of the port together. Four ports would leave nothing to transmit
    /// with: give them a larger pool, or set this.
    pub fill_frames: Option<u32>,
    /// Have our own system calls run the device's poll loop, for that long at most.
    pub busy_poll_micros: Option<u32>,
    /// Look at no checksum. Never for a real link; what a kernel peer on veth left open is accepted
    /// without.
    pub trust_link: bool,
}

impl Default for XdpOptions {
    fn default() -> Self {
        Self {
            copy: CopyMode::Probe,
            // What the libraries for AF_XDP use; four rings of it are 96 KiB.
            ring_entries: 2048,
            fill_frames: None,
            busy_poll_micros: None,
            trust_link: false,
        }
    }
}

impl XdpOptions {
    /// Frames to keep in the fill ring of each of `queues`, of a pool of `pool_frames`.
    pub(super) fn fill_target(&self, pool_frames: u32, queues: u32) -> u32 {
        let share = pool_frames / 4 / queues.max(1);
        self.fill_frames.unwrap_or(share.max(1)).min(self.ring_entries)
    }

    pub(super) fn check(&self) -> Result<(), OpenError> {
        let entries = self.ring_entries;
        // The kernel takes any power of two; beyond 64 Ki a ring only adds delay.
        if !entries.is_power_of_two() || !(base::BURST as u32..=1 << 16).contains(&entries) {
            return Err(OpenError::Setting(format!(
                "rings of {entries} entries are not possible: use a power of two from {} to 65536",
                base::BURST
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fill_rings_take_a_quarter_of_the_pool_at_most() {
        let options = XdpOptions::default();
        assert_eq!(options.fill_target(4096, 1), 1024);
        assert_eq!(options.fill_target(4096, 4), 256);
        assert_eq!(options.fill_target(1 << 20, 1), 2048);
        assert_eq!(options.fill_target(1, 1), 1);
        assert_eq!(XdpOptions { fill_frames: Some(64), ..options }.fill_target(4096, 4), 64);
    }

    #[test]
    fn ring_sizes_that_the_kernel_would_refuse_are_refused_with_a_sentence() {
        for entries in [0, 1, 32, 100, 1 << 17] {
            let options = XdpOptions { ring_entries: entries, ..XdpOptions::default() };
            let error = options.check().expect_err("no such ring").to_string();
            assert!(error.contains("power of two"), "{error}");
        }
        XdpOptions::default().check().expect("the default is possible");
    }
}
