//! The stdio transport: one JSON-RPC message per line. A line that does not parse gets an error reply here,
//! with the request's id where it can be read. A line that is too long gets an error reply and is never
//! buffered whole. While a client leaves too many answers unread, nothing more is read from it.

use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, JsonRpcNotification, JsonRpcRequest, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Mutex, Notify};

use super::message::{self, MessageFault};

/// The longest line that is accepted, in bytes.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The answers that a client may leave unread, in bytes.
const UNREAD_ANSWERS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Capacity that the line buffer keeps between lines.
const LINE_BUFFER_BYTES: usize = 64 * 1024;
/// Some clients start their output with a UTF-8 byte order mark.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// stdout, shared by all senders; None once the transport is closed.
type StdoutWriter<W> = Arc<Mutex<Option<W>>>;
/// The write of one line that has been started.
type PendingLineWrite = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// The server side of MCP over a reader and a writer, as the library's `Transport`.
pub struct StdioServerTransport<R, W> {
    read: BufReader<R>,
    /// The bytes of the line that is being read.
    line: Vec<u8>,
    /// The current line was too long and has its error reply; the rest of it is skipped.
    skips_line: bool,
    write: StdoutWriter<W>,
    unread: Arc<UnreadAnswers>,
    /// Refuses a second call with an id in use: the library would drop the answer to the first.
    in_flight: CallsInFlight,
    /// An error reply that is being written; kept here because `receive` may be cancelled meanwhile.
    pending_reply: Option<PendingLineWrite>,
}

/// Counts answers that the client has not read, in bytes.
#[derive(Debug, Default)]
struct UnreadAnswers {
    bytes: AtomicUsize,
    /// Notified when an answer has been written or given up.
    released: Notify,
}

impl UnreadAnswers {
    /// Waits until at most `UNREAD_ANSWERS_BYTES_MAX` bytes of answers are unread.
    async fn wait_for_room(&self) {
        loop {
            let released = self.released.notified();
            if self.bytes.load(Ordering::SeqCst) <= UNREAD_ANSWERS_BYTES_MAX {
                return;
            }
            released.await;
        }
    }
}

/// One unread answer; dropped once it is written or given up.
struct UnreadAnswer {
    all: Arc<UnreadAnswers>,
    bytes: usize,
}

impl UnreadAnswer {
    /// Counts the bytes as unread.
    fn new(all: Arc<UnreadAnswers>, bytes: usize) -> Self {
        all.bytes.fetch_add(bytes, Ordering::SeqCst);
        Self { all, bytes }
    }
}

impl Drop for UnreadAnswer {
    fn drop(&mut self) {
        self.all.bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        self.all.released.notify_one();
    }
}

/// The request ids of tool calls that are being answered.
#[derive(Debug, Default)]
struct CallsInFlight(HashSet<RequestId>);

impl CallsInFlight {
    /// Passes a message on, reserving its id. Err: a tool call without an idempotency key whose id is in use.
    fn admit(&mut self, message: ClientJsonRpcMessage) -> Result<ClientJsonRpcMessage, MessageFault> {
        match &message {
            ClientJsonRpcMessage::Request(JsonRpcRequest {
                id,
                request: ClientRequest::CallToolRequest(call),
                ..
            }) => self.reserve(id, message::has_idempotency_key(&call.params))?,
            // A cancelled call gets no response that would release its id.
            ClientJsonRpcMessage::Notification(JsonRpcNotification {
                notification: ClientNotification::CancelledNotification(cancelled),
                ..
            }) => self.release(cancelled.params.request_id.as_ref()),
            _ => {}
        }
        Ok(message)
    }

    /// Reserves the id. Err: it is in use; a call with an idempotency key may share it, because it acts only
    /// once.
    fn reserve(&mut self, id: &RequestId, has_key: bool) -> Result<(), MessageFault> {
        let is_free = self.0.insert(id.clone());
        if is_free || has_key { Ok(()) } else { Err(MessageFault::id_in_use(id)) }
    }

    /// Releases the id that an outgoing response or error answers.
    fn release_answered(&mut self, message: &ServerJsonRpcMessage) {
        match message {
            ServerJsonRpcMessage::Response(answer) => self.release(Some(&answer.id)),
            ServerJsonRpcMessage::Error(error) => self.release(error.id.as_ref()),
            _ => {}
        }
    }

    /// Releases the id, if there is one.
    fn release(&mut self, id: Option<&RequestId>) {
        if let Some(id) = id {
            self.0.remove(id);
        }
    }
}

/// What one read from stdin gave.
enum LineRead {
    /// The line is complete.
    Complete,
    /// The line has just grown beyond the limit.
    TooLong,
    /// The line goes on, or is being skipped.
    Partial,
    /// End of input.
    Eof,
}

impl<R, W> StdioServerTransport<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    pub fn new(read: R, write: W) -> Self {
        Self {
            read: BufReader::new(read),
            line: Vec::new(),
            skips_line: false,
            write: Arc::new(Mutex::new(Some(write))),
            unread: Arc::default(),
            in_flight: CallsInFlight::default(),
            pending_reply: None,
        }
    }

    /// Reads what is available, up to the end of the line, into `line`. Cancelled, it has consumed nothing.
    async fn read_chunk(&mut self) -> io::Result<LineRead> {
        let available = self.read.fill_buf().await?;
        let end = available.iter().position(|byte| *byte == b'\n');
        let consumed = end.map_or(available.len(), |end| end + 1);
        let fits = self.line.len() + consumed <= LINE_BYTES_MAX;
        if fits && !self.skips_line {
            self.line.extend_from_slice(&available[..consumed]);
        }
        let read = match (end, fits || self.skips_line) {
            _ if available.is_empty() => LineRead::Eof,
            (_, false) => LineRead::TooLong,
            (Some(_), true) if !self.skips_line => LineRead::Complete,
            (_, true) => LineRead::Partial,
        };
        self.read.consume(consumed);
        self.skips_line = end.is_none() && (self.skips_line || !fits);
        Ok(read)
    }

    /// Parses and clears the line. None: it is empty, or was refused and its error reply is pending.
    fn take_message(&mut self) -> Option<ClientJsonRpcMessage> {
        let line = self.line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&self.line).trim_ascii();
        let message = if line.is_empty() { None } else { Some(message::parse_message(line)) };
        self.clear_line();
        match message?.and_then(|message| self.in_flight.admit(message)) {
            Ok(message) => Some(message),
            Err(fault) => {
                self.reply_to_fault(&fault);
                None
            }
        }
    }

    /// Starts the error reply to a refused message, if one is due.
    fn reply_to_fault(&mut self, fault: &MessageFault) {
        tracing::debug!("a message was refused: {}", fault.error_reply());
        if fault.needs_reply {
            self.pending_reply =
                Some(Box::pin(write_line(self.write.clone(), encode_line(&fault.error_reply()))));
        }
    }

    /// Empties the line buffer and gives most of its memory back.
    fn clear_line(&mut self) {
        self.line.clear();
        self.line.shrink_to(LINE_BUFFER_BYTES);
    }
}

impl<R, W> Transport<RoleServer> for StdioServerTransport<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    /// Writes a message; its bytes count as unread until they are written.
    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.in_flight.release_answered(&message);
        let line = encode_line(&message);
        let unread = UnreadAnswer::new(self.unread.clone(), line.as_ref().map_or(0, Vec::len));
        let writing = write_line(self.write.clone(), line);
        async move {
            let written = writing.await;
            drop(unread);
            written
        }
    }

    /// The next message that parses. Waits while the client leaves too many answers unread. None: stdin has
    /// ended, or stdin or stdout failed.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(sending) = &mut self.pending_reply {
                let sent = sending.await;
                self.pending_reply = None;
                sent.inspect_err(|error| tracing::debug!("stdout cannot be written: {error}")).ok()?;
            }
            self.unread.wait_for_room().await;
            let read = self.read_chunk().await.inspect_err(|error| tracing::error!("stdin: {error}")).ok()?;
            match read {
                LineRead::Complete => {
                    if let Some(message) = self.take_message() {
                        return Some(message);
                    }
                }
                LineRead::TooLong => {
                    let fault = MessageFault::too_long(&self.line, LINE_BYTES_MAX);
                    self.clear_line();
                    self.reply_to_fault(&fault);
                }
                LineRead::Partial => {}
                // A last line without a line end was cut off and is ignored.
                LineRead::Eof => return None,
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        drop(self.write.lock().await.take());
        Ok(())
    }
}

/// The message as one JSON line.
fn encode_line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Writes and flushes one line; an encoding error is passed through. Err `NotConnected`: the transport is
/// closed.
async fn write_line<W: AsyncWrite + Unpin>(
    write: StdoutWriter<W>,
    line: io::Result<Vec<u8>>,
) -> io::Result<()> {
    let line = line?;
    let mut write = write.lock().await;
    let write = write.as_mut().ok_or(io::ErrorKind::NotConnected)?;
    write.write_all(&line).await?;
    write.flush().await
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use rmcp::model::{ErrorCode, ErrorData};

    use super::*;

    #[tokio::test]
    async fn nothing_is_read_while_the_client_leaves_too_many_answers_unread() {
        let request = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let (client, stdout) = tokio::io::duplex(64);
        let mut transport =
            StdioServerTransport::new(io::Cursor::new([&request[..], b"\n"].concat()), stdout);
        let error = ErrorData::new(ErrorCode::INTERNAL_ERROR, "x".repeat(UNREAD_ANSWERS_BYTES_MAX), None);
        let answer = ServerJsonRpcMessage::error(error, Some(RequestId::Number(0)));
        let writing = tokio::spawn(transport.send(answer));
        assert!(transport.receive().now_or_never().is_none(), "read although the answer is unread");
        drop(client);
        writing.await.unwrap().unwrap_err();
        assert!(transport.receive().await.is_some());
    }
}
