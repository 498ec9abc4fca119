//! Programs that fetch: from Linux over the wire, and from a server of this host.

use crate::ground::{At, Ground};

const PORT: u16 = 8080;

/// Fetches the body by a command, in which `URL` stands for where it is.
fn fetches(command: &str) {
    let ground = Ground::new();
    for at in [At::There, At::Here] {
        let words = ["busybox", "httpd", "-f", "-p", "8080", "-h", "www"];
        let server = ground.serve(at, PORT, &words);
        let url = format!("http://{}:{PORT}/body", ground.host(at));
        let command = command.replace("URL", &url);
        ground.take(at, At::Here, &["sh", "-c", &command]);
        ground.end([server]);
    }
}

#[test]
fn wget_fetches() {
    fetches("exec wget -q -O - URL");
}

#[test]
fn aria2_fetches() {
    fetches("aria2c -q --allow-overwrite=true -o came URL && cat came");
}

#[test]
fn lftp_fetches() {
    fetches("exec lftp -c 'cat URL'");
}

#[test]
fn apachebench_counts_no_failure() {
    let ground = Ground::new();
    for at in [At::There, At::Here] {
        let words = ["busybox", "httpd", "-f", "-p", "8080", "-h", "www"];
        let server = ground.serve(at, PORT, &words);
        let before = ground.accelerated().carried();
        let url = format!("http://{}:{PORT}/body", ground.host(at));
        let out = ground.run(At::Here, &["ab", "-q", "-n", "20", "-c", "4", &url]).succeed();
        assert!(out.contains("Complete requests:      20\n"), "{out}");
        assert!(out.contains("Failed requests:        0\n"), "{out}");
        ground.was_carried(at, At::Here, before, 20 * ground.body().len() as u64);
        ground.end([server]);
    }
}
