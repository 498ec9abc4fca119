//! Programs between a client and a server: each connection to one is followed by one from it.

use whole::Program;

use crate::ground::{At, Ground, certificate};

const PORT: u16 = 8080;
const BEHIND: u16 = 8000;

/// A server of the body at either end.
fn behind(ground: &Ground, at: At) -> Program {
    ground.serve(at, BEHIND, &["busybox", "httpd", "-f", "-p", "8000", "-h", "www"])
}

/// One that relays from a server of the wire, and then from one of the host.
fn relays(ground: &Ground, url: &str, options: &[&str], start: impl Fn(&str) -> Program) {
    for at in [At::There, At::Here] {
        let server = behind(ground, at);
        let relay = start(&ground.host(at));
        let words = ["curl", "-sS", "--fail", "--max-time", "60", url];
        let words: Vec<&str> = words.into_iter().chain(options.iter().copied()).collect();
        ground.take(At::Here, At::There, &words);
        if at == At::Here {
            ground.take(At::Here, At::Here, &words);
        }
        ground.end([relay, server]);
    }
}

#[test]
fn haproxy_answers_with_what_a_server_of_the_wire_or_of_the_host_has() {
    let ground = Ground::new();
    relays(&ground, &ground.url(PORT), &[], |host| {
        let settings = format!(
            "global\n maxconn 1000\n nbthread 2\ndefaults\n mode http\n timeout connect 20s\n \
             timeout client 20s\n timeout server 20s\nfrontend all\n bind *:{PORT}\n \
             default_backend one\nbackend one\n server only {host}:{BEHIND}\n"
        );
        let settings = ground.write("haproxy.conf", &settings);
        ground.serve(At::Here, PORT, &["/usr/sbin/haproxy", "-db", "-f", &settings])
    });
}

#[test]
fn stunnel_speaks_tls_for_a_server_of_the_wire_or_of_the_host() {
    let ground = Ground::new();
    let [certificate, key] = certificate(ground.folder(), &ground.host(At::Here));
    let url = format!("https://{}:{PORT}/body", ground.host(At::Here));
    relays(&ground, &url, &["--cacert", &certificate], |host| {
        let settings = format!(
            "foreground = yes\npid =\n[all]\naccept = {PORT}\nconnect = {host}:{BEHIND}\n\
             cert = {certificate}\nkey = {key}\n"
        );
        let settings = ground.write("stunnel.conf", &settings);
        ground.serve(At::Here, PORT, &["stunnel4", &settings])
    });
}

#[test]
fn php_answers_behind_nginx() {
    let ground = Ground::new();
    let (host, folder) = (ground.host(At::Here), ground.path(""));
    ground.write("php/body.php", &format!("<?php readfile(\"{folder}/www/body\");\n"));
    let settings = format!(
        "[global]\ndaemonize = no\nerror_log = /dev/stderr\n[all]\nuser = root\ngroup = root\n\
         listen = {host}:9000\npm = static\npm.max_children = 2\n"
    );
    let settings = ground.write("fpm.conf", &settings);
    let words = ["/usr/sbin/php-fpm8.2", "-R", "-n", "-y", &settings];
    let php = ground.serve(At::Here, 9000, &words);
    let settings = format!(
        "worker_processes 1;\ndaemon off;\nuser root;\npid {folder}/nginx.pid;\n\
         error_log stderr notice;\nevents {{ }}\nhttp {{\naccess_log off;\n\
         client_body_temp_path {folder}/bodies;\nproxy_temp_path {folder}/proxy;\n\
         fastcgi_temp_path {folder}/fastcgi;\nuwsgi_temp_path {folder}/uwsgi;\n\
         scgi_temp_path {folder}/scgi;\nserver {{ listen {PORT}; location / {{\n\
         include /etc/nginx/fastcgi_params;\nfastcgi_pass {host}:9000;\n\
         fastcgi_param SCRIPT_FILENAME {folder}/php$fastcgi_script_name; }} }}\n}}\n"
    );
    let settings = ground.write("nginx.conf", &settings);
    let nginx = ground.serve(At::Here, PORT, &["/usr/sbin/nginx", "-c", &settings]);
    ground.curl_both_ways(&format!("http://{host}:{PORT}/body.php"), &[]);
    ground.end([nginx, php]);
}
