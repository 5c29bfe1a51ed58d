//! A bound on one line of a server's output. A server that never ends its line would otherwise fill
//! the memory, or, where such lines are skipped, leave its caller waiting for the timeout.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// Why the connection was given up, told by whoever gave it up first.
pub type Verdict = Arc<OnceLock<String>>;

pub struct LineLimit<R> {
    inner: R,
    bytes_max: usize,
    line_bytes: usize,
    verdict: Verdict,
}

impl<R> LineLimit<R> {
    pub fn new(inner: R, bytes_max: usize, verdict: Verdict) -> Self {
        Self { inner, bytes_max, line_bytes: 0, verdict }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for LineLimit<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        let fresh = &buf.filled()[before..];
        self.line_bytes = match fresh.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => fresh.len() - at - 1,
            None => self.line_bytes + fresh.len(),
        };
        if self.line_bytes > self.bytes_max {
            let why = format!("the server wrote a line of more than {} bytes", self.bytes_max);
            let why = self.verdict.get_or_init(|| why).clone();
            return Poll::Ready(Err(io::Error::other(why)));
        }
        Poll::Ready(Ok(()))
    }
}
