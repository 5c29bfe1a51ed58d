//! Answers that come after their call was given up, on a connection that is still up. A call that timed out is
//! `unknown`; what its server says of it later is the only way to know.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use rmcp::model::{CancelledNotification, CancelledNotificationParam, RequestId, ServerResult};
use rmcp::service::{Peer, RoleClient, ServiceError};
use tokio::sync::oneshot;

use super::Carrier;
use super::call::{Sent, tool_answer};
use crate::tools::OnLateCame;
use crate::tools::classify::Came;
use crate::tools::mcp::calls::Outcome;

/// Calls of one connection that are still listened for after they were given up; the oldest makes room.
const LATE_CALLS_MAX: usize = 64;

/// Calls that were given up and are still listened for. Dropped, nobody listens any more.
#[derive(Default)]
pub struct LateCalls(Mutex<VecDeque<oneshot::Sender<()>>>);

impl LateCalls {
    /// Waits for the answer of a call that was given up, until its connection ends or too many others wait.
    pub fn listen(&self, sent: Sent, late: OnLateCame, peer: &Peer<RoleClient>, carrier: &Carrier) {
        let (keep, mut dropped) = oneshot::channel();
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push_back(keep);
        if calls.len() > LATE_CALLS_MAX {
            calls.pop_front();
        }
        drop(calls);
        // Calls to a child pass rmcp by: it has nothing to forget.
        let forgets = matches!(carrier, Carrier::Http(_)).then(|| peer.clone());
        tokio::spawn(async move {
            // The whole of it: without its place among the waiting calls the answer would find nobody.
            let mut sent = sent;
            tokio::select! {
                answer = &mut sent.answer => {
                    if let Some(came) = answer.ok().and_then(definite) {
                        late(came);
                    }
                }
                _ = &mut dropped => if let Some(peer) = forgets {
                    forget(&peer, sent.id).await;
                }
            }
        });
    }
}

/// What the answer says, where it is one; a question or a task's handle comes too late to be taken up.
fn definite(answer: Outcome) -> Option<Came> {
    match answer {
        Ok(ServerResult::CallToolResult(result)) => Some(tool_answer(result)),
        Err(ServiceError::McpError(error)) => {
            Some(Came::Error { code: error.code.0, message: error.message.into_owned(), data: error.data })
        }
        Ok(_) | Err(_) => None,
    }
}

/// rmcp keeps a place for the answer until it comes, or until the call is cancelled its way.
async fn forget(peer: &Peer<RoleClient>, id: RequestId) {
    let params = CancelledNotificationParam::new(Some(id), Some("timed out".to_owned()));
    if let Err(error) = peer.send_notification(CancelledNotification::new(params).into()).await {
        tracing::debug!(%error, "a late call could not be forgotten");
    }
}
