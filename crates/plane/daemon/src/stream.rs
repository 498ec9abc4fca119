//! Answers that go on: samples for a controller that watches, the lines of a recording.

use std::io::{self, BufWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use admin::ReplyBody;
use policy::record::{Recorder, Writer};

use crate::admin_clients::ClientId;
use crate::admin_socket::{error, respond};
use crate::apps::TraceAsk;
use crate::ask::Asks;

/// Buffers of a recording and events in each: two seconds of a busy loop.
const BUFFERS: usize = 16;
const EVENTS: usize = 1 << 14;

/// Time between two looks for samples of requests.
const TRACES_EVERY: Duration = Duration::from_millis(100);

/// Time between two looks at a recorder.
const TAKE_EVERY: Duration = Duration::from_millis(20);

/// Whether the client of a stream still listens.
pub(crate) struct Listening<'a> {
    stream: &'a UnixStream,
    /// It has closed its sending side, as `echo ... | socat` does, and may read on.
    has_said_all: bool,
}

impl<'a> Listening<'a> {
    pub(crate) fn new(stream: &'a UnixStream) -> Self {
        Self { stream, has_said_all: false }
    }

    /// Waits for that time; false when the client has said something more, which ends the stream.
    /// That it is gone shows when something is written.
    pub(crate) fn wait(&mut self, length: Duration) -> bool {
        if self.has_said_all {
            std::thread::sleep(length);
            return true;
        }
        if !sys::poll::wait_readable(self.stream.as_fd(), length.into()) {
            return true;
        }
        self.has_said_all = matches!((&mut &*self.stream).read(&mut [0]), Ok(0));
        self.has_said_all
    }
}

/// One sample after another, until the client says anything or goes.
pub(crate) fn watch(
    stream: &mut UnixStream,
    asks: &Asks,
    app: Option<String>,
    every_us: u32,
    load: bool,
) -> io::Result<()> {
    let every = Duration::from_micros(u64::from(every_us));
    let reader = stream.try_clone()?;
    let mut client = Listening::new(&reader);
    let mut seen = 0;
    loop {
        match asks.sample(app.clone(), load.then_some(seen)) {
            Ok((sample, newest)) => {
                seen = newest;
                respond(stream, ReplyBody::Sample(sample))?;
            }
            Err(why) => return respond(stream, error(&why)),
        }
        if !client.wait(every) {
            return Ok(());
        }
    }
}

/// Samples of requests, until the client says anything or goes.
pub(crate) fn trace(
    stream: &mut UnixStream,
    asks: &Asks,
    client: ClientId,
    app: Option<String>,
    one_in: u32,
) -> io::Result<()> {
    // It ends with this, however that comes about, and had it begun after nobody waited any more.
    let _end = Ends(asks, client);
    let mut told = asks.trace(TraceAsk::Begin(client, app, one_in));
    if !matches!(told, ReplyBody::Traced { .. }) {
        return respond(stream, told);
    }
    let reader = stream.try_clone()?;
    let mut listening = Listening::new(&reader);
    loop {
        respond(stream, told)?;
        if !listening.wait(TRACES_EVERY) {
            return Ok(());
        }
        told = asks.trace(TraceAsk::Take);
    }
}

/// Tracing, which is over when this drops.
struct Ends<'a>(&'a Asks, ClientId);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        drop(self.0.trace(TraceAsk::End(self.1)));
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
    let reader = stream.try_clone()?;
    let written = Writer::begin(BufWriter::new(&mut *stream), &snapshot)
        .and_then(|writer| go_on(writer, asks, &app, end, Listening::new(&reader)));
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

/// Until `end`, a loss, or the client says more; one that is gone is an error of `writer`.
fn go_on<W: Write>(
    mut writer: Writer<W>,
    asks: &Asks,
    app: &Option<String>,
    end: Instant,
    mut client: Listening<'_>,
) -> io::Result<Writer<W>> {
    let mut empty = Vec::new();
    while Instant::now() < end {
        let left = end.saturating_duration_since(Instant::now()).min(TAKE_EVERY);
        if !client.wait(left) {
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
