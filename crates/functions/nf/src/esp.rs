//! esp: a gateway of ESP tunnels: encrypts what goes to networks behind other gateways.
//!
//! WHAT IT DOES
//!   A packet from a network of this gateway to one behind another is encrypted and signed, and
//!   goes on as a packet of ESP between the two gateways; one that comes for this gateway is
//!   verified, decrypted, held against the networks that its tunnel is for, and goes on as what it
//!   was. Put `router` behind it: that one sends both on. Packets of no tunnel are dropped, or pass
//!   (`others`); packets in the clear that should have come through a tunnel are always dropped. A
//!   packet that is too long for its tunnel is answered with an ICMP error that tells the length
//!   that is not, so that Linux hosts learn it at once. DSCP and ECN are copied to the outer
//!   packet, and what ECN says outside is told inside. Time to live is lowered once on the way in.
//!   All slices of a chain share the tunnels: packets of one may come and go on any core, each is
//!   numbered once and accepted once.
//!
//! PARAMETERS
//!   keys          file with the tunnels and their keys, which only its owner may read
//!   others        what becomes of packets of no tunnel: "drop" or "pass"; drop
//!   In the file of keys, for each [[tunnel]]:
//!   name              what it is called in messages
//!   local, remote     addresses of the two gateways, both IPv4 or both IPv6
//!   local_networks    networks here, as ["10.1.0.0/16", "fd01::/16"]
//!   remote_networks   networks behind the other gateway
//!   algorithm         "aes-128-gcm", "aes-128-cbc-hmac-sha256" or "aes-128-cbc-hmac-sha1";
//!   aes-128-gcm out_spi, in_spi   numbers of the two directions, from 256; the peer has them the
//!   other way round out_key, in_key   keys in hexadecimal: 16 bytes; for GCM 20, the last four of
//!   which are the salt out_auth, in_auth keys of HMAC: 20 bytes for SHA-1, 32 for SHA-256; none
//!   for GCM mtu               bytes of the largest outer packet; 1500
//!   replay_window     how far behind the newest a packet may come, in packets, 64 to 1048576; 4096
//!   extended          sequence numbers of 64 bits (RFC 4303 section 2.2.1), as the peer has it;
//!   false address           our addresses in the networks here, which ICMP errors come from, as
//!   ["10.1.0.1"]
//!
//! COUNTERS
//!   sealed            Packets encrypted and sent into a tunnel.
//!   opened            Packets that came out of a tunnel, verified and decrypted.
//!   passed            Packets of no tunnel that went on as they were (others = "pass").
//!   malformed         Dropped: IP headers with wrong lengths, version, checksum or options.
//!   no_policy         Dropped: no tunnel is for these addresses (others = "drop").
//!   unprotected       Dropped: came in the clear, and should have come through a tunnel.
//!   too_long          Dropped: longer than the tunnel takes, and answered if that may be.
//!   ttl_exceeded      Dropped: the time to live ended here; answered likewise.
//!   sequence_overflow Dropped: all sequence numbers are used, and new keys are due.
//!   no_room           Dropped: the frame has no room for the headers of the tunnel.
//!   cipher_failed     Dropped: the library did not encrypt.
//!   fragment          Dropped: a fragment of a packet of ESP.
//!   bad_length        Dropped: ESP of a length that cannot be.
//!   unknown_spi       Dropped: ESP of no tunnel.
//!   replayed          Dropped: ESP that has come already.
//!   too_old           Dropped: ESP so late that nobody knows whether it has come already.
//!   bad_icv           Dropped: ESP that was changed on its way, or made by somebody else.
//!   bad_padding       Dropped: verified, but with padding that no peer writes.
//!   bad_payload       Dropped: verified, but no right packet of IPv4 or IPv6 inside.
//!   selector_mismatch Dropped: verified, but with addresses that the tunnel is not for.
//!   congestion        Dropped: marked on its way, and the packet inside cannot carry the mark.
//!   dummy             Dropped: packets without content, which hide how much is sent.
//!   answered          ICMP errors sent.
//!   unanswered        ICMP errors not sent: too many, nobody to send them, or not allowed.
//!
//! STANDARDS
//!   RFC 4303 (ESP, tunnel mode; extended sequence numbers: appendix A), RFC 4301 sections 5.1.2
//!   (headers) and 5.2 (what may come), RFC 6040 (ECN), RFC 3602 (AES-CBC), RFC 2404
//!   (HMAC-SHA-1-96), RFC 4868 (HMAC-SHA-256-128), RFC 4106 (AES-GCM), RFC 6479 (replay window),
//!   RFC 1191 and 8201 (path MTU). Initialisation vectors: of GCM a counter that begins with the
//!   time of day in nanoseconds at the start and goes up by one with each packet; of CBC the same
//!   counter, encrypted (NIST SP 800-38A appendix C).
//!
//! LIMITS
//!   Keys are given by hand; there is no IKE. They are changed while packets flow by a reload of
//!   the chain, in two steps, so that none is lost: first in_spi and in_key at both ends, then
//!   out_spi and out_key; packets with the numbers and keys from before are taken for ten minutes.
//!   What a reload leaves as it is goes on where it is. The same keys may serve again after a
//!   restart as long as the clock is not put back, but a peer that was not restarted too takes the
//!   new packets for old ones. No key serves more than 2^32 packets unless `extended` is set: then
//!   the tunnel stops (sequence_overflow). No UDP encapsulation (NAT), no transport mode, no
//!   multicast. Nothing is fragmented: of packets that may be, too long ones are dropped and
//!   answered as well. 256 tunnels, 4096 pairs of networks.

mod algorithm;
pub(crate) mod answer;
mod cipher;
mod counters;
mod decide;
mod gateway;
mod inbound;
/// The file of tunnels and keys.
pub mod keys;
/// Packets in memory through a tunnel, for measuring.
pub mod load;
mod outbound;
pub(crate) mod outer;
pub(crate) mod packet;
mod replay;
mod secret;
pub(crate) mod selector;
mod sequence;
mod trailer;
mod tunnel;

use std::sync::Arc;

use arrayvec::ArrayVec;
use base::{BURST, Nanos};
use shm::Batch;

pub use algorithm::Algorithm;
pub use cipher::{Cipher, Job};
pub use counters::EspCounters;
pub use gateway::{Gateway, PAIRS_MAX, RETIRED_FOR, TUNNELS_MAX};
pub use replay::{WINDOW_MAX, WINDOW_MIN};
pub use secret::{Secret, WeakKey};
pub use tunnel::{Association, BadTunnel, MTU_MIN, NETWORKS_MAX, Tunnel};

use self::answer::Rate;
use self::decide::{Decide, Decision};
use self::inbound::Arrival;
use crate::{Function, Verdicts};

/// What becomes of packets of no tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Others {
    /// They are dropped, as RFC 4301 section 4.4.1 has it.
    #[default]
    Drop,
    /// The next function decides.
    Pass,
}

/// The function: a slice's part of a gateway.
pub struct Esp<C: Cipher> {
    gateway: Arc<Gateway>,
    others: Others,
    cipher: C,
    /// By tunnel: the keys of what goes out and of what comes in.
    keys: Vec<[C::Key; 2]>,
    rate: Rate,
    counters: EspCounters,
}

impl<C: Cipher> Esp<C> {
    /// Encrypts and decrypts for the tunnels of `gateway`, which other slices may share.
    pub fn new(gateway: Arc<Gateway>, others: Others, mut cipher: C) -> Self {
        let keys = gateway.secrets().map(|two| two.map(|secret| cipher.expand(secret))).collect();
        Self { gateway, others, cipher, keys, rate: Rate::new(), counters: EspCounters::default() }
    }

    /// Goes on counting where `before`, whose place it takes, has come to.
    pub fn take_over(&mut self, before: &mut Self) {
        self.counters = before.counters;
        std::mem::swap(&mut self.rate, &mut before.rate);
    }

    /// What has been counted so far.
    pub fn counts(&self) -> &EspCounters {
        &self.counters
    }
}

impl<C: Cipher> Function for Esp<C> {
    fn name(&self) -> &'static str {
        "esp"
    }

    fn process(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos) {
        let Self { gateway, others, cipher, keys, rate, counters } = self;
        let mut decide = Decide { gateway, others: *others, rate, now, counters };
        let mut sealing = ArrayVec::<Job<'_, C::Key>, BURST>::new();
        let mut sealed = ArrayVec::<u8, BURST>::new();
        let mut opening = ArrayVec::<Job<'_, C::Key>, BURST>::new();
        let mut opened = ArrayVec::<(u8, Arrival), BURST>::new();
        for (index, frame, verdict) in verdicts.undecided(batch) {
            // A batch has no more than [`BURST`] packets.
            let index = index as u8;
            match decide.packet(frame) {
                Decision::Seal { tunnel, esp, sequence_high } => {
                    let packet = &mut frame.bytes_mut()[esp];
                    let [key, _] = &keys[usize::from(tunnel)];
                    sealing.push(Job { packet, key, sequence_high, is_good: false });
                    sealed.push(index);
                }
                Decision::Open { arrival, sequence_high } => {
                    let packet = &mut frame.bytes_mut()[arrival.esp.clone()];
                    let [_, key] = &keys[usize::from(arrival.tunnel)];
                    opening.push(Job { packet, key, sequence_high, is_good: false });
                    opened.push((index, arrival));
                }
                Decision::Verdict(said) => *verdict = said,
            }
        }
        if !sealing.is_empty() {
            cipher.seal(&mut sealing);
        }
        if !opening.is_empty() {
            cipher.open(&mut opening);
        }
        let are_sealed: ArrayVec<bool, BURST> = sealing.iter().map(|job| job.is_good).collect();
        let are_open: ArrayVec<bool, BURST> = opening.iter().map(|job| job.is_good).collect();
        drop((sealing, opening));
        for (index, is_good) in sealed.into_iter().zip(are_sealed) {
            verdicts[usize::from(index)] = decide.sealed(is_good);
        }
        for ((index, arrival), is_good) in opened.into_iter().zip(are_open) {
            let index = usize::from(index);
            verdicts[index] = decide.opened(&mut batch[index], &arrival, is_good);
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, &'static str, u64)) {
        self.counters.each(each);
    }
}
