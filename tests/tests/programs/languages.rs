//! What languages bring along to serve and to ask: over the wire, and within the host.

use whole::project;

use crate::ground::{At, Ground, words};

const PYTHON: &str = "/usr/bin/python3";
const PORT: u16 = 8080;

fn script(name: &str) -> String {
    project().join("tests/programs/rows").join(name).display().to_string()
}

fn url(host: &str) -> String {
    format!("http://{host}:{PORT}/body")
}

#[test]
fn node_serves_and_fetches() {
    let ground = Ground::new();
    let node = script("node.js");
    ground.three_ways(
        PORT,
        |_| words(&["node", &node, "serve", "8080"]),
        |host| words(&["node", &node, "fetch", &url(host)]),
    );
}

/// A class of a file, compiled, in a machine that is quick to start.
fn java(name: &str, server: &[&str], client: impl Fn(&str) -> Vec<String>) {
    let ground = Ground::new();
    ground.run(At::There, &["javac", "-d", "classes", &script(&format!("{name}.java"))]).succeed();
    let quick = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", "classes", name];
    ground.three_ways(
        PORT,
        |_| words(&[&quick[..], server].concat()),
        |host| words(&quick).into_iter().chain(client(host)).collect(),
    );
}

#[test]
fn java_serves_and_fetches_without_blocking() {
    java("Web", &["serve", "8080"], |host| words(&["fetch", &url(host)]));
}

#[test]
fn java_serves_and_fetches_by_sockets_that_block() {
    java("Blocking", &["serve", "8080"], |host| words(&["fetch", host, "8080"]));
}

#[test]
fn perl_serves_and_fetches() {
    let ground = Ground::new();
    let perl = script("serve.pl");
    ground.three_ways(
        PORT,
        |_| words(&["perl", &perl, "serve", "8080"]),
        |host| words(&["perl", &perl, "fetch", host, "8080"]),
    );
}

#[test]
fn webrick_serves_and_ruby_fetches() {
    let ground = Ground::new();
    let fetch = "require 'open-uri'; print URI.open(ARGV[0]).read";
    ground.three_ways(
        PORT,
        |_| words(&["ruby", "-run", "-e", "httpd", "--", "www", "-p", "8080", "-b", "0.0.0.0"]),
        |host| words(&["ruby", "-e", fetch, &url(host)]),
    );
}

#[test]
fn aiohttp_serves_and_fetches() {
    let ground = Ground::new();
    let python = script("application.py");
    ground.three_ways(
        PORT,
        |_| words(&[PYTHON, &python, "serve", "8080"]),
        |host| words(&[PYTHON, &python, "fetch", &url(host)]),
    );
}

/// A server here of what is written for its language.
fn serves(command: &[&str]) {
    let ground = Ground::new();
    let server = ground.serve(At::Here, PORT, command);
    ground.curl_both_ways(&ground.url(PORT), &[]);
    ground.end([server]);
}

#[test]
fn gunicorn_serves_by_two_workers() {
    let folder = project().join("tests/programs/rows").display().to_string();
    let words = ["gunicorn", "-w", "2", "-b", "0.0.0.0:8080", "--pythonpath", &folder];
    serves(&[&words[..], &["application:wsgi"]].concat());
}

#[test]
fn uvicorn_serves_by_libuv() {
    let folder = project().join("tests/programs/rows").display().to_string();
    let words = [PYTHON, "-m", "uvicorn", "--app-dir", &folder, "--lifespan", "off"];
    let more = ["--loop", "uvloop", "--host", "0.0.0.0", "--port", "8080", "application:asgi"];
    serves(&[&words[..], &more].concat());
}

#[test]
fn puma_serves_by_threads_and_by_processes() {
    let application = script("web.ru");
    let words = ["puma", "-b", "tcp://0.0.0.0:8080", "-t", "2:4"];
    serves(&[&words[..], &[&application]].concat());
    serves(&[&words[..], &["-w", "2", &application]].concat());
}
