//! What happened, counted: every drop and every way off the fast path has a name.

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// Events since the engine was made. They wrap after 2^64.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)*
        }

        impl Counters {
            /// Every name with its count, for people and exporters.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }

            /// Every name with what it counts, in the order of [`Self::iter`].
            pub const HELP: &[(&'static str, &'static str)] =
                &[$((stringify!($name), concat!($($doc),+).trim_ascii()),)*];
        }
    };
}

counters! {
    /// Segments that came in.
    received,
    /// Segments that went out.
    transmitted,
    /// Segments done on the fast path.
    fast,
    /// Handed on: the flow is not established, or something special is going on in it.
    punt_state,
    /// Handed on: it came by another way than the last one.
    punt_route,
    /// Handed on: flags other than ACK and PSH, or a congestion mark.
    punt_flags,
    /// Handed on: options other than the timestamps that were agreed on.
    punt_options,
    /// Handed on: not the next expected number.
    punt_order,
    /// Handed on: acknowledges nothing new and carries nothing, or something never sent.
    punt_ack,
    /// Handed on: more than the window takes.
    punt_window,
    /// Dropped: no TCP header.
    malformed,
    /// Dropped: the checksum is wrong.
    bad_checksum,
    /// Options that end in something that is none; what came before them counted.
    bad_options,
    /// Dropped: from an address that nobody can have, or that is elsewhere: the first of its flow,
    /// or one that came by another way than those before it.
    bad_source,
    /// Dropped: an older timestamp than one seen before (RFC 7323 section 5).
    old_timestamp,
    /// Dropped: outside the window.
    out_of_window,
    /// Dropped: neither ACK nor RST nor SYN.
    no_ack_flag,
    /// Acknowledges what was never sent, or far too old (RFC 5961 section 5).
    bad_ack,
    /// Resets inside the window, but not at its edge: challenged (RFC 5961 section 3).
    inexact_reset,
    /// SYNs on a connection that stands: challenged (RFC 5961 section 4).
    late_syn,
    /// Challenge acknowledgements that were held back.
    challenges_limited,
    /// Bytes that came twice.
    duplicate_bytes,
    /// Segments that came before their turn.
    out_of_order,
    /// Dropped: one out-of-order range too many.
    ranges_full,
    /// Dropped: the receive ring was not what it was said to be.
    bad_ring,
    /// Dropped: there was no memory for a receive ring; the peer sends it again.
    no_ring,
    /// Dropped: no flow, no listener, and no reset is due to a reset.
    no_flow,
    /// Dropped: no flow, and no reset either, because flows were handed over to the kernel.
    unanswered,
    /// Resets sent.
    resets_sent,
    /// Dropped: all flows are in use.
    flows_full,
    /// Nothing sent for now: the flow has its share of records of segments on their way.
    sent_full,
    /// Flows given to another engine.
    detached,
    /// Flows taken over from another engine.
    attached,
    /// Half-open flows that were not taken over: nobody listens here where they were accepted.
    homeless,
    /// Dropped: SYNs and last acknowledgements of handshakes, since whoever listens has a full
    /// backlog. Both are sent again.
    backlog_full,
    /// Last acknowledgements of handshakes that did not make a connection, since data is waited for
    /// (TCP_DEFER_ACCEPT).
    accepts_deferred,
    /// SYNs answered with a cookie (RFC 4987).
    cookies_sent,
    /// Connections made from a cookie.
    cookies_accepted,
    /// Acknowledgements that looked like a cookie and were none.
    cookies_rejected,
    /// Connections that came to stand.
    connected,
    /// Segments sent again.
    retransmitted,
    /// Retransmission timeouts.
    timeouts,
    /// Fast recoveries begun.
    recoveries,
    /// Falls of the window taken back, since nothing was lost.
    undone,
    /// Timeouts after which data arrived that was sent before and only once: they were for nothing
    /// (RFC 5682).
    timeouts_for_nothing,
    /// Tail loss probes sent.
    tail_probes,
    /// Questions to a closed window.
    window_probes,
    /// Keep-alive questions.
    keep_alives,
    /// Paths that carry less than was thought: segments were cut anew.
    paths_narrowed,
    /// Segments sent to find out whether a path carries more, and answers that it does.
    path_probes,
    /// Paths that were found to carry more.
    paths_widened,
    /// ICMP errors for no flow, about nothing that was on its way, or of no consequence.
    icmp_ignored,
    /// ICMP errors that ended a connection or may explain its end.
    icmp_heeded,
    /// Windows that fell for an echoed congestion mark.
    marks_heeded,
    /// Segments that came with a congestion mark.
    marked,
    /// SYNs that took the name of a connection in TIME-WAIT over.
    time_wait_reused,
    /// Connections in TIME-WAIT that ended early, since all flows were in use.
    time_wait_evicted,
}
