//! How many of its own workers the daemon is to have.

/// Two numbers, because not every thread that is wanted can be started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkersWanted {
    /// How many workers there are to be.
    pub(crate) count: u16,
    /// How many the operator or the configuration wants.
    pub(crate) asked: u16,
}

impl WorkersWanted {
    /// As many as are asked for.
    pub(crate) fn new(asked: u16) -> Self {
        Self { count: asked, asked }
    }

    /// Some cannot be started: there are `count` until another number is asked for.
    pub(crate) fn do_with(&mut self, count: u16) {
        self.count = count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_started_changes_nothing_of_what_is_wanted() {
        let mut wanted = WorkersWanted::new(4);
        wanted.do_with(2);
        assert_eq!((wanted.count, wanted.asked), (2, 4));
    }
}
