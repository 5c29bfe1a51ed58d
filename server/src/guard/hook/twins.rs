//! Cursor tells a call twice: by a generic event, which has an id, and by one for the class of the tool, which has none.
//! The second is the same call where an equal one began shortly before.

use std::time::Duration;

use serde_json::Value;

use super::super::{Guard, GuardedCall, SessionOrigin};
use crate::error::Error;
use crate::service::SessionPart;

/// How long after a generic event an equal one for the tool's class is about the same call.
const TWIN_WINDOW: Duration = Duration::from_secs(5);

/// The call that the client has told by its generic event already.
pub async fn find_twin(
    guard: &Guard<'_>,
    origin: &SessionOrigin,
    call: &GuardedCall,
) -> Result<Option<(SessionPart, String)>, Error> {
    let sessions = guard.service.sessions();
    let Some(part) = sessions.current(&origin.key).await? else { return Ok(None) };
    let wanted = sessions.as_stored(&call.arguments);
    let wanted = essence(&call.tool, &wanted);
    let since_ms = sessions.now_ms().saturating_sub(TWIN_WINDOW.as_millis() as i64);
    let found = sessions
        .find_recent_call(&part, twin_tools(&call.tool), since_ms, |arguments| {
            essence(&call.tool, arguments) == wanted
        })
        .await?;
    Ok(found.map(|step| (part, step)))
}

/// The tools that the generic event may name: the one after an edit does not say whether the file was new.
fn twin_tools(tool: &str) -> &'static [&'static str] {
    match tool {
        "client/shell" => &["client/shell"],
        "client/read" => &["client/read"],
        "client/write" => &["client/write", "client/edit"],
        _ => &["client/mcp"],
    }
}

/// What both events tell of a call.
fn essence<'a>(tool: &str, arguments: &'a Value) -> Option<&'a Value> {
    match tool {
        "client/shell" => arguments.get("command"),
        "client/read" | "client/write" => arguments.get("path"),
        _ => Some(arguments),
    }
}
