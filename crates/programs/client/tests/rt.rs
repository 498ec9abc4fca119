//! Programs of `async fn` against a small daemon, without root.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{Folder, MAC};
use crate::rig::{CLIENT, LISTEN, PEER_MAC, Rig, SERVER, address, answered, packet, start, until};
use attach::{DetachReason, Detached, ToApp as Message};
use base::FlowGroup;
use calisto_client::rt::{
    self, Elapsed, JoinError, LongPoll, RecvError, RunError, Runtime, SendError, Settings,
    UdpSocket,
};
use calisto_client::{Moving, Nanos};
use shm::packets::{Delivery, FromApp, ToApp};

async fn echo(rt: Runtime) -> Result<(), RecvError> {
    let listen = if rt.worker() == Some(9) { "udp:[fd00::9]:7" } else { LISTEN };
    echo_at(rt, listen).await
}

async fn echo_at(rt: Runtime, listen: &'static str) -> Result<(), RecvError> {
    let mut socket = UdpSocket::bind(&rt, listen).expect("it is listened on");
    let mut bytes = [0; 2048];
    loop {
        let (len, from) = socket.recv_from(&mut bytes).await?;
        socket.send_to(&bytes[..len], from).await.expect("it is an answer");
    }
}

#[test]
fn each_worker_answers_the_packets_that_it_gets_in_both_ip_versions() {
    let mut rig = start("echo", 2, Settings::default(), |rt| async move {
        let six = rt.spawn_local(echo_at(rt.clone(), "udp:[fd00::9]:7"));
        assert_eq!(echo(rt).await, Err(RecvError));
        assert_eq!(six.await, Ok(Err(RecvError)));
    });
    for worker in [0, 1] {
        for (from, payload) in [(CLIENT, &b"four"[..]), ("[fd00::1]:4000", b"six"), (CLIENT, b"")] {
            rig.ask(worker, 3, from, payload);
            assert_eq!(rig.answer(worker), answered(from, payload));
        }
    }
    until("all counts", || {
        let stats = rig.rt.stats();
        (stats.received, stats.sent) == (6, 6)
    });
    let ended = rig.stop();
    assert_eq!(ended.results, [Ok(()), Ok(())]);
}

#[test]
fn many_packets_of_many_flows_are_answered_once_and_in_the_order_of_their_flow() {
    let mut rig = start("many", 1, Settings::default(), |rt| async move {
        // Several sockets of one worker share its packets.
        let tasks: Vec<_> = (0..3).map(|_| rt.spawn_local(echo(rt.clone()))).collect();
        for task in tasks {
            assert_eq!(task.await, Ok(Err(RecvError)));
        }
    });
    let mut heard = [0_u8; 7];
    for round in 0..50_u8 {
        for flow in 0..7_u32 {
            rig.ask(0, flow, &format!("10.0.0.1:{}", 5000 + flow), &[round]);
        }
        for _ in 0..7 {
            let bytes = rig.answer(0);
            let flow = usize::from(u16::from_be_bytes([bytes[36], bytes[37]]) - 5000);
            assert_eq!(bytes, answered(&format!("10.0.0.1:{}", 5000 + flow), &[heard[flow]]));
            heard[flow] += 1;
        }
    }
    rig.stop();
}

#[test]
fn a_socket_sends_longer_answers_second_ones_and_packets_to_hosts_that_it_knows() {
    let mut rig = start("send", 1, Settings::default(), |rt| async move {
        let mut socket = UdpSocket::bind(&rt, LISTEN).expect("it is listened on");
        assert_eq!(socket.local_addr(), address(SERVER));
        let mut bytes = [0; 4];
        let (len, from) = socket.recv_from(&mut bytes).await.expect("one comes");
        assert_eq!((&bytes[..len], from), (&b"long"[..], address(CLIENT)), "cut to the buffer");
        assert_eq!(socket.send_to(&[1; 600], from).await, Ok(()));
        assert_eq!(socket.send_to(b"second", from).await, Ok(()));
        assert_eq!(socket.send_to(b"other port", address("10.0.0.1:9")).await, Ok(()));
        assert_eq!(socket.send_to(&[1; 1473], from).await, Err(SendError::TooLong));
        assert_eq!(socket.send_to(&[1; 1472], from).await, Ok(()));
        assert_eq!(socket.send_to(b"x", address("10.0.0.3:9")).await, Err(SendError::NoWay));
        let (_, from) = socket.recv_from(&mut bytes).await.expect("one comes");
        assert_eq!(socket.send_to(&[1; 1473], from).await, Err(SendError::TooLong));
    });
    rig.ask(0, 0, CLIENT, b"longer than the buffer");
    assert_eq!(rig.answer(0), answered(CLIENT, &[1; 600]));
    assert_eq!(rig.answer(0), answered(CLIENT, b"second"));
    assert_eq!(rig.answer(0), answered("10.0.0.1:9", b"other port"));
    assert_eq!(rig.answer(0), answered(CLIENT, &[1; 1472]));
    rig.ask(0, 0, CLIENT, b"x");
    let ended = rig.end().expect("it ends by itself");
    assert_eq!((ended.results, ended.stats.unsent), (vec![Ok(())], 3));
}

#[test]
fn what_is_not_listened_on_cannot_be_bound_and_its_packets_are_dropped_and_counted() {
    let mut rig =
        start("stray", 1, Settings { queue_packets: 4, ..Settings::default() }, |rt| async move {
            let error = UdpSocket::bind(&rt, "udp:10.0.0.9:8").expect_err("nobody asked for it");
            assert!(error.to_string().contains("udp:10.0.0.9:8"), "{error}");
            rt.stopping().await;
        });
    let stray = packet([PEER_MAC, MAC], CLIENT, "10.0.0.9:8", b"x");
    rig.served.deliver(0, &stray);
    rig.served.deliver(0, b"no packet");
    for number in 0..6 {
        rig.ask(0, number, CLIENT, b"x");
    }
    until("all packets", || {
        let stats = rig.rt.stats();
        (stats.received, stats.dropped_stray, stats.dropped_full) == (8, 2, 2)
    });
    until("the dropped ones", || {
        assert_eq!(rig.served.sent(0), None);
        rig.served.server.held() == 4
    });
    rig.stop();
}

#[test]
fn timers_fire_in_their_order_never_early_and_tasks_of_any_worker_may_have_them() {
    let rig = start("timers", 2, Settings::default(), |rt| async move {
        let begun = rt::now();
        let order = Arc::new(Mutex::new(Vec::new()));
        let sleeps = [30, 10, 20].map(|millis| {
            let order = Arc::clone(&order);
            // Of one worker, which goes by the deadlines however late it comes to them.
            rt.spawn_local(async move {
                rt::sleep_until(begun + Nanos::from_millis(millis)).await;
                assert!(rt::now() - begun >= Nanos::from_millis(millis), "early");
                order.lock().expect("nobody panics").push(millis);
            })
        });
        let anywhere = rt.spawn(async move {
            rt::sleep_until(begun + Nanos::from_millis(5)).await;
            assert!(rt::now() - begun >= Nanos::from_millis(5), "early");
        });
        for sleep in sleeps {
            assert_eq!(sleep.await, Ok(()));
        }
        assert_eq!(anywhere.await, Ok(()));
        assert_eq!(*order.lock().expect("nobody panics"), [10, 20, 30]);
        let mut interval = rt::interval(Nanos::from_millis(2));
        let first = interval.tick().await;
        assert_eq!(interval.tick().await.since(first).0 % 2_000_000, 0);
        let never = rt::sleep_until(Nanos::FAR_FUTURE);
        assert_eq!(rt::timeout(Nanos::from_millis(2), never).await, Err(Elapsed));
        assert_eq!(rt::timeout(Nanos::from_secs(600), async { 7 }).await, Ok(7));
    });
    let ended = rig.end().expect("it ends by itself");
    assert_eq!(ended.results, [Ok(()), Ok(())]);
    let stats = ended.stats;
    // Four sleeps, two ticks and a timeout of each worker, unless one was due before it was asked.
    assert!((1..=14).contains(&stats.timers), "those that were dropped do not fire: {stats:?}");
    assert!(stats.timer_lateness > Nanos::ZERO && stats.timer_lateness <= stats.timer_lateness_max);
}

#[test]
fn a_task_gives_its_result_its_panic_or_its_end_to_its_handle_and_its_worker_goes_on() {
    let rig = start("handles", 1, Settings::default(), |rt| async move {
        assert_eq!(rt.spawn(async { 7 }).await, Ok(7));
        assert_eq!(rt.spawn_local(async { std::rc::Rc::new(8) }).await.as_deref(), Ok(&8));
        let panics = rt.spawn(async { panic!("on purpose") });
        assert_eq!(panics.await, Err(JoinError::Panicked("on purpose".into())));
        let panics = rt.spawn_local(async { panic!("as {}", "well") });
        assert_eq!(panics.await, Err(JoinError::Panicked("as well".into())));
        for is_local in [false, true] {
            let dropped = Arc::new(());
            let held = Arc::clone(&dropped);
            let forever = async move {
                let _held = held;
                std::future::pending::<()>().await;
            };
            let forever = if is_local { rt.spawn_local(forever) } else { rt.spawn(forever) };
            rt::yield_now().await;
            assert!(!forever.is_finished());
            forever.cancel();
            assert_eq!(forever.await, Err(JoinError::Cancelled));
            assert_eq!(Arc::strong_count(&dropped), 1);
        }
        let goes_on = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&goes_on);
        drop(rt.spawn(async move {
            rt::yield_now().await;
            done.store(true, Ordering::Relaxed);
        }));
        while !goes_on.load(Ordering::Relaxed) {
            rt::yield_now().await;
        }
        // What is left when the main task ends is cancelled.
        (rt.spawn(std::future::pending::<()>()), rt.clone())
    });
    let mut ended = rig.end().expect("it ends by itself");
    assert_eq!((ended.stats.panics, ended.results.len()), (2, 1));
    let (left, rt) = ended.results.remove(0).expect("no assertion failed");
    assert!(left.is_finished());
    assert!(rt.spawn(async {}).is_finished(), "nothing runs in a runtime that has ended");
}

#[test]
fn a_panic_of_a_main_task_is_its_result_and_the_other_workers_go_on() {
    let mut rig = start("panic", 2, Settings::default(), |rt| async move {
        if rt.worker() == Some(0) {
            panic!("on purpose");
        }
        let _ = echo(rt).await;
    });
    rig.ask(1, 0, CLIENT, b"still there");
    assert_eq!(rig.answer(1), answered(CLIENT, b"still there"));
    let ended = rig.stop();
    assert_eq!(ended.results, [Err(JoinError::Panicked("on purpose".into())), Ok(())]);
}

#[test]
fn workers_without_work_sleep_and_are_woken_by_other_threads() {
    let rig = start("idle", 2, Settings::default(), |rt| async move { rt.stopping().await });
    let asleep = |rt: &Runtime| {
        // Until nothing happens for a while.
        until("silence", || {
            let before = rt.stats();
            std::thread::sleep(Duration::from_millis(50));
            before.parks > 0 && rt.stats() == before
        });
    };
    asleep(&rig.rt);
    for number in 0..20 {
        let spawned = rig.rt.spawn(async move { number });
        until("its end", || spawned.is_finished());
    }
    let stats = rig.rt.stats();
    assert!(stats.wakes > 0, "the first one at least found a sleeper: {stats:?}");
    asleep(&rig.rt);
    rig.stop();
}

/// Holds up its thread until the other side says so.
fn hold_up(released: &AtomicBool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !released.load(Ordering::Acquire) {
        assert!(Instant::now() < end, "nobody releases it");
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn tasks_behind_one_that_does_not_give_way_are_run_by_another_worker_and_bound_ones_are_not() {
    let released = Arc::new(AtomicBool::new(false));
    let release = Arc::clone(&released);
    let ran_on = Arc::new([const { AtomicUsize::new(0) }; 2]);
    let ran = Arc::clone(&ran_on);
    let rig = start("steal", 2, Settings::default(), move |rt| {
        let (released, ran) = (Arc::clone(&release), Arc::clone(&ran));
        async move {
            if rt.worker() == Some(1) {
                rt.stopping().await;
                return;
            }
            let bound: Vec<_> = (0..5)
                .map(|_| {
                    let inner = rt.clone();
                    rt.spawn_local(async move { assert_eq!(inner.worker(), Some(0)) })
                })
                .collect();
            for _ in 0..20 {
                let (ran, inner) = (Arc::clone(&ran), rt.clone());
                drop(rt.spawn(async move {
                    ran[inner.worker().expect("a worker")].fetch_add(1, Ordering::Relaxed);
                }));
            }
            hold_up(&released);
            for task in bound {
                assert_eq!(task.await, Ok(()));
            }
            rt.stopping().await;
        }
    });
    until("the other worker", || ran_on[1].load(Ordering::Relaxed) == 20);
    released.store(true, Ordering::Release);
    let stats = rig.rt.worker_stats();
    assert!(stats[1].tasks_stolen >= 20 && stats[0].tasks_stolen == 0, "{stats:?}");
    let ended = rig.stop();
    assert_eq!(ended.results, [Ok(()), Ok(())]);
}

#[test]
fn a_poll_that_does_not_end_is_counted_by_name_while_it_lasts_and_the_other_worker_serves() {
    let released = Arc::new(AtomicBool::new(false));
    let release = Arc::clone(&released);
    let mut rig = start("long", 2, Settings::default(), move |rt| {
        let released = Arc::clone(&release);
        async move {
            if rt.worker() == Some(1) {
                let _ = echo(rt).await;
                return;
            }
            let stuck = rt.spawn_local_named("stuck", async move { hold_up(&released) });
            assert_eq!(stuck.await, Ok(()));
            rt.stopping().await;
        }
    });
    // Another poll may be long as well, on a machine that has others to run.
    let stuck = |polls: &[LongPoll]| polls.iter().find(|p| p.site.name == Some("stuck")).copied();
    until("its discovery", || stuck(&rig.rt.long_polls()).is_some());
    rig.ask(1, 0, CLIENT, b"others");
    assert_eq!(rig.answer(1), answered(CLIENT, b"others"));
    released.store(true, Ordering::Release);
    let ended = rig.stop();
    let stuck = stuck(&ended.long_polls).expect("it is remembered");
    assert_eq!(stuck.count, 1, "once, though seen many times");
    assert!(ended.stats.long_polls >= 1);
    assert!(stuck.site.to_string().contains("rt.rs"));
    assert!(stuck.longest > Settings::default().long_poll);
    assert!(ended.stats.longest_poll >= stuck.longest);
}

#[test]
fn packets_behind_a_poll_that_does_not_end_are_answered_by_another_worker_in_their_order() {
    let released = Arc::new(AtomicBool::new(false));
    let release = Arc::clone(&released);
    let mut rig = start("groups", 2, Settings::default(), move |rt| {
        let released = Arc::clone(&release);
        async move {
            let mut socket = UdpSocket::bind(&rt, LISTEN).expect("it is listened on");
            let mut bytes = [0; 64];
            while let Ok((len, from)) = socket.recv_from(&mut bytes).await {
                if rt.worker() == Some(0) && bytes[0] == b'!' {
                    hold_up(&released);
                }
                socket.send_to(&bytes[..len], from).await.expect("it is an answer");
            }
        }
    });
    // One batch: the first packet holds worker 0 up, the others wait behind it.
    for number in 0..4_u8 {
        let bytes = packet([PEER_MAC, MAC], CLIENT, SERVER, &[b'!' + number]);
        let mut frame = rig.served.pool.take().expect("one is home");
        assert!(frame.fill(&bytes));
        frame.meta_mut().group = FlowGroup(u32::from(number > 0));
        let delivery = rig.served.server.deliver(&mut rig.served.worker_queues[0], &frame);
        assert_eq!(delivery, Ok(Delivery::Staged));
        rig.served.pool.give(frame);
    }
    rig.served.publish(0);
    for number in 1..4_u8 {
        assert_eq!(rig.answer(1), answered(CLIENT, &[b'!' + number]), "by the other worker");
    }
    assert_eq!(rig.served.sent(0), None);
    let stats = rig.rt.worker_stats();
    assert!(stats[1].group_steals >= 1 && stats[0].group_steals == 0, "{stats:?}");
    released.store(true, Ordering::Release);
    assert_eq!(rig.answer(0), answered(CLIENT, b"!"));
    // The class is its owner's again, when the daemon has had the thief's answers.
    rig.ask(0, 1, CLIENT, b"again");
    until("the last answer", || {
        (0..2).any(|worker| rig.served.sent(worker) == Some(answered(CLIENT, b"again")))
    });
    until("all frames", || {
        assert_eq!(rig.served.sent(0), None);
        rig.served.server.held() == 0
    });
    rig.stop();
}

#[test]
fn a_receive_that_was_given_up_has_taken_nothing() {
    static HAS_GIVEN_UP: AtomicBool = AtomicBool::new(false);
    let mut rig = start("give-up", 1, Settings::default(), |rt| async move {
        let mut socket = UdpSocket::bind(&rt, LISTEN).expect("it is listened on");
        let mut other = socket.clone();
        let mut bytes = [0; 8];
        let gone = rt::timeout(Nanos::from_millis(1), socket.recv_from(&mut bytes)).await;
        assert_eq!(gone, Err(Elapsed));
        HAS_GIVEN_UP.store(true, Ordering::Release);
        let (len, from) = other.recv_from(&mut bytes).await.expect("one comes");
        other.send_to(&bytes[..len], from).await.expect("it is an answer");
        drop(other);
        let (len, from) = socket.recv_from(&mut bytes).await.expect("one comes");
        socket.send_to(&bytes[..len], from).await.expect("it is an answer");
    });
    until("the end of its timeout", || HAS_GIVEN_UP.load(Ordering::Acquire));
    for payload in [b"one", b"two"] {
        rig.ask(0, 0, CLIENT, payload);
        assert_eq!(rig.answer(0), answered(CLIENT, payload));
    }
    assert_eq!(rig.end().expect("it ends by itself").results, [Ok(())]);
}

#[test]
fn a_flow_moves_only_when_the_task_that_has_its_packet_is_done() {
    let (go_on, wait) = channel::<()>();
    let wait = Arc::new(Mutex::new(Some(wait)));
    let mut rig = start("moves", 1, Settings::default(), move |rt| {
        let wait = wait.lock().expect("nobody panics").take();
        async move {
            let wait = wait.expect("one worker");
            let mut socket = UdpSocket::bind(&rt, LISTEN).expect("it is listened on");
            let mut bytes = [0; 8];
            socket.recv_from(&mut bytes).await.expect("one comes");
            while wait.try_recv().is_err() {
                rt::sleep(Nanos::from_millis(1)).await;
            }
            assert_eq!(socket.recv_from(&mut bytes).await, Err(RecvError));
        }
    });
    rig.ask(0, 5, CLIENT, b"x");
    let handovers = rig.served.server.handovers();
    let ticket = handovers.open(0);
    let moving = Moving::Group(FlowGroup(5));
    assert_eq!(rig.served.worker_queues[0].control(ToApp::Barrier { ticket, moving }), Ok(true));
    rig.served.publish(0);
    until("the packet", || rig.rt.stats().received == 1);
    std::thread::sleep(Duration::from_millis(10));
    assert!(!handovers.is_detached(ticket), "the task is not done");
    go_on.send(()).expect("the task waits");
    until("the hand-over", || handovers.is_detached(ticket));
    let mut said = None;
    until("its message", || {
        match rig.served.server.collect(&mut rig.served.worker_queues[0]).expect("honest") {
            Some(FromApp::Packet(_)) => assert_eq!(said, None, "the frame comes first"),
            other => said = said.take().or(other),
        }
        said == Some(FromApp::Passed(ticket))
    });
    rig.stop();
}

#[test]
fn a_stop_wakes_who_waits_for_it_and_drops_who_does_not_end_in_time() {
    let settings = Settings { grace: Nanos::from_millis(20), ..Settings::default() };
    let rig = start("grace", 2, settings, |rt| async move {
        match rt.worker() {
            Some(0) => std::future::pending().await,
            _ => rt.stopping().await,
        }
    });
    assert!(!rig.rt.is_stopping());
    let ended = rig.stop();
    assert_eq!(ended.results, [Err(JoinError::Cancelled), Ok(())]);
}

#[test]
fn the_end_of_the_attachment_is_the_end_of_the_run_with_the_reason() {
    let rig = start("detached", 2, Settings::default(), |rt| async move {
        let _ = echo(rt).await;
    });
    let words = Detached { reason: DetachReason::Operator, message: "not wanted here".into() };
    assert_eq!(rig.served.peer.send(&Message::Detached(words.clone()), &[]), Ok(true));
    rig.served.server.detach(DetachReason::Operator.number());
    let Rig { served, program, .. } = rig;
    drop(served);
    match program.join().expect("it does not panic") {
        Err(RunError::Detached(detached)) => assert_eq!(detached, words),
        other => panic!("{other:?}"),
    }
    let folder = Folder::new("rt-nobody");
    let error = rt::run(folder.options(), |_| async {}).expect_err("nobody is there");
    assert!(matches!(&error, RunError::Attach(_)), "{error}");
    assert!(error.to_string().contains("is the daemon running?"), "{error}");
}

#[test]
fn wakers_of_other_threads_lose_nothing_while_workers_fall_asleep() {
    /// A channel of one place, woken from a plain thread.
    #[derive(Default)]
    struct OneShot(Mutex<(Option<u32>, Option<std::task::Waker>)>);
    let place = Arc::new(OneShot::default());
    let shared = Arc::clone(&place);
    let (taken, wait): (Sender<u32>, _) = channel();
    let rig = start("wakers", 2, Settings::default(), move |rt| {
        let (place, taken) = (Arc::clone(&shared), taken.clone());
        async move {
            if rt.worker() == Some(1) {
                return;
            }
            let next = || {
                std::future::poll_fn(|context| {
                    let mut place = place.0.lock().expect("nobody panics");
                    place.1 = Some(context.waker().clone());
                    place.0.take().map_or(std::task::Poll::Pending, std::task::Poll::Ready)
                })
            };
            for number in 0..2000 {
                assert_eq!(next().await, number);
                taken.send(number).expect("the test waits");
            }
        }
    });
    for number in 0..2000 {
        let waker = {
            let mut place = place.0.lock().expect("nobody panics");
            place.0 = Some(number);
            place.1.clone()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        let heard = wait.recv_timeout(Duration::from_secs(20));
        assert_eq!(heard, Ok(number), "a wake-up was lost");
    }
    assert_eq!(rig.end().expect("it ends by itself").results, [Ok(()), Ok(())]);
}
