//! Another user of the same host: many busy programs, and attachments without an end.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use attach::{Link, Profile as Wanted, SocketsRequest};
use rustix::process::{Gid, Uid};
use testbed::AttackCounts;

use super::scene::{length, play, print, stacks};
use super::servers::Program;
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::report::Report;
use crate::running::Running;
use crate::sockets::accelerated::Profile;
use crate::sockets::programs::{Compiled, ECHO_ASK, EPOLL_ECHO};

/// A user without rights.
const NOBODY: u32 = 65_534;

/// Programs of that user.
const PROGRAMS: usize = 60;

/// Where their server is, at the client's end.
const PORT: u16 = 7100;

/// Those that attach and leave again, and connections that say nothing.
const ATTACHING: usize = 4;
const STRANGERS: usize = 64;

/// What a daemon may write into its log while a user tries to make it write much.
const LOG_KIB_PER_S: f64 = 16.0;

pub(super) fn programs(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let crowd = plan.pick(PROGRAMS, 8);
    report.begin(
        "programs",
        &format!(
            "redis-server of root, and {crowd} programs of another user on the same CPU, each of which \
             asks an echo server at the other end as fast as it is answered; beside them 8 honest \
             clients of redis-server with 1000 requests a second"
        ),
    )?;
    let (asks, echo) = (Compiled::new(ECHO_ASK)?, Compiled::new(EPOLL_ECHO)?);
    everybody_may_read(asks.path())?;
    // What a client has closed keeps its port for as long, and with it a descriptor.
    let stacks = stacks(plan, "[tcp]\ntime_wait_ms = 100\n")?;
    let [ours, linux] = turns_of(plan, report, "redis-server", |which, _| {
        let stack = &stacks[which];
        stack.let_everybody_attach()?;
        let there = stack.client().ipv4().to_string();
        let mut command = stack.client().command(echo.path());
        command.args([&there, &PORT.to_string()]);
        let _echo = Running::start(command, plan.cpus.client)?;
        let mut served = Program::Redis.start(stack)?;
        play(plan, stack, &mut served, &mut |_, is_over| {
            let millis = length(plan).as_millis().to_string();
            let start = |_| {
                let mut command = stack.command_as(NOBODY, Profile::Latency, asks.path())?;
                command.args([&there, &PORT.to_string(), &millis]);
                Running::start(command, plan.cpus.server)
            };
            let crowd = (0..crowd).map(start).collect::<Result<Vec<Running>, Error>>()?;
            wait(length(plan), is_over);
            Ok(AttackCounts { opened: crowd.len() as u64, ..AttackCounts::default() })
        })
    })?;
    print(report, "redis-server", &ours, &linux)
}

pub(super) fn attaching(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    report.begin(
        "attaching",
        &format!(
            "redis-server of root, and another user with {ATTACHING} threads that attach and leave \
             again without a pause and {STRANGERS} connections to the daemon that say nothing; beside \
             them 8 honest clients of redis-server with 1000 requests a second. Linux has no such thing: \
             there it is left in peace"
        ),
    )?;
    let stacks = stacks(plan, "")?;
    let mut logs = Vec::new();
    let [ours, linux] = turns_of(plan, report, "redis-server", |which, _| {
        let stack = &stacks[which];
        stack.let_everybody_attach()?;
        let mut served = Program::Redis.start(stack)?;
        let before = stack.log_bytes()?;
        let mut spent = Duration::ZERO;
        let outcome = play(plan, stack, &mut served, &mut |_, is_over| {
            spent += length(plan);
            let Some(socket) = stack.attach_socket() else {
                wait(length(plan), is_over);
                return Ok(AttackCounts::default());
            };
            let until = || wait(length(plan), is_over);
            as_nobody(|| attach_and_say_nothing(&socket, until))
        })?;
        if stack.daemon().is_some() {
            logs.push((stack.log_bytes()? - before) as f64 / 1024.0 / spent.as_secs_f64());
        }
        Ok(outcome)
    })?;
    print(report, "redis-server", &ours, &linux)?;
    let log = Figure::new("the daemon's log", "KiB/s", &logs);
    report.figure(log.target(Target::AtMost(LOG_KIB_PER_S)))
}

/// Attaches and says nothing until `wait` has ended: connections, and those that were taken.
fn attach_and_say_nothing(socket: &Path, wait: impl FnOnce()) -> AttackCounts {
    let (is_over, tried, taken) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..ATTACHING {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    tried.fetch_add(1, Ordering::Relaxed);
                    let request = SocketsRequest {
                        name: "loop".to_owned(),
                        profile: Wanted::default(),
                        features: 0,
                        token_before: None,
                    };
                    let attached = Link::connect(socket).and_then(|link| link.stream(&request));
                    taken.fetch_add(u64::from(attached.is_ok()), Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            let mut strangers: Vec<Option<Link>> = (0..STRANGERS).map(|_| None).collect();
            while !is_over.load(Ordering::Relaxed) {
                for stranger in &mut strangers {
                    if stranger.as_ref().is_none_or(Link::is_closed) {
                        *stranger = Link::connect(socket).ok();
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        wait();
        is_over.store(true, Ordering::Relaxed);
    });
    AttackCounts { opened: tried.into_inner(), accepted: taken.into_inner(), ..Default::default() }
}

/// Waits, at most until somebody wants an end.
fn wait(length: Duration, is_over: &AtomicBool) {
    let began = Instant::now();
    while began.elapsed() < length
        && !is_over.load(Ordering::Relaxed)
        && !sys::signal::stop_requested()
    {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs `work` on a thread of [`NOBODY`], whose threads are that user's too.
fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Error> {
    let become_nobody = || {
        let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        rustix::thread::set_thread_gid(group)?;
        rustix::thread::set_thread_res_uid(user, user, user)
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            become_nobody().or_needs("thread of another user")?;
            Ok(work())
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn everybody_may_read(program: &Path) -> Result<(), Error> {
    let folder = program.parent().ok_or("it has no folder").or_needs("program")?;
    let everybody = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder, everybody).or_needs("program for another user")
}
