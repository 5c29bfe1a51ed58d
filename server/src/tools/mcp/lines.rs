//! MCP over a child's pipes, a message a line. Two write, `Lines` for rmcp and `Speaker` for calls; one reads, and
//! hands a call's answer to whoever made it and all else to rmcp. A line is bounded: a server that never ends its
//! line would otherwise fill the memory, or, where such lines are skipped, leave its caller waiting for the timeout.

use std::io;
use std::sync::{Arc, OnceLock};

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, Either, FutureExt, Ready, ready};
use rmcp::model::{
    CallToolRequestParams, ClientJsonRpcMessage, ElicitResult, ElicitationAction, JsonRpcVersion2_0,
    ProgressToken, RequestId, RequestMetaObject, ServerJsonRpcMessage, ServerRequest,
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
use super::raw::{ListChanges, says_list_changed, wrapped};

/// One message of a server.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Why the connection was given up, told by whoever gave it up first.
pub type Verdict = Arc<OnceLock<String>>;

type Stdin = Arc<Mutex<Option<ChildStdin>>>;

pub struct Lines {
    heard: FramedRead<ChildStdout, Hearing>,
    stdin: Stdin,
}

impl Lines {
    pub fn new(stdin: ChildStdin, stdout: ChildStdout, verdict: Verdict, changes: ListChanges) -> Self {
        let codec = JsonRpcMessageCodec::new();
        let hearing = Hearing { sought: 0, calls: Calls::new(), verdict, changes, codec };
        Self { heard: FramedRead::new(stdout, hearing), stdin: Arc::new(Mutex::new(Some(stdin))) }
    }

    /// The calls' own way, beside rmcp's.
    pub fn speaker(&self) -> Speaker {
        Speaker { stdin: self.stdin.clone(), calls: self.heard.decoder().calls.clone() }
    }

    /// What rmcp would say to a server that asks a person something in the middle of a call. It does not know of the
    /// call, and in the newer era would take the server to task for asking without one.
    fn reply(&self, heard: &ServerJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        let ServerJsonRpcMessage::Request(asked) = heard else { return None };
        let mid_call = self.heard.decoder().calls.are_out();
        if !mid_call || !matches!(asked.request, ServerRequest::ElicitRequest(_)) {
            return None;
        }
        let no = ElicitResult::new(ElicitationAction::Decline).into();
        Some(ClientJsonRpcMessage::response(no, asked.id.clone()))
    }
}

impl Transport<RoleClient> for Lines {
    type Error = io::Error;

    /// What the pipe has room for leaves at once, before the task that rmcp makes of the rest.
    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        write(&self.stdin, serde_json::to_vec(&message))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let heard = self.heard.next().await.and_then(|heard| {
                heard
                    .inspect_err(|error| tracing::debug!(%error, "a server's output is read no further"))
                    .ok()
            });
            let Some(heard) = heard else {
                self.heard.decoder().calls.end();
                return None;
            };
            match self.reply(&heard) {
                Some(reply) => drop(tokio::spawn(write(&self.stdin, serde_json::to_vec(&reply)))),
                None => return Some(heard),
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
    /// What cannot be written will not be answered: whoever waits hears of that.
    pub fn call(&self, waiting: &Waiting, params: &Params<'_>) {
        let line = Line { jsonrpc: JsonRpcVersion2_0, id: &waiting.id, method: "tools/call", params };
        let (id, calls) = (waiting.id.clone(), self.calls.clone());
        let written = move |written: io::Result<()>| {
            if let Err(error) = written {
                tracing::debug!(%error, "a call could not be written");
                drop(calls.leave(&id));
            }
        };
        match write(&self.stdin, serde_json::to_vec(&line)) {
            Either::Left(at_once) => written(at_once.into_inner()),
            // Not by whoever waits, who may give up in the middle of the line.
            Either::Right(later) => drop(tokio::spawn(later.map(written))),
        }
    }
}

type Writing = Either<Ready<io::Result<()>>, BoxFuture<'static, io::Result<()>>>;

/// What the pipe has room for leaves at once.
fn write(stdin: &Stdin, line: serde_json::Result<Vec<u8>>) -> Writing {
    let mut writing = write_whole(stdin.clone(), line).boxed();
    match (&mut writing).now_or_never() {
        Some(written) => Either::Left(ready(written)),
        None => Either::Right(writing),
    }
}

async fn write_whole(stdin: Stdin, line: serde_json::Result<Vec<u8>>) -> io::Result<()> {
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
    calls: Calls,
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
    fn line(&mut self, mut line: BytesMut) -> Option<ServerJsonRpcMessage> {
        if let Some(answer) = answer::of_call(&line, |id| self.calls.has(id)) {
            return self.calls.settle(answer);
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
        self.calls.settle(heard.ok().flatten()?)
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.calls.end();
    }
}
