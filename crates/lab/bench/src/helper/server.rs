//! A latency-critical server, and the batch job beside it.

use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use base::Nanos;
use calisto_client::{App, AttachOptions, CoresClass, CoresRequest, reply};

use super::{greet, is_over};
use crate::error::{Error, OrNeeds};

/// Rows and columns: three matrices of 8 bytes a number fill the second-level cache of a core.
const SIDE: usize = 128;

/// The nice value of who gives way to everybody.
const LAST: i32 = 19;

/// A server looks this often whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) fn echo(socket: &Path, listen: SocketAddr, out: &mut dyn Write) -> Result<(), Error> {
    let cores =
        CoresRequest { guaranteed: 1, burst: None, class: CoresClass::Latency, queue_delay_us: 0 };
    let options = AttachOptions::new("critical").socket(socket).cores(cores);
    let options = options.listen(format!("udp:{listen}"));
    let (_app, mut workers) = App::attach(&options).or_needs("attachment")?;
    let worker = workers.first_mut().ok_or("it has no worker").or_needs("attachment")?;
    greet(out)?;
    let every = Nanos(LOOK_EVERY.as_nanos() as u64);
    while !is_over() {
        while worker.wait(every).or_needs("attachment")? {
            while worker.step(reply::echo).or_needs("attachment")? > 0 {}
        }
    }
    Ok(())
}

pub(super) fn kernel_echo(listen: SocketAddr, out: &mut dyn Write) -> Result<(), Error> {
    let socket = UdpSocket::bind(listen).or_needs("server socket")?;
    socket.set_read_timeout(Some(LOOK_EVERY)).or_needs("server socket")?;
    greet(out)?;
    let mut buffer = [0; 2048];
    while !is_over() {
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            // A reply that cannot be sent is a lost one.
            let _ = socket.send_to(&buffer[..len], from);
        }
    }
    Ok(())
}

pub(super) fn multiply(progress: &Path, nice: bool, out: &mut dyn Write) -> Result<(), Error> {
    if nice {
        rustix::process::setpriority_process(None, LAST).or_needs("priority")?;
    }
    let file = std::fs::File::create(progress).or_needs("file for the progress")?;
    let number = |seed: usize| (0..SIDE * SIDE).map(|at| ((at * seed) % 17) as f64).collect();
    let (left, right): (Vec<f64>, Vec<f64>) = (number(7), number(11));
    let mut product = vec![0.0; SIDE * SIDE];
    greet(out)?;
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
