//! Core grants: what counts, what does not, and every interleaving of a park with what may cross
//! it.

#[cfg(not(loom))]
mod rules {
    use crate::core_grant::{CoreCommand, CoreGrantTasks, CoreReply, core_grant};

    #[test]
    fn a_worker_begins_parked_runs_when_granted_and_parks_when_asked() {
        let (mut control, mut core_grant) = core_grant();
        assert_eq!((core_grant.look(), control.said()), (CoreCommand::Nothing, CoreReply::Parked));
        control.grant(3);
        assert_eq!(control.said(), CoreReply::Nothing, "it has not answered yet");
        assert_eq!(core_grant.look(), CoreCommand::Run(3));
        core_grant.run();
        assert_eq!(control.said(), CoreReply::Running);
        control.revoke();
        assert_eq!(core_grant.look(), CoreCommand::Park(3));
        assert_eq!(control.said(), CoreReply::Running);
        core_grant.park();
        assert_eq!(control.said(), CoreReply::Parked);
        control.withdraw();
        assert_eq!((core_grant.look(), control.core()), (CoreCommand::Nothing, None));
    }

    #[test]
    fn an_answer_to_an_earlier_grant_says_nothing_about_this_one() {
        let (mut control, mut core_grant) = core_grant();
        control.grant(0);
        core_grant.look();
        control.withdraw();
        core_grant.park();
        assert_eq!(control.said(), CoreReply::Nothing, "it parked from what is no longer its own");
        control.grant(u16::MAX - 1);
        assert_eq!(control.said(), CoreReply::Nothing);
        assert_eq!(core_grant.look(), CoreCommand::Run(u16::MAX - 1));
    }

    #[test]
    fn a_parked_worker_can_say_that_it_wants_a_core() {
        let (mut control, mut core_grant) = core_grant();
        core_grant.look();
        core_grant.want();
        assert_eq!(control.said(), CoreReply::Wants);
        control.grant(1);
        assert_eq!(control.said(), CoreReply::Nothing);
    }

    #[test]
    fn who_has_parked_needs_another_grant_though_its_core_was_not_taken() {
        let (mut control, mut core_grant) = core_grant();
        control.grant(1);
        assert_eq!(core_grant.look(), CoreCommand::Run(1));
        core_grant.park();
        assert_eq!(core_grant.look(), CoreCommand::Nothing);
        control.accept_park();
        core_grant.want();
        assert_eq!((control.said(), control.core()), (CoreReply::Wants, None));
        control.grant(1);
        assert_eq!(core_grant.look(), CoreCommand::Run(1));
    }

    #[test]
    fn a_worker_without_a_core_drains_its_ring_once_when_it_is_told_to() {
        let (mut control, mut core_grant) = core_grant();
        control.drain();
        assert_eq!((core_grant.look(), control.core()), (CoreCommand::Drain, None));
        core_grant.park();
        assert_eq!((core_grant.look(), control.said()), (CoreCommand::Nothing, CoreReply::Parked));
    }

    #[test]
    fn who_has_no_core_cannot_be_asked_for_one() {
        let (mut control, mut core_grant) = core_grant();
        control.revoke();
        assert_eq!(core_grant.look(), CoreCommand::Nothing);
    }

    #[test]
    fn what_a_worker_says_about_its_work_arrives_whole() {
        let (control, core_grant) = core_grant();
        let tasks = CoreGrantTasks { put: u32::MAX, taken: 7, oldest_ns: 9, idle_ns: u64::MAX };
        core_grant.note(tasks);
        core_grant.note_thread(77);
        assert_eq!((control.tasks(), control.thread()), (tasks, 77));
    }
}

#[cfg(loom)]
mod models {
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::{AtomicBool, Ordering};
    use loom::sync::{Arc, Notify};

    use crate::Doorbell;
    use crate::core_grant::{CoreCommand, CoreGrantControl, CoreReply, core_grant};

    /// What whoever holds the core writes: loom finds two holders as a data race.
    struct Core(UnsafeCell<u32>);

    // SAFETY: this is what the models are to find out.
    unsafe impl Sync for Core {}

    impl Core {
        fn run(&self) {
            // SAFETY: as above.
            self.0.with_mut(|bytes| unsafe { *bytes += 1 });
        }
    }

    /// Wake-ups that are remembered, one each way: the worker's pipe and the control's eventfd.
    #[derive(Clone)]
    struct Wakes {
        worker: Arc<Notify>,
        control: Arc<Notify>,
    }

    impl Wakes {
        fn new() -> Self {
            Self { worker: Arc::new(Notify::new()), control: Arc::new(Notify::new()) }
        }

        /// Sleeps until the worker has said this.
        fn until(&self, control: &CoreGrantControl, said: CoreReply) {
            while control.said() != said {
                self.control.wait();
            }
        }
    }

    #[test]
    fn loom_a_core_that_is_revoked_has_one_holder_at_every_moment() {
        loom::model(|| {
            let core = Arc::new(Core(UnsafeCell::new(0)));
            let wakes = Wakes::new();
            let (mut first, mut own) = core_grant();
            first.grant(0);
            let worker = loom::thread::spawn({
                let (core, wakes) = (Arc::clone(&core), wakes.clone());
                move || {
                    // Told once more to go on, it sleeps in a call of its own: the nudge ends that.
                    while let CoreCommand::Run(_) = own.look() {
                        core.run();
                        wakes.worker.wait();
                    }
                    own.park();
                    wakes.control.notify();
                }
            });
            let (mut second, mut own) = core_grant();
            let granted = Arc::new(Notify::new());
            let next = loom::thread::spawn({
                let (core, granted) = (Arc::clone(&core), Arc::clone(&granted));
                move || {
                    while own.look() == CoreCommand::Nothing {
                        granted.wait();
                    }
                    core.run();
                }
            });
            first.revoke();
            wakes.worker.notify();
            wakes.until(&first, CoreReply::Parked);
            second.grant(0);
            granted.notify();
            worker.join().expect("it parks");
            next.join().expect("it runs");
        });
    }

    #[test]
    fn loom_a_packet_that_crosses_a_park_gets_its_worker_a_core() {
        loom::model(|| {
            let doorbell = Arc::new(Doorbell::new());
            let queue = Arc::new(AtomicBool::new(false));
            let wakes = Wakes::new();
            let (mut control, mut own) = core_grant();
            control.grant(0);
            let worker = loom::thread::spawn({
                let (doorbell, queue, wakes) = (doorbell.clone(), queue.clone(), wakes.clone());
                move || {
                    assert_eq!(own.look(), CoreCommand::Run(0));
                    doorbell.arm();
                    if !queue.load(Ordering::Acquire) {
                        own.park();
                        wakes.control.notify();
                        while own.look() != CoreCommand::Run(1) {
                            wakes.worker.wait();
                        }
                    }
                    doorbell.disarm();
                    assert!(queue.load(Ordering::Acquire), "it runs because there is a packet");
                    own.run();
                    wakes.control.notify();
                }
            });
            queue.store(true, Ordering::Release);
            // It sleeps, or is about to say so; or it has found the packet, and never will.
            let parks = doorbell.ring();
            while parks && !matches!(control.said(), CoreReply::Parked | CoreReply::Running) {
                wakes.control.wait();
            }
            if control.said() == CoreReply::Parked {
                control.grant(1);
                wakes.worker.notify();
            }
            worker.join().expect("it ends");
        });
    }

    #[test]
    fn loom_a_late_park_does_not_end_the_grant_that_came_meanwhile() {
        loom::model(|| {
            let wakes = Wakes::new();
            let (mut control, mut own) = core_grant();
            control.grant(0);
            let worker = loom::thread::spawn({
                let wakes = wakes.clone();
                move || {
                    while own.look() != CoreCommand::Run(1) {
                        own.park();
                        wakes.worker.wait();
                    }
                    own.run();
                    wakes.control.notify();
                }
            });
            // Taken without waiting for the answer, and given another core at once.
            control.withdraw();
            control.grant(1);
            wakes.worker.notify();
            assert_ne!(control.said(), CoreReply::Parked, "a park of the first grant");
            wakes.until(&control, CoreReply::Running);
            worker.join().expect("it runs");
        });
    }
}
