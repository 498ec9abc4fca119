//! nginx as a proxy: a connection to it from the wire, and one from it to where the answer is, over
//! the wire or within the host.

use std::path::Path;

use whole::{Accelerated, Program, wait_for};

use crate::bodies::{sha256, write_body};
use crate::curl::{By, fetch};
use crate::install;

const PORT: &str = "8080";
const UPSTREAM_PORT: &str = "8000";
const PYTHON: &str = "/usr/bin/python3";

fn config(folder: &Path, upstream: &str) -> String {
    let folder = folder.display();
    format!(
        "worker_processes 2;\ndaemon off;\nuser root;\npid {folder}/nginx.pid;\n\
         error_log stderr notice;\nevents {{ worker_connections 1024; }}\nhttp {{\n\
         access_log off;\nclient_body_temp_path {folder}/bodies;\n\
         proxy_temp_path {folder}/proxy;\nfastcgi_temp_path {folder}/fastcgi;\n\
         uwsgi_temp_path {folder}/uwsgi;\nscgi_temp_path {folder}/scgi;\n\
         server {{ listen {PORT}; location / {{\n\
         proxy_pass http://{upstream}:{UPSTREAM_PORT}; proxy_buffering on; }} }}\n}}\n"
    )
}

/// nginx in front of `upstream`.
fn proxy(accelerated: &Accelerated, upstream: &str) -> Program {
    let folder = accelerated.daemon().folder();
    std::fs::write(folder.join("nginx.conf"), config(folder, upstream)).expect("it is ours");
    let path = folder.join("nginx.conf").display().to_string();
    let mut server = accelerated.run(&["/usr/sbin/nginx", "-c", &path]);
    server.wait_until_it_says("start worker processes");
    server
}

#[test]
fn nginx_answers_with_what_a_server_of_the_wire_or_of_the_host_has() {
    install();
    for is_upstream_here in [false, true] {
        let accelerated = Accelerated::start();
        let side = if is_upstream_here { accelerated.here() } else { accelerated.there() };
        let upstream = side.ipv4().to_string();
        let folder = accelerated.daemon().folder();
        let body = folder.join("body");
        let sum = write_body(&body);
        std::fs::write(folder.join("small"), "a small file\n").expect("the folder is ours");
        let words = [PYTHON, "-u", "-m", "http.server", UPSTREAM_PORT];
        let mut behind = match is_upstream_here {
            true => accelerated.run(&words),
            false => accelerated.run_there(&words),
        };
        behind.wait_until_it_says("Serving HTTP");
        let server = proxy(&accelerated, &upstream);
        let url = format!("http://{}:{PORT}", accelerated.here().ipv4());
        let came = folder.join("came");
        let mut bytes = 0;
        for round in 0..10 {
            let (_, received) = fetch(&accelerated, By::Linux, &format!("{url}/small"), &came);
            let said = std::fs::read_to_string(&came).expect("it was fetched");
            assert_eq!(said, "a small file\n", "round {round}, upstream here: {is_upstream_here}");
            bytes += received;
        }
        let (_, received) = fetch(&accelerated, By::Linux, &format!("{url}/body"), &came);
        bytes += received;
        assert_eq!(sha256(&came), sum, "through the proxy");
        wait_for("all bytes on the way of Calisto", || match accelerated.carried() {
            carried if carried.sent >= bytes => Ok(()),
            carried => Err(format!("{carried:?}, not {bytes}")),
        });
        let carried = accelerated.carried();
        // What it has fetched over the wire is counted too, and what comes within the host is not.
        assert_eq!(carried.received > bytes, !is_upstream_here, "{carried:?} of {bytes}");
        accelerated.all_was_accelerated();
        assert!(server.stop().status.success());
        behind.kill();
        accelerated.nothing_is_left();
    }
}
