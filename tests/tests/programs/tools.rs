//! Tools that are a server and a client of their own: each end in its turn, and both.

use crate::ground::{At, Ground, certificate, words};

const PORT: u16 = 7000;

#[test]
fn socat_gives_and_takes() {
    let ground = Ground::new();
    ground.three_ways(
        PORT,
        |_| words(&["socat", "TCP-LISTEN:7000,reuseaddr,fork", "EXEC:cat www/body"]),
        |host| words(&["socat", "-u", &format!("TCP:{host}:{PORT}"), "-"]),
    );
}

#[test]
fn ncat_gives_and_takes() {
    let ground = Ground::new();
    // Not `--sh-exec`: what a socket does not take at once of what a program says is lost there,
    // between two sockets of the kernel too (1 of 60 times while the machine was busy).
    ground.three_ways(
        PORT,
        |_| words(&["sh", "-c", "exec ncat -l --send-only 7000 <www/body"]),
        |host| words(&["ncat", "--recv-only", host, "7000"]),
    );
}

#[test]
fn netcat_of_openbsd_gives_and_takes() {
    let ground = Ground::new();
    ground.three_ways(
        PORT,
        |_| words(&["sh", "-c", "exec nc.openbsd -lN 7000 <www/body"]),
        |host| words(&["nc.openbsd", "-d", host, "7000"]),
    );
}

#[test]
fn openssl_serves_and_asks_over_tls() {
    let ground = Ground::new();
    let [certificate, key] = certificate(ground.folder(), &ground.host(At::Here));
    let serving = ["openssl", "s_server", "-accept", "7000", "-key", &key, "-cert", &certificate];
    let serving: Vec<&str> = serving.into_iter().chain(["-HTTP"]).collect();
    // Its answer is a file with a head of its own.
    ground.write("answer", &format!("HTTP/1.0 200 OK\r\n\r\n{}", ground.body()));
    let request = ground.write("request", "GET /answer HTTP/1.0\r\n\r\n");
    ground.three_ways(
        PORT,
        |_| words(&serving),
        |host| {
            let client = format!("openssl s_client -quiet -noservername -connect {host}:{PORT}");
            words(&["sh", "-c", &format!("{client} <{request} 2>/dev/null | sed 1,2d")])
        },
    );
}

#[test]
fn rsync_gives_and_takes() {
    let ground = Ground::new();
    let www = ground.path("www");
    let settings =
        format!("use chroot = no\n[all]\npath = {www}\nread only = yes\nuid = root\ngid = root\n");
    let settings = ground.write("rsyncd.conf", &settings);
    let configured = format!("--config={settings}");
    ground.three_ways(
        PORT,
        |_| words(&["rsync", "--daemon", "--no-detach", &configured, "--port=7000"]),
        |host| {
            let fetch = format!("rsync rsync://{host}:{PORT}/all/body came");
            words(&["sh", "-c", &format!("rm -f came && {fetch} && cat came")])
        },
    );
}
