//! The server's tool listing, cached for a moment and fetched again when it may have changed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rmcp::model::PaginatedRequestParams;
use rmcp::service::ServiceError;

use super::super::raw_tools::{listing_too_long, too_many_tools, unwrap_tool};
use super::{McpConnection, find_post_error};
use crate::tools::catalog::{ToolInfo, ToolListing};
use crate::tools::limits::bytes::{LISTING_BYTES_MAX, TOOLS_MAX};

/// Most pages of a server's tool list; a longer one is refused, because it may never end.
const PAGES_MAX: usize = 1_000;
/// The time limit for fetching all pages.
const LIST_LIMIT: Duration = Duration::from_secs(30);
/// A younger listing is not fetched again unless the server announced a change. So a tool that was changed
/// without an announcement is noticed before the first call after this time.
const LIST_MAX_AGE: Duration = Duration::from_secs(1);

/// The last listing of a connection.
pub(super) struct CachedListing {
    fetched_at: Instant,
    /// The number of changes announced before it was fetched.
    list_changes: u64,
    listing: Arc<ToolListing>,
}

impl McpConnection {
    /// The cached listing. None: there is none, it is not fresh, or it is being fetched.
    pub fn listing_without_waiting(&self) -> Option<Arc<ToolListing>> {
        self.listing_if_fresh(self.cached_listing.try_lock().ok()?.as_ref()?)
    }

    /// The cached listing. None: it is older than `LIST_MAX_AGE`, or the server has announced a change since.
    fn listing_if_fresh(&self, listed: &CachedListing) -> Option<Arc<ToolListing>> {
        let changes = self.list_changes.load(Ordering::SeqCst);
        let is_fresh = listed.fetched_at.elapsed() < LIST_MAX_AGE && listed.list_changes == changes;
        is_fresh.then(|| listed.listing.clone())
    }

    /// The server's tools, at most `LIST_MAX_AGE` old; fetched if necessary. Err: a sentence that names the
    /// server.
    pub async fn tool_listing(&self, server: &str) -> Result<Arc<ToolListing>, String> {
        let mut cached = self.cached_listing.lock().await;
        if let Some(listing) = cached.as_ref().and_then(|cached| self.listing_if_fresh(cached)) {
            return Ok(listing);
        }
        let list_changes = self.list_changes.load(Ordering::SeqCst);
        let fetched_at = Instant::now();
        let tools = match tokio::time::timeout(LIST_LIMIT, self.fetch_tools(server)).await {
            Ok(tools) => tools?,
            Err(_) => {
                return Err(format!("the server `{server}` did not list its tools within {LIST_LIMIT:?}"));
            }
        };
        let previous = cached.as_ref().map(|cached| cached.listing.as_ref());
        let listing = Arc::new(ToolListing::new(tools, previous));
        *cached = Some(CachedListing { fetched_at, list_changes, listing: listing.clone() });
        self.health.record_answer();
        Ok(listing)
    }

    /// Fetches all pages of the server's tool list. Err, a sentence that names the server: it cannot be
    /// fetched or exceeds a limit.
    async fn fetch_tools(&self, server: &str) -> Result<Vec<ToolInfo>, String> {
        let refused = |why: &str| format!("the server `{server}` does not list its tools: {why}");
        let (mut tools, mut bytes_listed) = (Vec::new(), 0_usize);
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let page = match self.peer.list_tools(Some(page)).await {
                Ok(page) => page,
                Err(ServiceError::McpError(error)) => return Err(refused(&error.message)),
                Err(error) => {
                    let post_error = match &error {
                        ServiceError::TransportSend(error) => find_post_error(error).map(ToString::to_string),
                        _ => None,
                    };
                    let why = match post_error {
                        Some(why) => why,
                        None => self.loss_reason().await,
                    };
                    return Err(format!("listing the tools of `{server}`: {why}"));
                }
            };
            for (tool, bytes) in page.tools.into_iter().map(unwrap_tool) {
                bytes_listed += bytes;
                tools.extend(ToolInfo::from_mcp(server, tool));
                if bytes_listed > LISTING_BYTES_MAX {
                    return Err(refused(&listing_too_long()));
                }
                if tools.len() > TOOLS_MAX {
                    return Err(refused(&too_many_tools()));
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
