//! What this program becomes when it starts itself: a latency-critical server, or a batch job.

use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use base::Nanos;
use calisto_client::{App, AttachOptions, CoresClass, CoresRequest, reply};
use clap::ValueEnum;

use crate::error::{Error, OrNeeds};

/// Rows and columns: three matrices of 8 bytes a number fill the second-level cache of a core.
const SIDE: usize = 128;

/// The nice value of who gives way to everybody.
const LAST: i32 = 19;

/// A server looks this often whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Answers UDP packets through the client library, on a guaranteed core.
    Echo,
    /// Answers UDP packets through the kernel's sockets.
    KernelEcho,
    /// Multiplies matrices, and writes into a file how many.
    Multiply,
    /// The same at the lowest priority of the normal class.
    NiceMultiply,
}

/// The hidden options that make this program one of them.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct HelperArgs {
    /// What this program is to be.
    #[arg(long = "helper", hide = true)]
    pub(super) kind: Option<Kind>,
    /// Where the daemon lets applications attach.
    #[arg(id = "socket", long = "helper-socket", hide = true)]
    pub(super) socket: Option<PathBuf>,
    /// Where it listens.
    #[arg(id = "listen", long = "helper-listen", hide = true)]
    pub(super) listen: Option<SocketAddr>,
    /// Where a batch job writes how far it has come.
    #[arg(id = "progress", long = "helper-progress", hide = true)]
    pub(super) progress: Option<PathBuf>,
}

/// Whether its parent wants no more of it, or is gone.
fn is_over() -> bool {
    let orphaned = rustix::process::getppid().is_none_or(|parent| parent.is_init());
    orphaned || sys::signal::stop_requested()
}

/// Says that it is ready, and its number.
fn greet() -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready {}", std::process::id()).and_then(|()| out.flush()).map_err(Error::Output)
}

/// Is one until it is told to stop.
pub(super) fn run(kind: Kind, args: &HelperArgs) -> Result<(), Error> {
    let missing = || Err("they are told by its parent").or_needs("options of a helper");
    match (kind, args) {
        (Kind::Echo, HelperArgs { socket: Some(socket), listen: Some(listen), .. }) => {
            echo(socket.clone(), *listen)
        }
        (Kind::KernelEcho, HelperArgs { listen: Some(listen), .. }) => kernel_echo(*listen),
        (Kind::Multiply | Kind::NiceMultiply, HelperArgs { progress: Some(progress), .. }) => {
            if kind == Kind::NiceMultiply {
                rustix::process::setpriority_process(None, LAST).or_needs("priority")?;
            }
            multiply(progress.clone())
        }
        _ => missing(),
    }
}

fn echo(socket: PathBuf, listen: SocketAddr) -> Result<(), Error> {
    let cores =
        CoresRequest { guaranteed: 1, burst: None, class: CoresClass::Latency, queue_delay_us: 0 };
    let options = AttachOptions::new("critical").socket(socket).cores(cores);
    let options = options.listen(format!("udp:{listen}"));
    let (_app, mut workers) = App::attach(&options).or_needs("attachment")?;
    let worker = workers.first_mut().ok_or("it has no worker").or_needs("attachment")?;
    greet()?;
    let every = Nanos(LOOK_EVERY.as_nanos() as u64);
    while !is_over() {
        while worker.wait(every).or_needs("attachment")? {
            while worker.step(reply::echo).or_needs("attachment")? > 0 {}
        }
    }
    Ok(())
}

fn kernel_echo(listen: SocketAddr) -> Result<(), Error> {
    let socket = UdpSocket::bind(listen).or_needs("server socket")?;
    socket.set_read_timeout(Some(LOOK_EVERY)).or_needs("server socket")?;
    greet()?;
    let mut buffer = [0; 2048];
    while !is_over() {
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            // A reply that cannot be sent is a lost one.
            let _ = socket.send_to(&buffer[..len], from);
        }
    }
    Ok(())
}

fn multiply(progress: PathBuf) -> Result<(), Error> {
    let file = std::fs::File::create(progress).or_needs("file for the progress")?;
    let number = |seed: usize| (0..SIDE * SIDE).map(|at| ((at * seed) % 17) as f64).collect();
    let (left, right): (Vec<f64>, Vec<f64>) = (number(7), number(11));
    let mut product = vec![0.0; SIDE * SIDE];
    greet()?;
    let mut done = 0_u64;
    while !is_over() {
        product.fill(0.0);
        for (row, out) in left.chunks_exact(SIDE).zip(product.chunks_exact_mut(SIDE)) {
            for (factor, row) in row.iter().zip(right.chunks_exact(SIDE)) {
                for (out, number) in out.iter_mut().zip(row) {
                    *out += factor * number;
                }
            }
        }
        std::hint::black_box(&mut product);
        done += 1;
        file.write_all_at(&done.to_ne_bytes(), 0).or_needs("file for the progress")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::helper::word;

    #[test]
    fn every_kind_of_helper_has_a_word_that_its_command_line_reads() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            helper: HelperArgs,
        }
        for kind in Kind::value_variants() {
            let word = word(*kind);
            let line = ["bench", "--helper", &word, "--helper-listen", "10.77.0.2:8"];
            let line = <Line as clap::Parser>::try_parse_from(line);
            assert_eq!(line.expect("its parent writes it so").helper.kind, Some(*kind), "{word}");
        }
    }

    #[test]
    fn a_helper_that_is_not_told_where_says_what_it_needs() {
        for kind in Kind::value_variants() {
            let told = run(*kind, &HelperArgs::default()).expect_err("nobody told it");
            assert!(told.to_string().contains("options of a helper"), "{told}");
        }
    }
}
