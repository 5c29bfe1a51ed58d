//! MCP over a child's pipes, a message a line. Two write, `Lines` for rmcp and `Speaker` for calls; one reads, and
//! hands a call's answer to whoever made it and all else to rmcp. A line is bounded: a server that never ends its
//! line would otherwise fill the memory, or, where such lines are skipped, leave its caller waiting for the timeout.
//! What waits to be written is bounded too: a server that asks and does not read would otherwise fill the memory.

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

use super::answer;
use super::calls::{Calls, Waiting};
use super::fault::ConnectionFault;
use super::raw::{ListChanges, Passed, passed, says_list_changed};
use super::requests::reply_to;
use crate::tools::limits::bytes::{
    ByteBudget, HANDSHAKE_BYTES_MAX, MESSAGE_BYTES_MAX, NOISE_BYTES_MAX, Reservation, UNREAD_CALLS_BYTES_MAX,
    UNREAD_REPLIES_BYTES_MAX,
};

/// A shorter line in the making is not counted in the process's total: most lines are.
const SMALL_LINE_BYTES: usize = 64 * 1024;

type Stdin = Arc<Mutex<Option<ChildStdin>>>;

pub struct Lines {
    heard: FramedRead<ChildStdout, Hearing>,
    stdin: Stdin,
    /// What rmcp has to say and the server has not read.
    unread: ByteBudget,
    fault: ConnectionFault,
}

impl Lines {
    pub fn new(stdin: ChildStdin, stdout: ChildStdout, fault: ConnectionFault, changes: ListChanges) -> Self {
        let hearing = Hearing {
            sought: 0,
            calls: Calls::new(),
            fault: fault.clone(),
            changes,
            codec: JsonRpcMessageCodec::new(),
            is_up: Arc::default(),
            handshake_bytes: 0,
            noise_bytes: 0,
            incomplete: ByteBudget::new(MESSAGE_BYTES_MAX * 2).empty(),
        };
        let (heard, stdin) = (FramedRead::new(stdout, hearing), Arc::new(Mutex::new(Some(stdin))));
        Self { heard, stdin, unread: ByteBudget::new(UNREAD_REPLIES_BYTES_MAX), fault }
    }

    /// The calls' own way, beside rmcp's.
    pub fn speaker(&self) -> Speaker {
        let hearing = self.heard.decoder();
        Speaker {
            stdin: self.stdin.clone(),
            calls: hearing.calls.clone(),
            unread: ByteBudget::new(UNREAD_CALLS_BYTES_MAX),
            is_up: hearing.is_up.clone(),
        }
    }

    /// Writes a line at once, or queues it. A server that lets too much wait is given up.
    fn enqueue(&self, line: serde_json::Result<Vec<u8>>) -> Writing {
        let bytes = line.as_ref().map_or(0, Vec::len);
        match self.unread.reserve_queued(bytes) {
            Some(room) => write(&self.stdin, line, room),
            None => {
                let most = UNREAD_REPLIES_BYTES_MAX;
                self.fault.give_up(format!("does not read: answers of {most} bytes wait for it"));
                Either::Left(ready(Err(io::ErrorKind::BrokenPipe.into())))
            }
        }
    }
}

impl Transport<RoleClient> for Lines {
    type Error = io::Error;

    /// What the pipe has room for leaves at once, before the task that rmcp makes of the rest.
    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.enqueue(serde_json::to_vec(&message))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let heard = self.heard.next().await.and_then(|heard| {
                heard
                    .inspect_err(|error| tracing::debug!(%error, "a server's output is read no further"))
                    .ok()
            });
            let Some(heard) = heard.filter(|_| !self.fault.is_given_up()) else {
                self.heard.decoder().calls.end();
                return None;
            };
            let Some(reply) = reply_to(&heard) else { return Some(heard) };
            if let Either::Right(later) = self.enqueue(serde_json::to_vec(&reply)) {
                tokio::spawn(later);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        drop(self.stdin.lock().await.take());
        Ok(())
    }
}

pub struct Speaker {
    stdin: Stdin,
    pub calls: Calls,
    /// Calls that the server has not read.
    unread: ByteBudget,
    is_up: Arc<AtomicBool>,
}

#[derive(serde::Serialize)]
struct Line<'a> {
    jsonrpc: JsonRpcVersion2_0,
    id: &'a RequestId,
    method: &'static str,
    params: &'a Params<'a>,
}

#[derive(serde::Serialize)]
pub struct Params<'a> {
    #[serde(rename = "_meta")]
    pub meta: Meta<'a>,
    #[serde(flatten)]
    pub call: CallToolRequestParams,
}

pub struct Meta<'a> {
    pub introduction: &'a Introduction,
    pub call: RequestMetaObject,
    pub progress_token: &'a ProgressToken,
}

/// What the newer era has every request say of who asks, as it is written.
pub type Introduction = Vec<(String, Box<RawValue>)>;

impl Serialize for Meta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, said) in self.introduction {
            map.serialize_entry(name, said)?;
        }
        for (name, said) in self.call.iter() {
            map.serialize_entry(name, said)?;
        }
        map.serialize_entry("progressToken", self.progress_token)?;
        map.end()
    }
}

impl Speaker {
    /// The handshake is done: what limits it no longer applies.
    pub fn handshake_done(&self) {
        self.is_up.store(true, Ordering::Relaxed);
    }

    /// False: nothing was written, since the server has too much to read already. What cannot be written will not
    /// be answered: whoever waits hears of that.
    pub fn call(&self, waiting: &Waiting, params: &Params<'_>) -> bool {
        let line = Line { jsonrpc: JsonRpcVersion2_0, id: &waiting.id, method: "tools/call", params };
        let line = serde_json::to_vec(&line);
        let Some(room) = self.unread.reserve_queued(line.as_ref().map_or(0, Vec::len)) else { return false };
        let (id, calls) = (waiting.id.clone(), self.calls.clone());
        let written = move |written: io::Result<()>| {
            if let Err(error) = written {
                tracing::debug!(%error, "a call could not be written");
                drop(calls.leave(&id));
            }
        };
        match write(&self.stdin, line, room) {
            Either::Left(at_once) => written(at_once.into_inner()),
            // Not by whoever waits, who may give up in the middle of the line.
            Either::Right(later) => drop(tokio::spawn(later.map(written))),
        }
        true
    }
}

type Writing = Either<Ready<io::Result<()>>, BoxFuture<'static, io::Result<()>>>;

/// What the pipe has room for leaves at once. `room` is held until the whole line has left.
fn write(stdin: &Stdin, line: serde_json::Result<Vec<u8>>, room: Reservation) -> Writing {
    let mut writing = write_whole(stdin.clone(), line, room).boxed();
    match (&mut writing).now_or_never() {
        Some(written) => Either::Left(ready(written)),
        None => Either::Right(writing),
    }
}

async fn write_whole(stdin: Stdin, line: serde_json::Result<Vec<u8>>, room: Reservation) -> io::Result<()> {
    let mut line = line?;
    line.push(b'\n');
    let mut stdin = stdin.lock().await;
    let stdin = stdin.as_mut().ok_or(io::ErrorKind::NotConnected)?;
    stdin.write_all(&line).await?;
    stdin.flush().await?;
    drop(room);
    Ok(())
}

struct Hearing {
    /// So much of what is there holds no line's end.
    sought: usize,
    calls: Calls,
    fault: ConnectionFault,
    changes: ListChanges,
    codec: JsonRpcMessageCodec<ServerJsonRpcMessage>,
    /// The handshake is done.
    is_up: Arc<AtomicBool>,
    /// Read before that.
    handshake_bytes: usize,
    /// Read since the last message.
    noise_bytes: usize,
    /// The line in the making.
    incomplete: Reservation,
}

impl Decoder for Hearing {
    type Item = ServerJsonRpcMessage;
    type Error = io::Error;

    fn decode(&mut self, bytes: &mut BytesMut) -> io::Result<Option<ServerJsonRpcMessage>> {
        while let Some(end) = bytes[self.sought..].iter().position(|byte| *byte == b'\n') {
            let line = bytes.split_to(self.sought + end + 1);
            self.sought = 0;
            self.check_volume(line.len())?;
            if let Some(heard) = self.line(line) {
                return Ok(Some(heard));
            }
        }
        self.sought = bytes.len();
        self.check_line(bytes.len())?;
        Ok(None)
    }

    /// What has no end is no message.
    fn decode_eof(&mut self, bytes: &mut BytesMut) -> io::Result<Option<ServerJsonRpcMessage>> {
        self.decode(bytes)
    }
}

impl Hearing {
    /// Counts a line; too many bytes before the handshake, or without a message, end the connection.
    fn check_volume(&mut self, bytes: usize) -> io::Result<()> {
        self.noise_bytes += bytes;
        if !self.is_up.load(Ordering::Relaxed) {
            self.handshake_bytes += bytes;
        }
        if self.handshake_bytes > HANDSHAKE_BYTES_MAX {
            return self
                .give_up(format!("wrote {HANDSHAKE_BYTES_MAX} bytes and did not answer the handshake"));
        }
        if self.noise_bytes > NOISE_BYTES_MAX {
            return self.give_up(format!("wrote {NOISE_BYTES_MAX} bytes that are no message"));
        }
        Ok(())
    }

    /// Bounds a line in the making, on its own and together with those of other servers.
    fn check_line(&mut self, bytes: usize) -> io::Result<()> {
        let most = if self.is_up.load(Ordering::Relaxed) { MESSAGE_BYTES_MAX } else { HANDSHAKE_BYTES_MAX };
        if bytes > most {
            return self.give_up(format!("wrote a line of more than {most} bytes"));
        }
        let counted = if bytes > SMALL_LINE_BYTES { bytes } else { 0 };
        if !self.incomplete.resize(counted) {
            return self.give_up("wrote a long line while this process holds too many of them".to_owned());
        }
        Ok(())
    }

    fn give_up<T>(&self, reason: String) -> io::Result<T> {
        self.fault.give_up(reason);
        Err(io::Error::other("the server is given up"))
    }

    fn line(&mut self, mut line: BytesMut) -> Option<ServerJsonRpcMessage> {
        if let Some(answer) = answer::of_call(&line, |id| self.calls.has(id)) {
            self.noise_bytes = 0;
            return self.calls.settle(answer);
        }
        if says_list_changed(&line) {
            self.changes.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
        match passed(&line) {
            Passed::AsIs => {}
            Passed::Instead(other) => {
                line = BytesMut::from(&other[..]);
                // The codec, which alone is as lenient as it should be, wants lines.
                line.extend_from_slice(b"\n");
            }
            Passed::Nothing => return None,
        }
        // What is no message is passed over: an answer to it may be answered in kind, for ever.
        let heard = self.codec.decode(&mut line);
        let heard = heard.inspect_err(|error| tracing::debug!(%error, "a server wrote what is no message"));
        let heard = heard.ok().flatten()?;
        self.noise_bytes = 0;
        self.calls.settle(heard)
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.calls.end();
    }
}
