//! Programs whose control group has filters of its own (BPF): what we carry would pass by them.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use whole::{Accelerated, Program, project, run, wait_for};

const PYTHON: &str = "/usr/bin/python3";

fn script(name: &str) -> String {
    project().join("tests/programs").join(name).display().to_string()
}

/// A control group, which goes with this.
struct Group(String);

impl Group {
    fn new(name: &str) -> Self {
        let group = Self(format!("calisto-test-{name}-{}", std::process::id()));
        group.ask("make", &[]);
        group
    }

    fn ask(&self, what: &str, more: &[&str]) {
        let mut command = Command::new(PYTHON);
        command.args([&script("cgroup_filter.py"), what, &self.0]).args(more);
        let (status, _, said) = run(&mut command);
        assert!(status.success(), "this test needs root and cgroup2: {said}");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.ask("remove", &[]);
    }
}

/// A server in a control group that has one of its own, and listens after `before` was done.
fn server(accelerated: &Accelerated, group: &Group, port: &str, before: impl FnOnce()) -> Program {
    let file = std::env::temp_dir().join(format!("{}-{port}", group.0));
    let path = file.display().to_string();
    let mut server = accelerated.run(&[PYTHON, &script("patient_server.py"), port, &path]);
    server.wait_until_it_says("waiting");
    group.ask("take", &[&server.pid().to_string()]);
    before();
    std::fs::write(&file, "").expect("the folder is there");
    server.wait_until_it_says("listening");
    std::fs::remove_file(file).expect("it was made");
    server
}

/// Whether the server answers.
fn answers(accelerated: &Accelerated, port: &str) {
    let address = SocketAddr::from((accelerated.here().ipv4(), port.parse().expect("a port")));
    let called = accelerated.there().enter(|| TcpStream::connect(address));
    let mut called = called.expect("the namespace is there").expect("it listens");
    called.set_read_timeout(Some(Duration::from_secs(20))).expect("no zero");
    let mut byte = [0];
    called.read_exact(&mut byte).expect("it answers");
}

fn reasons(accelerated: &Accelerated) -> Vec<String> {
    accelerated.fallbacks().into_iter().map(|total| total.reason).collect()
}

#[test]
fn a_program_whose_control_group_has_a_filter_is_left_to_the_kernel() {
    let accelerated = Accelerated::start();
    let group = Group::new("before");
    let guarded = server(&accelerated, &group, "8100", || group.ask("attach", &[]));
    answers(&accelerated, "8100");
    assert_eq!(reasons(&accelerated), ["control_group_filter"]);
    assert!(accelerated.sockets().is_empty(), "{:?}", accelerated.sockets());
    // Whoever is not in the group is served.
    accelerated.others_are_served();
    guarded.kill();
    accelerated.nothing_is_left();
}

#[test]
fn a_filter_that_comes_later_ends_what_is_served_in_its_control_group_and_nothing_else() {
    let accelerated = Accelerated::start();
    let (group, other) = (Group::new("after"), Group::new("beside"));
    let guarded = server(&accelerated, &group, "8000", || ());
    let spared = server(&accelerated, &other, "8001", || ());
    answers(&accelerated, "8000");
    wait_for("two listeners, and no connection any more", || match accelerated.sockets() {
        all if all.len() == 2 => Ok(()),
        all => Err(format!("{all:?}")),
    });
    group.ask("attach", &[]);
    wait_for("an end of what would pass by the filter", || match accelerated.sockets() {
        all if all.len() == 1 => Ok(()),
        all => Err(format!("{all:?}")),
    });
    assert_eq!(accelerated.daemon().counter("attach_control_group_filter_appeared"), 1);
    answers(&accelerated, "8000");
    answers(&accelerated, "8001");
    assert!(accelerated.sockets()[0].local.ends_with(":8001"));
    guarded.kill();
    spared.kill();
    accelerated.nothing_is_left();
}

#[test]
fn filters_of_control_groups_are_passed_by_where_the_configuration_says_so() {
    let accelerated = Accelerated::with("[sockets]\nignore_firewall = true\n");
    let group = Group::new("ignored");
    let served = server(&accelerated, &group, "8000", || group.ask("attach", &[]));
    answers(&accelerated, "8000");
    wait_for("a listener alone", || match accelerated.sockets() {
        all if all.len() == 1 => Ok(()),
        all => Err(format!("{all:?}")),
    });
    served.kill();
    accelerated.nothing_is_left();
}
