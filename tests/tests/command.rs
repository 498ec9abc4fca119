//! `calisto` as people use it: up, ask, steer, load, down; the demo; what it says without rights.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use whole::{Daemon, TIMEOUT, bed, binary, run};

fn folder(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("calisto-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("the temporary folder is ours");
    path
}

#[test]
fn a_day_in_the_life_up_ask_steer_load_down() {
    let bed = bed();
    let folder = folder("day");
    let socket = folder.join("admin.sock");
    let mut up = bed.server().command(binary("calisto"));
    up.args(["up", "--port", "xdp:veth0", "--listen", "udp:10.77.0.2:7", "--workers", "3"]);
    up.args(["--job", "synthetic", "--state", "256", "--set", "workers.state_flows=5000"]);
    let mut up =
        up.env("CALISTO_DIR", &folder).stdout(Stdio::null()).spawn().expect("calisto is there");
    let began = Instant::now();
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        assert!(began.elapsed() < TIMEOUT, "the daemon does not come up");
        std::thread::sleep(Duration::from_millis(10));
    }
    let ask = |words: &str| {
        let mut command = Command::new(binary("calisto"));
        let (status, out, said) = run(command.args(words.split(' ')).env("CALISTO_DIR", &folder));
        assert!(status.success(), "calisto {words}: {said}");
        out
    };
    assert!(ask("status").contains("xdp:veth0"));
    let mut load = bed.client().command(binary("calisto"));
    load.args(["load", "udp", "10.77.0.2:7", "--rate", "2k", "--flows", "200", "--seconds", "2"]);
    let (status, out, said) = run(load.args(["--check", "lost=0,reordered=0", "-j"]));
    assert!(status.success(), "{said}");
    assert!(out.contains("\"received\""), "{out}");
    assert!(ask("flows -n 3").contains("udp 10.77.0.1:"));
    assert!(ask("stats --help-text").contains("Packets received"));
    ask("steer set modulo");
    assert!(ask("steer show").contains("modulo"));
    ask("workers 5");
    let table = folder.join("table.txt");
    ask(&format!("steer export {}", table.display()));
    assert!(std::fs::read_to_string(&table).expect("it was written").starts_with("groups 65536"));
    ask("steer pin --group 7 1");
    ask("steer unpin --group 7");
    assert!(ask("status -j").starts_with('{'));
    ask("down");
    assert!(up.wait().expect("it is our child").success());
    assert!(!socket.exists());
    let mut late = Command::new(binary("calisto"));
    let (status, _, said) = run(late.arg("status").env("CALISTO_DIR", &folder));
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("calisto up"), "it must say how to start one: {said}");
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn the_demo_shows_least_movement_and_leaves_nothing_behind() {
    let out = demo("steer --seconds 4 --rate 2000 --flows 500");
    assert!(out.contains("modulo") && out.contains("sticky"), "{out}");
}

#[test]
fn the_demo_gives_a_core_to_and_fro_and_leaves_nothing_behind() {
    let out = demo("cores --steps 200,1000 --step-seconds 1");
    let rows: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).expect("JSON lines")).collect();
    let [steps @ .., idle] = &rows[..] else { panic!("{out}") };
    let told: Vec<_> =
        steps.iter().map(|row| (row["rate"].clone(), row["batch"].clone())).collect();
    let meant = [(1000, false), (200, true), (1000, true)];
    assert_eq!(told, meant.map(|(rate, batch)| (rate.into(), batch.into())));
    // How much of each is the machine's affair; that there is some is ours.
    for row in steps {
        let some = |figure: &str| row[figure].as_f64().is_some_and(|figure| figure > 0.0);
        assert!(some("replies_per_s") && some("app_cpu") && some("p95_us"), "{row}");
    }
    assert!(steps.iter().any(|row| row["grants_per_s"].as_f64() > Some(0.0)), "{out}");
    assert_eq!((&idle["act"], &idle["cores_idle"]), (&"idle".into(), &idle["cores"]), "{out}");
}

#[test]
fn the_demo_shows_tcp_beside_linux_and_leaves_nothing_behind() {
    let out = demo("tcp --rounds 1 --connections 8");
    let rows: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).expect("JSON lines")).collect();
    let [ours, linux] = &rows[..] else { panic!("{out}") };
    assert_eq!((&ours["server"], &linux["server"]), (&"calisto".into(), &"linux".into()));
    for row in [ours, linux] {
        // How fast each is is the machine's affair.
        for figure in ["requests_per_s", "p50_us", "p95_us", "bulk_mbit_per_s"] {
            assert!(row[figure].as_f64() > Some(0.0), "{figure}: {row}");
        }
    }
    assert!(linux["fast"].is_null(), "{linux}");
    assert!(ours["fast"].as_f64() > Some(0.5), "{ours}");
    // An acknowledgement rides on the answer.
    assert!(ours["packets_per_request"].as_f64() < Some(1.2), "{ours}");
}

/// What `calisto demo -j` prints with these words; it must leave no namespace and no process.
fn demo(words: &str) -> String {
    let mut demo = Command::new(binary("calisto"));
    let (status, out, said) = run(demo.arg("demo").args(words.split(' ')).arg("-j"));
    assert!(status.success(), "{said}");
    let (_, left, _) = run(Command::new("ip").args(["netns", "list"]));
    let own = format!("calisto-{}", std::process::id());
    let strangers =
        left.lines().filter(|line| line.starts_with("calisto-") && !line.starts_with(&own));
    let alive = strangers.filter(|line| {
        let pid = line.split('-').nth(1).unwrap_or_default();
        let name = line.split(' ').next().unwrap_or_default();
        // Another one may have ended since, with all that it had.
        !Path::new("/proc").join(pid).exists() && Path::new("/run/netns").join(name).exists()
    });
    assert_eq!(alive.count(), 0, "namespaces of a process that has ended: {left}");
    out
}

#[test]
fn without_rights_the_daemon_says_which_it_lacks() {
    let folder = folder("rights");
    let open = |path: &std::path::Path, mode| {
        let rights = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, rights).expect("the folder is ours");
    };
    open(&folder, 0o777);
    let program = folder.join("calistod");
    // By another process: a thread that forks meanwhile would hold it open, and what is open for
    // writing cannot be run.
    let copied = Command::new("cp").arg(binary("calistod")).arg(&program).status();
    assert!(copied.expect("there is cp").success(), "there is room for it");
    open(&program, 0o755);
    let config = folder.join("calisto.toml");
    let text = format!(
        "ports = [\"xdp:lo\"]\nlisten = [\"udp:127.0.0.1:7\"]\nadmin_socket = {:?}\n",
        folder.join("admin.sock").display().to_string()
    );
    std::fs::write(&config, text).expect("the folder is ours");
    open(&config, 0o644);
    let mut daemon = Command::new(&program);
    let (status, _, said) = run(daemon.arg("--config").arg(&config).uid(65534).gid(65534));
    let _ = std::fs::remove_dir_all(&folder);
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("CAP_"), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
}

#[test]
fn what_the_command_line_cannot_mean_ends_with_2_whoever_finds_it_and_what_a_file_says_with_1() {
    let folder = folder("usage");
    let bad = folder.join("bad.toml");
    std::fs::write(&bad, "prots = []\n").expect("the folder is ours");
    let bad = bad.to_str().expect("it is text");
    let socket = folder.join("nobody.sock");
    let ends = |words: &str, code: i32| {
        let mut command = Command::new(binary("calisto"));
        let command = command.args(words.split(' ')).env("CALISTO_ADMIN", &socket);
        let (status, _, said) = run(command);
        assert_eq!(status.code(), Some(code), "calisto {words}: {said}");
    };
    for words in [
        "steer set modula",
        "cores set queue_delai",
        "log loud",
        "log prots debug",
        "up --port xpd:lo --listen udp:127.0.0.1:7",
        "up --port xdp:lo --listen udp:127.0.0.1",
        "up --port xdp:lo --listen udp:127.0.0.1:7 --policy modula",
        "up --port xdp:lo --set nope.x=3",
        "web --listen 0.0.0.0:80",
        "pcap -w x --host here",
        "metrics --listen here:80",
        "sim calisto-66",
    ] {
        ends(words, 2);
    }
    for words in ["up --config", "config check", "nf check", "sim"] {
        ends(&format!("{words} {bad}"), 1);
    }
    ends("steer set modulo", 1);
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn a_disk_that_is_full_leaves_no_empty_file_and_of_a_table_what_was_there_before() {
    let bed = bed();
    let config = "ports = [\"xdp:veth0\"]\nlisten = [\"udp:10.77.0.2:7\"]\n";
    let daemon = Daemon::start(bed.server(), config);
    // A limit of no bytes at all is met as a full disk is: the file can be made, and not written.
    let full = |words: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"]);
        command.arg(binary("calisto")).args(words.split(' '));
        let (status, _, said) = run(command.env("CALISTO_ADMIN", daemon.socket()));
        assert_eq!(status.code(), Some(1), "{words}: {said}");
        assert!(said.contains("cannot write"), "{words}: {said}");
        said
    };
    let file = daemon.folder().join("file");
    let name = file.to_str().expect("it is text");
    for words in [format!("record --seconds 1 {name}"), format!("pcap -w {name} -c 1")] {
        let said = full(&words);
        assert!(said.contains("nothing of it is left") && !file.exists(), "{words}: {said}");
    }
    std::fs::write(&file, "before").expect("the folder is the test's");
    full(&format!("steer export {name}"));
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "before");
    // Who is refused has written nothing either.
    let (status, ..) = daemon.try_calisto(&format!("record --app nobody {name}"));
    assert_eq!(status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "before");
}

#[test]
fn counters_that_are_zero_are_in_json_only_if_they_are_asked_for() {
    let bed = bed();
    let daemon = Daemon::start(bed.server(), "ports = [\"xdp:veth0\"]\n");
    let zeros = |words: &str| daemon.calisto(words).matches("\"value\":0}").count();
    assert_eq!(zeros("stats -j"), 0);
    assert!(zeros("stats --all -j") > 10);
}

#[test]
fn every_trace_point_is_in_the_daemon() {
    let program = std::fs::read(binary("calistod")).expect("it is there");
    let has = |text: &str| program.windows(text.len()).any(|window| window == text.as_bytes());
    for point in [
        "epoch_published",
        "epoch_finished",
        "move_started",
        "move_released",
        "handover_aborted",
        "worker_added",
        "worker_retired",
        "worker_died",
        "packet_dropped",
    ] {
        // In the note of a probe, provider and name stand one behind the other.
        assert!(has(&format!("calisto\0{point}\0")), "{point}");
    }
}
