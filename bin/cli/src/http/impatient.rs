//! A connection that ends when its client does not take an answer in time.

use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream on which what is written must leave within a time, all of it up to a flush: who takes
/// byte after byte gets no more of it.
pub(super) struct Impatient<T> {
    stream: T,
    answer_max: Duration,
    /// Since something that was written had to wait.
    over: Option<Pin<Box<Sleep>>>,
}

impl<T> Impatient<T> {
    pub(super) fn new(stream: T, answer_max: Duration) -> Self {
        Self { stream, answer_max, over: None }
    }

    /// What comes of a write or a flush that has come to `polled`.
    fn judge<R>(&mut self, polled: Poll<Result<R>>, cx: &mut Context<'_>) -> Poll<Result<R>> {
        if polled.is_ready() {
            return polled;
        }
        let over = self.over.get_or_insert_with(|| Box::pin(sleep(self.answer_max)));
        ready!(over.as_mut().poll(cx));
        Poll::Ready(Err(Error::from(ErrorKind::TimedOut)))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Impatient<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Impatient<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(polled, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        ready!(self.judge(polled, cx))?;
        self.over = None;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[test]
    fn whoever_takes_an_answer_byte_by_byte_is_left_and_whoever_reads_gets_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("descriptors are left").block_on(async {
            let answer = [7; 1000];
            let (ours, mut theirs) = duplex(16);
            let mut ours = Impatient::new(ours, Duration::from_millis(100));
            let reading = async {
                // Sooner than the time is over, each of them.
                while theirs.read_u8().await.is_ok() {
                    sleep(Duration::from_millis(10)).await;
                }
            };
            let writing = async {
                let written = ours.write_all(&answer).await;
                drop(ours);
                written
            };
            let (written, ()) = tokio::join!(writing, reading);
            assert_eq!(written.map_err(|error| error.kind()), Err(ErrorKind::TimedOut));
            let (ours, mut theirs) = duplex(16);
            let mut ours = Impatient::new(ours, Duration::from_secs(600));
            let mut heard = [0; 1000];
            let writing = async {
                ours.write_all(&answer).await?;
                ours.flush().await
            };
            let (written, read) = tokio::join!(writing, theirs.read_exact(&mut heard));
            assert!(written.is_ok() && read.is_ok() && heard == answer);
            assert!(ours.over.is_none(), "the next answer has its own time");
        });
    }
}
