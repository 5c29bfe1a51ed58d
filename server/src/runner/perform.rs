//! One call: the line in the seat file, the tool, and its end in the engine's words.

use std::sync::Arc;
use std::time::Duration;

use actbook_engine::chain::Digest;
use actbook_engine::execution::{Call, CallId, Ended};
use actbook_engine::policy::Category;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Inner;
use super::pins::{self, Then};
use crate::tools;

/// A call on its way; it may be asked to stop.
#[derive(Debug)]
pub struct InFlight {
    pub stop: watch::Sender<bool>,
}

pub async fn perform(
    inner: Arc<Inner>,
    stream: u64,
    call: Call,
    arguments: Value,
    stop: watch::Receiver<bool>,
) -> (CallId, Ended) {
    let id = call.id;
    let sending = |child: Option<tools::ChildProcess>| {
        if let Err(error) = inner.seat.sending(stream, id, child) {
            // Without the line a crash would pass this call off as never sent.
            tracing::error!("the seat file cannot be written ({error}); leaving before anything is sent");
            std::process::abort();
        }
    };
    let _line = inner.board.open(stream, id.step);
    let board = inner.board.clone();
    let progress: tools::OnProgress = Arc::new(move |said| board.note(stream, id.step, said));
    let mut pin = call.pin;
    loop {
        let (request, stop) = (request(&call, &arguments, pin), asked_to_stop(stop.clone()));
        let ended = inner.tools.call_reporting(request, sending, progress.clone(), stop).await;
        match pins::look(&inner, stream, &call, pin, ended).await {
            Then::Done(ended) => return (id, in_engine_words(ended)),
            Then::Again(accepted) => pin = Some(accepted),
        }
    }
}

fn request(call: &Call, arguments: &Value, pin: Option<Digest>) -> tools::Call {
    tools::Call {
        tool: call.tool.clone(),
        arguments: arguments.clone(),
        pin,
        key: call.key.clone(),
        timeout: Duration::from_millis(call.timeout_ms),
    }
}

async fn asked_to_stop(mut stop: watch::Receiver<bool>) {
    if stop.wait_for(|asked| *asked).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn in_engine_words(ended: tools::Ended) -> Ended {
    let ms = |wait: Option<Duration>| wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    match ended {
        tools::Ended::Succeeded { output } => Ended::Succeeded { output },
        tools::Ended::Failed { category, message, sent, output, retry_after } => Ended::Failed {
            category,
            said: said(&message, output),
            unsent: !sent,
            retry_after_ms: ms(retry_after),
        },
        tools::Ended::Unknown { category, message, retry_after } => {
            Ended::Unknown { category, said: said(&message, None), retry_after_ms: ms(retry_after) }
        }
    }
}

fn said(message: &str, output: Option<Value>) -> Value {
    match output {
        Some(output) => json!({ "message": message, "output": output }),
        None => json!({ "message": message }),
    }
}

/// The arguments could not even be read back: certainly not sent.
pub fn unreadable(call: CallId, why: &str) -> (CallId, Ended) {
    let said = said(why, None);
    (call, Ended::Failed { category: Category::Internal, said, unsent: true, retry_after_ms: None })
}
