//! What `tracing` tells: events of our targets, as far as their levels let them. No spans.

use tracing::Metadata;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;

use super::event::Event;
use super::{levels, targets};

pub(super) struct Subscriber {
    hear: fn(Event, bool),
}

impl Subscriber {
    /// One that gives events to `hear`, with whether their caller bounds how often they come.
    pub(super) fn new(hear: fn(Event, bool)) -> Self {
        Self { hear }
    }
}

impl tracing::Subscriber for Subscriber {
    /// Levels change: each event asks.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && levels::is_enabled(metadata.target(), *metadata.level())
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let is_bounded = event.metadata().name() == targets::BOUNDED;
        (self.hear)(Event::read(event), is_bounded);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
