//! Answers that go on: samples for a controller that watches, the lines of a recording.

use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use admin::ReplyBody;
use base::Nanos;
use policy::record::{Recorder, Writer};

use crate::admin_socket::{error, respond};
use crate::ask::Asks;

/// Buffers of a recording and events in each: two seconds of a busy loop.
const BUFFERS: usize = 16;
const EVENTS: usize = 1 << 14;

/// Time between two looks at a recorder.
const TAKE_EVERY: Duration = Duration::from_millis(20);

/// One sample after another, until the client says anything or goes.
pub(crate) fn watch(
    stream: &mut UnixStream,
    asks: &Asks,
    app: Option<String>,
    every_us: u32,
    load: bool,
) -> io::Result<()> {
    let every = Nanos::from_micros(u64::from(every_us));
    let mut seen = 0;
    loop {
        match asks.sample(app.clone(), load.then_some(seen)) {
            Ok((sample, newest)) => {
                seen = newest;
                respond(stream, ReplyBody::Sample(sample))?;
            }
            Err(why) => return respond(stream, error(&why)),
        }
        // Nothing is asked on this connection any more: readable means closed.
        if sys::poll::wait_readable(stream.as_fd(), every) {
            return Ok(());
        }
    }
}

/// A recording, line by line; then the connection closes.
pub(crate) fn record(
    stream: &mut UnixStream,
    asks: &Asks,
    app: Option<String>,
    seconds: u32,
) -> io::Result<()> {
    let begun = asks.table_len(app.clone()).and_then(|groups| {
        let recorder = Box::new(Recorder::new(groups, BUFFERS, EVENTS));
        asks.record(app.clone(), recorder)
    });
    let snapshot = match begun {
        Ok(snapshot) => snapshot,
        Err(why) => return respond(stream, error(&why)),
    };
    let end = Instant::now() + Duration::from_secs(u64::from(seconds));
    let gone = stream.try_clone()?;
    let written = Writer::begin(BufWriter::new(&mut *stream), &snapshot)
        .and_then(|writer| go_on(writer, asks, &app, end, &gone));
    let rest = asks.end_recording(app);
    let mut writer = written?;
    let mut lost = 0;
    if let Some(rest) = rest {
        lost = rest.lost();
        rest.into_rest().try_for_each(|buffer| writer.write(&buffer))?;
    }
    writer.end(lost)?;
    Ok(())
}

/// Until `end`, a loss, or the client has gone.
fn go_on<W: Write>(
    mut writer: Writer<W>,
    asks: &Asks,
    app: &Option<String>,
    end: Instant,
    gone: &UnixStream,
) -> io::Result<Writer<W>> {
    let mut empty = Vec::new();
    while Instant::now() < end {
        let left = end.saturating_duration_since(Instant::now()).min(TAKE_EVERY);
        if sys::poll::wait_readable(gone.as_fd(), Nanos::from(left)) {
            break;
        }
        let Ok((buffers, lost)) = asks.recorded(app.clone(), std::mem::take(&mut empty)) else {
            break;
        };
        buffers.iter().try_for_each(|buffer| writer.write(buffer))?;
        writer.flush()?;
        empty = buffers;
        if lost > 0 {
            break;
        }
    }
    Ok(writer)
}
