//! `calisto web`: what the page shows in a real browser, and who may read and change what.

use std::process::Command;

use whole::{Daemon, Program, bed, binary, http_ask, http_get, project, run, wait_for};

const CONFIG: &str = "ports = [\"xdp:veth0\"]\nlisten = [\"udp:10.77.0.2:7\"]\n[cores]\nset = [0]\n\
                      [workers]\ncount = 2\narrangement = \"threads\"\n";

/// `calisto web` about a daemon, at an address that it says.
struct Page {
    _program: Program,
    address: String,
}

impl Page {
    fn start(daemon: &Daemon, options: &[&str]) -> Self {
        let mut command = Command::new(binary("calisto"));
        command.args(["web", "--listen", "127.0.0.1:0"]).args(options);
        let mut program = Program::spawn(command.env("CALISTO_ADMIN", daemon.socket()));
        program.wait_until_it_says("serving");
        let said = program.so_far();
        let address = said.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        Self { address: address.expect("it says where").to_owned(), _program: program }
    }

    fn change(&self, token: &str, change: &str) -> (u16, String) {
        let authorization = format!("Bearer {token}");
        let headers = [("Authorization", authorization.as_str())];
        http_ask(&self.address, "POST", "/change", &headers, change)
    }

    fn look(&self) -> serde_json::Value {
        let (status, text) = http_get(&self.address, "/look", &[]);
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).expect("it is JSON")
    }
}

/// The page as a browser has it after it asked a few times.
fn in_a_browser(page: &Page, folder: &std::path::Path) -> String {
    let mut install = Command::new(project().join("script/install-missing"));
    let (status, _, said) = run(install.arg("chromium=chromium"));
    assert!(status.success(), "{said}");
    let mut browser = Command::new("chromium");
    browser.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--virtual-time-budget=5000",
        "--dump-dom",
    ]);
    browser.arg(format!("--user-data-dir={}", folder.join("browser").display()));
    let (status, dom, said) = run(browser.arg(format!("http://{}/", page.address)));
    assert!(status.success(), "{said}");
    dom
}

#[test]
fn a_browser_shows_workers_ports_and_cores_and_what_is_wrong() {
    let bed = bed();
    let mut daemon = Daemon::start(bed.server(), CONFIG);
    let page = Page::start(&daemon, &["--every-ms", "100"]);
    let folder = daemon.folder().to_owned();
    let dom = wait_for("the page shows a look", || {
        let dom = in_a_browser(&page, &folder);
        if dom.contains("data-looks") { Ok(dom) } else { Err(dom) }
    });
    for shown in ["xdp:veth0", "packing", "active", "serving", "core 0 held"] {
        assert!(dom.contains(shown), "no {shown:?} in {dom}");
    }
    assert!(dom.contains(&format!("process {}", daemon.pid())), "{dom}");
    daemon.kill();
    let dom = in_a_browser(&page, &folder);
    assert!(dom.contains("class=\"wrong\"") && dom.contains("no daemon listens"), "{dom}");
}

#[test]
fn the_page_answers_to_its_own_names_only_and_changes_nothing_without_a_token() {
    let bed = bed();
    let daemon = Daemon::start(bed.server(), CONFIG);
    let page = Page::start(&daemon, &[]);
    for path in ["/", "/page.js", "/page.css", "/look"] {
        assert_eq!(http_get(&page.address, path, &[]).0, 200, "{path}");
        let foreign = [("Host", "rebound.example:9465")];
        assert_eq!(http_get(&page.address, path, &foreign).0, 421, "{path}");
    }
    assert_eq!(http_get(&page.address, "/elsewhere", &[]).0, 404);
    assert_eq!(http_ask(&page.address, "POST", "/look", &[], "").0, 405);
    let (status, why) = page.change("", r#"{"change":"steer","policy":"modulo"}"#);
    assert!(status == 403 && why.contains("--token-file"), "{status}: {why}");
    assert_eq!(page.look()["status"]["policy"], "sticky");
    let elsewhere = Command::new(binary("calisto")).args(["web", "--listen", "0.0.0.0:0"]).output();
    let said = elsewhere.expect("it starts");
    assert_eq!(said.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&said.stderr).contains("ssh -L"), "{said:?}");
}

#[test]
fn who_knows_the_token_changes_what_the_page_offers_and_no_more() {
    use std::os::unix::fs::PermissionsExt;
    let bed = bed();
    let daemon = Daemon::start(bed.server(), CONFIG);
    let file = daemon.folder().join("token");
    std::fs::write(&file, "correct horse\n").expect("the folder is ours");
    let token_file = file.display().to_string();
    let refused = |mode: u32| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("it is ours");
        let mut command = Command::new(binary("calisto"));
        command.args(["web", "--listen", "127.0.0.1:0", "--token-file", &token_file]);
        let (status, _, said) = run(&mut command);
        assert_eq!(status.code(), Some(1), "{said}");
        said
    };
    assert!(refused(0o644).contains("chmod 600"));
    assert!(refused(0o600).contains("at least 16 characters"));
    std::fs::write(&file, "0123456789abcdef\n").expect("the folder is ours");
    let page = Page::start(&daemon, &["--token-file", &token_file]);
    let policy = || page.look()["status"]["policy"].as_str().map(str::to_owned);
    let change = r#"{"change":"steer","policy":"modulo"}"#;
    assert_eq!(page.change("0123456789abcdee", change).0, 401);
    assert_eq!(policy().as_deref(), Some("sticky"));
    assert_eq!(page.change("0123456789abcdef", change).0, 200);
    wait_for("the policy", || match policy() {
        Some(name) if name == "modulo" => Ok(()),
        other => Err(format!("{other:?}")),
    });
    for (body, part) in [
        (r#"{"change":"stop"}"#, "unknown variant"),
        (r#"{"change":"steer","policy":"nothing"}"#, "nothing"),
        ("", "cannot be read"),
    ] {
        let (status, why) = page.change("0123456789abcdef", body);
        assert!(status == 400 && why.contains(part), "{body}: {status} {why}");
    }
    let long = "x".repeat(10_000);
    assert_eq!(page.change("0123456789abcdef", &long).0, 400);
    assert_eq!(policy().as_deref(), Some("modulo"));
}
