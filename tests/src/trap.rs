//! C programs of `tests/c` that print what they see: the same on Linux as on Calisto.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::accelerated::Accelerated;
use crate::fixture::project;
use crate::process::wait_for;
use crate::program::Program;

/// A program of `tests/c`.
#[derive(Debug)]
pub struct Trap {
    /// Built here, and removed with the value.
    path: PathBuf,
}

impl Trap {
    /// Builds `tests/c/NAME.c`.
    ///
    /// # Panics
    /// There is no C compiler, or it finds something wrong.
    pub fn build(name: &str) -> Self {
        Self::build_with(name, &[])
    }

    /// The same with more options of the compiler.
    ///
    /// # Panics
    /// As [`Self::build`].
    pub fn build_with(name: &str, options: &[&str]) -> Self {
        let source = project().join("tests/c").join(format!("{name}.c"));
        // Several tests of a process may build the same one.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let file = format!("calisto-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(file);
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Werror", "-O1", "-pthread", "-o"]).arg(&path).arg(source).args(options);
        let output = cc.output().expect("a C compiler is there: apt-get install gcc");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        Self { path }
    }

    /// The program.
    pub fn path(&self) -> &str {
        self.path.to_str().expect("our own names are UTF-8")
    }

    /// What it prints on Calisto, against its peer on Linux.
    ///
    /// # Panics
    /// It or its peer fails.
    pub fn on_calisto(&self, accelerated: &Accelerated) -> String {
        self.with_its_peer(accelerated, |words| accelerated.run(words))
    }

    /// What it prints on Linux, in the same place.
    ///
    /// # Panics
    /// It or its peer fails.
    pub fn on_linux(&self, accelerated: &Accelerated) -> String {
        self.with_its_peer(accelerated, |words| {
            let (program, words) = words.split_first().expect("a program");
            let mut command = accelerated.here().command(program);
            Program::spawn(command.args(words).current_dir(accelerated.daemon().folder()))
        })
    }

    fn with_its_peer(&self, accelerated: &Accelerated, run: impl Fn(&[&str]) -> Program) -> String {
        let (here, there) = (accelerated.here().ipv4(), accelerated.there().ipv4());
        let (here, there) = (here.to_string(), there.to_string());
        let words = |role| [self.path(), role, &here, &there];
        let before = ports_of(accelerated);
        let mut peer = accelerated.run_there(&words("there"));
        // What is sent before the peer has its port is lost, and a datagram does not tell.
        wait_for("a port of the peer", || {
            let has_one = ports_of(accelerated).iter().any(|port| !before.contains(port));
            if has_one || peer.ended().is_some() { Ok(()) } else { Err("none yet".to_owned()) }
        });
        let out = run(&words("here")).succeed();
        peer.succeed();
        out
    }
}

/// The protocols and ports at which somebody receives on the peer's side, by the kernel.
fn ports_of(accelerated: &Accelerated) -> Vec<(&'static str, String)> {
    // /proc/net shows the namespace of the thread that looks.
    let read = |table| std::fs::read_to_string(format!("/proc/thread-self/net/{table}"));
    let receiving = [("udp", "07"), ("udp6", "07"), ("tcp", "0A"), ("tcp6", "0A")];
    let look = || {
        let rows = |(table, state)| {
            let text = read(table).unwrap_or_default();
            let row = move |line: &str| {
                let mut words = line.split_whitespace();
                let (local, is) = (words.nth(1)?.to_owned(), words.nth(1)?);
                (is == state).then_some((table, local))
            };
            text.lines().filter_map(row).collect::<Vec<_>>()
        };
        receiving.into_iter().flat_map(rows).collect()
    };
    accelerated.there().enter(look).expect("the namespace is there")
}

impl Drop for Trap {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Runs `tests/c/NAME.c` on Calisto and on Linux, which must look the same to it.
///
/// # Panics
/// It does not; or something was left to the kernel, or stays behind.
pub fn looks_like_linux(name: &str) {
    let trap = Trap::build(name);
    let accelerated = Accelerated::start();
    let calisto = trap.on_calisto(&accelerated);
    accelerated.all_was_accelerated();
    accelerated.nothing_is_left();
    let linux = trap.on_linux(&accelerated);
    assert_eq!(calisto, linux, "Calisto on the left, Linux on the right");
}
