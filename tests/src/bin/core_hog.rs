//! `core-hog`: an application that takes a core and does not behave, for tests of what that costs
//! others.
//!
//! It speaks to its core grant directly, as no honest program does. It ends on SIGTERM, and by
//! itself after a minute.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use attach::{AttachRequest, CoresClass, CoresRequest, Link, ToApp, ToDaemon};
use base::Nanos;
use shm::CoreCommand;
use shm::core_grant::CoreGrantTasks;
use shm::packets::{PacketEnd, PacketMemory};
use sys::eventfd::EventFd;

/// Nobody has to end it by hand.
const LIFE: Duration = Duration::from_secs(60);

/// What it does wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sin {
    /// Computes for ever.
    NeverParks,
    /// Says that it parked, and computes on.
    ParksAndViolates,
    /// Says that its queues are full of old tasks.
    Forges,
    /// Says that it is a thread of process 1.
    NamesAStranger,
    /// Its thread ends while it holds the core; the process goes on.
    LosesItsThread,
    /// Says over and over that it has something to say.
    Babbles,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("core-hog: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Hog {
    link: Link,
    end: PacketEnd,
    daemon: EventFd,
}

fn run() -> Result<(), String> {
    let words: Vec<String> = std::env::args().collect();
    let value = |key: &str| {
        let at = words.iter().position(|word| word == key)?;
        words.get(at + 1).cloned()
    };
    let sins = [
        ("--never-parks", Sin::NeverParks),
        ("--parks-and-lies", Sin::ParksAndViolates),
        ("--forges", Sin::Forges),
        ("--names-a-stranger", Sin::NamesAStranger),
        ("--loses-its-thread", Sin::LosesItsThread),
        ("--babbles", Sin::Babbles),
    ];
    let sin = sins.iter().find(|(word, _)| words.iter().any(|said| said == word));
    let (_, sin) = sin.ok_or("name what it does wrong")?;
    let said = |key: &str| value(key).ok_or_else(|| format!("{key} is missing"));
    let guaranteed = said("--cores")?.parse().map_err(|error| format!("--cores: {error}"))?;
    sys::signal::install_stop_handler().map_err(|error| error.to_string())?;
    let hog = attach(&said("--socket")?, said("--name")?, said("--listen")?, guaranteed)?;
    eprintln!("core-hog: attached as application of one worker");
    hog.misbehave(*sin);
    Ok(())
}

fn attach(socket: &str, name: String, listen: String, guaranteed: u16) -> Result<Hog, String> {
    let text = |error: attach::AttachError| error.to_string();
    let link = Link::connect(socket.as_ref()).map_err(text)?;
    let request = AttachRequest {
        name,
        listen: vec![listen],
        workers: 1,
        frames: Some(16),
        frame_bytes: None,
        cores: Some(CoresRequest {
            guaranteed,
            burst: Some(1),
            class: CoresClass::Latency,
            queue_delay_us: 0,
        }),
        features: 0,
    };
    link.send(&ToDaemon::Attach(request)).map_err(text)?;
    let answer = link.receive(Nanos::from_secs(10)).map_err(text)?;
    let Some((ToApp::Attached(_), descriptors)) = answer else {
        return Err(format!("the daemon says {answer:?}"));
    };
    let mut descriptors = descriptors.into_iter();
    let (Some(memory), Some(daemon)) = (descriptors.next(), descriptors.next()) else {
        return Err("the welcome came without descriptors".to_owned());
    };
    let mut memory = PacketMemory::open(memory).map_err(|error| error.to_string())?;
    let end = memory.end(0).ok_or("it has one worker")?;
    let daemon = EventFd::from_fd(daemon).map_err(|error| error.to_string())?;
    Ok(Hog { link, end, daemon })
}

impl Hog {
    fn misbehave(mut self, sin: Sin) {
        if sin == Sin::LosesItsThread {
            let thread = std::thread::spawn(move || {
                self.take_core(sys::thread::tid());
                self
            });
            let _here = thread.join();
            until_the_end(|| std::thread::sleep(Duration::from_millis(10)));
            return;
        }
        self.take_core(if sin == Sin::NamesAStranger { 1 } else { sys::thread::tid() });
        if sin == Sin::ParksAndViolates {
            self.end.core_grant().park();
            self.speak();
        }
        let mut turns = 0_u32;
        until_the_end(|| {
            turns = turns.wrapping_add(1);
            match sin {
                Sin::Forges => self.end.core_grant().note(CoreGrantTasks {
                    put: turns.wrapping_mul(2_654_435_761),
                    taken: turns.rotate_left(13),
                    oldest_ns: u64::MAX - u64::from(turns),
                    idle_ns: u64::MAX,
                }),
                Sin::Babbles => self.speak(),
                _ => std::hint::spin_loop(),
            }
        });
        drop(self.link);
    }

    /// Asks for a core until it has one.
    fn take_core(&mut self, thread: u32) {
        self.end.core_grant().note_thread(thread);
        until_the_end_or(|| {
            if let CoreCommand::Run(_) = self.end.core_grant().look() {
                self.end.core_grant().run();
                return true;
            }
            self.end.core_grant().want();
            self.speak();
            std::thread::sleep(Duration::from_millis(1));
            false
        });
    }

    fn speak(&self) {
        if self.end.core_grant_spoke() {
            self.daemon.ring();
        }
    }
}

fn until_the_end(mut turn: impl FnMut()) {
    until_the_end_or(|| {
        turn();
        false
    });
}

fn until_the_end_or(mut turn: impl FnMut() -> bool) {
    let began = Instant::now();
    while !sys::signal::stop_requested() && began.elapsed() < LIFE && !turn() {}
}
