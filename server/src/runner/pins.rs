//! A tool that is not what the call was meant for: accepted since, and then called as it is now; or told
//! apart from what it was, so that somebody can decide.

use actbook_engine::chain::Digest;
use actbook_engine::execution::{Call, Command};
use actbook_engine::policy::Category;
use serde_json::Value;

use super::Inner;
use crate::store::tools as rows;
use crate::tools::{Ended, ToolInfo, changes_of};

/// What to do after a call that was meant for `pin` has ended.
pub enum Then {
    Done(Ended),
    /// An operator has accepted the tool as it is now.
    Again(Digest),
}

pub async fn look(inner: &Inner, stream: u64, call: &Call, pin: Option<Digest>, ended: Ended) -> Then {
    let refused = matches!(&ended, Ended::Failed { category: Category::Policy, sent: false, .. });
    match pin.filter(|_| refused) {
        None => Then::Done(ended),
        // Boxed, so that the calls that are not refused do not carry its size about.
        Some(pin) => Box::pin(look_closer(inner, stream, call, pin, ended)).await,
    }
}

async fn look_closer(inner: &Inner, stream: u64, call: &Call, pin: Digest, ended: Ended) -> Then {
    let live = match inner.tools.describe(&call.tool).await {
        Ok(info) if info.digest != pin => info,
        Ok(_) | Err(_) => return Then::Done(ended),
    };
    if !accepted(inner, &call.tool, live.digest) {
        return Then::Done(told(how_it_changed(inner, call, pin, &live).await));
    }
    let command = Command::MovePin { tool: call.tool.clone(), digest: live.digest };
    if let Err(error) = inner.ledger.command(&inner.actor, stream, command).await {
        tracing::warn!("an accepted tool could not be taken over: {error}");
        return Then::Done(ended);
    }
    match call.approved {
        false => Then::Again(live.digest),
        true => Then::Done(told(format!(
            "`{}` was approved as it was before it changed; a retry asks again, for the tool as it is now",
            call.tool
        ))),
    }
}

fn accepted(inner: &Inner, tool: &str, digest: Digest) -> bool {
    match inner.ledger.look_at_library(|library| library.accepted(tool)) {
        Ok(accepted) => accepted == Some(digest),
        Err(error) => {
            tracing::warn!("what was accepted cannot be read: {error}");
            false
        }
    }
}

async fn how_it_changed(inner: &Inner, call: &Call, pin: Digest, live: &ToolInfo) -> String {
    let was = rows::find(inner.tenant, &pin.to_string()).first(&inner.db).await.ok().flatten();
    let was: Option<Value> = was.and_then(|was| serde_json::from_str(&was.object).ok());
    let mut now = live.object.as_ref().clone();
    inner.tools.redact(&mut now);
    let how = was
        .map_or_else(|| "how it was is not known here".to_owned(), |was| changes_of(&call.tool, &was, &now));
    format!(
        "`{0}` is not what it was when the plan was saved: {how}; nothing was sent; read it, then \
         `actbook tools accept {0}` and retry the step, or save the plan again and run that",
        call.tool
    )
}

fn told(message: String) -> Ended {
    Ended::Failed { category: Category::Policy, message, sent: false, output: None, retry_after: None }
}
