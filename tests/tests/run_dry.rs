//! `calisto run -n` says what would become of a program, and does not say more than it knows.

use std::process::Command;

use testbed::{Testbed, TestbedConfig};
use whole::{Accelerated, Daemon, binary, run};

fn dry_run(mut command: Command, daemon: &Daemon) -> String {
    command.args(["run", "-n", "--", "/usr/bin/python3"]);
    command.env("CALISTO_ADMIN", daemon.socket()).env("CALISTO_APPS", daemon.apps_socket());
    let (_, out, said) = run(&mut command);
    out + &said
}

#[test]
fn a_daemon_whose_workers_serve_no_sockets_accelerates_nothing() {
    let bed = Testbed::new(TestbedConfig::default()).expect("this test needs root and ip");
    let config =
        "ports = [\"xdp:veth0\"]\nlisten = [\"udp:10.77.0.2:7\"]\n[workers]\njob = \"echo\"\n";
    let daemon = Daemon::start(bed.server(), config);
    let said = dry_run(bed.server().command(binary("calisto")), &daemon);
    assert!(said.contains("It would run on the kernel's stack, because"), "{said}");
    assert!(said.contains("the job \"echo\", and serve no sockets"), "{said}");
    // Whose admin socket is not known cannot be asked: that is said, too.
    let mut command = bed.server().command(binary("calisto"));
    command.args(["run", "-n", "--", "/usr/bin/python3"]);
    command.env("CALISTO_ADMIN", "/nowhere/admin.sock");
    let (_, out, _) = run(command.env("CALISTO_APPS", daemon.apps_socket()));
    assert!(out.contains("as far as can be seen") && out.contains("could not be asked"), "{out}");
}

#[test]
fn a_daemon_that_serves_sockets_would_accelerate_it() {
    let accelerated = Accelerated::start();
    let here = accelerated.here().command(binary("calisto"));
    let said = dry_run(here, accelerated.daemon());
    assert!(said.contains("It would be accelerated.\n"), "{said}");
}
