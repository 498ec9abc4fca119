//! Connections that no program has any more.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use shm::sockets::Asks;
use stack::{Command, Parcel};

use super::super::super::raw_segments::RawSegments;
use super::super::super::successor::{self, give};
use super::super::SocketTable;

use super::{LET_GO_WITHIN, LOOK_EVERY};
use crate::apps::Claims;
use crate::attach_server_counters::AttachServerEvent as Event;

impl SocketTable {
    /// Those that their programs have closed: the kernel brings what is left to their peers, as it
    /// does for its own.
    pub(super) fn give_orphans(&mut self, claims: &mut Claims) {
        let command_queue = self.table_config.command_queue.clone();
        let asked = Arc::new(());
        command_queue.command(&Command::HandOverOrphans(Arc::clone(&asked)));
        let begun = Instant::now();
        // Each worker has let go of its own before it drops what it was told.
        while Arc::strong_count(&asked) > 1 && begun.elapsed() < LET_GO_WITHIN {
            std::thread::sleep(LOOK_EVERY);
        }
        let mut heard = Vec::new();
        for parcel in command_queue.take_parcels() {
            let record = self.records.get((parcel.app.region, parcel.slot));
            if record.is_some_and(|record| record.generation == parcel.generation) {
                // No orphan, but one of those above.
                self.lose(parcel);
                continue;
            }
            let Parcel { app, slot, generation, connection } = parcel;
            let Ok(let_go) = connection else { continue };
            let socket = successor::of_nobody(&let_go.repair);
            let (user, has_peer_closed) = (app.user, let_go.repair.has_peer_closed);
            let key = (app.app, slot, generation);
            let holds = &mut self.claimed.holds;
            let descriptors = &mut self.descriptors;
            let name_is_known = || {
                if let_go.was_opened {
                    holds.give_to_kernel(key, claims, descriptors);
                }
            };
            let asks = Asks(Asks::SHUT_WRITE);
            let raw_segments = &self.endings.given.raw_segments;
            let given = socket.and_then(|socket| {
                let connection = let_go.inherited();
                give(&connection, asks, &socket, raw_segments, name_is_known).map(|()| socket)
            });
            let_go.give_back();
            match given {
                Ok(socket) => {
                    self.endings.given.add_orphan();
                    self.table_config.counters.count(Event::HandedOver);
                    heard.push((user, socket, has_peer_closed));
                }
                Err(_) => self.count_kept(Event::HandOverRefused, 1),
            }
        }
        let told = heard.iter().filter(|(_, _, has_peer_closed)| *has_peer_closed);
        RawSegments::await_ends(told.map(|(_, socket, _)| socket.as_fd()));
        for (user, socket, _) in heard {
            self.close_later(user, socket);
        }
    }
}
