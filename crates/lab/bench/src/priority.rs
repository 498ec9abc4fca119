//! First in the queue for every CPU: what else runs on a machine should not be in the figures.
//!
//! Nice values count within a session only where the kernel groups tasks by session (sched(7),
//! autogroup), so the session's group gets one too, and its old one back.

/// The nice value of everything that is measured, and of who measures.
const FIRST: i32 = -20;

/// The group of this process's session, where there is one.
const GROUP: &str = "/proc/self/autogroup";

/// Before everybody else, until it is dropped. Whatever is started meanwhile inherits it.
pub(crate) struct Priority {
    nice: Option<i32>,
    group: Option<i32>,
}

impl Priority {
    /// Takes it, as far as we have the right to: without it, figures are still figures.
    pub(crate) fn take() -> Self {
        let nice = rustix::process::getpriority_process(None).ok();
        let group = std::fs::read_to_string(GROUP).ok().and_then(|text| nice_in(&text));
        let _ = rustix::process::setpriority_process(None, FIRST);
        if group.is_some() {
            let _ = std::fs::write(GROUP, FIRST.to_string());
        }
        Self { nice, group }
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        let Self { nice, group } = self;
        // Whoever could take it can give it back.
        let _ = nice.map(|nice| rustix::process::setpriority_process(None, nice));
        let _ = group.map(|group| std::fs::write(GROUP, group.to_string()));
    }
}

/// Of a line such as `/autogroup-524 nice 0`.
fn nice_in(text: &str) -> Option<i32> {
    let (_, nice) = text.trim().rsplit_once(" nice ")?;
    nice.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_nice_value_is_read_whatever_its_number() {
        assert_eq!(nice_in("/autogroup-524 nice 0\n"), Some(0));
        assert_eq!(nice_in("/autogroup-7 nice -3\n"), Some(-3));
        assert_eq!(nice_in(""), None);
    }

    #[test]
    fn what_was_taken_is_given_back() {
        // On a thread of its own: a nice value is a thread's.
        let seen = std::thread::spawn(|| {
            let nice = || rustix::process::getpriority_process(None).expect("we are there");
            let before = nice();
            let with = {
                let _priority = Priority::take();
                nice()
            };
            (before, with, nice())
        });
        let (before, with, after) = seen.join().expect("nothing fails");
        assert!(with <= before, "{before} {with}");
        assert_eq!(before, after);
    }
}
