//! Ends a connection whose client takes nothing any more: what is written for it would stay in memory, and its slot
//! taken, for ever.

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A connection on which a write that waits longer than the limit fails with `TimedOut`.
#[derive(Debug)]
pub struct StallLimit<T> {
    connection: T,
    limit: Duration,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<T: AsyncWrite + Unpin> StallLimit<T> {
    pub fn new(connection: T, limit: Duration) -> Self {
        Self { connection, limit, stalled: None }
    }

    /// The result of `write`, or the error that it has waited too long for the client.
    fn poll_within_limit<R>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut T>, &mut Context<'_>) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if let Poll::Ready(result) = write(Pin::new(&mut self.connection), context) {
            self.stalled = None;
            return Poll::Ready(result);
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(ErrorKind::TimedOut, "the client takes nothing any more")))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for StallLimit<T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_within_limit(context, |connection, context| connection.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut()
            .poll_within_limit(context, |connection, context| connection.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_within_limit(context, |connection, context| connection.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_within_limit(context, |connection, context| connection.poll_shutdown(context))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for StallLimit<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().connection).poll_read(context, buffer)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// More than a duplex of a few bytes takes.
    const BYTES: [u8; 1_000] = [7; 1_000];
    /// How long a test waits for what has to happen.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn write_to_a_client_that_reads_nothing_times_out() {
        let (server, _client) = duplex(10);
        let mut limited = StallLimit::new(server, Duration::from_millis(50));
        let written = tokio::time::timeout(PATIENCE, limited.write_all(&BYTES)).await;
        assert_eq!(written.expect("the write ends").unwrap_err().kind(), ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn client_that_reads_slowly_gets_everything() {
        let (server, mut client) = duplex(10);
        let mut limited = StallLimit::new(server, PATIENCE);
        let writing = tokio::spawn(async move { limited.write_all(&BYTES).await });
        let mut got = Vec::new();
        client.read_to_end(&mut got).await.unwrap();
        writing.await.unwrap().unwrap();
        assert_eq!(got, BYTES);
    }
}
