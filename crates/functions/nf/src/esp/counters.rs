//! What an ESP gateway counts.

counters! {
    /// Packets of an [`crate::Esp`], by what became of them and why.
    EspCounters {
        /// Packets encrypted and sent into a tunnel.
        sealed,
        /// Packets that came out of a tunnel, verified and decrypted.
        opened,
        /// Packets of no tunnel that went on as they were (others = "pass").
        passed,
        /// Dropped: IP headers with wrong lengths, version, checksum or options.
        malformed,
        /// Dropped: no tunnel is for these addresses (others = "drop").
        no_policy,
        /// Dropped: came in the clear, and should have come through a tunnel.
        unprotected,
        /// Dropped: longer than the tunnel takes; answered by an ICMP error where that may be.
        too_long,
        /// Dropped: the time to live ended here; answered likewise.
        ttl_exceeded,
        /// Dropped: all sequence numbers are used, and new keys are due.
        sequence_overflow,
        /// Dropped: the frame has no room for the headers of the tunnel.
        no_room,
        /// Dropped: the library did not encrypt.
        cipher_failed,
        /// Dropped: a fragment of a packet of ESP.
        fragment,
        /// Dropped: ESP of a length that cannot be.
        bad_length,
        /// Dropped: ESP of no tunnel.
        unknown_spi,
        /// Dropped: ESP that has come already.
        replayed,
        /// Dropped: ESP so late that nobody knows whether it has come already.
        too_old,
        /// Dropped: ESP that was changed on its way, or made by somebody else.
        bad_icv,
        /// Dropped: verified, but with padding that no peer writes.
        bad_padding,
        /// Dropped: verified, but no right packet of IPv4 or IPv6 inside.
        bad_payload,
        /// Dropped: verified, but with addresses that the tunnel is not for.
        selector_mismatch,
        /// Dropped: marked on its way, and the packet inside cannot carry the mark (RFC 6040).
        congestion,
        /// Dropped: packets without content, which hide how much is sent (RFC 4303 2.6).
        dummy,
        /// ICMP errors sent.
        answered,
        /// ICMP errors not sent: too many, no address to send from, or not allowed for that packet.
        unanswered,
    }
}
