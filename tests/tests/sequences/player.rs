//! One process that plays lines, and is killed when it does not answer.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Longer than any call may take that a player lets wait.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// A running player. Dropped, it is asked to end.
pub(crate) struct Player {
    process: Child,
    lines: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Player {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut process = command.spawn().expect("the player was built");
        let out = process.stdout.take().expect("it is piped");
        let lines = process.stdin.take();
        let (to, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if to.send(line).is_err() {
                    return;
                }
            }
        });
        Self { process, lines, answers }
    }

    /// What comes of a call; none when the player has died of it, or stays in it.
    pub(crate) fn play(&mut self, timeout: Duration, call: &str) -> Option<String> {
        let line = format!("{} {call}\n", timeout.as_millis());
        self.lines.as_mut()?.write_all(line.as_bytes()).ok()?;
        self.answers.recv_timeout(ANSWER_WITHIN).ok()
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        drop(self.lines.take());
        // It ends by itself when nobody asks any more, unless it stays in a call.
        for _ in 0..100 {
            if self.process.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
