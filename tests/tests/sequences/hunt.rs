//! Many scripts, by many lanes at once.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use whole::Trap;

use crate::comparison::Verdict;
use crate::generator;
use crate::lane::Lane;
use crate::stage::Pace;

/// What is played.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hunt {
    /// Of the first script.
    pub(crate) seed: u64,
    pub(crate) sequences: u64,
    pub(crate) lanes: u64,
}

/// What was found so far.
#[derive(Default)]
struct Book {
    /// How often, by the way in which they differ; the first of each is shown.
    found: BTreeMap<[String; 3], usize>,
    /// Scripts that ended at a documented difference, by its name.
    documented: BTreeMap<&'static str, usize>,
    /// Seeds of those that differed once and not again, and how.
    unsteady: Vec<(u64, String)>,
    calls: usize,
}

/// A number from the environment.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")),
        Err(_) => default,
    }
}

impl Hunt {
    /// Plays all of them; the differences that were found, which are printed as well.
    pub(crate) fn run(self) -> usize {
        let Self { seed, sequences, lanes } = self;
        println!("SEED={seed} SEQUENCES={sequences}");
        let began = Instant::now();
        let (bed, program) = (crate::bed(), Trap::build("player"));
        let (next, book) = (AtomicU64::new(seed), Mutex::new(Book::default()));
        std::thread::scope(|scope| {
            for _ in 0..lanes {
                scope.spawn(|| {
                    let mut lane = Lane::new(&bed, &program);
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= self.seed + sequences {
                            return;
                        }
                        examine(seed, &mut lane, &book);
                    }
                });
            }
        });
        let book = book.into_inner().expect("no lane has panicked");
        println!("{} calls on each side, {:.1?}", book.calls, began.elapsed());
        println!("of Calisto's sockets, the kernel's: {:?}", bed.fallbacks());
        println!("carried: {:?}", bed.carried());
        book.told()
    }
}

fn examine(seed: u64, lane: &mut Lane, book: &Mutex<Book>) {
    let note = || book.lock().expect("nobody panics while holding it");
    let played = lane.play(&generator::script(seed), Pace::FAST);
    note().calls += played.script.0.len();
    let once = played;
    let sign = match once.verdict() {
        Verdict::Same => return,
        Verdict::Documented(rule) => {
            *note().documented.entry(rule.name).or_default() += 1;
            return;
        }
        Verdict::Differs(difference) => difference.sign.join(" | "),
    };
    let Some((played, difference)) = lane.confirm(&once.script) else {
        println!("seed {seed}, not again: {sign}\n{once}");
        note().unsteady.push((seed, sign));
        return;
    };
    let is_known = {
        let mut book = note();
        let entry = book.found.entry(difference.sign.clone()).or_default();
        *entry += 1;
        *entry > 1
    };
    if is_known {
        return;
    }
    let played = lane.shrink(played, &difference);
    println!("seed {seed}: {}\n{played}", difference.sign.join(" | "));
}

impl Book {
    fn told(self) -> usize {
        println!("documented: {:?}", self.documented);
        for (seed, sign) in &self.unsteady {
            println!("seed {seed} differed once and not again: {sign}");
        }
        for (sign, count) in &self.found {
            println!("{count} times: {}", sign.join(" | "));
        }
        self.found.len()
    }
}
