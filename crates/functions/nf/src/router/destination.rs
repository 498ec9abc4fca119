//! Where a packet that may be forwarded is bound for.

/// Where a packet that passed all checks wants to go.
pub(super) enum Destination {
    Four(u32),
    Six(u128),
}
