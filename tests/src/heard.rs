//! What a program prints, gathered while it runs, so that it never waits for its reader.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// The lines of one stream so far.
#[derive(Debug)]
pub(crate) struct Heard {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Heard {
    /// Listens to `stream` until it ends.
    pub(crate) fn of(stream: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let to = Arc::clone(&text);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                let Ok(line) = line else { return };
                let mut text = lock(&to);
                text.push_str(&line);
                text.push('\n');
            }
        });
        Self { text, reader: Some(reader) }
    }

    /// Everything so far.
    pub(crate) fn so_far(&self) -> String {
        lock(&self.text).clone()
    }

    /// Everything, once the stream has ended: its writer must be dead.
    pub(crate) fn all(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            // A reader that panicked has gathered what it could.
            let _ = reader.join();
        }
        self.so_far()
    }
}

fn lock(text: &Mutex<String>) -> MutexGuard<'_, String> {
    text.lock().expect("nobody panics while holding it")
}
