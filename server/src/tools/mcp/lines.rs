//! MCP over a child's pipes, a message a line. A line is bounded: a server that never ends its line would
//! otherwise fill the memory, or, where such lines are skipped, leave its caller waiting for the timeout.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, OnceLock};

use futures_util::StreamExt;
use futures_util::future::{Either, FutureExt, ready};
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::JsonRpcMessageCodec;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex;
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Decoder, FramedRead};

use super::answer;
use super::raw::{ListChanges, says_list_changed, wrapped};

/// One message of a server.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Why the connection was given up, told by whoever gave it up first.
pub type Verdict = Arc<OnceLock<String>>;

pub struct Lines {
    heard: FramedRead<ChildStdout, Hearing>,
    stdin: Arc<Mutex<Option<ChildStdin>>>,
}

impl Lines {
    pub fn new(stdin: ChildStdin, stdout: ChildStdout, verdict: Verdict, changes: ListChanges) -> Self {
        let codec = JsonRpcMessageCodec::new();
        let hearing = Hearing { sought: 0, calls: HashSet::new(), verdict, changes, codec };
        Self { heard: FramedRead::new(stdout, hearing), stdin: Arc::new(Mutex::new(Some(stdin))) }
    }
}

impl Transport<RoleClient> for Lines {
    type Error = io::Error;

    /// What the pipe has room for leaves at once, before the task that rmcp makes of the rest.
    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.heard.decoder_mut().notice(&message);
        let mut writing = Box::pin(write(self.stdin.clone(), serde_json::to_vec(&message)));
        match (&mut writing).now_or_never() {
            Some(written) => Either::Left(ready(written)),
            None => Either::Right(writing),
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let heard = self.heard.next().await?;
        heard.inspect_err(|error| tracing::debug!(%error, "a server's output is read no further")).ok()
    }

    async fn close(&mut self) -> io::Result<()> {
        drop(self.stdin.lock().await.take());
        Ok(())
    }
}

async fn write(stdin: Arc<Mutex<Option<ChildStdin>>>, line: serde_json::Result<Vec<u8>>) -> io::Result<()> {
    let mut line = line?;
    line.push(b'\n');
    let mut stdin = stdin.lock().await;
    let stdin = stdin.as_mut().ok_or(io::ErrorKind::NotConnected)?;
    stdin.write_all(&line).await?;
    stdin.flush().await
}

struct Hearing {
    /// So much of what is there holds no line's end.
    sought: usize,
    /// Those out at the server.
    calls: HashSet<RequestId>,
    verdict: Verdict,
    changes: ListChanges,
    codec: JsonRpcMessageCodec<ServerJsonRpcMessage>,
}

impl Decoder for Hearing {
    type Item = ServerJsonRpcMessage;
    type Error = io::Error;

    fn decode(&mut self, bytes: &mut BytesMut) -> io::Result<Option<ServerJsonRpcMessage>> {
        while let Some(end) = bytes[self.sought..].iter().position(|byte| *byte == b'\n') {
            let line = bytes.split_to(self.sought + end + 1);
            self.sought = 0;
            if let Some(heard) = self.line(line) {
                return Ok(Some(heard));
            }
        }
        self.sought = bytes.len();
        if self.sought > LINE_BYTES_MAX {
            let why = format!("the server wrote a line of more than {LINE_BYTES_MAX} bytes");
            return Err(io::Error::other(self.verdict.get_or_init(|| why).clone()));
        }
        Ok(None)
    }

    /// What has no end is no message.
    fn decode_eof(&mut self, bytes: &mut BytesMut) -> io::Result<Option<ServerJsonRpcMessage>> {
        self.decode(bytes)
    }
}

impl Hearing {
    /// Of a call that is given up no answer need be told from others.
    fn notice(&mut self, message: &ClientJsonRpcMessage) {
        self.calls.extend(answer::id_of_call(message).cloned());
        if let ClientJsonRpcMessage::Notification(said) = message
            && let ClientNotification::CancelledNotification(given_up) = &said.notification
            && let Some(id) = &given_up.params.request_id
        {
            self.calls.remove(id);
        }
    }

    fn line(&mut self, mut line: BytesMut) -> Option<ServerJsonRpcMessage> {
        if let Some(answer) = answer::of_call(&line, |id| self.calls.remove(id)) {
            return Some(answer);
        }
        if says_list_changed(&line) {
            self.changes.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
        if let Some(wrapped) = wrapped(&line) {
            line = BytesMut::from(&wrapped[..]);
            // The codec, which alone is as lenient as it should be, wants lines.
            line.extend_from_slice(b"\n");
        }
        // What is no message is passed over: an answer to it may be answered in kind, for ever.
        let heard = self.codec.decode(&mut line);
        let heard = heard.inspect_err(|error| tracing::debug!(%error, "a server wrote what is no message"));
        let heard = heard.ok().flatten()?;
        answer::id_of_request(&heard).map(|id| self.calls.remove(id));
        Some(heard)
    }
}
