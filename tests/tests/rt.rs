//! Applications of `async fn` against the real daemon, with the Linux kernel as their client.

use std::net::{SocketAddr, UdpSocket as KernelSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use admin::{Command, ReplyBody};
use calisto_client::rt::{self, Ended, JoinError, RunError, Runtime, Settings, UdpSocket};
use calisto_client::{AttachOptions, CoresClass, CoresRequest, Nanos};
use testbed::Testbed;
use whole::{Application, Daemon, Flows, Traffic, answered, bed, wait_for};

const PORT: u16 = 9;
const LISTEN: &str = "udp:10.77.0.2:9";

fn start(bed: &Testbed, more: &str) -> Daemon {
    Daemon::start(bed.server(), &format!("ports = [\"xdp:veth0\"]\n{more}"))
}

/// A program in this very process.
struct Program {
    rt: Runtime,
    thread: JoinHandle<Result<Ended<()>, RunError>>,
}

impl Program {
    fn start<F>(daemon: &Daemon, workers: u32, main: fn(Runtime) -> F) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        Self::start_with(daemon, AttachOptions::new("async").workers(workers), main)
    }

    fn start_with<F>(daemon: &Daemon, options: AttachOptions, main: fn(Runtime) -> F) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        let options = options.socket(daemon.apps_socket()).listen(LISTEN);
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || {
            let tell = std::sync::Mutex::new(tell);
            rt::run_with(options, Settings::default(), |rt| {
                let _ = tell.lock().expect("nobody panics with it").send(rt.clone());
                main(rt)
            })
        });
        let rt = told.recv_timeout(Duration::from_secs(30)).expect("it is let in");
        Self { rt, thread }
    }

    fn stop(self) -> Ended<()> {
        self.rt.shutdown();
        self.thread.join().expect("it does not panic").expect("it stayed attached")
    }
}

async fn echo(rt: Runtime) {
    let mut socket = UdpSocket::bind(&rt, LISTEN).expect("it has attached with it");
    let mut bytes = [0; 2048];
    while let Ok((len, from)) = socket.recv_from(&mut bytes).await {
        socket.send_to(&bytes[..len], from).await.expect("it is an answer");
    }
}

#[test]
fn every_request_is_answered_once_and_in_order_by_the_worker_that_owns_its_flow() {
    let bed = bed();
    let daemon = start(&bed, "");
    let program = Program::start(&daemon, 2, echo);
    let server = SocketAddr::from((bed.server().ipv4(), PORT));
    let flows = bed.client().enter(|| {
        let mut flows = Flows::new(30, "0.0.0.0:0".parse().expect("an address"), server);
        flows.run(100, 4);
        flows
    });
    let flows = flows.expect("the client's namespace is there");
    flows.assert_perfect();
    let explained = daemon.explain("async");
    let by_worker = program.rt.worker_stats();
    for (worker, stats) in explained.workers.iter().zip(&by_worker) {
        assert_eq!(worker.packets, stats.received, "{by_worker:?}");
        assert!(stats.received > 0, "both have flows: {by_worker:?}");
    }
    let ended = program.stop();
    assert_eq!((ended.stats.received, ended.stats.sent), (3000, 3000));
    assert_eq!(ended.results, [Ok(()), Ok(())]);
    daemon.wait_until_gone("async");
}

#[test]
fn workers_sleep_between_packets_and_timers_fire_meanwhile() {
    async fn main(rt: Runtime) {
        let ticks = rt.spawn_local(async {
            let mut interval = rt::interval(Nanos::from_millis(1));
            for _ in 0..50 {
                interval.tick().await;
            }
        });
        echo(rt).await;
        assert_eq!(ticks.await, Ok(()), "they were over before the end");
    }
    let bed = bed();
    let daemon = start(&bed, "");
    let program = Program::start(&daemon, 1, main);
    assert_eq!(answered(&bed, PORT), 100);
    wait_for("all ticks", || match program.rt.stats() {
        stats if stats.timers >= 50 => Ok(()),
        stats => Err(format!("{stats:?}")),
    });
    wait_for("sleep", || {
        let before = program.rt.stats();
        std::thread::sleep(Duration::from_millis(100));
        let after = program.rt.stats();
        if after == before { Ok(()) } else { Err(format!("{after:?}")) }
    });
    assert_eq!(answered(&bed, PORT), 100, "and are woken");
    let ended = program.stop();
    assert!(ended.stats.parks > 50, "{:?}", ended.stats);
    assert_eq!(ended.results, [Ok(())]);
}

static RELEASED: AtomicBool = AtomicBool::new(false);
static DONE_BY_OTHERS: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_task_that_never_gives_way_is_counted_and_others_do_what_waits_behind_it() {
    async fn main(rt: Runtime) {
        if rt.worker() == Some(0) {
            for _ in 0..100 {
                let inner = rt.clone();
                drop(rt.spawn(async move {
                    let is_elsewhere = inner.worker() == Some(1);
                    DONE_BY_OTHERS.fetch_add(usize::from(is_elsewhere), Ordering::Relaxed);
                }));
            }
            drop(rt.spawn_local_named("stuck", async {
                while !RELEASED.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                    std::thread::yield_now();
                }
            }));
        }
        echo(rt).await;
    }
    let bed = bed();
    let daemon = start(&bed, "");
    let program = Program::start(&daemon, 2, main);
    wait_for("the watchdog and the thief", || {
        let (stats, done) = (program.rt.stats(), DONE_BY_OTHERS.load(Ordering::Relaxed));
        let is_seen = program.rt.long_polls().iter().any(|poll| poll.site.name == Some("stuck"));
        if is_seen && done > 0 && stats.tasks_stolen > 0 {
            Ok(())
        } else {
            Err(format!("{stats:?}"))
        }
    });
    // The flows of worker 1 are served; those of worker 0 wait for it.
    let server = SocketAddr::from((bed.server().ipv4(), PORT));
    let sockets = bed.client().enter(|| {
        let sockets: Vec<_> = (0..20)
            .map(|_| {
                let socket = KernelSocket::bind("0.0.0.0:0").expect("a port is free");
                socket.connect(server).expect("the wire leads there");
                socket.set_nonblocking(true).expect("it can be");
                socket.send(b"hello").expect("the wire is there");
                socket
            })
            .collect();
        sockets
    });
    let sockets = sockets.expect("the client's namespace is there");
    let mut heard = 0;
    let mut hear = || {
        let mut bytes = [0; 16];
        heard += sockets.iter().filter(|socket| socket.recv(&mut bytes).is_ok()).count();
        heard
    };
    wait_for("answers of worker 1", || if hear() > 0 { Ok(()) } else { Err("none".into()) });
    RELEASED.store(true, Ordering::Release);
    wait_for("all answers", || if hear() == 20 { Ok(()) } else { Err("some".into()) });
    let ended = program.stop();
    assert!(ended.stats.long_polls >= 1);
    assert_eq!(ended.results, [Ok(()), Ok(())]);
}

#[test]
fn flows_that_move_from_worker_to_worker_stay_in_order() {
    let bed = bed();
    let daemon = start(&bed, "[apps]\ngroups = 128\n");
    let program = Program::start(&daemon, 2, echo);
    let traffic = Traffic::start(&bed, PORT, 40);
    for policy in ["modulo", "sticky", "calisto", "modulo"] {
        daemon.calisto(&format!("steer set {policy} --app async"));
        std::thread::sleep(Duration::from_millis(200));
    }
    traffic.end();
    let ended = program.stop();
    assert_eq!(ended.stats.dropped_full + ended.stats.dropped_stray, 0);
    assert_eq!(ended.results, [Ok(()), Ok(())]);
}

#[test]
fn an_operators_detach_ends_the_run_and_tasks_that_waited_are_cancelled() {
    async fn main(rt: Runtime) {
        let forever = rt.spawn(std::future::pending::<()>());
        echo(rt).await;
        drop(forever);
    }
    let bed = bed();
    let daemon = start(&bed, "");
    let program = Program::start(&daemon, 2, main);
    let waits = program.rt.spawn(std::future::pending::<()>());
    daemon.calisto("apps detach async");
    let ended = program.thread.join().expect("it does not panic");
    let Err(RunError::Detached(why)) = ended else { panic!("{ended:?}") };
    assert!(why.to_string().contains("operator"), "{why}");
    assert!(waits.is_finished());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let result = std::pin::pin!(waits).poll(&mut context);
    assert_eq!(result, std::task::Poll::Ready(Err(JoinError::Cancelled)));
}

#[test]
fn on_granted_cores_packets_timers_and_wakers_bring_a_core_and_silence_gives_it_back() {
    async fn main(rt: Runtime) {
        for _ in 0..5 {
            rt::sleep(Nanos::from_millis(5)).await;
        }
        echo(rt).await;
    }
    let bed = bed();
    let daemon = start(&bed, "[cores]\nset = [1]\n");
    let terms =
        CoresRequest { guaranteed: 1, burst: None, class: CoresClass::Latency, queue_delay_us: 0 };
    let options = AttachOptions::new("async").workers(2).cores(terms);
    let program = Program::start_with(&daemon, options, main);
    let is_idle = || {
        wait_for("an idle core", || match daemon.ask(Command::Cores) {
            ReplyBody::Cores(cores) if cores.cores.iter().all(|core| core.state == "idle") => {
                Ok(())
            }
            other => Err(format!("{other:?}")),
        });
    };
    is_idle();
    for _ in 0..3 {
        assert_eq!(answered(&bed, PORT), 100);
        is_idle();
    }
    for number in 0..20 {
        let task = program.rt.spawn(async move { number });
        wait_for("its end", || if task.is_finished() { Ok(()) } else { Err("it runs".into()) });
    }
    is_idle();
    assert!(program.rt.stats().timers >= 10, "five of each worker");
    let ended = program.stop();
    assert_eq!(ended.results, [Ok(()), Ok(())]);
}

#[test]
fn the_example_keeps_values_and_ends_at_ctrl_c() {
    let bed = bed();
    let daemon = start(&bed, "");
    let program =
        Application::start(&daemon, &format!("udp-kv --listen {LISTEN} --workers 2 --keys 2"));
    let server = SocketAddr::from((bed.server().ipv4(), PORT));
    let socket = bed.client().enter(|| KernelSocket::bind("0.0.0.0:0").expect("a port is free"));
    let socket = Arc::new(socket.expect("the client's namespace is there"));
    socket.connect(server).expect("the wire leads there");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("no zero");
    for (request, answer) in [
        ("get city", "none"),
        ("set city New York", "ok"),
        ("get city\n", "New York"),
        ("set one 1", "ok"),
        ("set two 2", "full"),
        ("set one 0", "ok"),
        ("del one", "ok"),
        ("del one", "none"),
        ("", "what?"),
        ("put it", "what?"),
    ] {
        socket.send(request.as_bytes()).expect("the wire is there");
        let mut bytes = [0; 64];
        let len = socket.recv(&mut bytes).expect("it answers");
        assert_eq!(std::str::from_utf8(&bytes[..len]), Ok(answer), "{request}");
    }
    let ended = program.stop();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(ended.out.trim(), "10 requests, 10 answers");
}
