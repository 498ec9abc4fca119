//! Web servers: a body to Linux over the wire, and to a program of this host.

use whole::{Program, run};

use crate::ground::{At, Ground, certificate};

const PORT: u16 = 8080;

#[test]
fn lighttpd_serves_over_the_wire_and_within_the_host() {
    let ground = Ground::new();
    let root = ground.path("www");
    let settings = format!(
        "server.document-root = \"{root}\"\nserver.port = {PORT}\nserver.bind = \"0.0.0.0\"\n\
         server.errorlog = \"/dev/stderr\"\n"
    );
    let settings = ground.write("lighttpd.conf", &settings);
    let server = ground.serve(At::Here, PORT, &["/usr/sbin/lighttpd", "-D", "-f", &settings]);
    ground.curl_both_ways(&ground.url(PORT), &[]);
    ground.end([server]);
}

/// Apache httpd with one of its ways to use processes and threads; in a process group of its own,
/// because it ends all of that with itself.
fn apache(ground: &Ground, model: &str) -> Program {
    let modules = "/usr/lib/apache2/modules";
    let root = ground.path("");
    let settings = format!(
        "ServerRoot {root}\nServerName calisto-test\nPidFile {root}/apache.pid\n\
         LoadModule mpm_{model}_module {modules}/mod_mpm_{model}.so\n\
         LoadModule authz_core_module {modules}/mod_authz_core.so\n\
         DefaultRuntimeDir {root}\nDocumentRoot {root}/www\nErrorLog /dev/stderr\n\
         User www-data\nGroup www-data\nListen {PORT}\n"
    );
    let settings = ground.write("apache.conf", &settings);
    ground.serve(At::Here, PORT, &["/usr/sbin/apache2", "-DNO_DETACH", "-f", &settings])
}

/// Kept connections of ten clients at once, none of which fails.
fn ab_gets(ground: &Ground, at: At) {
    const TIMES: u64 = 200;
    let small = "a small file\n";
    ground.write("www/small", small);
    let url = format!("http://{}:{PORT}/small", ground.host(At::Here));
    let before = ground.accelerated().carried();
    let out = ground.run(at, &["ab", "-q", "-k", "-n", "200", "-c", "10", &url]).succeed();
    assert!(out.contains("Complete requests:      200\n"), "{out}");
    assert!(out.contains("Failed requests:        0\n"), "{out}");
    ground.was_carried(At::Here, at, before, TIMES * small.len() as u64);
}

fn apache_serves(model: &str) {
    let ground = Ground::new();
    let server = apache(&ground, model);
    ground.curl_both_ways(&ground.url(PORT), &[]);
    for at in [At::There, At::Here] {
        ab_gets(&ground, at);
    }
    ground.end([server]);
}

#[test]
fn apache_serves_by_events() {
    apache_serves("event");
}

#[test]
fn apache_serves_by_processes() {
    apache_serves("prefork");
}

#[test]
fn apache_serves_by_threads() {
    apache_serves("worker");
}

#[test]
fn busybox_serves_over_the_wire_and_within_the_host() {
    let ground = Ground::new();
    let words = ["busybox", "httpd", "-f", "-p", "8080", "-h", "www"];
    let server = ground.serve(At::Here, PORT, &words);
    ground.curl_both_ways(&ground.url(PORT), &[]);
    ground.end([server]);
}

#[test]
fn nghttpd_and_nghttp_speak_http_2_over_tls() {
    let ground = Ground::new();
    let [certificate, key] = certificate(ground.folder(), &ground.host(At::Here));
    let port = PORT.to_string();
    ground.three_ways(
        PORT,
        |_| {
            crate::ground::words(&[
                "nghttpd",
                "-d",
                "www",
                "-a",
                "0.0.0.0",
                &port,
                &key,
                &certificate,
            ])
        },
        |host| {
            crate::ground::words(&[
                "nghttp",
                "--no-verify-peer",
                &format!("https://{host}:{PORT}/body"),
            ])
        },
    );
}

#[test]
fn varnish_keeps_what_a_server_of_the_host_has_told_it() {
    let ground = Ground::new();
    let words = ["busybox", "httpd", "-f", "-p", "8000", "-h", "www"];
    let behind = ground.serve(At::Here, 8000, &words);
    let behind_at = format!("{}:8000", ground.host(At::Here));
    let (folder, address) = (ground.path("varnish"), format!("0.0.0.0:{PORT}"));
    let words = ["/usr/sbin/varnishd", "-F", "-a", &address, "-b", &behind_at, "-n", &folder];
    let words: Vec<&str> = words.into_iter().chain(["-s", "malloc,16m"]).collect();
    let server = ground.serve(At::Here, PORT, &words);
    ground.curl_both_ways(&ground.url(PORT), &[]);
    // It has it now, and asks nobody.
    drop(behind.stop());
    ground.curl_both_ways(&ground.url(PORT), &[]);
    ground.end([server]);
}

#[test]
fn programs_of_go_say_why_they_are_not_accelerated() {
    let ground = Ground::new();
    let mut command = ground.accelerated().command("/usr/sbin/nats-server");
    let (status, _, said) = run(command.arg("--version"));
    assert!(!status.success() && said.contains("is a Go program"), "{said}");
}
