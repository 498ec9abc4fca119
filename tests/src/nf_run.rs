//! A chain of network functions that runs on a host, as `calisto nf run` runs it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use chain::figures::Figures;
use chain::file::{ChainFile, Kinds};
use chain::{Chain, Event, socket};

use crate::line::Host;
use crate::process::{TIMEOUT, wait_for};

/// A running chain, called `edge` whatever host it runs on. Dropped, it has ended.
#[derive(Debug)]
pub struct NfRun {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), String>>>,
    folder: PathBuf,
    said: Arc<Mutex<Vec<Event>>>,
    /// A file that is to be put in force, and where to say how that went.
    reload: Arc<Mutex<Option<Reload>>>,
}

type Reload = (String, mpsc::Sender<Result<(), String>>);

impl NfRun {
    /// Starts one on `host` and waits until it forwards. `text` is its file but for the name;
    /// `files` lie beside it, by name and content, readable for their owner only.
    ///
    /// # Panics
    /// It does not come up; why not is in the message.
    pub fn start(host: &Host, text: &str, files: &[(&str, &str)]) -> Self {
        Self::start_with(host, text, files, Kinds::default())
    }

    /// The same for one whose functions may be of these kinds, too.
    ///
    /// # Panics
    /// It does not come up; why not is in the message.
    pub fn start_with(host: &Host, text: &str, files: &[(&str, &str)], kinds: Kinds) -> Self {
        match Self::try_start_with(host, text, files, kinds) {
            Ok(run) => run,
            Err(why) => panic!("the chain does not come up: {why}"),
        }
    }

    /// The same for one that may not come up: then why not.
    ///
    /// # Errors
    /// The sentence that an operator would read.
    ///
    /// # Panics
    /// The temporary folder cannot be written.
    pub fn try_start(host: &Host, text: &str, files: &[(&str, &str)]) -> Result<Self, String> {
        Self::try_start_with(host, text, files, Kinds::default())
    }

    fn try_start_with(
        host: &Host,
        text: &str,
        files: &[(&str, &str)],
        kinds: Kinds,
    ) -> Result<Self, String> {
        let folder = folder();
        for (name, content) in files {
            write_private(&folder.join(name), content);
        }
        let text = format!("name = \"edge\"\n{text}");
        let (stop, said) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let reload = Arc::new(Mutex::new(None::<Reload>));
        let (ready, is_ready) = mpsc::channel();
        let thread = {
            let (namespace, folder) = (host.namespace().to_owned(), folder.clone());
            let (stop, said) = (Arc::clone(&stop), Arc::clone(&said));
            let asked = Arc::clone(&reload);
            std::thread::spawn(move || {
                sys::netns::enter(&namespace).map_err(|error| error.to_string())?;
                let mut tell = |event: Event| {
                    if matches!(event, Event::Forwarding { .. }) {
                        let _ = ready.send(());
                    }
                    said.lock().expect("nobody panics with it").push(event);
                };
                let parse = |text: &str| {
                    ChainFile::parse_with(text, "edge.toml", &kinds).map_err(|e| e.to_string())
                };
                let file = parse(&text)?;
                let chain = Chain::start(&file, &folder, &folder, &mut tell);
                let mut chain = chain.map_err(|error| error.to_string())?;
                let is_over = || stop.load(Ordering::Relaxed);
                let is_wanted = || asked.lock().expect("nobody panics with it").is_some();
                loop {
                    let ended = chain.run_until(is_over, is_wanted, &mut tell);
                    let wanted = asked.lock().expect("nobody panics with it").take();
                    let Some((text, done)) = wanted.filter(|_| ended.is_ok()) else {
                        break ended.map_err(|error| error.to_string());
                    };
                    let reloaded = parse(&text).and_then(|file| {
                        chain.reload(&file, &folder, &mut tell).map_err(|e| e.to_string())
                    });
                    let _ = done.send(reloaded);
                }
            })
        };
        let mut run = Self { stop, thread: Some(thread), folder, said, reload };
        if is_ready.recv_timeout(TIMEOUT).is_ok() {
            return Ok(run);
        }
        Err(run.join().expect_err("it ended without an error before it forwarded"))
    }

    /// Puts another file in force, with other files beside it, while it runs.
    ///
    /// # Errors
    /// The sentence that an operator would read; it goes on as before then.
    ///
    /// # Panics
    /// It does not answer.
    pub fn reload(&self, text: &str, files: &[(&str, &str)]) -> Result<(), String> {
        for (name, content) in files {
            write_private(&self.folder.join(name), content);
        }
        let (done, is_done) = mpsc::channel();
        let text = format!("name = \"edge\"\n{text}");
        *self.reload.lock().expect("nobody panics with it") = Some((text, done));
        is_done.recv_timeout(TIMEOUT).expect("the chain answers")
    }

    /// What it has counted up to now.
    ///
    /// # Panics
    /// It does not answer.
    pub fn figures(&self) -> Figures {
        let figures = socket::ask(&socket::path_of(&self.folder, "edge"));
        figures.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The sum of a counter over all slices; `of` is `slice`, or the name of a port or function.
    ///
    /// # Panics
    /// There is none of that name.
    pub fn count(&self, of: &str, counter: &str) -> u64 {
        let figures = self.figures();
        let groups = figures.slices.iter().flat_map(|slice| &slice.groups);
        let of_it = groups.filter(|group| group.of == of || group.name == of);
        let counters = of_it.flat_map(|group| &group.counters);
        let mut found = counters.filter(|found| found.name == counter).peekable();
        assert!(found.peek().is_some(), "{of} has no counter {counter}: {figures:?}");
        found.map(|found| found.value).sum()
    }

    /// Waits until a counter is as wanted.
    ///
    /// # Panics
    /// It does not become so.
    pub fn wait_for_count(&self, of: &str, counter: &str, wanted: impl Fn(u64) -> bool) -> u64 {
        wait_for(&format!("{counter} of {of}"), || {
            let count = self.count(of, counter);
            if wanted(count) { Ok(count) } else { Err(count.to_string()) }
        })
    }

    /// Every counter that has counted something, for whoever looks why a test failed.
    fn nonzero(&self) -> String {
        let Ok(figures) = socket::ask(&socket::path_of(&self.folder, "edge")) else {
            return "what nobody knows: it does not answer".to_owned();
        };
        let mut text = format!("{:?}", figures.router);
        for group in figures.slices.iter().flat_map(|slice| &slice.groups) {
            for counter in group.counters.iter().filter(|counter| counter.value > 0) {
                text.push_str(&format!("\n{} {}: {}", group.name, counter.name, counter.value));
            }
        }
        text
    }

    /// What it has said.
    ///
    /// # Panics
    /// A thread of the test has panicked.
    pub fn said(&self) -> Vec<Event> {
        self.said.lock().expect("nobody panics with it").clone()
    }

    /// The folder of its files and its socket.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Ends it; the sentence with which it had ended by itself before, if it had.
    ///
    /// # Errors
    /// That sentence.
    pub fn end(mut self) -> Result<(), String> {
        self.stop.store(true, Ordering::Relaxed);
        self.join()
    }

    /// Waits until it ends by itself; why it did.
    ///
    /// # Panics
    /// It goes on.
    pub fn failure(mut self) -> String {
        wait_for("the end of the chain", || {
            let has_ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
            if has_ended { Ok(()) } else { Err("it goes on".to_owned()) }
        });
        self.join().expect_err("nobody told it to end")
    }

    fn join(&mut self) -> Result<(), String> {
        self.thread.take().map_or(Ok(()), |thread| thread.join().expect("it does not panic"))
    }
}

impl Drop for NfRun {
    fn drop(&mut self) {
        if std::thread::panicking() && self.thread.is_some() {
            eprintln!("the chain has counted {}", self.nonzero());
        }
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A folder of one test.
fn folder() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder =
        std::env::temp_dir().join(format!("calisto-nf-test-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder is ours");
    folder
}

fn write_private(path: &Path, content: &str) {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(content.as_bytes())).expect("the folder is ours");
}
