//! `calisto top` in a real terminal, that of tmux: what it shows, its keys, its end.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use whole::{Application, Daemon, answered, bed, binary, run, wait_for};

/// A tmux server of our own with one window; ended when it drops.
struct Terminal {
    name: String,
    folder: std::path::PathBuf,
}

impl Terminal {
    /// A window of that size in which the shell runs `script`; in it, `$calisto` is the program and
    /// `$CALISTO_ADMIN` the daemon's socket.
    fn start(daemon: &Daemon, (width, height): (u16, u16), script: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("calisto-test-{}-{number}", std::process::id());
        let terminal = Self { name, folder: daemon.folder().to_owned() };
        let mut command = terminal.command();
        command.args(["-f", "/dev/null", "new-session", "-d"]);
        command.args(["-x", &width.to_string(), "-y", &height.to_string(), script]);
        command.env("CALISTO_ADMIN", daemon.socket()).env("calisto", binary("calisto"));
        let (status, _, said) = run(&mut command);
        assert!(status.success(), "this test needs tmux: {said}");
        terminal
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        // Its socket goes with the daemon's folder; a tmux that we run in is none of its business.
        command.env("TMUX_TMPDIR", &self.folder).env_remove("TMUX").env("LC_ALL", "C.UTF-8");
        command.args(["-u", "-L", &self.name]);
        command
    }

    fn tell(&self, words: &[&str]) -> String {
        let (status, out, said) = run(self.command().args(words));
        assert!(status.success(), "tmux {words:?}: {said}");
        out
    }

    /// What stands on it, line by line.
    fn screen(&self) -> String {
        self.tell(&["capture-pane", "-p"])
    }

    fn press(&self, key: &str) {
        self.tell(&["send-keys", key]);
    }

    fn resize(&self, width: u16, height: u16) {
        self.tell(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
    }

    /// Waits until the screen is like that. It may be caught half drawn, so all is looked for at
    /// once.
    fn wait_for(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        wait_for(what, || {
            let screen = self.screen();
            if is_so(&screen) { Ok(screen) } else { Err(screen) }
        })
    }

    /// Waits until all of these stand on it.
    fn wait_until_it_shows(&self, parts: &[&str]) -> String {
        self.wait_for(&format!("{parts:?}"), |screen| has_all(screen, parts))
    }

    /// Waits until it is filled, down to the keys on its last line, and shows all of these.
    fn wait_until_full(&self, lines: usize, parts: &[&str]) {
        self.wait_for(&format!("{lines} lines with {parts:?}"), |screen| {
            let last = screen.lines().nth(lines - 1);
            last.is_some_and(|line| line.starts_with("q leave")) && has_all(screen, parts)
        });
    }

    /// Waits until this does not stand on it any more.
    fn wait_until_it_lacks(&self, part: &str) {
        self.wait_for(&format!("a screen without {part}"), |screen| !screen.contains(part));
    }

    /// Waits until there is no tmux any more.
    fn wait_until_it_has_ended(&self) {
        wait_for("the end of tmux", || {
            let (status, out, _) = run(self.command().args(["capture-pane", "-p"]));
            if status.success() { Err(out) } else { Ok(()) }
        });
    }

    /// What tmux knows of it.
    fn fact(&self, name: &str) -> String {
        self.tell(&["display-message", "-p", &format!("#{{{name}}}")]).trim().to_owned()
    }

    /// The process that the shell has started.
    fn program(&self) -> Pid {
        let shell = self.fact("pane_pid");
        let children = format!("/proc/{shell}/task/{shell}/children");
        wait_for("the shell's child", || {
            let children = std::fs::read_to_string(&children).expect("the shell is there");
            let first = children.split(' ').next().and_then(|pid| pid.parse().ok());
            first.and_then(Pid::from_raw).ok_or(children)
        })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended already, or this ends it.
        let _ = self.command().arg("kill-server").output();
    }
}

fn has_all(screen: &str, parts: &[&str]) -> bool {
    parts.iter().all(|part| screen.contains(part))
}

#[test]
fn it_shows_the_daemon_and_its_packets_in_every_size_and_leaves() {
    let bed = bed();
    let daemon = Daemon::with_small_tables(bed.server(), "sticky");
    let terminal = Terminal::start(&daemon, (80, 24), "exec $calisto top --interval 100ms");
    let process = format!("process {}", daemon.pid());
    terminal.wait_until_full(24, &[&process, "steering sticky", "calistod", "dispatcher"]);
    wait_for("packets on the screen", || {
        answered(&bed, 7);
        let screen = terminal.screen();
        let line = screen.lines().find(|line| line.starts_with("received/s")).unwrap_or_default();
        let rate = line.split_whitespace().nth(1).unwrap_or("0");
        if rate.starts_with(|digit: char| digit.is_ascii_digit() && digit != '0') {
            Ok(())
        } else {
            Err(screen)
        }
    });

    terminal.resize(150, 40);
    terminal.wait_until_full(40, &[&process, "sent/s", "worker 1"]);
    terminal.press("q");
    terminal.wait_until_it_has_ended();
}

#[test]
fn a_resize_and_a_key_are_answered_at_once_not_with_the_next_look() {
    let bed = bed();
    let daemon = Daemon::with_small_tables(bed.server(), "sticky");
    let terminal = Terminal::start(&daemon, (80, 24), "exec $calisto top --interval 60s");
    terminal.wait_until_full(24, &["steering sticky"]);
    terminal.resize(150, 40);
    terminal.wait_until_full(40, &["sent/s", "worker 1"]);
    terminal.resize(30, 8);
    terminal.wait_until_it_shows(&["needs 40 x 10,", "has 30 x 8"]);
    terminal.resize(80, 24);
    terminal.wait_until_full(24, &["steering sticky"]);
    terminal.press("?");
    terminal.wait_until_it_shows(&["any key takes this away"]);
    terminal.press("q");
    terminal.wait_until_it_has_ended();
}

#[test]
fn the_keys_sort_pause_and_explain() {
    let bed = bed();
    let daemon = Daemon::with_small_tables(bed.server(), "sticky");
    let terminal = Terminal::start(&daemon, (80, 24), "exec $calisto top --interval 100ms");
    terminal.wait_until_it_shows(&["sorted by packets"]);
    terminal.press("s");
    terminal.wait_until_it_shows(&["sorted by delay"]);
    terminal.press("p");
    terminal.wait_until_it_shows(&["PAUSED", "p go on"]);
    daemon.must(admin::Command::SteerSet { policy: "modulo".to_owned() });
    // Another one looks twice meanwhile, with a longer time between.
    assert!(daemon.calisto("top --once --interval 500ms").contains("steering modulo"));
    // A key is answered, and still the view is the old one.
    terminal.press("s");
    terminal.wait_until_it_shows(&["sorted by cores", "steering sticky"]);
    terminal.press("p");
    terminal.wait_until_it_shows(&["steering modulo"]);
    terminal.press("?");
    terminal.wait_until_it_shows(&["Ctrl-C  leave"]);
    terminal.press("Escape");
    terminal.wait_until_it_lacks("Ctrl-C  leave");
    terminal.press("C-c");
    terminal.wait_until_it_has_ended();
}

#[test]
fn it_outlives_the_daemon_and_gives_the_terminal_back_when_it_is_told_to_end() {
    let bed = bed();
    let mut daemon = Daemon::with_small_tables(bed.server(), "sticky");
    let script = "$calisto top --interval 100ms; echo ended with $?; stty -a; exec sleep 100";
    let terminal = Terminal::start(&daemon, (100, 30), script);
    terminal.wait_until_it_shows(&["steering sticky"]);
    assert_eq!(terminal.fact("alternate_on"), "1");

    daemon.signal(Signal::STOP);
    terminal.wait_until_it_shows(&["has not answered for", "still waiting"]);
    terminal.press("?");
    terminal.wait_until_it_shows(&["any key takes this away"]);
    terminal.press("x");
    daemon.signal(Signal::CONT);
    terminal.wait_until_it_lacks("has not answered for");

    daemon.kill();
    terminal.wait_until_it_shows(&["lost, trying again: no daemon listens at"]);
    daemon.start_again(bed.server());
    terminal.wait_until_it_shows(&["started again once", "steering sticky"]);

    kill_process(terminal.program(), Signal::TERM).expect("it runs");
    let screen = terminal.wait_until_it_shows(&["ended with 0", "icanon"]);
    for off in ["-icanon", "-echo ", "-isig"] {
        assert!(!screen.contains(off), "{off}: {screen}");
    }
    assert_eq!(terminal.fact("alternate_on"), "0");
    assert_eq!(terminal.fact("cursor_flag"), "1", "the cursor is shown");
}

/// A process that nobody ends if it does not end by itself.
struct Orphan(Pid);

impl Drop for Orphan {
    fn drop(&mut self) {
        // Otherwise it has ended, and its number may be another's.
        if std::thread::panicking() {
            let _ = kill_process(self.0, Signal::KILL);
        }
    }
}

#[test]
fn a_terminal_that_is_hung_up_ends_it_even_if_it_was_told_to_ignore_that() {
    let bed = bed();
    let daemon = Daemon::with_small_tables(bed.server(), "sticky");
    let script = "trap '' HUP; exec $calisto top --interval 60s";
    let terminal = Terminal::start(&daemon, (80, 24), script);
    terminal.wait_until_full(24, &["steering sticky"]);
    let pid = terminal.fact("pane_pid");
    let stat = format!("/proc/{pid}/stat");
    let _orphan = Orphan(pid.parse().ok().and_then(Pid::from_raw).expect("a process has a number"));
    drop(terminal);
    wait_for("its end", || match std::fs::read_to_string(&stat) {
        // Nobody may have waited for it yet.
        Ok(stat) if !stat.contains(") Z ") => Err(stat),
        _ => Ok(()),
    });
}

#[test]
fn without_a_terminal_it_prints_a_screen_or_lines() {
    let bed = bed();
    let daemon = Daemon::with_small_tables(bed.server(), "sticky");
    let (status, out, said) = daemon.try_calisto("top");
    assert_eq!((status.code(), out.as_str()), (Some(2), ""));
    assert!(said.contains("--once") && said.contains("-j"), "{said}");
    let screen = daemon.calisto("top --once --interval 100ms");
    for part in ["steering sticky", "worker 1", "drops and punts"] {
        assert!(screen.contains(part), "{part} is not in\n{screen}");
    }
    assert!(!screen.contains('\u{1b}') && !screen.contains("q leave"), "{screen}");
    let lines = daemon.calisto("top -j --count 2 --interval 100ms");
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert_eq!(daemon.calisto("top -j --once --interval 100ms").lines().count(), 1);
    for line in lines.lines() {
        let view: serde_json::Value = serde_json::from_str(line).expect(line);
        assert_eq!((&view["schema_version"], &view["policy"]), (&1.into(), &"sticky".into()));
        assert!(view["received_per_s"].is_number(), "the first line has rates already: {line}");
    }
}

#[test]
fn it_shows_the_core_that_is_given_out_and_who_may_have_it() {
    let bed = bed();
    let config = "ports = [\"xdp:veth0\"]\nlisten = [\"udp:10.77.0.2:7\"]\n[cores]\nset = [1]\n";
    let daemon = Daemon::start(bed.server(), config);
    let words = "udp-echo --listen udp:10.77.0.2:9 --name nine --cores 1 --workers 2";
    let _nine = Application::start(&daemon, words);
    let terminal = Terminal::start(&daemon, (80, 24), "exec $calisto top --interval 100ms");
    terminal.wait_until_full(24, &["cores packing every", "cores in use", "of   1", "nine"]);
    terminal.wait_until_it_shows(&["  1 idle"]);
    wait_for("a grant on the screen", || {
        answered(&bed, 9);
        let screen = terminal.screen();
        let moves = screen.lines().find(|line| line.starts_with("grants/s")).unwrap_or_default();
        if moves.is_empty() || moves.starts_with("grants/s 0 ") || moves.starts_with("grants/s - ")
        {
            return Err(screen);
        }
        Ok(())
    });
    let table = daemon.calisto("cores");
    assert!(table.contains("policy packing") && table.contains("nine"), "{table}");
    daemon.calisto("cores set static_set");
    assert!(daemon.calisto("cores").contains("policy static_set"));
    terminal.wait_until_it_shows(&["cores static_set every"]);
}

#[test]
fn a_daemon_that_gives_out_no_cores_says_so_and_refuses_a_policy_for_them() {
    let bed = bed();
    let daemon = Daemon::with_small_tables(bed.server(), "sticky");
    assert!(daemon.calisto("cores").contains("no cores are given out"));
    assert!(daemon.calisto("cores -j").contains("\"enabled\":false"));
    let (status, _, said) = daemon.try_calisto("cores set static_set");
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("cores.set"), "{said}");
}
