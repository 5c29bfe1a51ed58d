//! MCP over a child's pipes, one message per line. There are two writers, `StdioTransport` for rmcp and
//! `CallWriter` for calls, and one reader, which delivers a call's answer to the call and everything else to
//! rmcp.
//!
//! The length of a line is limited: an endless line would fill the memory, and skipping it would leave its
//! call waiting for the timeout. Queued output is limited too, for servers that send requests but do not
//! read.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, Either, FutureExt, Ready, ready};
use rmcp::model::{
    CallToolRequestParams, JsonRpcVersion2_0, ProgressToken, RequestId, RequestMetaObject,
    ServerJsonRpcMessage,
};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::JsonRpcMessageCodec;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex;
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Decoder, FramedRead};

use super::call_response;
use super::fault::ConnectionFault;
use super::pending_calls::{PendingCall, PendingCalls};
use super::raw_tools::{ListChanges, MessageRewrite, mentions_list_changed, rewrite_for_rmcp};
use super::server_requests::RequestReplier;
use crate::tools::limits::bytes::{
    ByteBudget, ByteReservation, HANDSHAKE_BYTES_MAX, MESSAGE_BYTES_MAX, NOISE_BYTES_MAX,
    UNREAD_CALLS_BYTES_MAX, UNREAD_REPLIES_BYTES_MAX,
};

/// An incomplete line up to this size is not counted towards the process total, since most lines are short.
const UNCOUNTED_LINE_BYTES_MAX: usize = 64 * 1024;

/// A child's stdin, shared by both writers. None inside: closed.
type SharedStdin = Arc<Mutex<Option<ChildStdin>>>;

/// The rmcp transport over a child's pipes.
pub struct StdioTransport {
    messages: FramedRead<ChildStdout, LineDecoder>,
    stdin: SharedStdin,
    /// Messages from rmcp that the server has not read.
    unread: ByteBudget,
    fault: ConnectionFault,
    replier: RequestReplier,
}

impl StdioTransport {
    /// A transport to a server. `replier` answers the server's requests, `fault` aborts the transport; `changes` counts the server's
    /// `list_changed`.
    pub fn new(
        replier: RequestReplier,
        (stdin, stdout): (ChildStdin, ChildStdout),
        fault: ConnectionFault,
        changes: ListChanges,
    ) -> Self {
        let decoder = LineDecoder {
            scanned: 0,
            calls: PendingCalls::new(),
            fault: fault.clone(),
            list_changes: changes,
            codec: JsonRpcMessageCodec::new(),
            handshake_done: Arc::default(),
            handshake_bytes: 0,
            noise_bytes: 0,
            incomplete_line: ByteBudget::new(MESSAGE_BYTES_MAX * 2).empty_reservation(),
        };
        let (messages, stdin) = (FramedRead::new(stdout, decoder), Arc::new(Mutex::new(Some(stdin))));
        let unread = ByteBudget::new(UNREAD_REPLIES_BYTES_MAX);
        Self { messages, stdin, unread, fault, replier }
    }

    /// A new writer for calls on the same pipe, whose answers this transport's reader delivers.
    pub fn call_writer(&self) -> CallWriter {
        let decoder = self.messages.decoder();
        CallWriter {
            stdin: self.stdin.clone(),
            calls: decoder.calls.clone(),
            unread: ByteBudget::new(UNREAD_CALLS_BYTES_MAX),
            handshake_done: decoder.handshake_done.clone(),
        }
    }

    /// Writes a line at once, or queues what the pipe has no room for. Aborts the connection if too much is
    /// unread.
    fn enqueue_line(&self, line: serde_json::Result<Vec<u8>>) -> LineWrite {
        let bytes = line.as_ref().map_or(0, Vec::len);
        match self.unread.reserve_queued(bytes) {
            Some(room) => write_line(&self.stdin, line, room),
            None => {
                let most = UNREAD_REPLIES_BYTES_MAX;
                self.fault.abort(format!("does not read its input: {most} bytes of answers wait for it"));
                Either::Left(ready(Err(io::ErrorKind::BrokenPipe.into())))
            }
        }
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    /// Writes at once what the pipe has room for; rmcp's task drives only the rest.
    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.enqueue_line(serde_json::to_vec(&message))
    }

    /// The next message that neither answers a call nor is a request of the server; requests are replied to
    /// here. None: the output has ended or the connection is aborted.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.messages.next().await.and_then(|message| {
                message.inspect_err(|error| tracing::debug!(%error, "stopped reading a server's output")).ok()
            });
            let Some(message) = message.filter(|_| !self.fault.is_aborted()) else {
                self.messages.decoder().calls.close();
                return None;
            };
            let Some(reply) = self.replier.reply_to(&message) else { return Some(message) };
            if let Either::Right(later) = self.enqueue_line(serde_json::to_vec(&reply)) {
                tokio::spawn(later);
            }
        }
    }

    /// Closes the child's stdin, for the calls too.
    async fn close(&mut self) -> io::Result<()> {
        drop(self.stdin.lock().await.take());
        Ok(())
    }
}

/// Writes calls to a child's stdin, and knows which of them wait for an answer.
pub struct CallWriter {
    stdin: SharedStdin,
    pub calls: PendingCalls,
    /// Calls that the server has not read.
    unread: ByteBudget,
    handshake_done: Arc<AtomicBool>,
}

/// A `tools/call` request.
#[derive(serde::Serialize)]
struct ToolCallRequest<'a> {
    jsonrpc: JsonRpcVersion2_0,
    id: &'a RequestId,
    method: &'static str,
    params: &'a ToolCallParams<'a>,
}

/// The parameters of a `tools/call` request.
#[derive(serde::Serialize)]
pub struct ToolCallParams<'a> {
    #[serde(rename = "_meta")]
    pub meta: ToolCallMeta<'a>,
    #[serde(flatten)]
    pub call: CallToolRequestParams,
}

/// The `_meta` of a `tools/call` request.
pub struct ToolCallMeta<'a> {
    pub client_meta: &'a ClientMeta,
    pub call: RequestMetaObject,
    pub progress_token: &'a ProgressToken,
}

/// Client name, version and capabilities, which newer protocol versions require in every request; as JSON.
pub type ClientMeta = Vec<(String, Box<RawValue>)>;

impl Serialize for ToolCallMeta<'_> {
    /// One object of the client's metadata, the call's own `_meta` and the progress token, which share no
    /// name.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.client_meta {
            map.serialize_entry(name, value)?;
        }
        for (name, value) in self.call.iter() {
            map.serialize_entry(name, value)?;
        }
        map.serialize_entry("progressToken", self.progress_token)?;
        map.end()
    }
}

impl CallWriter {
    /// Lifts the limits that apply before the handshake is done.
    pub fn mark_handshake_done(&self) {
        self.handshake_done.store(true, Ordering::Relaxed);
    }

    /// Writes or queues a call. False: not written, since the server has too much unread. If writing fails
    /// later, the pending call is removed, which ends its wait.
    pub fn call(&self, pending: &PendingCall, params: &ToolCallParams<'_>) -> bool {
        let line =
            ToolCallRequest { jsonrpc: JsonRpcVersion2_0, id: &pending.id, method: "tools/call", params };
        let line = serde_json::to_vec(&line);
        let Some(room) = self.unread.reserve_queued(line.as_ref().map_or(0, Vec::len)) else { return false };
        let (id, calls) = (pending.id.clone(), self.calls.clone());
        let on_written = move |written: io::Result<()>| {
            if let Err(error) = written {
                tracing::debug!(%error, "a call could not be written");
                drop(calls.remove(&id));
            }
        };
        match write_line(&self.stdin, line, room) {
            Either::Left(at_once) => on_written(at_once.into_inner()),
            // In a task of its own: the waiting call may be dropped in the middle of the line.
            Either::Right(later) => drop(tokio::spawn(later.map(on_written))),
        }
        true
    }
}

/// A line that is written already, with the result; or the future that writes the rest.
type LineWrite = Either<Ready<io::Result<()>>, BoxFuture<'static, io::Result<()>>>;

/// Writes at once what the pipe has room for. `room` is held until the whole line is written. `line`: a JSON
/// text without its newline, or why it could not be serialized, which becomes the result.
fn write_line(stdin: &SharedStdin, line: serde_json::Result<Vec<u8>>, room: ByteReservation) -> LineWrite {
    let mut writing = write_and_flush(stdin.clone(), line, room).boxed();
    match (&mut writing).now_or_never() {
        Some(written) => Either::Left(ready(written)),
        None => Either::Right(writing),
    }
}

/// Writes the whole line, with a newline, and flushes it; then releases `room`. Err: closed, or not written
/// in full.
async fn write_and_flush(
    stdin: SharedStdin,
    line: serde_json::Result<Vec<u8>>,
    room: ByteReservation,
) -> io::Result<()> {
    let mut line = line?;
    line.push(b'\n');
    let mut stdin = stdin.lock().await;
    let stdin = stdin.as_mut().ok_or(io::ErrorKind::NotConnected)?;
    stdin.write_all(&line).await?;
    stdin.flush().await?;
    drop(room);
    Ok(())
}

/// Splits a child's output into messages, delivers answers to pending calls and enforces the limits.
struct LineDecoder {
    /// So many bytes of the buffer are known to contain no newline.
    scanned: usize,
    calls: PendingCalls,
    fault: ConnectionFault,
    list_changes: ListChanges,
    codec: JsonRpcMessageCodec<ServerJsonRpcMessage>,
    handshake_done: Arc<AtomicBool>,
    /// Bytes read before the handshake was done.
    handshake_bytes: usize,
    /// Bytes read since the last message.
    noise_bytes: usize,
    /// The memory of the line that is not complete yet.
    incomplete_line: ByteReservation,
}

impl Decoder for LineDecoder {
    type Item = ServerJsonRpcMessage;
    type Error = io::Error;

    /// The next message for rmcp. None: no further whole line is in the buffer. Err: a limit is exceeded, and
    /// the connection is aborted.
    fn decode(&mut self, bytes: &mut BytesMut) -> io::Result<Option<ServerJsonRpcMessage>> {
        while let Some(end) = bytes[self.scanned..].iter().position(|byte| *byte == b'\n') {
            let line = bytes.split_to(self.scanned + end + 1);
            self.scanned = 0;
            self.count_line(line.len())?;
            if let Some(message) = self.decode_line(line) {
                return Ok(Some(message));
            }
        }
        self.scanned = bytes.len();
        self.check_line_length(bytes.len())?;
        Ok(None)
    }

    /// A last line without a newline is ignored.
    fn decode_eof(&mut self, bytes: &mut BytesMut) -> io::Result<Option<ServerJsonRpcMessage>> {
        self.decode(bytes)
    }
}

impl LineDecoder {
    /// Counts a line's bytes. Err: too many before the handshake, or without a message; the connection is
    /// aborted.
    fn count_line(&mut self, bytes: usize) -> io::Result<()> {
        self.noise_bytes += bytes;
        if !self.handshake_done.load(Ordering::Relaxed) {
            self.handshake_bytes += bytes;
        }
        if self.handshake_bytes > HANDSHAKE_BYTES_MAX {
            return self.abort(format!("wrote {HANDSHAKE_BYTES_MAX} bytes and did not answer the handshake"));
        }
        if self.noise_bytes > NOISE_BYTES_MAX {
            return self.abort(format!("wrote {NOISE_BYTES_MAX} bytes that are not a message"));
        }
        Ok(())
    }

    /// Limits an incomplete line of so many bytes, on its own and together with those of other servers. Err:
    /// the connection is aborted.
    fn check_line_length(&mut self, bytes: usize) -> io::Result<()> {
        let max =
            if self.handshake_done.load(Ordering::Relaxed) { MESSAGE_BYTES_MAX } else { HANDSHAKE_BYTES_MAX };
        if bytes > max {
            return self.abort(format!("wrote a line of more than {max} bytes"));
        }
        let counted = if bytes > UNCOUNTED_LINE_BYTES_MAX { bytes } else { 0 };
        if !self.incomplete_line.try_resize(counted) {
            return self.abort("wrote a long line while this process holds too many of them".to_owned());
        }
        Ok(())
    }

    /// Aborts the connection; returns the error that ends the reading. `reason`: the rest of a sentence about
    /// the server.
    fn abort<T>(&self, reason: String) -> io::Result<T> {
        self.fault.abort(reason);
        Err(io::Error::other("the server is given up"))
    }

    /// Decodes one line and delivers it if it answers a call. Some: a message for rmcp. None: delivered or
    /// ignored.
    fn decode_line(&mut self, mut line: BytesMut) -> Option<ServerJsonRpcMessage> {
        if let Some(answer) = call_response::parse(&line, |id| self.calls.contains(id)) {
            self.noise_bytes = 0;
            return self.calls.deliver(answer);
        }
        if mentions_list_changed(&line) {
            self.list_changes.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
        match rewrite_for_rmcp(&line) {
            MessageRewrite::Unchanged => {}
            MessageRewrite::Replaced(other) => {
                line = BytesMut::from(&other[..]);
                // The codec, which tolerates deviations that plain parsing does not, expects a newline.
                line.extend_from_slice(b"\n");
            }
            MessageRewrite::Dropped => return None,
        }
        // The codec consumes the line.
        let answered_call = call_response::scan_answered_id(&line).filter(|id| self.calls.contains(id));
        let message = match (self.codec.decode(&mut line), answered_call) {
            (Ok(message), _) => message?,
            // Only this call waits for the id; without an error it would wait for its timeout.
            (Err(error), Some(id)) => {
                tracing::debug!(%error, "a server wrote an answer that cannot be read");
                call_response::invalid_answer(id)
            }
            // An invalid message is ignored: replying with an error could start an endless exchange of
            // errors.
            (Err(error), None) => {
                tracing::debug!(%error, "a server wrote an invalid message");
                return None;
            }
        };
        self.noise_bytes = 0;
        self.calls.deliver(message)
    }
}

impl Drop for LineDecoder {
    /// Ends the waits of the pending calls: no answer can come.
    fn drop(&mut self) {
        self.calls.close();
    }
}
