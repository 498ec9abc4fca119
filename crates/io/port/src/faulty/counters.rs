//! What a line did to packets, each effect with a sentence of help.

/// What one direction of a bad wire did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounters {
    /// Packets that entered.
    pub offered: u64,
    /// Packets that came out.
    pub delivered: u64,
    /// Packets lost by chance.
    pub lost: u64,
    /// Packets that came twice.
    pub duplicated: u64,
    /// Packets that should have come twice, but the pool had no frame for the copy.
    pub duplicate_no_frame: u64,
    /// Packets with a flipped bit.
    pub corrupted: u64,
    /// Packets made late so that others overtake them.
    pub reordered: u64,
    /// Packets dropped at a full queue.
    pub queue_dropped: u64,
    /// Packets dropped because too many were under way.
    pub held_dropped: u64,
    /// Packets marked "congestion experienced".
    pub ecn_marked: u64,
    /// Packets above the threshold that could not be marked because they are not ECN-capable.
    pub ecn_not_capable: u64,
    /// Packets that found twice the ECN threshold or more before them.
    pub ecn_far_above: u64,
    /// The longest queue so far, in packets.
    pub queue_packets_max: u64,
}

impl LineCounters {
    /// Every counter as (name, value, help).
    pub fn each(&self) -> [(&'static str, u64, &'static str); 13] {
        let Self {
            offered,
            delivered,
            lost,
            duplicated,
            duplicate_no_frame,
            corrupted,
            reordered,
            queue_dropped,
            held_dropped,
            ecn_marked,
            ecn_not_capable,
            ecn_far_above,
            queue_packets_max,
        } = *self;
        [
            ("offered", offered, "Packets that entered the wire."),
            ("delivered", delivered, "Packets that came out of the wire."),
            ("lost", lost, "Packets lost by chance."),
            ("duplicated", duplicated, "Packets that came twice."),
            (
                "duplicate_no_frame",
                duplicate_no_frame,
                "Packets that should have come twice, but no frame was left for the copy.",
            ),
            ("corrupted", corrupted, "Packets with a flipped bit."),
            ("reordered", reordered, "Packets made late so that others overtake them."),
            ("queue_dropped", queue_dropped, "Packets dropped at a full queue."),
            ("held_dropped", held_dropped, "Packets dropped because too many were under way."),
            ("ecn_marked", ecn_marked, "Packets marked \"congestion experienced\"."),
            (
                "ecn_not_capable",
                ecn_not_capable,
                "Packets that would have been marked, were they ECN-capable.",
            ),
            (
                "ecn_far_above",
                ecn_far_above,
                "Packets that found twice the ECN threshold or more before them.",
            ),
            ("queue_packets_max", queue_packets_max, "The longest queue so far, in packets."),
        ]
    }
}
