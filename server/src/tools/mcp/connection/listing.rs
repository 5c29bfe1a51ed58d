//! What a server offers, asked for anew whenever it may have changed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rmcp::model::PaginatedRequestParams;
use rmcp::service::ServiceError;

use super::super::raw::{too_long, too_many, unwrapped};
use super::{Connection, no_message};
use crate::tools::catalog::{Listing, ToolInfo};
use crate::tools::limits::bytes::{LISTING_BYTES_MAX, TOOLS_MAX};

const PAGES_MAX: usize = 1_000;
const LIST_LIMIT: Duration = Duration::from_secs(30);
/// Within this the list is not asked for again, unless the server says that it changed. A server that
/// changes a tool without a word is found out before the first call after that.
const LIST_FRESH: Duration = Duration::from_secs(1);

pub(super) struct Listed {
    at: Instant,
    /// How many changes had been announced before it was asked for.
    changes: u64,
    listing: Arc<Listing>,
}

impl Connection {
    /// The server's tools, where they were asked for not long ago and nobody is asking.
    pub fn listing_at_hand(&self) -> Option<Arc<Listing>> {
        self.fresh(self.listed.try_lock().ok()?.as_ref()?)
    }

    fn fresh(&self, listed: &Listed) -> Option<Arc<Listing>> {
        let changes = self.changes.load(Ordering::SeqCst);
        let fresh = listed.at.elapsed() < LIST_FRESH && listed.changes == changes;
        fresh.then(|| listed.listing.clone())
    }

    /// The server's tools, at most `LIST_FRESH` old.
    pub async fn listing(&self, server: &str) -> Result<Arc<Listing>, String> {
        let mut listed = self.listed.lock().await;
        if let Some(listing) = listed.as_ref().and_then(|listed| self.fresh(listed)) {
            return Ok(listing);
        }
        let changes = self.changes.load(Ordering::SeqCst);
        let at = Instant::now();
        let tools = match tokio::time::timeout(LIST_LIMIT, self.list(server)).await {
            Ok(tools) => tools?,
            Err(_) => {
                return Err(format!("the server `{server}` did not list its tools within {LIST_LIMIT:?}"));
            }
        };
        let before = listed.as_ref().map(|listed| listed.listing.as_ref());
        let listing = Arc::new(Listing::new(tools, before));
        *listed = Some(Listed { at, changes, listing: listing.clone() });
        self.life.heard();
        Ok(listing)
    }

    async fn list(&self, server: &str) -> Result<Vec<ToolInfo>, String> {
        let refused = |why: &str| format!("the server `{server}` does not list its tools: {why}");
        let (mut tools, mut bytes_listed) = (Vec::new(), 0_usize);
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let page = match self.peer.list_tools(Some(page)).await {
                Ok(page) => page,
                Err(ServiceError::McpError(error)) => return Err(refused(&error.message)),
                Err(error) => {
                    let told = match &error {
                        ServiceError::TransportSend(error) => no_message(error).map(ToString::to_string),
                        _ => None,
                    };
                    let why = match told {
                        Some(why) => why,
                        None => self.why_broken().await,
                    };
                    return Err(format!("listing the tools of `{server}`: {why}"));
                }
            };
            for (tool, bytes) in page.tools.into_iter().map(unwrapped) {
                bytes_listed += bytes;
                tools.extend(ToolInfo::of_mcp(server, tool));
                if bytes_listed > LISTING_BYTES_MAX {
                    return Err(refused(&too_long()));
                }
                if tools.len() > TOOLS_MAX {
                    return Err(refused(&too_many()));
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        Err(format!("the server `{server}` never ends its list: it has more than {PAGES_MAX} pages"))
    }
}
