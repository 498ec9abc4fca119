//! Batch jobs on left-over cores: they get them, give them back at once, and leave nothing behind.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use calisto_client::{App, AttachOptions, CoresRequest, Nanos};
use rustix::process::Signal;
use testbed::Testbed;
use whole::{Daemon, bed, beside, binary, run, wait_for};

/// The CPU that the daemon gives out.
const CORE: usize = 1;

/// One test at a time: a job of the idle class gets nothing beside another test's threads.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A daemon that gives out one core.
fn start(bed: &Testbed) -> Daemon {
    let config = format!(
        "ports = [\"xdp:veth0\"]\nlisten = [\"udp:10.77.0.2:7\"]\n[cores]\nset = [{CORE}]\n"
    );
    Daemon::start(bed.server(), &config)
}

/// A job under `calisto run --batch`, with what it prints.
struct Job {
    runner: Child,
    out: BufReader<ChildStdout>,
}

impl Job {
    /// Starts a shell that runs `script`.
    fn start(daemon: &Daemon, script: &str) -> Self {
        let mut command = runner(daemon, &["-v"], script);
        let mut runner = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("calisto is there");
        let out = BufReader::new(runner.stdout.take().expect("it is piped"));
        Self { runner, out }
    }

    /// One that says its process id and then uses all the CPU time that it can get; that id.
    fn spin(daemon: &Daemon) -> (Self, u32) {
        let mut job = Self::start(daemon, "echo $$; while :; do :; done");
        let pid = job.line().parse().expect("the shell says its number");
        (job, pid)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("the job prints text");
        line.trim().to_owned()
    }

    fn signal(&self, signal: Signal) {
        let pid = rustix::process::Pid::from_raw(self.runner.id().cast_signed());
        let pid = pid.expect("a child has a process id");
        rustix::process::kill_process(pid, signal).expect("it is our child");
    }

    /// Waits for its end; how it ended, and what it said.
    fn end(mut self) -> (ExitStatus, String) {
        let status = wait_for("the end of the runner", || {
            self.runner.try_wait().expect("it is our child").ok_or_else(|| "it runs".to_owned())
        });
        let mut said = String::new();
        let mut stderr = self.runner.stderr.take().expect("it is piped");
        stderr.read_to_string(&mut said).expect("it says text");
        (status, said)
    }

    /// Its freezer's group, by whatever hierarchy; none: it is stopped by signals.
    fn group(&self) -> Option<PathBuf> {
        find_group(self.runner.id())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.runner.kill();
        let _ = self.runner.wait();
    }
}

fn runner(daemon: &Daemon, options: &[&str], script: &str) -> Command {
    let mut command = Command::new(binary("calisto"));
    command.args(["run", "--batch"]).args(options).arg("--socket").arg(daemon.apps_socket());
    command.args(["--", "sh", "-c", script]);
    command
}

fn find_group(runner: u32) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("proc is mounted");
    let groups = fs::read_to_string("/proc/self/cgroup").expect("proc is mounted");
    let places: Vec<&str> = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2)).collect();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    points
        .filter(|point| point.starts_with("/sys/fs/cgroup"))
        .flat_map(|point| places.iter().map(move |place| format!("{point}{place}")))
        .map(|parent| PathBuf::from(parent).join(format!("calisto-run-{runner}")))
        .find(|path| path.exists())
}

/// A field of /proc/PID/status; nothing when the process has gone.
fn status(pid: u32, field: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// Clock ticks of CPU time that a process has used, and its scheduling class.
fn used(pid: u32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let (_, fields) = text.rsplit_once(')').expect("the name is in brackets");
    let fields: Vec<u64> =
        fields.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect();
    // Fields 14, 15 and 41 of proc_pid_stat(5); the first here is field 4.
    (fields[10] + fields[11], fields[37])
}

/// Waits until the process uses CPU time (or stands still, without).
fn until_it(pid: u32, runs: bool) {
    wait_for(if runs { "the job runs" } else { "the job stands still" }, || {
        let before = used(pid).0;
        std::thread::sleep(Duration::from_millis(60));
        let after = used(pid).0;
        if (after > before) == runs { Ok(()) } else { Err(format!("{before} to {after} ticks")) }
    });
}

/// Waits until there is no such process.
fn until_gone(pid: u32) {
    wait_for("the end of the job", || match status(pid, "State") {
        Some(state) if !state.starts_with('Z') => Err(state),
        _ => Ok(()),
    });
}

/// A latency-critical application of this process, which holds a core for as long as `test` takes.
fn with_the_core_taken(daemon: &Daemon, test: impl FnOnce()) {
    let cores = CoresRequest { guaranteed: 1, ..latency() };
    let options = AttachOptions::new("critical").socket(daemon.apps_socket());
    let options = options.listen("udp:10.77.0.2:9").cores(cores);
    let (_app, mut workers) = App::attach(&options).expect("it is let in");
    let mut worker = workers.remove(0);
    let has_core = AtomicBool::new(false);
    let holding = |is_over: &AtomicBool| {
        // Working on, it keeps it.
        assert_eq!(worker.claim_core(Nanos::from_secs(20)), Ok(true));
        assert_eq!(worker.core(), Some(CORE as u16));
        has_core.store(true, Ordering::Release);
        while !is_over.load(Ordering::Acquire) {
            worker.step(calisto_client::reply::echo).expect("the daemon lives");
        }
    };
    beside(holding, || {
        wait_for("the core", || {
            if has_core.load(Ordering::Acquire) { Ok(()) } else { Err("not yet".to_owned()) }
        });
        test();
    });
}

fn latency() -> CoresRequest {
    CoresRequest {
        guaranteed: 0,
        burst: Some(1),
        class: calisto_client::CoresClass::Latency,
        queue_delay_us: 0,
    }
}

#[test]
fn a_job_gets_the_idle_core_loses_it_to_who_needs_it_and_has_it_back_after() {
    let (_alone, bed) = (alone(), bed());
    let daemon = start(&bed);
    let (job, pid) = Job::spin(&daemon);
    assert_eq!(status(pid, "Cpus_allowed_list"), Some(CORE.to_string()));
    assert_eq!(used(pid).1, 5, "SCHED_IDLE");
    until_it(pid, true);
    for _ in 0..2 {
        with_the_core_taken(&daemon, || until_it(pid, false));
        until_it(pid, true);
        assert_eq!(status(pid, "Cpus_allowed_list"), Some(CORE.to_string()));
    }
    let group = job.group();
    job.signal(Signal::TERM);
    let (status, said) = job.end();
    assert_eq!(status.code(), Some(128 + Signal::TERM.as_raw()), "{said}");
    assert!(said.contains("3 granted, 2 revoked, 2 times stopped"), "{said}");
    until_gone(pid);
    assert!(group.is_none_or(|path| !path.exists()));
    let apps = daemon.apps();
    let left = apps.iter().find(|app| app.name.starts_with("sh-")).expect("it was attached");
    daemon.wait_until_gone(&left.name);
}

#[test]
fn input_output_signals_and_the_exit_code_are_the_programs_own() {
    let (_alone, bed) = (alone(), bed());
    let daemon = start(&bed);
    let script = "trap 'echo hup; exit 7' HUP; echo ready; while :; do sleep 0.01; done";
    let mut job = Job::start(&daemon, script);
    assert_eq!(job.line(), "ready");
    job.signal(Signal::HUP);
    assert_eq!(job.line(), "hup");
    assert_eq!(job.end().0.code(), Some(7));

    let mut command = runner(&daemon, &["-j", "--name", "mine"], "cat; exit 3");
    command.stdin(fs::File::open("/proc/self/cmdline").expect("proc is mounted"));
    let (status, out, said) = run(&mut command);
    assert_eq!(status.code(), Some(3), "{said}");
    assert_eq!(out.as_bytes(), fs::read("/proc/self/cmdline").expect("proc is mounted"));
    let report: serde_json::Value = serde_json::from_str(said.trim()).expect("one line of JSON");
    assert_eq!((&report["name"], &report["exit_code"]), (&"mine".into(), &3.into()));
    assert!(report["grants"].as_u64() >= Some(1), "{report}");

    for (words, code) in [(["no-such-program"], 127), (["/etc/passwd"], 126)] {
        let mut command = Command::new(binary("calisto"));
        command.args(["run", "--batch", "--socket"]).arg(daemon.apps_socket()).arg("--");
        let (status, _, said) = run(command.args(words));
        assert_eq!(status.code(), Some(code), "{said}");
        assert!(said.contains(&format!("cannot start `{}`", words[0])), "{said}");
    }
}

#[test]
fn what_a_job_leaves_running_gets_everything_back() {
    let (_alone, bed) = (alone(), bed());
    let daemon = start(&bed);
    let own = status(std::process::id(), "Cpus_allowed_list");
    let mut job = Job::start(&daemon, "sleep 1000 >/dev/null 2>&1 & echo $!");
    let pid = job.line().parse().expect("the shell says its child's number");
    let (ended, said) = job.end();
    assert!(ended.success(), "{said}");
    assert_eq!(status(pid, "Cpus_allowed_list"), own);
    assert_eq!(used(pid).1, 0, "SCHED_OTHER");
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a real process");
    rustix::process::kill_process(pid, Signal::KILL).expect("it sleeps");
}

#[test]
fn a_killed_runner_takes_its_program_with_it_and_leaves_nothing_frozen() {
    let (_alone, bed) = (alone(), bed());
    let daemon = start(&bed);
    let script = "sh -c 'echo $$; while :; do sleep 0.01; done' & echo $$; while :; do :; done";
    let mut job = Job::start(&daemon, script);
    let mut pids: Vec<u32> = (0..2).map(|_| job.line().parse().expect("a number")).collect();
    // The grandchild's parent is the program; which line comes first is chance.
    let grandchild = usize::from(status(pids[1], "PPid") == Some(pids[0].to_string()));
    let grandchild = pids.remove(grandchild);
    let program = pids.remove(0);
    let group = job.group();
    let own = status(std::process::id(), "Cpus_allowed_list");
    with_the_core_taken(&daemon, || {
        until_it(program, false);
        job.signal(Signal::KILL);
        until_gone(program);
        // It goes on as any orphan does: where it could run before us, in no group of ours.
        wait_for("the grandchild's CPUs", || match status(grandchild, "Cpus_allowed_list") {
            cpus if cpus == own => Ok(()),
            cpus => Err(format!("{cpus:?}")),
        });
        wait_for("the end of the group", || match &group {
            Some(path) if path.exists() => Err(path.display().to_string()),
            _ => Ok(()),
        });
        until_it(grandchild, true);
    });
    let pid = rustix::process::Pid::from_raw(grandchild.cast_signed()).expect("a real process");
    rustix::process::kill_process(pid, Signal::KILL).expect("it runs");
}

#[test]
fn a_job_goes_on_when_its_daemon_ends() {
    let (_alone, bed) = (alone(), bed());
    let mut daemon = start(&bed);
    let own = status(std::process::id(), "Cpus_allowed_list");
    let (job, pid) = Job::spin(&daemon);
    daemon.kill();
    wait_for("its CPUs", || match status(pid, "Cpus_allowed_list") {
        cpus if cpus == own => Ok(()),
        cpus => Err(format!("{cpus:?}")),
    });
    assert_eq!(used(pid).1, 5, "still SCHED_IDLE");
    until_it(pid, true);
    job.signal(Signal::INT);
    let (status, said) = job.end();
    assert_eq!(status.code(), Some(128 + Signal::INT.as_raw()), "{said}");
    assert_eq!(said.matches("the job goes on where it could run before").count(), 1, "{said}");
}

#[test]
fn without_a_daemon_or_without_cores_to_give_it_says_what_to_do() {
    let (_alone, bed) = (alone(), bed());
    let mut daemon =
        Daemon::start(bed.server(), "ports = [\"xdp:veth0\"]\nlisten = [\"udp:10.77.0.2:7\"]\n");
    let refused = |daemon: &Daemon| {
        let (status, _, said) = run(&mut runner(daemon, &[], "echo never"));
        assert_eq!(status.code(), Some(1), "{said}");
        said
    };
    let said = refused(&daemon);
    assert!(said.contains("gives out no cores") && said.contains("cores.set"), "{said}");
    daemon.signal(Signal::TERM);
    daemon.wait();
    let said = refused(&daemon);
    assert!(said.contains("calisto up"), "{said}");
}
