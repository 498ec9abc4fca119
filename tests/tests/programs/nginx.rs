//! nginx with two workers: small files over kept connections, and large bodies both ways.

use std::path::Path;

use whole::{Accelerated, Carried, Program, wait_for};

use crate::bodies::{sha256, write_body};
use crate::curl::{By, fetch, of_server, upload};
use crate::install;

const PORT: &str = "8080";

/// Everything in one folder; two workers that share the listener; uploads by PUT.
fn config(folder: &Path, workers: u32, user: &str) -> String {
    let folder = folder.display();
    format!(
        "worker_processes {workers};\ndaemon off;\nuser {user};\npid {folder}/nginx.pid;\n\
         error_log stderr notice;\nevents {{ worker_connections 1024; }}\nhttp {{\n\
         access_log off;\nsendfile on;\ntcp_nopush on;\nkeepalive_requests 1000000;\n\
         client_max_body_size 0;\nclient_body_temp_path {folder}/bodies;\n\
         proxy_temp_path {folder}/proxy;\nfastcgi_temp_path {folder}/fastcgi;\n\
         uwsgi_temp_path {folder}/uwsgi;\nscgi_temp_path {folder}/scgi;\n\
         server {{ listen {PORT}; listen [::]:{PORT}; root {folder}/www;\n\
         location /up/ {{ dav_methods PUT; create_full_put_path on; }} }}\n}}\n"
    )
}

/// nginx of two workers, and its folder of files.
fn server(accelerated: &Accelerated) -> Program {
    let folder = accelerated.daemon().folder();
    std::fs::create_dir_all(folder.join("www")).expect("the folder is ours");
    let written = std::fs::write(folder.join("nginx.conf"), config(folder, 2, "root"));
    written.expect("the folder is ours");
    let path = folder.join("nginx.conf").display().to_string();
    let mut server = accelerated.run(&["/usr/sbin/nginx", "-c", &path]);
    server.wait_until_it_says("start worker processes");
    server
}

/// Where a file is that says "a small file".
fn small_file(accelerated: &Accelerated) -> String {
    let file = accelerated.daemon().folder().join("www/small");
    std::fs::write(file, "a small file\n").expect("the folder is ours");
    format!("http://{}:{PORT}/small", accelerated.here().ipv4())
}

#[test]
fn nginx_with_two_workers_serves_small_files_over_kept_connections() {
    install();
    let accelerated = Accelerated::start();
    let server = server(&accelerated);
    let url = small_file(&accelerated);
    let mut carried = (0, 0);
    for _ in 0..10 {
        let words = ["--parallel", "--parallel-max", "8", &url, &url, &url, &url];
        let all: Vec<&str> = ["curl", "-sS", "--fail"].into_iter().chain(words).collect();
        assert_eq!(accelerated.run_there(&all).succeed(), "a small file\n".repeat(4));
        let (sent, received) =
            fetch(&accelerated, By::Linux, &url, &accelerated.daemon().folder().join("came"));
        carried = (carried.0 + sent, carried.1 + received);
    }
    // Each of the four others is a request like that of the one whose bytes were counted.
    let five_times = of_server((carried.0 * 5, carried.1 * 5));
    accelerated.carried_exactly(five_times);
    assert!(server.stop().status.success());
    accelerated.nothing_is_left();
}

#[test]
fn wrk_asks_nginx_for_small_files_and_gets_no_error() {
    install();
    let accelerated = Accelerated::start();
    let server = server(&accelerated);
    let url = small_file(&accelerated);
    let said = accelerated.run_there(&["wrk", "-t2", "-c40", "-d2", &url]).succeed();
    assert!(!said.contains("errors"), "{said}");
    assert!(said.contains("requests in"), "{said}");
    accelerated.all_was_accelerated();
    let Carried { received, sent } = accelerated.carried();
    assert!(received > 10_000 && sent > received, "{said}");
    server.stop();
    accelerated.nothing_is_left();
}

#[test]
fn wrk_runs_on_calisto_too() {
    install();
    let accelerated = Accelerated::start();
    let folder = accelerated.daemon().folder();
    std::fs::create_dir_all(folder.join("www")).expect("the folder is ours");
    std::fs::write(folder.join("www/small"), "a small file\n").expect("the folder is ours");
    let written = std::fs::write(folder.join("nginx.conf"), config(folder, 1, "root"));
    written.expect("the folder is ours");
    let path = folder.join("nginx.conf").display().to_string();
    let mut server = accelerated.run_there(&["/usr/sbin/nginx", "-c", &path]);
    server.wait_until_it_says("start worker processes");
    let url = format!("http://{}:{PORT}/small", accelerated.there().ipv4());
    let said = accelerated.run(&["wrk", "-t2", "-c40", "-d2", &url]).succeed();
    assert!(!said.contains("errors"), "{said}");
    accelerated.all_was_accelerated();
    let Carried { received, sent } = accelerated.carried();
    assert!(sent > 10_000 && received > sent, "{said}");
    drop(server);
    accelerated.nothing_is_left();
}

#[test]
fn nginx_sends_and_takes_large_bodies_exactly() {
    install();
    let accelerated = Accelerated::start();
    let server = server(&accelerated);
    let folder = accelerated.daemon().folder();
    let (body, came) = (folder.join("www/body"), folder.join("came"));
    let sum = write_body(&body);
    let url = format!("http://{}:{PORT}", accelerated.here().ipv4());
    let fetched = fetch(&accelerated, By::Linux, &format!("{url}/body"), &came);
    assert_eq!(sha256(&came), sum, "from the server");
    let url = format!("{url}/up/body");
    let (sent, received, _) = upload(&accelerated, By::Linux, &body, &url);
    wait_for("the end of the upload", || match sha256(&folder.join("www/up/body")) {
        came if came == sum => Ok(()),
        other => Err(other),
    });
    accelerated.carried_exactly(of_server((fetched.0 + sent, fetched.1 + received)));
    server.stop();
    accelerated.nothing_is_left();
}
