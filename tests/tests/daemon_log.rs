//! The daemon's log as operators and their tools read it: structured, with levels that change live.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::Value;
use testbed::{Testbed, TestbedConfig};
use whole::{binary, run, wait_for};

/// A daemon whose output is kept, all of it.
struct Logged {
    child: Child,
    folder: PathBuf,
}

impl Logged {
    fn start(name: &str, log: &str, command: impl FnOnce(&Path) -> Command) -> Self {
        let folder =
            std::env::temp_dir().join(format!("calisto-log-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("the temporary folder is ours");
        let mut logged = command(&folder);
        let child = {
            let file = |name: &str| File::create(folder.join(name)).expect("it is ours");
            fs::write(folder.join("calisto.toml"), Self::config(&folder, log)).expect("ours");
            logged.arg("--config").arg(folder.join("calisto.toml"));
            logged.stdout(file("out")).stderr(file("said")).spawn().expect("it is there")
        };
        let logged = Self { child, folder };
        wait_for("the daemon", || match logged.calisto("status") {
            (true, _) => Ok(()),
            (false, said) => Err(format!("{said}{}", logged.read("said"))),
        });
        logged
    }

    fn config(folder: &Path, log: &str) -> String {
        let socket = folder.join("admin.sock");
        format!(
            "ports = [\"xdp:veth0\"]\nlisten = [\"udp:10.77.0.2:7\"]\nadmin_socket = {socket:?}\n\
             [workers]\njob = \"echo\"\n[log]\n{log}"
        )
    }

    fn configure(&self, log: &str) {
        let config = Self::config(&self.folder, log);
        fs::write(self.folder.join("calisto.toml"), config).expect("it is ours");
    }

    fn calisto(&self, line: &str) -> (bool, String) {
        let mut command = Command::new(binary("calisto"));
        command.args(line.split_whitespace()).arg("--admin").arg(self.folder.join("admin.sock"));
        let (status, out, said) = run(&mut command);
        (status.success(), out + &said)
    }

    /// What `calisto` prints.
    fn prints(&self, line: &str) -> String {
        let (is_done, said) = self.calisto(line);
        assert!(is_done, "{line}: {said}");
        said
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).expect("it was made")
    }

    /// Every event so far.
    fn events(&self) -> Vec<Value> {
        let text = self.read("out");
        // One that is being written has no end yet.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let parsed = whole.lines().map(|line| {
            serde_json::from_str(line).unwrap_or_else(|wrong| panic!("{wrong}: {line}"))
        });
        parsed.collect()
    }

    /// Waits for an event of that message.
    fn event(&self, message: &str) -> Value {
        wait_for(message, || {
            let events = self.events();
            let found = events.iter().find(|event| event["message"] == message);
            found.cloned().ok_or_else(|| format!("{events:?}"))
        })
    }

    /// How often an operator's question was logged.
    fn asked(&self, command: &str) -> usize {
        let is_it = |event: &&Value| event["fields"]["command"] == command;
        self.events().iter().filter(is_it).count()
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the daemon said: {}{}", self.read("out"), self.read("said"));
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn every_line_of_a_json_log_is_an_event_and_its_levels_change_while_the_daemon_runs() {
    let bed = Testbed::new(TestbedConfig::default()).expect("this test needs root and ip");
    let start = |_: &Path| bed.server().command(binary("calistod"));
    let mut daemon = Logged::start("json", "format = \"json\"\n", start);
    let ready = daemon.event("ready");
    let path = daemon.folder.join("admin.sock").display().to_string();
    assert_eq!(ready["fields"]["admin_socket"], path);
    assert_eq!((&ready["level"], &ready["target"]), (&"info".into(), &"daemon".into()));
    assert!(ready["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{ready}");
    assert_eq!(daemon.asked("status"), 0, "that is of level debug");

    assert!(daemon.prints("log admin debug").contains("admin    debug"));
    daemon.prints("status");
    wait_for("the question", || match daemon.asked("status") {
        1 => Ok(()),
        other => Err(other.to_string()),
    });
    let told: Value = serde_json::from_str(&daemon.prints("log -j")).expect("an object");
    let level = |target: &str| {
        let levels = told["levels"].as_array().expect("a list");
        let found = levels.iter().find(|row| row["target"] == target).expect("it is one");
        found["level"].clone()
    };
    assert_eq!((level("admin"), level("ports")), ("debug".into(), "info".into()));
    assert_eq!(told["format"], "json");

    let (is_done, said) = daemon.calisto("log admni debug");
    assert!(!is_done && said.contains("did you mean \"admin\"?"), "{said}");
    let (is_done, said) = daemon.calisto("log loud");
    assert!(!is_done && said.contains("off, error, warn, info, debug"), "{said}");

    daemon.configure("format = \"json\"\nadmin = \"warn\"\n");
    assert_eq!(daemon.prints("reload"), "changed: log.admin\n");
    let read = daemon.event("read again");
    assert_eq!(
        (&read["target"], &read["fields"]["changed"]),
        (&"config".into(), &"log.admin".into())
    );
    let before = daemon.asked("status");
    daemon.prints("status");
    // What is logged after it comes after it.
    daemon.configure("format = \"json\"\nadmin = \"warn\"\nconfig = \"debug\"\n");
    daemon.prints("reload");
    wait_for("the reload", || {
        let again = |event: &&Value| event["message"] == "read again";
        match daemon.events().iter().filter(again).count() {
            2 => Ok(()),
            other => Err(other.to_string()),
        }
    });
    assert_eq!(daemon.asked("status"), before, "it is of level debug, and warn is asked for");

    daemon.configure("format = \"text\"\nadmin = \"warn\"\nconfig = \"debug\"\n");
    let (is_done, said) = daemon.calisto("reload");
    assert!(!is_done && said.contains("log.format can only change with a restart"), "{said}");

    daemon.prints("down");
    let status = daemon.child.wait().expect("it is our child");
    assert!(status.success(), "{status}");
    assert!(daemon.read("out").ends_with('\n'));
    assert!(daemon.events().len() > 5 && daemon.read("said").is_empty(), "all of it is JSON");
}

#[test]
fn events_go_to_the_journal_and_to_the_terminal_while_there_is_none() {
    let bed = Testbed::new(TestbedConfig::default()).expect("this test needs root and ip");
    let within = |folder: &Path| {
        // A /run of its own has room for a journal of the test's.
        let script = "mount --bind \"$0\" /run && exec \"$@\"";
        let run = folder.join("run");
        fs::create_dir_all(run.join("systemd/journal")).expect("the folder is the test's");
        let mut command = bed.server().command("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script]);
        command.arg(run).arg(binary("calistod"));
        command
    };
    let daemon = Logged::start("journald", "format = \"journald\"\nadmin = \"debug\"\n", within);
    wait_for("text", || match daemon.read("out") {
        text if text.contains("debug admin: an operator asks command=\"status\"") => Ok(()),
        text => Err(text),
    });
    let path = daemon.folder.join("run/systemd/journal/socket");
    let journal = UnixDatagram::bind(&path).expect("there is none");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("it is ours");
    daemon.prints("steer show");
    let mut datagram = [0; 65_536];
    let text = wait_for("the event", || {
        let length = journal.recv(&mut datagram).expect("it waits");
        let text = String::from_utf8_lossy(&datagram[..length]).into_owned();
        if text.contains("CALISTO_COMMAND=steer_show\n") { Ok(text) } else { Err(text) }
    });
    for line in ["PRIORITY=7", "SYSLOG_IDENTIFIER=calistod", "CALISTO_TARGET=admin"] {
        assert!(text.lines().any(|said| said == line), "{line}: {text}");
    }
    assert!(text.contains("\nMESSAGE=an operator asks command=\"steer_show\""), "{text}");
    assert!(!daemon.read("out").contains("steer_show"), "the journal has it");
}
