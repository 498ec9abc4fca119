//! `calisto config check`: it refuses what the daemon refuses, and nothing else, on the machine
//! where it runs.

use std::process::ExitStatus;
use std::sync::atomic::{AtomicU32, Ordering};

use testbed::Side;
use whole::{Daemon, bed, binary, run};

const GOOD: &str = "ports = [\"xdp:veth0\"]\nlisten = [\"udp:10.77.0.2:7\"]\n\
                    [workers]\njob = \"echo\"\n";

/// What `calisto config check WORDS` says of `config` on `side`.
fn check(side: &Side, config: &str, words: &[&str]) -> (ExitStatus, String, String) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("calisto-check-{}-{number}.toml", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, config).expect("the temporary folder is ours");
    let mut command = side.command(binary("calisto"));
    let said = run(command.args(["config", "check"]).args(words).arg(&file));
    std::fs::remove_file(&file).expect("it is ours");
    said
}

#[test]
fn it_refuses_what_the_daemon_refuses_and_names_the_line() {
    let bed = bed();
    for (config, line) in [
        (GOOD.replace("ports", "prots"), 1),
        (GOOD.replace("xdp:veth0", "xpd:veth0"), 1),
        (GOOD.replace("veth0", "veth9"), 1),
        (GOOD.replace("veth0", "veth0@99"), 1),
        (GOOD.replace("udp:10.77.0.2:7", "udp:10.77.0.2"), 2),
        (GOOD.replace("udp:", "tcp:"), 4),
        (GOOD.replace("echo", "ecko"), 4),
        (format!("{GOOD}[cores]\nset = [1023]\n"), 6),
        (format!("{GOOD}[steer]\npolicy = \"stiky\"\n"), 6),
        (format!("{GOOD}[cores]\nset = [0, 0]\n"), 6),
        (format!("{GOOD}[apps]\nallow = [\"user:nobody-of-that-name\"]\n"), 6),
    ] {
        let refused = Daemon::try_start(bed.server(), &config);
        assert!(refused.is_err(), "the daemon runs it: {config}");
        let (status, out, said) = check(bed.server(), &config, &[]);
        assert_eq!(status.code(), Some(1), "{config}: {out}{said}");
        assert!(out.contains(&format!("line {line}: wrong: ")), "{config}: {out}");
        assert!(said.contains("would not start"), "{said}");
    }
}

#[test]
fn it_accepts_what_the_daemon_runs_and_asks_no_other_machine_than_its_own() {
    let bed = bed();
    let (status, out, said) = check(bed.server(), GOOD, &[]);
    assert!(status.success() && out.ends_with(": nothing is wrong\n"), "{out}{said}");
    drop(Daemon::start(bed.server(), GOOD));
    // The other side has another address, which is only doubtful, and other interfaces.
    let (status, out, said) = check(bed.server(), &GOOD.replace("0.2:7", "0.9:7"), &[]);
    assert!(status.success() && out.contains("line 2: doubtful: "), "{out}{said}");
    let elsewhere = GOOD.replace("veth0", "eth7");
    let (status, out, _) = check(bed.server(), &elsewhere, &["-j"]);
    assert_eq!(status.code(), Some(1));
    let found: serde_json::Value = serde_json::from_str(&out).expect("it is JSON");
    assert_eq!((&found["ok"], &found["findings"][0]["line"]), (&false.into(), &1.into()));
    let (status, out, said) = check(bed.server(), &elsewhere, &["--elsewhere"]);
    assert!(status.success(), "{out}{said}");
}

#[test]
fn settings_that_are_printed_are_held_against_the_machine_too() {
    let bed = bed();
    let mut command = bed.server().command(binary("calisto"));
    let (status, out, said) = run(command.args(["up", "--port", "xdp:veth9", "--print-config"]));
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(out.contains("ports = [\"xdp:veth9\"]"), "{out}");
    assert!(said.contains("there is no interface veth9") && said.contains("veth0"), "{said}");
}
