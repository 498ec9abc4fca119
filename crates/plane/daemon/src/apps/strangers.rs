//! Connections that have not said what they want: how many, how long, and who goes when more come.

use std::collections::BTreeMap;
use std::time::Duration;

use sys::clock;

use crate::apps::attach_server::AttachServer;
use crate::apps::client::Client;
use crate::attach_server_counters::AttachServerEvent;
use crate::log;

/// Connections that have not said what they want, at most, and how long they may wait with it.
const STRANGERS_MAX: usize = 64;
/// The same of one user that were listened to and are silent, so that nobody keeps the others out.
const STRANGERS_OF_USER_MAX: usize = 8;
pub(super) const STRANGER_TIMEOUT: Duration = Duration::from_secs(5);

impl AttachServer {
    /// Whether it is a stranger whose user's last application has violated the protocol just now,
    /// or one that wants to begin and whose user has done so too often.
    pub(super) fn must_wait(&self, client: &Client) -> bool {
        let uid = client.peer.credentials().uid;
        client.is_stranger()
            && (self.waiting.iter().any(|&(user, _)| user == uid)
                || (client.pending.is_some() && !self.handshakes.allow(uid, clock::now())))
    }

    pub(super) fn strangers(&self) -> usize {
        self.clients.iter().filter(|client| client.is_stranger()).count()
    }

    /// When a user has too many silent connections here, the one that has said nothing for the
    /// longest goes. One that was not listened to yet, or waits for its turn, is not silent: many
    /// programs may begin at once.
    fn make_room_for(&mut self, uid: u32) {
        let is_silent =
            |client: &Client| client.is_stranger() && client.was_heard && client.pending.is_none();
        let is_same = |client: &Client| is_silent(client) && client.peer.credentials().uid == uid;
        let same = self.clients.iter().enumerate().filter(|(_, client)| is_same(client));
        if same.clone().count() < STRANGERS_OF_USER_MAX {
            return;
        }
        if let Some((at, _)) = same.min_by_key(|(_, client)| client.since) {
            let client = self.clients.swap_remove(at);
            client.refuse("too many connections of this user have not said what they want");
            self.forget(client);
        }
    }

    /// When there are too many strangers, one goes of the user who has most of them: the one that
    /// has said nothing for the longest. Whoever was not listened to yet stays. False: there is no
    /// other.
    fn evict_stranger(&mut self) -> bool {
        let mut counts = BTreeMap::<u32, usize>::new();
        let heard = |client: &&Client| client.is_stranger() && client.was_heard;
        for client in self.clients.iter().filter(heard) {
            *counts.entry(client.peer.credentials().uid).or_default() += 1;
        }
        let Some((&most, _)) = counts.iter().max_by_key(|(_, count)| **count) else { return false };
        let is_its = |client: &Client| heard(&client) && client.peer.credentials().uid == most;
        let its = self.clients.iter().enumerate().filter(|(_, client)| is_its(client));
        let Some((at, _)) = its.min_by_key(|(_, client)| client.since) else { return false };
        self.counters.count(AttachServerEvent::StrangersEvicted);
        let client = self.clients.swap_remove(at);
        client.refuse("it has not said what it wants, and others wait");
        self.forget(client);
        true
    }

    pub(super) fn accept(&mut self) {
        // A bounded part of those that wait, so that whoever connects in a loop does not keep the
        // attach server from hearing the others.
        for _ in 0..STRANGERS_MAX {
            if self.strangers() >= STRANGERS_MAX && !self.evict_stranger() {
                return;
            }
            match self.entrances.next() {
                Ok(Some((peer, origin))) => {
                    self.make_room_for(peer.credentials().uid);
                    self.clients.push(Client::new(peer, origin));
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(target: log::APPS, "{error}");
                    // It stays readable: others may close their descriptors meanwhile.
                    std::thread::sleep(Duration::from_millis(10));
                    return;
                }
            }
        }
    }
}
