//! What a service manager hears of the daemon, and that it runs as the unit starts it: a user of
//! its own with some capabilities.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use testbed::Side;
use whole::{Program, answered, bed, binary, project, run, wait_for};

const CONFIG: &str = "ports = [\"xdp:veth0\"]\nlisten = [\"udp:10.77.0.2:7\"]\n\
                      [workers]\njob = \"echo\"\n";

/// A folder with a configuration, which goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = format!("calisto-service-{name}-{}", std::process::id());
        let folder = Self(std::env::temp_dir().join(folder));
        std::fs::create_dir_all(&folder.0).expect("the temporary folder is ours");
        let socket = folder.admin().display().to_string();
        let text = format!("admin_socket = {socket:?}\n{CONFIG}");
        std::fs::write(folder.config(), text).expect("the folder is ours");
        folder
    }

    fn config(&self) -> PathBuf {
        self.0.join("calisto.toml")
    }

    fn admin(&self) -> PathBuf {
        self.0.join("run/admin.sock")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What the next datagram says.
fn heard(manager: &UnixDatagram) -> String {
    let mut text = [0; 4096];
    let bytes = manager.recv(&mut text).expect("the daemon says something in time");
    String::from_utf8_lossy(&text[..bytes]).into_owned()
}

#[test]
fn a_service_manager_hears_that_it_is_ready_lives_and_ends() {
    let bed = bed();
    let folder = Folder::new("notify");
    let socket = folder.0.join("notify.sock");
    let manager = UnixDatagram::bind(&socket).expect("the folder is ours");
    manager.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout is no zero");
    let mut command = bed.server().command(binary("calistod"));
    command.arg("--config").arg(folder.config());
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "200000");
    let daemon = Program::spawn(&mut command);
    let ready = heard(&manager);
    assert!(ready.starts_with("READY=1\n") && ready.contains("xdp:veth0"), "{ready}");
    let status =
        Command::new(binary("calisto")).arg("status").arg("--admin").arg(folder.admin()).output();
    assert!(status.expect("calisto is there").status.success(), "ready means that it can be asked");
    for _ in 0..5 {
        assert_eq!(heard(&manager), "WATCHDOG=1");
    }
    // A daemon whose threads do not go on says nothing, so that the manager restarts it.
    daemon.signal(rustix::process::Signal::STOP);
    let quiet = Duration::from_secs(1);
    manager.set_read_timeout(Some(quiet)).expect("a timeout is no zero");
    let mut text = [0; 64];
    let still = (0..64).take_while(|_| manager.recv(&mut text).is_ok()).count();
    assert!(still < 64, "it goes on");
    daemon.signal(rustix::process::Signal::CONT);
    manager.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout is no zero");
    daemon.signal(rustix::process::Signal::TERM);
    while !heard(&manager).starts_with("STOPPING=1\n") {}
    assert!(daemon.end().status.success());
}

/// `calistod` as the unit starts it: another user, and the unit's capabilities as ambient ones.
fn as_the_unit_does(side: &Side, folder: &Folder) -> Command {
    let unit = project().join("packaging/systemd/calisto.service");
    let unit = std::fs::read_to_string(unit).expect("the unit is there");
    let line = unit.lines().find_map(|line| line.strip_prefix("AmbientCapabilities="));
    let names = line.expect("it names capabilities").split(' ');
    let names = names.map(|name| format!("+{}", name.trim_start_matches("CAP_").to_lowercase()));
    let set = format!("-all,{}", names.collect::<Vec<_>>().join(","));
    let mut command = side.command("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"])
        .args([format!("--inh-caps={set}"), format!("--ambient-caps={set}")])
        .arg(format!("--bounding-set={set}"))
        .arg(binary("calistod"))
        .arg("--config")
        .arg(folder.config());
    command
}

#[test]
fn the_units_capabilities_are_enough_for_a_user_who_is_not_root() {
    let bed = bed();
    let folder = Folder::new("user");
    // RuntimeDirectory= makes this one.
    let runtime = folder.0.join("run");
    std::fs::create_dir(&runtime).expect("the folder is ours");
    std::os::unix::fs::chown(&runtime, Some(65534), Some(65534)).expect("this test needs root");
    let mut daemon = Program::spawn(&mut as_the_unit_does(bed.server(), &folder));
    daemon.wait_until_it_says("ready: ");
    assert!(answered(&bed, 7) > 0, "{}", daemon.so_far());
    // Root asks it, and so does its own user, as calisto-metrics.service is.
    for user in ["0", "65534"] {
        let mut ask = Command::new("setpriv");
        ask.args([format!("--reuid={user}"), "--clear-groups".to_owned()]);
        let ask = ask.arg(binary("calisto")).args(["metrics", "--admin"]).arg(folder.admin());
        let (status, out, said) = run(ask);
        assert!(status.success() && out.contains("calisto_up 1.0"), "{user}: {said}");
    }
    let ended = daemon.stop();
    assert!(ended.status.success(), "{}", ended.said);
    wait_for("the end of its socket", || match folder.admin().exists() {
        true => Err("it is there".to_owned()),
        false => Ok(()),
    });
}
