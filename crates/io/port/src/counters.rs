//! What a port counts, each with a sentence of help.

macro_rules! counters {
    ($($(#[doc = $help:literal])+ $name:ident,)+) => {
        /// What a port has counted since it was opened. A kind that cannot know one leaves it zero.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct PortCounters {
            $($(#[doc = $help])+ pub $name: u64,)+
        }

        impl PortCounters {
            /// How many there are.
            pub const COUNT: usize = [$(stringify!($name)),+].len();

            /// Adds what another port, or a part of this one, has counted.
            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)+
            }

            /// Every counter as (name, value, help). The order is append-only.
            pub fn each(&self) -> [(&'static str, u64, &'static str); Self::COUNT] {
                [$((stringify!($name), self.$name, concat!($($help),+).trim_ascii())),+]
            }
        }
    };
}

counters! {
    /// Packets handed up.
    rx_packets,
    /// Bytes of packets handed up, Ethernet headers included.
    rx_bytes,
    /// Times that a frame to receive into was wanted and the pool had none left.
    rx_no_frame,
    /// Packets lost because we did not take them from the kernel's ring in time.
    rx_ring_full,
    /// Packets lost because the kernel had no empty frame from us.
    rx_fill_empty,
    /// Packets that the kernel dropped for other reasons before handing them to us.
    rx_kernel_dropped,
    /// Packets longer than a frame, dropped.
    rx_oversize,
    /// Ring entries or file records that made no sense and were dropped.
    rx_invalid,
    /// Packets handed to the kernel or the wire.
    tx_packets,
    /// Bytes of packets handed to the kernel or the wire.
    tx_bytes,
    /// Calls after which frames were left because there was no room.
    tx_full,
    /// Frames longer than the link takes, dropped.
    tx_oversize,
    /// Frames whose checksum or fragment request this port cannot meet, dropped.
    tx_refused,
    /// Frames that the kernel refused, dropped.
    tx_errors,
    /// Ring entries that came back from the kernel and made no sense.
    tx_invalid,
    /// System calls made to get transmission going.
    kicks,
    /// Such calls that the kernel could not serve at once; they are repeated.
    kicks_busy,
    /// System calls made to get reception going.
    wakeups,
    /// TCP segments longer than the link takes that a kernel of this host handed on whole, cut into
    /// packets.
    rx_cut,
    /// Such segments with a wrong checksum, dropped.
    rx_bad_checksum,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_sentence_of_help() {
        let counters = PortCounters { rx_packets: 7, rx_bytes: 9, ..PortCounters::default() };
        let each = counters.each();
        assert_eq!((each[0].0, each[0].1), ("rx_packets", 7));
        assert_eq!((each[1].0, each[1].1), ("rx_bytes", 9));
        for (name, _, help) in each {
            assert!(help.ends_with('.') && !help.starts_with(' '), "{name}: {help:?}");
        }
    }
}
