//! What a server asks of us, answered at once: rmcp would make a task of every request, without a bound.

use rmcp::model::{
    ClientJsonRpcMessage, ClientResult, ElicitResult, ElicitationAction, ErrorCode, ErrorData,
    ServerJsonRpcMessage, ServerRequest,
};

/// The reply to a server's request; none for any other message.
pub fn reply_to(message: &ServerJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
    let ServerJsonRpcMessage::Request(asked) = message else { return None };
    let id = asked.id.clone();
    Some(match &asked.request {
        ServerRequest::PingRequest(_) => ClientJsonRpcMessage::response(ClientResult::empty(()), id),
        // `cancel`, since nobody was asked: `decline` would be a person's no. A server that wants an answer asks
        // with the newer protocol's `input_required`, which becomes the step's question.
        ServerRequest::ElicitRequest(_) => {
            tracing::warn!("a server asked a person in the middle of a call; nobody was asked: `cancel`");
            ClientJsonRpcMessage::response(ElicitResult::new(ElicitationAction::Cancel).into(), id)
        }
        _ => {
            let why = "Method not found: this client lends neither a model nor its files";
            ClientJsonRpcMessage::error(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None), Some(id))
        }
    })
}
