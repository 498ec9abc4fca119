//! What `tracing` tells: events of our targets, as far as their levels let them. There are no spans.

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata};

use super::levels;

pub(super) struct Subscriber;

impl tracing::Subscriber for Subscriber {
    /// Levels change: each event asks.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && levels::is_enabled(metadata.target(), *metadata.level())
    }

    fn event(&self, event: &Event<'_>) {
        let is_bounded = event.metadata().name() == super::BOUNDED;
        super::hear(super::event::Event::read(event), is_bounded);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
