//! The protocol over stdin and stdout, a message a line. A line that is no message is answered here, with
//! the id where it can be read; one that is too long is answered, dropped, and never held whole.

use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, JsonRpcNotification, JsonRpcRequest, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;

use super::message::{self, Fault};

/// A longer line is no message of ours.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Room that is kept between lines.
const ROOM_BYTES: usize = 64 * 1024;
/// Some editors begin what they write with it.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

type Out<W> = Arc<Mutex<Option<W>>>;
type Sending = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

pub struct Lines<R, W> {
    read: BufReader<R>,
    line: Vec<u8>,
    /// The line was answered already; its rest is passed over.
    passes_over: bool,
    write: Out<W>,
    /// Calls of tools that are being answered. The library would drop the answer to the first of two calls
    /// with one id, so the second is refused before it gets there.
    in_flight: InFlight,
    /// An answer of ours. Whoever receives may be interrupted half-way through sending it.
    sending: Option<Sending>,
}

/// The ids of calls that are being answered.
#[derive(Debug, Default)]
struct InFlight(HashSet<RequestId>);

impl InFlight {
    /// Passes a message on; refused: a call without a key whose id is in use.
    fn admit(&mut self, message: ClientJsonRpcMessage) -> Result<ClientJsonRpcMessage, Fault> {
        match &message {
            ClientJsonRpcMessage::Request(JsonRpcRequest {
                id,
                request: ClientRequest::CallToolRequest(call),
                ..
            }) => self.take(id, message::has_key(&call.params))?,
            // Of a call that was taken back no answer goes out.
            ClientJsonRpcMessage::Notification(JsonRpcNotification {
                notification: ClientNotification::CancelledNotification(cancelled),
                ..
            }) => self.forget(cancelled.params.request_id.as_ref()),
            _ => {}
        }
        Ok(message)
    }

    /// A call with a request key may share its id: whatever it asks for is done once.
    fn take(&mut self, id: &RequestId, has_key: bool) -> Result<(), Fault> {
        let is_free = self.0.insert(id.clone());
        if is_free || has_key { Ok(()) } else { Err(Fault::id_in_use(id)) }
    }

    fn answered(&mut self, message: &ServerJsonRpcMessage) {
        match message {
            ServerJsonRpcMessage::Response(answer) => self.forget(Some(&answer.id)),
            ServerJsonRpcMessage::Error(error) => self.forget(error.id.as_ref()),
            _ => {}
        }
    }

    fn forget(&mut self, id: Option<&RequestId>) {
        if let Some(id) = id {
            self.0.remove(id);
        }
    }
}

/// What has come.
enum Come {
    Line,
    TooLong,
    Part,
    End,
}

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    pub fn new(read: R, write: W) -> Self {
        Self {
            read: BufReader::new(read),
            line: Vec::new(),
            passes_over: false,
            write: Arc::new(Mutex::new(Some(write))),
            in_flight: InFlight::default(),
            sending: None,
        }
    }

    /// Takes what there is, up to the end of a line. Interrupted, it has taken nothing.
    async fn take(&mut self) -> io::Result<Come> {
        let there = self.read.fill_buf().await?;
        let end = there.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(there.len(), |end| end + 1);
        let fits = self.line.len() + taken <= LINE_BYTES_MAX;
        if fits && !self.passes_over {
            self.line.extend_from_slice(&there[..taken]);
        }
        let come = match (end, fits || self.passes_over) {
            _ if there.is_empty() => Come::End,
            (_, false) => Come::TooLong,
            (Some(_), true) if !self.passes_over => Come::Line,
            (_, true) => Come::Part,
        };
        self.read.consume(taken);
        self.passes_over = end.is_none() && (self.passes_over || !fits);
        Ok(come)
    }

    /// The message on the line, if there is one; the line is done with.
    fn message(&mut self) -> Option<ClientJsonRpcMessage> {
        let line = self.line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&self.line).trim_ascii();
        let message = if line.is_empty() { None } else { Some(message::read(line)) };
        self.clear();
        match message?.and_then(|message| self.in_flight.admit(message)) {
            Ok(message) => Some(message),
            Err(fault) => {
                self.answer(&fault);
                None
            }
        }
    }

    fn answer(&mut self, fault: &Fault) {
        tracing::debug!("a line is no message: {}", fault.answer());
        if fault.owed {
            self.sending = Some(Box::pin(send(self.write.clone(), written(&fault.answer()))));
        }
    }

    fn clear(&mut self) {
        self.line.clear();
        self.line.shrink_to(ROOM_BYTES);
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.in_flight.answered(&message);
        send(self.write.clone(), written(&message))
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(sending) = &mut self.sending {
                let sent = sending.await;
                self.sending = None;
                sent.inspect_err(|error| tracing::debug!("nobody reads: {error}")).ok()?;
            }
            let come = self.take().await.inspect_err(|error| tracing::error!("stdin: {error}")).ok()?;
            match come {
                Come::Line => {
                    if let Some(message) = self.message() {
                        return Some(message);
                    }
                }
                Come::TooLong => {
                    let fault = Fault::too_long(&self.line, LINE_BYTES_MAX);
                    self.clear();
                    self.answer(&fault);
                }
                Come::Part => {}
                // What has no end of line yet was cut off, and is nobody's request.
                Come::End => return None,
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        drop(self.write.lock().await.take());
        Ok(())
    }
}

fn written(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

async fn send<W: AsyncWrite + Unpin>(write: Out<W>, line: io::Result<Vec<u8>>) -> io::Result<()> {
    let line = line?;
    let mut write = write.lock().await;
    let write = write.as_mut().ok_or(io::ErrorKind::NotConnected)?;
    write.write_all(&line).await?;
    write.flush().await
}
