//! What a slice counts besides its ports' own counters.

macro_rules! counters {
    ($($(#[doc = $help:literal])+ $name:ident,)+) => {
        /// What a slice has counted since it was opened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct SliceCounters {
            $($(#[doc = $help])+ pub $name: u64,)+
        }

        impl SliceCounters {
            /// How many there are.
            pub const COUNT: usize = [$(stringify!($name)),+].len();

            /// Every counter as (name, value, help). The order is append-only.
            pub fn each(&self) -> [(&'static str, u64, &'static str); Self::COUNT] {
                [$((stringify!($name), self.$name, concat!($($help),+).trim_ascii())),+]
            }
        }
    };
}

counters! {
    /// Packets handed to the reader.
    read,
    /// Packets that the ports took from a writer; what became of each the port counts.
    written,
    /// Packets that a writer marked as not to be sent.
    skipped,
    /// Packets addressed to a port that the slice does not have, dropped.
    no_port,
    /// Writes after which packets were left because a port had no room.
    partial_writes,
    /// Packets that were given back unsent.
    given_back,
    /// Times that a reader slept.
    sleeps,
    /// Times that a sleeping reader was woken by its waker.
    woken,
    /// Packets that the slice judged by its filter itself, because their port does not.
    judged_here,
    /// Packets among those that the filter did not want, dropped.
    unwanted,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_sentence_of_help() {
        let counters = SliceCounters { read: 7, written: 9, ..SliceCounters::default() };
        let each = counters.each();
        assert_eq!((each[0].0, each[0].1), ("read", 7));
        assert_eq!((each[1].0, each[1].1), ("written", 9));
        for (name, _, help) in each {
            assert!(help.ends_with('.') && !help.starts_with(' '), "{name}: {help:?}");
        }
    }
}
