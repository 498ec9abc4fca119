//! Waiting for a list of descriptors, ours and the kernel's.

use std::cell::Cell;
use std::os::fd::AsRawFd;

use calisto_client::sockets::{Poller, Readiness};
use libc::{c_int, nfds_t, pollfd, sigset_t, timespec};
use rustix::io::Errno;
use smallvec::SmallVec;

use crate::entry::descriptors::{self, Found};
use crate::entry::file::{File, Kind};
use crate::entry::own_code::Inner;
use crate::entry::{Body, Held, own_code};
use crate::process::{again, lookup, session};
use crate::system::{fork, outcome, real};
use crate::wait::deadline::Deadline;
use crate::wait::epoll::Set;
use crate::wait::yield_policy::YieldPolicy;

/// A look when no poller wakes the sleeper.
const BLIND_LOOK_NS: i64 = 1_000_000;

/// A poller, and of which attachment of which process.
type OwnPoller = (Box<Inner<Poller>>, (u32, usize));

thread_local! {
    /// This thread's poller and whose it is; taken out while it is used, so that a signal
    /// handler finds none and looks from time to time instead.
    static POLLER: Cell<Option<OwnPoller>> = const { Cell::new(None) };
}

/// One of ours in a list.
pub(crate) struct Ours {
    /// Its place in the list.
    pub(crate) index: usize,
    pub(crate) held: Held,
    /// Its number.
    pub(crate) fd: c_int,
    /// The bits that are asked for, as poll(2) has them.
    pub(crate) events: i16,
}

impl Ours {
    /// Its number stands for another socket by now.
    fn was_renewed(&self) -> bool {
        let Some(file) = self.held.file() else { return false };
        if file.is_to_leave() {
            // Every look at the number has it leave.
            drop(lookup::socket(self.fd));
        }
        file.was_renewed()
    }
}

/// Whether its numbers stand for another socket by now, or will in a moment.
fn is_renewed(held: &Held) -> bool {
    held.file().is_some_and(File::was_renewed)
}

/// What one is ready for, of what was asked and what is always told.
fn revents(ours: &Ours) -> i16 {
    let Some(file) = ours.held.file() else { return 0 };
    if ours.held.is_closed() {
        return libc::POLLNVAL;
    }
    if file.socket.is_kernels() {
        // The kernel says, as soon as it is asked.
        return 0;
    }
    told(file.readiness(), ours.events)
}

/// In poll's bits, of which reading and writing have two names each.
pub(crate) fn told(ready: Readiness, events: i16) -> i16 {
    let mut bits = ready.bits() as i16;
    if bits & libc::POLLIN != 0 {
        bits |= libc::POLLRDNORM;
    }
    if bits & libc::POLLOUT != 0 {
        bits |= libc::POLLWRNORM;
    }
    bits & (events | libc::POLLERR | libc::POLLHUP)
}

/// Places of a list that are looked at without taking memory: calls that wait for descriptors come
/// from handlers of signals too, and one may have interrupted the allocator.
pub(crate) const SHORT: usize = 64;

/// The descriptors that a call names, and the bits of poll(2) that it asks of each.
pub(crate) type Wanted = SmallVec<[(c_int, i16); SHORT]>;

/// A list for the kernel, and the entries in it that are ours. `None`: none is.
pub(crate) struct List {
    /// With the kernel's members and kernel halves; the places of ours alone are negative.
    pub(crate) kernel: SmallVec<[pollfd; SHORT + 1]>,
    pub(crate) ours: SmallVec<[Ours; SHORT / 4]>,
    sets: SmallVec<[Held; 4]>,
}

impl List {
    /// Sorts a list of descriptors and bits.
    pub(crate) fn new(wanted: impl Iterator<Item = (c_int, i16)>) -> Self {
        let mut list =
            Self { kernel: SmallVec::new(), ours: SmallVec::new(), sets: SmallVec::new() };
        for (index, (fd, events)) in wanted.enumerate() {
            let mut kernel = pollfd { fd, events, revents: 0 };
            if !descriptors::is_plain(fd)
                && let Found::Ours(held) = lookup::find(fd)
            {
                match &*held {
                    Body::Socket(file) => {
                        match file.kind {
                            Kind::Stream => kernel.fd = -1,
                            // One that was shut down can be written to, as far as the kernel says.
                            Kind::Listener => {}
                            // Room to write is ours to tell.
                            Kind::Datagram => {
                                kernel.events &= !(libc::POLLOUT | libc::POLLWRNORM);
                            }
                        }
                        list.ours.push(Ours { index, held, fd, events });
                    }
                    Body::Set(_) => {
                        Set::of(&held).iter().for_each(|set| set.set_waited_for(fd));
                        list.sets.push(held);
                    }
                }
            }
            list.kernel.push(kernel);
        }
        list
    }

    /// Looks at ours and sets their bits; how many places have any, the kernel's included.
    fn look(&mut self) -> usize {
        for ours in &self.ours {
            self.kernel[ours.index].revents |= revents(ours);
        }
        self.kernel.iter().filter(|place| place.revents != 0).count()
    }

    /// Asks the kernel, which sets all bits anew.
    fn ask_kernel(
        &mut self,
        extra: Option<c_int>,
        timeout: Option<timespec>,
        mask: *const sigset_t,
    ) -> Result<(), Errno> {
        let own = self.kernel.len();
        // A place that is left out stands for it, if there is one: a list may have as many places
        // as the process may have descriptors, and no more.
        let spare = extra.and_then(|_| self.kernel.iter().position(|place| place.fd < 0));
        let left_out = spare.map(|index| self.kernel[index]);
        if let Some(fd) = extra {
            let place = pollfd { fd, events: libc::POLLIN, revents: 0 };
            match spare {
                Some(index) => self.kernel[index] = place,
                None => self.kernel.push(place),
            }
        }
        let mut result = self.ask_once(timeout, mask);
        self.kernel.truncate(own);
        if let (Some(index), Some(place)) = (spare, left_out) {
            self.kernel[index] = place;
        } else if extra.is_some() && result == Err(Errno::INVAL) {
            // It had as many places as it may: nobody rings, so the next look is soon.
            result = self.ask_once(Some(blind(timeout)), mask);
        }
        if result.is_err() {
            self.kernel.iter_mut().for_each(|place| place.revents = 0);
        }
        result.map(|_| ())
    }

    fn ask_once(
        &mut self,
        timeout: Option<timespec>,
        mask: *const sigset_t,
    ) -> Result<c_int, Errno> {
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let (fds, count) = (self.kernel.as_mut_ptr(), self.kernel.len() as nfds_t);
        // SAFETY: a list of ours.
        outcome::of(unsafe { real::ppoll(fds, count, timeout, mask) })
    }

    /// Waits until a place has bits; how many have.
    pub(crate) fn wait(
        &mut self,
        deadline: Deadline,
        mask: *const sigset_t,
    ) -> Result<usize, Errno> {
        loop {
            if let Some(count) = self.wait_once(deadline, mask)? {
                return Ok(count);
            }
            let kernel = &mut self.kernel;
            // Then the thread that gives the number another file may be this one.
            let may_wait = !own_code::is_running() && !fork::is_borrowed();
            self.ours.retain(|ours| {
                if !ours.was_renewed() {
                    return true;
                }
                match lookup::socket(ours.fd) {
                    // Another thread is about to give the number its new file.
                    Some(held) if may_wait && is_renewed(&held) => {
                        std::thread::yield_now();
                        true
                    }
                    Some(held) if !is_renewed(&held) => {
                        ours.held = held;
                        true
                    }
                    // One that is the kernel's now has its half in the kernel's list already, but
                    // for a connection.
                    _ => {
                        kernel[ours.index].fd = ours.fd;
                        false
                    }
                }
            });
        }
    }

    /// The same; nothing if a socket was renewed meanwhile.
    pub(crate) fn wait_once(
        &mut self,
        deadline: Deadline,
        mask: *const sigset_t,
    ) -> Result<Option<usize>, Errno> {
        const AT_ONCE: timespec = timespec { tv_sec: 0, tv_nsec: 0 };
        self.sets.iter().filter_map(Set::of).for_each(Set::leave);
        if self.ours.iter().any(Ours::was_renewed) {
            return Ok(None);
        }
        let has_kernels = self.kernel.iter().any(|place| place.fd >= 0);
        let mut count = self.look();
        if count > 0 || deadline.is_now() {
            // If nothing is ready, signals that the mask lets through end the call, which does not
            // wait, too (`do_poll`).
            let mask = if count > 0 { std::ptr::null() } else { mask };
            if has_kernels || !mask.is_null() {
                self.ask_kernel(None, Some(AT_ONCE), mask)?;
                count = self.look();
            }
            return Ok(Some(count));
        }
        let mut yield_policy = YieldPolicy::new();
        while yield_policy.may_yield() {
            std::thread::yield_now();
            if self.look() > 0 {
                if has_kernels {
                    self.ask_kernel(None, Some(AT_ONCE), std::ptr::null())?;
                }
                return Ok(Some(self.look()));
            }
        }
        let poller = take_poller();
        if let Some((poller, _)) = &poller {
            self.ours.iter().filter_map(|ours| ours.held.file()).for_each(|file| {
                // What was closed meanwhile is found out by the look.
                let _ = poller.add(&file.socket);
            });
        }
        let own = poller.as_ref().map(|(poller, _)| &***poller);
        let result = self.sleep(own, deadline, mask);
        if let Some((poller, of)) = poller {
            self.ours.iter().filter_map(|ours| ours.held.file()).for_each(|file| {
                poller.remove(&file.socket);
            });
            give_poller((poller, of));
        }
        result
    }

    fn sleep(
        &mut self,
        poller: Option<&Poller>,
        deadline: Deadline,
        mask: *const sigset_t,
    ) -> Result<Option<usize>, Errno> {
        let mut taken = Vec::new();
        loop {
            let most = again::look();
            if self.ours.iter().any(Ours::was_renewed) {
                return Ok(None);
            }
            if let Some(poller) = poller {
                taken.clear();
                poller.take(&mut taken, usize::MAX);
            }
            // What was taken may have been just that.
            if self.ours.iter().any(Ours::was_renewed) {
                return Ok(None);
            }
            let may_sleep = poller.is_none_or(Poller::arm);
            let is_ready = self.look() > 0;
            let mut timeout = deadline.or_after(most).timespec_left();
            if !may_sleep || is_ready {
                timeout = Some(timespec { tv_sec: 0, tv_nsec: 0 });
            } else if poller.is_none() {
                timeout = Some(blind(timeout));
            }
            self.sets.iter().filter_map(Set::of).for_each(Set::leave);
            let slept =
                self.ask_kernel(poller.map(|poller| poller.fd().as_raw_fd()), timeout, mask);
            if let Some(poller) = poller {
                poller.disarm();
                poller.drain();
            }
            if self.ours.iter().any(Ours::was_renewed) {
                return Ok(None);
            }
            let count = self.look();
            if count > 0 {
                return Ok(Some(count));
            }
            slept?;
            if deadline.is_over() {
                return Ok(Some(0));
            }
        }
    }
}

/// How long a sleep lasts at most out of which nobody wakes the thread.
fn blind(timeout: Option<timespec>) -> timespec {
    let is_shorter = |left: &timespec| left.tv_sec == 0 && left.tv_nsec <= BLIND_LOOK_NS;
    timeout.filter(is_shorter).unwrap_or(timespec { tv_sec: 0, tv_nsec: BLIND_LOOK_NS })
}

/// This thread's poller, made now if it has none.
fn take_poller() -> Option<OwnPoller> {
    if let Ok(Some((poller, of))) = POLLER.try_with(Cell::take)
        && of == session::identity()
    {
        return Some((poller, of));
    }
    let of = session::identity();
    session::new_poller().map(|poller| (Box::new(poller), of))
}

/// Has this thread a poller for later, if it can be had.
pub(crate) fn have_poller() {
    take_poller().into_iter().for_each(give_poller);
}

fn give_poller((poller, of): OwnPoller) {
    // One of a session that has ended meanwhile is told from those of the next by the next taker.
    let mut given = Some((poller, of));
    let _ = POLLER.try_with(|place| place.set(given.take()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_of_reading_and_writing_are_told() {
        let ready = Readiness::IN | Readiness::OUT;
        assert_eq!(told(ready, libc::POLLRDNORM), libc::POLLRDNORM);
        assert_eq!(told(ready, libc::POLLOUT | libc::POLLWRNORM), libc::POLLOUT | libc::POLLWRNORM);
        assert_eq!(told(ready | Readiness::HUP, 0), libc::POLLHUP);
        assert_eq!(told(ready | Readiness::RDHUP, libc::POLLIN), libc::POLLIN);
    }
}
