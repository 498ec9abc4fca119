//! What an operator sees first: what is wrong, and every application, whether it is given packets
//! or its sockets are served.

use whole::{Accelerated, Program, project, wait_for};

const PYTHON: &str = "/usr/bin/python3";

fn server(accelerated: &Accelerated) -> Program {
    let script = project().join("tests/programs/asyncio_server.py").display().to_string();
    let mut server = accelerated.run(&[PYTHON, &script, "0.0.0.0", "8000"]);
    server.wait_until_it_says("listening");
    server
}

#[test]
fn a_program_with_sockets_is_an_application_to_status_apps_and_top() {
    let accelerated = Accelerated::start();
    let daemon = accelerated.daemon();
    assert!(daemon.calisto("apps").contains("no application"));
    let server = server(&accelerated);
    wait_for("the program in status", || match daemon.calisto("status") {
        said if said.contains("attached: 1, 1 of them by their sockets") => Ok(()),
        said => Err(said),
    });
    let said = daemon.calisto("apps");
    assert!(said.contains("python3") && said.contains("tcp:0.0.0.0:8000"), "{said}");
    let app: serde_json::Value = serde_json::from_str(&daemon.calisto("apps -j")).expect("JSON");
    let served = &app["apps"][0]["served"];
    assert_eq!(
        (&served["sockets"], &served["pids"][0]),
        (&1.into(), &server.pid().into()),
        "{app}"
    );
    let said = daemon.calisto("top --once");
    assert!(said.contains("python3") && said.contains("1 sockets"), "{said}");
    server.kill();
    accelerated.nothing_is_left();
    assert!(daemon.calisto("apps").contains("no application"));
}

#[test]
fn status_leads_with_a_program_that_went_back_to_the_kernel_and_fails_while_it_lives() {
    let accelerated = Accelerated::start();
    let daemon = accelerated.daemon();
    let server = server(&accelerated);
    let (status, said, _) = daemon.try_calisto("status");
    assert!(status.success() && !said.contains("PUT OUT"), "{said}");
    daemon.calisto("detach python3");
    wait_for("what is wrong", || match daemon.try_calisto("status") {
        (status, said, error) if status.code() == Some(1) => {
            assert!(said.starts_with("PUT OUT: python3"), "{said}");
            assert!(error.contains("has gone back to the kernel's sockets"), "{error}");
            Ok(())
        }
        (_, said, _) => Err(said),
    });
    server.kill();
    let (status, said, error) = daemon.try_calisto("status");
    assert!(status.success() && !said.contains("PUT OUT"), "{said}{error}");
}
