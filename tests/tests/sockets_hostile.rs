//! Programs that do to their sockets what they should not: the daemon and all others go on.

use std::net::SocketAddr;

use whole::{Accelerated, KernelTcp, looks_like_linux, project};

const PYTHON: &str = "/usr/bin/python3";

fn script(name: &str) -> String {
    project().join("tests/programs").join(name).display().to_string()
}

/// An honest program is served as ever.
fn others_are_served(accelerated: &Accelerated) {
    let host = accelerated.here().ipv4().to_string();
    let mut server = accelerated.run(&[PYTHON, &script("asyncio_server.py"), "0.0.0.0", "8000"]);
    server.wait_until_it_says("listening");
    let client = [PYTHON, &script("asyncio_client.py"), &host, "8000", "5", "50000"];
    assert!(accelerated.run_there(&client).succeed().ends_with("are right\n"));
    server.kill();
}

#[test]
fn a_program_may_close_every_descriptor_and_go_on() {
    looks_like_linux("close_all");
}

#[test]
fn a_program_that_leaks_descriptors_takes_only_its_own() {
    let accelerated = Accelerated::start();
    let remote = SocketAddr::from((accelerated.there().ipv4(), 7));
    let _echo = KernelTcp::echo(accelerated.there(), remote);
    let leak = "import resource, socket, sys\n\
        resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))\n\
        kept = []\n\
        try:\n\
        \x20   while True: kept.append(socket.create_connection((sys.argv[1], 7)))\n\
        except OSError as error: print(error.errno, len(kept) > 200, flush=True)\n";
    let host = remote.ip().to_string();
    let said = accelerated.run(&[PYTHON, "-c", leak, &host]).succeed();
    // EMFILE.
    assert_eq!(said, "24 True\n");
    others_are_served(&accelerated);
    accelerated.all_was_accelerated();
    accelerated.nothing_is_left();
}
