//! `docs/reference/admin-protocol.md` against a real daemon: what it shows is what happens.

use admin::ReplyBody;
use serde_json::Value;
use whole::{Application, Daemon, bed, project};

/// The request lines of the document.
fn documented() -> Vec<String> {
    let text = std::fs::read_to_string(project().join("docs/reference/admin-protocol.md"))
        .expect("it is there");
    let lines =
        text.lines().filter(|line| line.starts_with("{\"v\":1,") && line.contains("\"command\":"));
    lines.map(str::to_owned).collect()
}

/// The daemon of this test has another job.
const NO_SOCKETS: &str = "A daemon whose workers serve no sockets of programs answers `error`";

/// Examples that are answered with `error`, and the words by which the document says so.
const REFUSED: [(&str, &str); 9] = [
    (r#"{"v":1,"command":"sockets","count":100}"#, NO_SOCKETS),
    (
        r#"{"v":1,"app":"redis-server","command":"sockets","from":12884901889,"count":4096}"#,
        NO_SOCKETS,
    ),
    (r#"{"v":1,"command":"fallbacks"}"#, NO_SOCKETS),
    (r#"{"v":1,"command":"trace","one_in":1000}"#, NO_SOCKETS),
    (r#"{"v":1,"app":"redis-server","command":"trace","one_in":1}"#, NO_SOCKETS),
    (r#"{"v":1,"app":"redis-server","command":"fallbacks"}"#, NO_SOCKETS),
    (
        r#"{"v":1,"app":"redis-server","command":"capture","host":"10.0.0.1","port":6379,"snaplen":96,"packets":1000,"bytes":1048576}"#,
        "An application that is not there is answered by `error`",
    ),
    (
        r#"{"v":1,"app":"web","command":"workers","count":2}"#,
        "An application has the workers that it has attached with",
    ),
    (
        r#"{"v":1,"command":"cores_set","policy":"static_set"}"#,
        "While no cores are given out, this is answered by `error`",
    ),
];

#[test]
fn every_question_that_the_protocols_document_shows_is_answered_by_a_daemon_as_it_says() {
    let bed = bed();
    let mut daemon = Daemon::with_small_tables(bed.server(), "sticky");
    let words = "udp-echo --listen udp:10.77.0.2:9 --name web --workers 2";
    let web = Application::start(&daemon, words);
    let text = std::fs::read_to_string(project().join("docs/reference/admin-protocol.md"))
        .expect("it is there");
    let lines = documented();
    assert!(lines.len() > 25, "{}", lines.len());
    let stop = lines.iter().position(|line| line.contains("\"stop\"")).expect("it has an example");
    let mut lines = lines;
    let stop = lines.remove(stop);
    // It places an unowned group, so it comes before the tables that give them all away.
    let plan = lines.iter().position(|line| line.contains("\"place\"")).expect("it has one");
    let plan = lines.remove(plan);
    let workers = lines.iter().position(|line| line.contains("\"workers\"")).expect("it has one");
    lines.insert(workers + 1, plan);
    for line in &lines {
        let command = serde_json::from_str::<Value>(line).expect(line)["command"].clone();
        // Some questions are answered by "try again" while groups move.
        daemon.wait_until("rest", |_| true);
        if line.contains("\"place\"") {
            let table = r#"{"v":1,"command":"steer_load","table":"groups 128\n0-126 0\n"}"#;
            assert_eq!(daemon.line(table), ReplyBody::Done);
            daemon.wait_until("the loaded table", |steer| steer.owned.contains(&(0, 127)));
        }
        let mut operator = daemon.connect();
        operator.send(line);
        match command.as_str().expect("a name") {
            "watch" => {
                // It goes on by itself.
                operator.sample();
                if !line.contains("1000000") {
                    operator.sample();
                }
            }
            "record" => {
                let first = operator.text();
                assert!(first.starts_with("{\"calisto_recording\":1,"), "{line}: {first}");
            }
            _ => {
                let body = operator.answer();
                let refused = REFUSED.iter().find(|(refused, _)| refused == line);
                match (&body, refused) {
                    (ReplyBody::Error { .. }, Some((_, sentence))) => {
                        // Wherever its lines break.
                        let words: Vec<&str> = text.split_whitespace().collect();
                        let is_said = words.join(" ").contains(sentence);
                        assert!(is_said, "the document does not say: {sentence}");
                    }
                    (ReplyBody::Error { message }, None) => panic!("{line}: {message}"),
                    (_, Some(_)) => panic!("{line} is not refused: {body:?}"),
                    (_, None) => {}
                }
            }
        }
        if command == "workers" && !line.contains("web") {
            // They are spawned a moment after the answer, and then the table changes.
            let request: Value = serde_json::from_str(line).expect(line);
            let count = request["count"].as_u64().expect("a number") as usize;
            daemon.wait_until("as many workers", |steer| steer.owned.len() == count);
        }
    }
    assert_eq!(daemon.wait_until_gone("web").name, "operator", "the last example is `detach`");
    drop(web);
    assert_eq!(daemon.line(&stop), ReplyBody::Done);
    assert!(daemon.wait().success());
}
