//! A set of epoll(7) with members of ours: the kernel's set for the kernel's members, and a list
//! beside it.
//!
//! What joins them is a poller: its pipe is a member of the kernel's set, under a mark that the
//! program cannot know, and has a byte in it when one of ours has news while somebody sleeps there.

/// What a thread that waits asks of a set.
pub(super) mod look;

use std::any::Any;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use calisto_client::sockets::{Poller, Socket};
use libc::{c_int, epoll_event};
use rustix::io::Errno;
use sys::eventfd::EventFd;

use super::kernel_set::control;
use super::members::{Member, Members};
use crate::entry::file::Kind;
use crate::entry::memberships::ClosedMembers;
use crate::entry::own_code::Inner;
use crate::entry::{Body, EventSet, Held, descriptors};
use crate::process::session;
use crate::system::lock::{Lock, Locked};

/// Marks of ours in the kernel's set: the poller's, and one for each member's kernel half.
const MARKS: u64 = 1 << 32;

/// A set.
pub(crate) struct Set {
    state: Lock<State>,
    /// Threads that sleep in the kernel's set.
    pub(super) sleepers: AtomicU32,
    /// Another set, or a call to poll, waits for this set itself: then the poller stays armed.
    is_waited_for: AtomicBool,
    /// Sets are among the members, or were.
    has_inner: AtomicBool,
    /// Members of ours that were closed.
    closed_members: ClosedMembers,
}

/// What is guarded.
pub(crate) struct State {
    pub(super) members: Members,
    poller: Option<OwnPoller>,
    /// Sets that are members.
    inner: Vec<Held>,
    /// Lit while there is something, for threads that wait for the set itself.
    light: Option<Inner<EventFd>>,
    /// The first of the [`MARKS`] marks, drawn at random.
    mark: u64,
    /// Members of the kernel, and kernel halves of ours.
    pub(super) kernel_members: usize,
    /// Calls since the kernel's members were looked at.
    pub(super) calls: u32,
}

/// A poller, and of which attachment of which process: a forked child must leave its parent's
/// alone, for it would take the parent's news, and one of an attachment that has ended hears
/// nothing more.
struct OwnPoller {
    poller: Inner<Poller>,
    of: (u32, usize),
}

impl State {
    /// The poller, if it is this process's.
    fn own_poller(&self) -> Option<&Poller> {
        self.poller.as_ref().and_then(OwnPoller::own)
    }
}

impl OwnPoller {
    fn own(&self) -> Option<&Poller> {
        (self.of == session::identity()).then_some(&*self.poller)
    }
}

impl Set {
    /// A set of which only the kernel knows the members that it has already.
    pub(super) fn new() -> Self {
        let mut mark = [0; 8];
        // Without randomness the mark is a number that no program has reason to choose.
        let _ = rustix::rand::getrandom(&mut mark, rustix::rand::GetRandomFlags::NONBLOCK);
        let mark = u64::from_ne_bytes(mark) & !(MARKS - 1);
        let state = State {
            members: Members::default(),
            poller: None,
            inner: Vec::new(),
            light: None,
            mark: if mark == 0 { 0xCA11_5700 << 32 } else { mark },
            kernel_members: 1,
            calls: 0,
        };
        Self {
            state: Lock::new(state),
            sleepers: AtomicU32::new(0),
            is_waited_for: AtomicBool::new(false),
            has_inner: AtomicBool::new(false),
            closed_members: ClosedMembers::new(),
        }
    }

    /// The state; an error if a signal has interrupted this very thread while it had it.
    pub(super) fn lock(&self) -> Result<Locked<'_, State>, Errno> {
        self.state.lock().ok_or(Errno::NOMEM)
    }

    /// Somebody waits for the set itself.
    pub(crate) fn set_waited_for(&self, fd: c_int) {
        if self.is_waited_for.swap(true, Ordering::AcqRel) {
            return;
        }
        // Without a poller or a light the set's kernel members are told, and ours are not.
        let _ = self.ensure_poller(fd);
        if let Ok(light) = EventFd::new().map(EventFd::out_of_the_way)
            && let Ok(mut state) = self.lock()
        {
            descriptors::set_internal(light.as_fd().as_raw_fd());
            let event = epoll_event { events: libc::EPOLLIN as u32, u64: state.mark };
            if control(fd, libc::EPOLL_CTL_ADD, light.as_fd().as_raw_fd(), Some(event)).is_ok() {
                state.light = Some(Inner::new(light));
            }
        }
        self.leave();
    }

    /// A set has become a member.
    pub(crate) fn note_inner(&self, inner: Held) {
        if let Ok(mut state) = self.lock() {
            state.inner.retain(|known| known.address() != inner.address());
            state.inner.push(inner);
            self.has_inner.store(true, Ordering::Release);
        }
    }

    /// Has the sets that are members look anew whether they have something.
    pub(super) fn ask_inner(&self) {
        if !self.has_inner.load(Ordering::Acquire) {
            return;
        }
        let Ok(mut state) = self.lock() else { return };
        state.inner.retain(|inner| !inner.is_closed());
        let inner = state.inner.clone();
        drop(state);
        inner.iter().filter_map(Self::of).for_each(Self::leave);
    }

    /// Makes sure that the set has a poller of this process; `fd` is the set's own. Without one,
    /// sleepers look from time to time.
    pub(super) fn ensure_poller(&self, fd: c_int) -> Result<(), Errno> {
        if self.lock()?.own_poller().is_some() {
            return Ok(());
        }
        let of = session::identity();
        let Some(poller) = session::new_poller() else { return Ok(()) };
        let mut state = self.lock()?;
        if state.own_poller().is_some() {
            // The guard goes first: letting go of a poller asks the daemon.
            drop(state);
            return Ok(());
        }
        let files = state.members.iter().filter_map(|member| member.held.file());
        files.filter(|file| !file.socket.is_orphaned()).for_each(|file| {
            // What was closed meanwhile is removed in its turn.
            let _ = poller.add(&file.socket);
        });
        // A child's set is the parent's too, who cannot empty the child's pipe: at edges it hears
        // of it once and no more.
        let was_parents = state.poller.as_ref().is_some_and(|old| old.of.0 != of.0);
        let how = if was_parents { libc::EPOLLIN | libc::EPOLLET } else { libc::EPOLLIN };
        let event = epoll_event { events: how as u32, u64: state.mark };
        control(fd, libc::EPOLL_CTL_ADD, poller.fd().as_raw_fd(), Some(event))?;
        // A thread may sleep in the set since before it had members of ours, and looks anew now.
        poller.poke();
        let old = state.poller.replace(OwnPoller { poller, of });
        // What the old one has heard and not told is looked for.
        state.members.queue_all();
        drop(state);
        drop(old);
        Ok(())
    }

    /// Adds a member, and its kernel half if it has one.
    pub(crate) fn add(
        &self,
        set: (c_int, &Held),
        fd: c_int,
        held: &Held,
        event: epoll_event,
    ) -> Result<(), Errno> {
        self.ensure_poller(set.0)?;
        let mut state = self.lock()?;
        self.reap(&mut state, set.0);
        if state.members.find(held, fd).is_some() {
            return Err(Errno::EXIST);
        }
        let file = held.file().ok_or(Errno::BADF)?;
        let has_kernel_half = file.kind != Kind::Stream;
        let member = Member::new(held.clone(), fd, event, has_kernel_half);
        if has_kernel_half {
            let mark = state.mark + 1 + u64::from(state.members.next_index());
            let event = epoll_event { events: member.interest.for_kernel_half(), u64: mark };
            control(set.0, libc::EPOLL_CTL_ADD, fd, Some(event))?;
            state.kernel_members += 1;
        }
        file.memberships.add(set.1.address(), |known| {
            Held::of_address(known).is_none_or(|held| !held.is_set())
        });
        if let Some(poller) = state.own_poller() {
            poller.add(&file.socket)?;
        }
        state.members.add(member);
        self.after_change(state, &file.socket);
        Ok(())
    }

    /// Sets a member anew.
    pub(crate) fn modify(
        &self,
        set: c_int,
        fd: c_int,
        held: &Held,
        event: epoll_event,
    ) -> Result<(), Errno> {
        let mut state = self.lock()?;
        let index = state.members.find(held, fd).ok_or(Errno::NOENT)?;
        let mark = state.mark + 1 + u64::from(index);
        let member = state.members.get_mut(index).ok_or(Errno::NOENT)?;
        if member.interest.is_exclusive() {
            return Err(Errno::INVAL);
        }
        let fresh = Member::new(held.clone(), fd, event, false);
        if member.has_kernel_half {
            let event = epoll_event { events: fresh.interest.for_kernel_half(), u64: mark };
            control(set, libc::EPOLL_CTL_MOD, fd, Some(event))?;
        }
        member.interest = fresh.interest;
        member.data = fresh.data;
        member.memory = fresh.memory;
        state.members.queue(index);
        if let Some(file) = held.file() {
            self.after_change(state, &file.socket);
        }
        Ok(())
    }

    /// Removes a member.
    pub(crate) fn delete(&self, set: c_int, fd: c_int, held: &Held) -> Result<(), Errno> {
        let mut state = self.lock()?;
        let index = state.members.find(held, fd).ok_or(Errno::NOENT)?;
        self.remove(&mut state, set, index);
        Ok(())
    }

    /// Removes a member that is about to be the kernel's; what the program has said of it.
    pub(super) fn take_out(&self, set: c_int, fd: c_int, held: &Held) -> Option<epoll_event> {
        let mut state = self.lock().ok()?;
        let index = state.members.find(held, fd)?;
        let member = state.members.get(index)?;
        // One that was told once, and not set anew since, says nothing there either.
        let is_spent = member.memory.is_spent();
        let events = if is_spent { member.interest.silent() } else { member.interest.bits() };
        let event = epoll_event { events, u64: member.data };
        self.remove(&mut state, set, index);
        Some(event)
    }

    fn remove(&self, state: &mut State, set: c_int, index: u32) {
        let Some(member) = state.members.remove(index) else { return };
        if member.has_kernel_half {
            state.kernel_members = state.kernel_members.saturating_sub(1);
            if !member.held.is_closed() {
                // The kernel has removed it itself if the number is another file's by now.
                let _ = control(set, libc::EPOLL_CTL_DEL, member.fd, None);
            }
        }
        let is_last = state.members.of_file(&member.held).is_empty();
        if let (true, Some(file), Some(poller)) = (is_last, member.held.file(), state.own_poller())
        {
            poller.remove(&file.socket);
        }
    }

    /// Removes members whose files were closed.
    fn reap(&self, state: &mut State, set: c_int) {
        if !self.closed_members.any() {
            return;
        }
        let mut dead = Vec::new();
        let must_sweep = self.closed_members.take(|entry| {
            if let Some(held) = Held::of_address(entry) {
                dead.extend(state.members.of_file(&held));
            }
        });
        if must_sweep {
            dead.extend(state.members.closed());
        }
        for index in dead {
            if state.members.get(index).is_some_and(|member| member.held.is_closed()) {
                self.remove(state, set, index);
            }
        }
    }

    /// A member of the kernel was added or removed.
    pub(super) fn count_kernel_member(&self, added: bool) {
        if let Ok(mut state) = self.lock() {
            state.kernel_members = match added {
                true => state.kernel_members + 1,
                false => state.kernel_members.saturating_sub(1),
            };
        }
    }

    /// Somebody may sleep in the kernel's set, and what was changed may have news already.
    fn after_change(&self, state: Locked<'_, State>, socket: &Socket) {
        if self.sleepers.load(Ordering::SeqCst) > 0
            && let Some(poller) = state.own_poller()
        {
            // Taken out and put in, a poller hears of a socket as if it had news.
            poller.remove(socket);
            let _ = poller.add(socket);
        }
        drop(state);
        self.leave();
    }

    /// For threads that wait for the set itself: leaves its descriptor readable while there is
    /// something, and has it made readable when something comes.
    pub(crate) fn leave(&self) {
        self.ask_inner();
        if !self.is_waited_for.load(Ordering::Acquire) {
            return;
        }
        let Ok(mut state) = self.lock() else { return };
        let State { members, poller: Some(poller), light: Some(light), .. } = &mut *state else {
            return;
        };
        let Some(poller) = poller.own() else { return };
        light.drain();
        poller.drain();
        // Should news come at every look, the next waiter finds it.
        for _ in 0..4 {
            members.hear(poller);
            if members.is_any_ready() {
                break;
            }
            if poller.arm() {
                return;
            }
        }
        light.ring();
    }

    /// The set behind an entry, if it is one.
    pub(crate) fn of(held: &Held) -> Option<&Self> {
        match &**held {
            Body::Set(set) => (&**set as &dyn Any).downcast_ref(),
            Body::Socket(_) => None,
        }
    }
}

impl EventSet for Set {
    fn closed_members(&self) -> &ClosedMembers {
        &self.closed_members
    }

    fn end(&self) {
        if let Some(mut state) = self.state.lock() {
            let poller = state.poller.take();
            let light = state.light.take();
            if let Some(poller) = poller.as_ref().and_then(OwnPoller::own) {
                state.members.iter().filter_map(|member| member.held.file()).for_each(|file| {
                    poller.remove(&file.socket);
                });
            }
            let members = std::mem::take(&mut state.members);
            let inner = std::mem::take(&mut state.inner);
            drop(state);
            drop((poller, light, members, inner));
        }
    }
}
