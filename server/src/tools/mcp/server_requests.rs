//! Replies to a server's own requests, made at once: rmcp would spawn a task for each, without a limit.

use rmcp::model::{
    ClientJsonRpcMessage, ClientResult, ElicitResult, ElicitationAction, ErrorCode, ErrorData,
    ServerJsonRpcMessage, ServerRequest,
};

use super::client_events::QuestionHandlers;
use crate::tools::limits::warnings::WarningThrottle;

/// Makes the replies to the requests of one server.
pub struct RequestReplier {
    server: String,
    questions: QuestionHandlers,
    elicitations: WarningThrottle,
}

impl RequestReplier {
    pub fn new(server: &str, questions: QuestionHandlers) -> Self {
        Self { server: server.to_owned(), questions, elicitations: WarningThrottle::default() }
    }

    /// The reply to a server's request: pings are answered, elicitations cancelled, others refused. None: the
    /// message is not a request, or an elicitation that rmcp's client passes to the one call that takes them.
    pub fn reply_to(&self, message: &ServerJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        let ServerJsonRpcMessage::Request(received) = message else { return None };
        let id = received.id.clone();
        Some(match &received.request {
            ServerRequest::PingRequest(_) => ClientJsonRpcMessage::response(ClientResult::empty(()), id),
            ServerRequest::ElicitRequest(_) if self.questions.reserve() => return None,
            // `cancel`, since no person was asked: `decline` would be a person's refusal. A server that needs
            // an answer uses the newer protocol's `input_required`, which becomes the step's question.
            ServerRequest::ElicitRequest(_) => {
                self.warn_of_elicitation();
                ClientJsonRpcMessage::response(ElicitResult::new(ElicitationAction::Cancel).into(), id)
            }
            _ => {
                let why = "Method not found: this client offers neither sampling nor roots";
                ClientJsonRpcMessage::error(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None), Some(id))
            }
        })
    }

    /// Logs that an elicitation was cancelled, unless that was logged a short time ago.
    fn warn_of_elicitation(&self) {
        let Some(suppressed) = self.elicitations.admit() else { return };
        let before = if suppressed == 0 { String::new() } else { format!(" ({suppressed} more before)") };
        tracing::warn!(
            "the server `{}` requested user input during a call; answered `cancel`, no user was asked{before}",
            self.server
        );
    }
}

impl Drop for RequestReplier {
    /// Logs the number of elicitations that were not logged one by one.
    fn drop(&mut self) {
        match self.elicitations.suppressed() {
            0 => {}
            count => tracing::warn!("the server `{}` requested user input {count} times more", self.server),
        }
    }
}
