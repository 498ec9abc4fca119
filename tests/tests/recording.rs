//! What is written down and looked at later: recordings of the control loop, captures, the doctor.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use admin::Command as Ask;
use rustix::process::Signal;
use serde_json::Value;
use whole::{
    Application, Daemon, Program, Sniffer, Traffic, answered, bed, binary, run, wait_for,
    write_capture,
};

/// `calisto replay-plans FILE -j`: its exit code, what it found, and what it complained of.
fn replay_plans(daemon: &Daemon, file: &Path) -> (Option<i32>, Value, String) {
    let (status, out, said) = daemon.try_calisto(&format!("replay-plans -j {}", file.display()));
    (status.code(), serde_json::from_str(&out).unwrap_or(Value::Null), said)
}

#[test]
fn a_recording_of_changing_workers_gives_the_same_plans_again_and_a_damaged_one_says_where() {
    let bed = bed();
    let daemon = Daemon::with_small_tables(bed.server(), "sticky");
    let words = "udp-echo --listen udp:10.77.0.2:9 --name web --workers 2";
    let _web = Application::start(&daemon, words);
    let file = |name: &str| -> PathBuf { daemon.folder().join(name) };
    let (own, webs) = (file("own.rec"), file("web.rec"));
    let record = |file: &Path, words: &[&str]| {
        let mut command = Command::new(binary("calisto"));
        command.args(["record", "--seconds", "1"]).args(words).arg(file);
        let command = command.env("CALISTO_ADMIN", daemon.socket()).stdout(Stdio::null());
        command.stderr(Stdio::piped()).spawn().expect("calisto is there")
    };
    let children = [record(&own, &[]), record(&webs, &["--app", "web"])];
    let traffic = Traffic::start(&bed, 7, 60);
    let mut running = children.map(Some);
    let mut counts = [3, 2, 4, 2, 5, 3].into_iter().cycle();
    wait_for("the end of both recordings", || {
        daemon.must(Ask::Workers { count: counts.next().expect("it goes round and round") });
        answered(&bed, 9);
        for child in &mut running {
            let Some(mut ended) = child.take() else { continue };
            match ended.try_wait().expect("it is our child") {
                Some(status) => assert!(status.success(), "{status}"),
                None => *child = Some(ended),
            }
        }
        if running.iter().all(Option::is_none) { Ok(()) } else { Err("they run".to_owned()) }
    });
    traffic.end();
    let (code, report, said) = replay_plans(&daemon, &own);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!((&report["difference"], &report["ending"]), (&Value::Null, &"complete".into()));
    for figure in ["ticks", "plans", "tables"] {
        assert!(report[figure].as_u64().is_some_and(|count| count > 0), "{figure}: {report}");
    }
    assert!(daemon.calisto(&format!("replay-plans {}", own.display())).contains("is the same"));
    let (code, report, said) = replay_plans(&daemon, &webs);
    assert_eq!((code, &report["difference"]), (Some(0), &Value::Null), "{said}");
    assert!(report["placements"].as_u64() > Some(0), "new flows came all the time: {report}");

    let text = std::fs::read_to_string(&webs).expect("it was written");
    let damaged = file("damaged.rec");
    let judge = |text: &str| {
        std::fs::write(&damaged, text).expect("there is room");
        let (code, report, said) = replay_plans(&daemon, &damaged);
        assert_eq!(code, Some(1), "{said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
        (report, said)
    };
    let (report, said) = judge(&text[..text.len() / 2]);
    assert_eq!(report["ending"], "cut_off", "{said}");
    let placed = text.find("\"placed\":{\"now\":").expect("a group was placed") + 16;
    let line = text[..placed].matches('\n').count() + 1;
    let mut other = text.clone();
    let another = if &text[placed..=placed] == "0" { "1" } else { "0" };
    other.replace_range(placed..=placed, another);
    let (report, said) = judge(&other);
    assert_eq!(report["difference"]["line"], line, "{said}");
    let mut broken: Vec<&str> = text.lines().collect();
    broken[4] = "{\"tick\":nonsense}";
    let (_, said) = judge(&(broken.join("\n") + "\n"));
    assert!(said.contains("line 5 of the recording is damaged"), "{said}");
}

#[test]
fn a_recording_that_ctrl_c_ends_is_whole() {
    let bed = bed();
    let daemon = Daemon::with_small_tables(bed.server(), "sticky");
    let file = daemon.folder().join("ended.rec");
    let mut command = Command::new(binary("calisto"));
    command.args(["record", "--seconds", "300"]).arg(&file);
    let recording = Program::spawn(command.env("CALISTO_ADMIN", daemon.socket()));
    answered(&bed, 7);
    wait_for("a tick in the file", || match std::fs::read_to_string(&file) {
        Ok(text) if text.contains("\"tick\"") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    recording.signal(Signal::INT);
    assert!(recording.end().status.success());
    let (code, report, said) = replay_plans(&daemon, &file);
    assert_eq!((code, &report["ending"]), (Some(0), &"complete".into()), "{said}");
}

#[test]
fn the_doctor_names_the_interface_that_it_finds() {
    let bed = bed();
    let mut doctor = bed.server().command(binary("calisto"));
    let (_, out, said) = run(doctor.args(["doctor", "--quick", "-j"]));
    let report: Value =
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{said}"));
    let findings = report["findings"].as_array().expect("a list");
    let about_veth0 = findings.iter().filter(|finding| finding.to_string().contains("veth0"));
    assert!(about_veth0.count() > 0, "{out}");
    for finding in findings {
        for field in ["subject", "level", "what"] {
            assert!(finding[field].is_string(), "{field}: {finding}");
        }
        let is_missing = finding["level"] == "missing";
        assert!(!is_missing || finding["mend"].is_string(), "nothing mends it: {finding}");
    }
}

#[test]
fn a_capture_of_real_traffic_is_replayed_with_every_packet_of_it() {
    let bed = bed();
    let daemon = Daemon::with_small_tables(bed.server(), "sticky");
    let sniffer = Sniffer::new(bed.client());
    let answers = answered(&bed, 7);
    let mut packets = Vec::new();
    wait_for("both directions of every flow", || {
        packets.extend(sniffer.packets());
        let seen = packets.len() as u64;
        if seen >= 2 * answers { Ok(()) } else { Err(format!("{seen} packets")) }
    });
    let file = daemon.folder().join("real.pcap");
    write_capture(&file, &packets);
    let words = format!("replay -j --workers 2,3 {}", file.display());
    let report: Value = serde_json::from_str(&daemon.calisto(&words)).expect("-j prints JSON");
    assert_eq!(report["packets"], packets.len());
    assert_eq!((&report["lost"], &report["duplicated"]), (&0.into(), &0.into()));
    assert_eq!(report["flows"]["reordered"], 0);
    let of_workers = report["by_worker"].as_array().expect("a list").iter();
    let of_workers: u64 = of_workers.filter_map(|worker| worker["packets"].as_u64()).sum();
    assert_eq!(of_workers, 2 * answers, "{report}");
    // A record that is cut off is a sentence, and what came before counts.
    let bytes = std::fs::read(&file).expect("it was written");
    std::fs::write(&file, &bytes[..bytes.len() - 7]).expect("there is room");
    let (status, out, said) = daemon.try_calisto(&words);
    let report: Value = serde_json::from_str(&out).expect("the report comes all the same");
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(report["damage"].is_string() && report["packets"].as_u64() > Some(0), "{report}");
}
