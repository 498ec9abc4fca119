//! What epoll_wait(2) tells about a member, and when again: the rules alone.

use calisto_client::sockets::Readiness;
use libc::c_int;

/// Conditions that a member may ask for; the rest of its word says how.
const CONDITIONS: u32 = (libc::EPOLLIN
    | libc::EPOLLPRI
    | libc::EPOLLOUT
    | libc::EPOLLRDNORM
    | libc::EPOLLRDBAND
    | libc::EPOLLWRNORM
    | libc::EPOLLWRBAND
    | libc::EPOLLRDHUP) as u32;

/// What a member of a set wants to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Interest(u32);

/// What was told, for the next time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Memory {
    /// What held when it was looked at last.
    told: Readiness,
    /// Something has happened since then.
    is_fresh: bool,
    /// A member that is told once was told.
    is_spent: bool,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Verdict {
    /// The bits for the program; zero: nothing is told.
    pub(super) events: u32,
    /// It is to be looked at the next time even if nothing happens.
    pub(super) look_again: bool,
}

impl Interest {
    pub(super) const fn new(events: u32) -> Self {
        Self(events)
    }

    /// As the program has given it.
    pub(super) const fn bits(self) -> u32 {
        self.0
    }

    /// The same without any condition.
    pub(super) const fn silent(self) -> u32 {
        self.0 & !CONDITIONS
    }

    /// What a set of the kernel's is to be told for the kernel's half of a socket that has two: its
    /// room to write is always ours to tell.
    pub(super) const fn for_kernel_half(self) -> u32 {
        const WRITING: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM | libc::EPOLLWRBAND) as u32;
        self.0 & !WRITING
    }

    const fn is(self, bit: c_int) -> bool {
        self.0 & bit as u32 != 0
    }

    /// Whether it is told at changes only.
    pub(super) const fn is_edge(self) -> bool {
        self.is(libc::EPOLLET)
    }

    /// Whether it shares its news with members of other sets, and cannot be set anew.
    pub(super) const fn is_exclusive(self) -> bool {
        self.is(libc::EPOLLEXCLUSIVE)
    }

    /// Whether it is told once, until it is set anew.
    pub(super) const fn is_once(self) -> bool {
        self.is(libc::EPOLLONESHOT)
    }

    /// The program's names of what holds, as far as it has asked.
    fn named(self, ready: Readiness) -> u32 {
        let mut bits = ready.bits();
        if ready.contains(Readiness::IN) {
            bits |= libc::EPOLLRDNORM as u32;
        }
        if ready.contains(Readiness::OUT) {
            bits |= libc::EPOLLWRNORM as u32;
        }
        const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
        bits & (self.0 & CONDITIONS | ALWAYS)
    }
}

impl Memory {
    /// A member that was added or set anew: whatever holds is news.
    pub(super) const fn anew() -> Self {
        Self { told: Readiness::EMPTY, is_fresh: true, is_spent: false }
    }

    /// Something has happened.
    pub(super) fn note_event(&mut self) {
        self.is_fresh = true;
    }

    /// A member that is told once was told of its kernel half.
    pub(super) fn spend(&mut self) {
        self.is_spent = true;
    }

    /// Whether it says nothing until it is set anew.
    pub(super) const fn is_spent(self) -> bool {
        self.is_spent
    }

    /// Decides about a member of which `ready` holds; `lacked_room`: since the last look a writer
    /// found none.
    pub(super) fn decide(
        &mut self,
        interest: Interest,
        ready: Readiness,
        lacked_room: bool,
    ) -> Verdict {
        const NOTHING: Verdict = Verdict { events: 0, look_again: false };
        if self.is_spent {
            return NOTHING;
        }
        let events = interest.named(ready);
        let is_fresh = std::mem::replace(&mut self.is_fresh, false);
        let told = std::mem::replace(&mut self.told, ready);
        if events == 0 {
            return NOTHING;
        }
        if interest.is_edge() {
            // Bytes that came are news even if others wait already; room is news only to a
            // writer who lacked it, or each acknowledgement would wake everybody.
            let without_room = ready.bits() & !Readiness::OUT.bits();
            let has_news = is_fresh && interest.named(Readiness::from_bits(without_room)) != 0;
            let is_new = interest.named(ready) & !interest.named(told) != 0;
            let has_room = lacked_room && ready.contains(Readiness::OUT);
            if !has_news && !is_new && !has_room {
                return NOTHING;
            }
        }
        self.is_spent = interest.is_once();
        Verdict { events, look_again: !interest.is_edge() && !interest.is_once() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN: u32 = libc::EPOLLIN as u32;
    const OUT: u32 = libc::EPOLLOUT as u32;
    const ET: u32 = libc::EPOLLET as u32;

    fn readiness(bits: u32) -> Readiness {
        Readiness::from_bits(bits)
    }

    fn told(memory: &mut Memory, events: u32, ready: u32) -> u32 {
        memory.decide(Interest::new(events), readiness(ready), false).events
    }

    #[test]
    fn a_level_is_told_for_as_long_as_it_holds() {
        let mut memory = Memory::anew();
        for _ in 0..3 {
            let verdict = memory.decide(Interest::new(IN), readiness(IN | OUT), false);
            assert_eq!(verdict, Verdict { events: IN, look_again: true });
        }
        let verdict = memory.decide(Interest::new(IN), readiness(OUT), false);
        assert_eq!(verdict, Verdict { events: 0, look_again: false });
    }

    #[test]
    fn an_edge_is_told_once_and_again_when_something_came() {
        let mut memory = Memory::anew();
        assert_eq!(told(&mut memory, IN | ET, IN), IN);
        assert_eq!(told(&mut memory, IN | ET, IN), 0);
        memory.note_event();
        assert_eq!(told(&mut memory, IN | ET, IN), IN);
        memory.note_event();
        assert_eq!(told(&mut memory, IN | ET, 0), 0);
    }

    #[test]
    fn an_edge_that_went_and_came_back_is_told_although_nobody_called() {
        let mut memory = Memory::anew();
        assert_eq!(told(&mut memory, OUT | ET, OUT), OUT);
        assert_eq!(told(&mut memory, OUT | ET, 0), 0);
        assert_eq!(told(&mut memory, OUT | ET, OUT), OUT);
    }

    #[test]
    fn acknowledgements_do_not_wake_a_writer_that_has_room() {
        let mut memory = Memory::anew();
        assert_eq!(told(&mut memory, IN | OUT | ET, OUT), OUT);
        memory.note_event();
        assert_eq!(told(&mut memory, IN | OUT | ET, OUT), 0);
        let verdict = memory.decide(Interest::new(IN | OUT | ET), readiness(OUT), true);
        assert_eq!(verdict.events, OUT);
        memory.note_event();
        assert_eq!(told(&mut memory, IN | OUT | ET, IN | OUT), IN | OUT);
    }

    #[test]
    fn a_member_told_once_is_silent_until_it_is_set_anew() {
        let events = IN | libc::EPOLLONESHOT as u32;
        let mut memory = Memory::anew();
        assert_eq!(told(&mut memory, events, IN), IN);
        memory.note_event();
        assert_eq!(told(&mut memory, events, IN), 0);
        assert!(memory.is_spent());
        memory = Memory::anew();
        assert_eq!(told(&mut memory, events, IN), IN);
    }

    #[test]
    fn errors_and_hang_ups_are_told_without_being_asked_for() {
        let both = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
        let mut memory = Memory::anew();
        assert_eq!(told(&mut memory, 0, IN | both), both);
        let rdhup = libc::EPOLLRDHUP as u32;
        assert_eq!(told(&mut Memory::anew(), IN, IN | rdhup), IN);
        assert_eq!(told(&mut Memory::anew(), IN | rdhup, IN | rdhup), IN | rdhup);
    }

    #[test]
    fn the_other_names_of_reading_and_writing_are_known() {
        let normal = (libc::EPOLLRDNORM | libc::EPOLLWRNORM) as u32;
        assert_eq!(told(&mut Memory::anew(), normal, IN | OUT), normal);
    }

    #[test]
    fn the_kernel_half_of_a_socket_is_not_asked_for_room() {
        assert_eq!(Interest::new(IN | OUT | ET).for_kernel_half(), IN | ET);
    }
}
