//! A connection to the admin socket of the daemon under test.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use admin::{Reply, ReplyBody, Request, Sample};

use crate::process::TIMEOUT;

/// A connection to the admin socket.
#[derive(Debug)]
pub struct Operator {
    stream: BufReader<UnixStream>,
}

impl Operator {
    pub(crate) fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).expect("the daemon listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout is no zero");
        Self { stream: BufReader::new(stream) }
    }

    /// Sends one line and gives its answer.
    ///
    /// # Panics
    /// There is no answer.
    pub fn line(&mut self, line: &str) -> ReplyBody {
        self.send(line);
        self.answer()
    }

    /// Asks for something.
    ///
    /// # Panics
    /// There is no answer.
    pub fn ask(&mut self, request: &Request) -> ReplyBody {
        let line = admin::encode(request).expect("a request is JSON");
        self.line(line.trim_end())
    }

    /// Sends one line.
    ///
    /// # Panics
    /// The daemon does not read.
    pub fn send(&mut self, line: &str) {
        writeln!(self.stream.get_mut(), "{line}").expect("the daemon reads");
    }

    /// Says that nothing more will be asked, and reads on.
    ///
    /// # Panics
    /// The connection is gone.
    pub fn finish(&mut self) {
        self.stream.get_mut().shutdown(std::net::Shutdown::Write).expect("it is connected");
    }

    /// The next answer, which is a sample.
    ///
    /// # Panics
    /// It is something else.
    pub fn sample(&mut self) -> Sample {
        match self.answer() {
            ReplyBody::Sample(sample) => sample,
            other => panic!("{other:?} is no sample"),
        }
    }

    /// The next answer.
    ///
    /// # Panics
    /// There is none, or it is none of the protocol.
    pub fn answer(&mut self) -> ReplyBody {
        let reply: Reply = admin::decode(&self.text()).expect("the daemon speaks the protocol");
        reply.body
    }

    /// The next line as it is.
    ///
    /// # Panics
    /// There is none.
    pub fn text(&mut self) -> String {
        let mut answer = String::new();
        self.stream.read_line(&mut answer).expect("the daemon answers");
        answer
    }
}
