//! `calisto metrics`: a real scrape by a real Prometheus, and rules that name what there is.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use whole::{Daemon, Program, bed, binary, http_ask, http_get, project, run, wait_for};

const GOOD: &str = "ports = [\"xdp:veth0\"]\n[cores]\nset = [0]\n[workers]\n\
                    arrangement = \"threads\"\n";

/// `calisto metrics --listen` about a daemon, at an address that it says.
struct Server {
    _program: Program,
    address: String,
}

impl Server {
    fn start(daemon: &Daemon) -> Self {
        let mut command = Command::new(binary("calisto"));
        command.args(["metrics", "--listen", "127.0.0.1:0"]).env("CALISTO_ADMIN", daemon.socket());
        let mut program = Program::spawn(&mut command);
        program.wait_until_it_says("/metrics");
        let said = program.so_far();
        let address = said.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        Self { address: address.expect("it says where").to_owned(), _program: program }
    }

    fn get(&self, path: &str, accept: &str) -> (u16, String) {
        http_get(&self.address, path, &[("Accept", accept)])
    }
}

fn install() {
    let mut command = Command::new(project().join("script/install-missing"));
    let (status, _, said) = run(command.args(["promtool=prometheus", "prometheus=prometheus"]));
    assert!(status.success(), "{said}");
}

/// Words of a text that are names of ours.
fn names(text: &str) -> BTreeSet<String> {
    let is_inside = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter| !is_inside(letter));
    words.filter(|word| word.starts_with("calisto_")).map(str::to_owned).collect()
}

fn check_metrics(text: &str) {
    let mut promtool = Command::new("promtool");
    let mut promtool = promtool
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is installed");
    let mut stdin = promtool.stdin.take().expect("it is piped");
    stdin.write_all(text.as_bytes()).expect("promtool reads");
    drop(stdin);
    let ended = promtool.wait_with_output().expect("it is our child");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn promtool_finds_nothing_to_complain_of_and_alerts_and_dashboard_name_what_is_there() {
    install();
    let bed = bed();
    let daemon = Daemon::start(bed.server(), GOOD);
    let server = Server::start(&daemon);
    let (status, text) = server.get("/metrics", "text/plain");
    assert_eq!(status, 200);
    check_metrics(&text);
    let there = names(&text);
    let packaging = project().join("packaging");
    for file in ["prometheus/calisto.rules.yml", "grafana/calisto.json"] {
        let text = std::fs::read_to_string(packaging.join(file)).expect(file);
        let named = names(&text);
        assert!(named.len() > 5, "{file} names hardly anything: {named:?}");
        let missing: Vec<_> = named.difference(&there).collect();
        assert!(missing.is_empty(), "{file} names what nobody measures: {missing:?}");
    }
    for words in [["check", "rules", "calisto.rules.yml"], ["test", "rules", "calisto.test.yml"]] {
        let mut promtool = Command::new("promtool");
        let in_folder = promtool.args(words).current_dir(packaging.join("prometheus"));
        let (status, out, said) = run(in_folder);
        assert!(status.success(), "{words:?}: {out}{said}");
    }
}

#[test]
fn prometheus_scrapes_it_as_openmetrics_and_loads_the_alerts() {
    install();
    let bed = bed();
    let daemon = Daemon::start(bed.server(), GOOD);
    let server = Server::start(&daemon);
    let folder = daemon.folder().to_owned();
    let rules = project().join("packaging/prometheus/calisto.rules.yml");
    let config = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{rules:?}]\nscrape_configs:\n\
         - job_name: calisto\n  static_configs: [{{targets: [{:?}]}}]\n",
        server.address
    );
    std::fs::write(folder.join("prometheus.yml"), config).expect("the folder is ours");
    let (at, _prometheus) = prometheus(&folder);
    let value = |query: &str| {
        let (_, body) = http_get(&at, &format!("/api/v1/query?query={query}"), &[]);
        let answer: serde_json::Value = serde_json::from_str(&body).map_err(|_| body.clone())?;
        let value = answer["data"]["result"][0]["value"][1].as_str();
        value.map(str::to_owned).ok_or(body)
    };
    for query in ["up", "calisto_up", "calisto_worker_active"] {
        wait_for(query, || match value(query)? {
            one if one == "1" => Ok(()),
            other => Err(other),
        });
    }
    wait_for("steps of the dispatcher", || value("calisto_dispatcher_steps_total>0"));
    let (_, metadata) = http_get(&at, "/api/v1/metadata?metric=calisto_dispatcher_steps", &[]);
    assert!(metadata.contains("counter") && metadata.contains("Turns of"), "{metadata}");
    let alerts = wait_for("alerts", || {
        let (_, alerts) = http_get(&at, "/api/v1/rules", &[]);
        if alerts.contains("\"health\":\"unknown\"") { Err(alerts) } else { Ok(alerts) }
    });
    assert!(alerts.contains("CalistoPortFault"), "{alerts}");
    assert!(!alerts.contains("\"health\":\"err\""), "{alerts}");
}

/// Starts Prometheus on the configuration in `folder`; where it listens.
fn prometheus(folder: &Path) -> (String, Program) {
    // Between this and its start somebody could take the port; then it ends, and says so.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let at = free.expect("loopback has free ports").to_string();
    let mut command = Command::new("prometheus");
    command
        .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", folder.join("tsdb").display()))
        .arg(format!("--web.listen-address={at}"));
    let program = Program::spawn(&mut command);
    wait_for("prometheus", || TcpStream::connect(&at).map_err(|error| error.to_string()));
    (at, program)
}

#[test]
fn health_and_readiness_say_why_not_and_a_daemon_that_is_down_is_a_metric() {
    let bed = bed();
    let mut daemon = Daemon::start(bed.server(), GOOD);
    let server = Server::start(&daemon);
    assert_eq!(server.get("/healthz", "*/*").0, 200);
    assert_eq!(server.get("/readyz", "*/*"), (200, "ready\n".to_owned()));
    let openmetrics = server.get("/metrics", "application/openmetrics-text").1;
    assert!(openmetrics.ends_with("# EOF\n"));
    assert_eq!(server.get("/nothing", "*/*").0, 404);
    assert_eq!(http_ask(&server.address, "POST", "/metrics", &[], "").0, 405);
    let (status, _, said) = run(bed.server().command("ip").args(["link", "del", "veth0"]));
    assert!(status.success(), "{said}");
    let why = wait_for("a port that is gone", || match server.get("/readyz", "*/*") {
        (503, why) => Ok(why),
        (_, other) => Err(other),
    });
    assert!(why.contains("xdp:veth0 moves nothing"), "{why}");
    daemon.kill();
    let (status, why) = server.get("/healthz", "*/*");
    assert!(status == 503 && why.contains("admin.sock"), "{status} {why}");
    let (status, text) = server.get("/metrics", "text/plain");
    assert!(status == 200 && text.ends_with("calisto_up 0.0\n"), "{status} {text}");
}

#[test]
fn clients_that_say_nothing_keep_nobody_out() {
    let bed = bed();
    let daemon = Daemon::start(bed.server(), GOOD);
    let server = Server::start(&daemon);
    let silent: Vec<_> = (0..100).map(|_| TcpStream::connect(&server.address)).collect();
    // They hold every place until their time for a request is over.
    assert_eq!(server.get("/healthz", "*/*").0, 200);
    assert!(silent.iter().all(Result::is_ok));
}

#[test]
fn without_an_address_it_prints_once() {
    let bed = bed();
    let daemon = Daemon::start(bed.server(), GOOD);
    let text = daemon.calisto("metrics");
    assert!(text.contains("calisto_dispatcher_rx_packets_total "), "{text}");
    let found: serde_json::Value =
        serde_json::from_str(&daemon.calisto("metrics -j")).expect("it is JSON");
    assert_eq!(found["schema_version"], 1);
    assert_eq!(found["families"][0]["name"], "calisto_up");
}
