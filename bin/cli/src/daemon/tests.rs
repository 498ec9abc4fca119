//! Against a daemon that is a thread with a socket and one prepared answer.

use std::os::unix::net::UnixListener;
use std::thread::JoinHandle;

use super::*;

/// A daemon that answers the first line with `answer`; joined, it gives that line.
struct Fake {
    socket: PathBuf,
    thread: JoinHandle<String>,
}

impl Fake {
    fn new(name: &str, answer: &str) -> Self {
        let socket =
            std::env::temp_dir().join(format!("calisto-fake-{name}-{}.sock", std::process::id()));
        let listener = UnixListener::bind(&socket).expect("the name is ours");
        let answer = answer.to_owned();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("the test connects");
            let mut line = String::new();
            let mut reader = BufReader::new(stream.try_clone().expect("descriptors are left"));
            reader.read_line(&mut line).expect("the test sends a line");
            stream.write_all(answer.as_bytes()).expect("the test reads it");
            line
        });
        Self { socket, thread }
    }

    fn ask(self, command: Command) -> (Result<ReplyBody, Failure>, String) {
        let answer = Daemon::at(&self.socket).ask(command);
        let line = self.thread.join().expect("it does not panic");
        std::fs::remove_file(self.socket).expect("it is ours");
        (answer, line)
    }
}

fn encoded(body: ReplyBody) -> String {
    admin::encode(&Reply::new(body)).expect("it can be written")
}

#[test]
fn a_question_is_one_line_and_so_is_the_answer() {
    let fake = Fake::new("done", &encoded(ReplyBody::Done));
    let (answer, line) = fake.ask(Command::Workers { count: 5 });
    assert_eq!(answer, Ok(ReplyBody::Done));
    assert_eq!(line, "{\"v\":1,\"command\":\"workers\",\"count\":5}\n");
}

#[test]
fn an_error_of_the_daemon_is_passed_on_word_for_word() {
    let message = "there is no policy \"x\"".to_owned();
    let fake = Fake::new("error", &encoded(ReplyBody::Error { message: message.clone() }));
    let (answer, _) = fake.ask(Command::SteerSet { policy: "x".to_owned() });
    let failure = answer.expect_err("it refused");
    assert_eq!((failure.to_string(), failure.exit_code()), (message, 1));
}

#[test]
fn an_answer_that_is_none_is_refused_with_a_reason() {
    for (name, answer, part) in [
        ("nothing", String::new(), "closed the connection without an answer"),
        ("noise", "what?\n".to_owned(), "not a message of the admin protocol"),
        ("version", "{\"v\":2,\"reply\":\"done\"}\n".to_owned(), "version 2"),
    ] {
        let (answer, _) = Fake::new(name, &answer).ask(Command::Status);
        let failure = answer.expect_err(name).to_string();
        assert!(failure.contains(part), "{failure}");
    }
}

#[test]
fn an_answer_to_another_question_is_not_taken_for_done() {
    let fake = Fake::new("other", &encoded(ReplyBody::Stats { threads: Vec::new() }));
    let failure = Daemon::at(&fake.socket).tell(Command::Stop).expect_err("it is no `done`");
    assert!(failure.to_string().contains("another question"), "{failure}");
    fake.thread.join().expect("it does not panic");
    std::fs::remove_file(fake.socket).expect("it is ours");
}

#[test]
fn no_daemon_is_a_sentence_that_says_how_to_start_one() {
    let failure = Daemon::at("/nowhere/a.sock").ask(Command::Status).expect_err("there is none");
    let sentence = failure.to_string();
    assert!(sentence.starts_with("no daemon listens at /nowhere/a.sock: "), "{sentence}");
    assert!(sentence.contains("`calisto up --port"), "{sentence}");
    assert_eq!(failure.exit_code(), 1);

    // A socket whose daemon has died without removing it.
    let left = std::env::temp_dir().join(format!("calisto-left-{}.sock", std::process::id()));
    drop(UnixListener::bind(&left).expect("the name is ours"));
    let failure = Daemon::at(&left).ask(Command::Status).expect_err("nobody listens");
    assert!(failure.to_string().starts_with("no daemon listens at"), "{failure}");
    std::fs::remove_file(left).expect("it is ours");
}

#[test]
fn a_path_that_no_socket_can_have_is_said_to_be_too_long() {
    let failure = Daemon::at("/x".repeat(100)).ask(Command::Status).expect_err("too long");
    assert!(failure.to_string().contains("a shorter path"), "{failure}");
}
