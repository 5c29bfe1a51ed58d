//! `/bulk`: one command to the executions that were picked from the list, or to all that match its filters; first as a
//! question with their number.

use std::time::{Duration, Instant};

use askama::Template;
use axum::Form;
use axum::extract::Query;
use axum::http::HeaderMap;
use axum::response::Html;

use super::execution_filters::ListQuery;
use super::frame::{Area, Frame};
use super::markup::{Markup, count, grouped, icon, short_id};
use super::render;
use crate::caller::Right;
use crate::service::{
    BULK_EXECUTIONS_MAX, BulkAction, BulkCommand, BulkRefusal, BulkResult, ExecutionFilter,
};
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

/// Most executions that are picked one by one.
const PICKED_MAX: usize = 100;
/// Refusals that the result shows.
const REFUSALS_SHOWN_MAX: usize = 50;
/// How long one request goes on to the next executions; then a person says whether it goes on.
const GO_ON_FOR: Duration = Duration::from_secs(20);

/// What is to be done, and to which executions.
#[derive(Debug)]
struct BulkOrder {
    action: BulkAction,
    /// Picked one by one. Empty: all that match the filters.
    picked: Vec<String>,
    filters: ListQuery,
    reason: Option<String>,
    /// Continues the command for all that match.
    cursor: Option<String>,
}

#[derive(Debug, Template)]
#[template(path = "bulk.html")]
struct BulkPage {
    frame: Frame,
    /// `Pause 12 executions`
    title: String,
    effect: &'static str,
    icon: Markup,
    /// The filters in words, or the picked executions.
    about: Vec<String>,
    is_hard: bool,
    matched: u64,
    fields: Vec<(String, String)>,
    back: String,
}

#[derive(Debug, Template)]
#[template(path = "bulk_result.html")]
struct ResultPage {
    frame: Frame,
    title: String,
    refused: Vec<BulkRefusal>,
    refused_more: usize,
    /// The form that goes on, if there are further ones.
    fields: Vec<(String, String)>,
    back: String,
}

/// `GET /bulk`: counts the executions and asks.
pub async fn confirm(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Html<String>, Problem> {
    signed_in.require(Right::Operate)?;
    let mut order = BulkOrder::of(&pairs)?;
    let executions = state.service.executions();
    let mut matched = 0;
    for command in order.commands()? {
        let counted = executions.count_bulk(&signed_in.caller, &command, None).await?;
        matched += counted.matched;
        order.cursor = counted.next_cursor.filter(|_| order.picked.is_empty());
    }
    let (word, effect, name, is_hard) = words(order.action);
    let frame = Frame::load(&state, &signed_in, &headers, Area::Executions, word).await?;
    render(&BulkPage {
        frame: frame.at("/"),
        title: format!("{word} {}", count(matched as usize, "execution")),
        effect,
        icon: Markup::from_rendered(icon(name).to_string()),
        about: order.about(),
        is_hard,
        matched,
        fields: order.fields(),
        back: order.filters.path(),
    })
}

/// `POST /bulk`: gives the command, in as many calls as it takes.
pub async fn act(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Form(pairs): Form<Vec<(String, String)>>,
) -> Result<Html<String>, Problem> {
    let mut order = BulkOrder::of(&pairs)?;
    let executions = state.service.executions();
    let (mut done, mut refused, begun) = (0, Vec::new(), Instant::now());
    for command in order.commands()? {
        loop {
            let cursor = order.cursor.take();
            let BulkResult { done: now, refused: why, next_cursor, .. } = executions
                .command_bulk(&signed_in.caller, &command, cursor.as_deref(), BULK_EXECUTIONS_MAX)
                .await?;
            done += now;
            refused.extend(why);
            order.cursor = next_cursor.filter(|_| order.picked.is_empty());
            if order.cursor.is_none() || begun.elapsed() > GO_ON_FOR {
                break;
            }
        }
    }
    let (word, ..) = words(order.action);
    let frame = Frame::load(&state, &signed_in, &headers, Area::Executions, word).await?;
    let refusals = refused.len();
    refused.truncate(REFUSALS_SHOWN_MAX);
    render(&ResultPage {
        frame: frame.at("/"),
        title: format!("{word}: {} done, {} refused", grouped(done), grouped(refusals as u64)),
        refused_more: refusals - refused.len(),
        refused,
        fields: if order.cursor.is_some() { order.fields() } else { Vec::new() },
        back: order.filters.path(),
    })
}

impl BulkOrder {
    /// The order of a form: `action`, and `id` once for each picked execution, or `all` and the list's filters.
    fn of(pairs: &[(String, String)]) -> Result<Self, Problem> {
        let text = |name: &str| {
            let found = pairs.iter().find(|(given, _)| given == name).map(|(_, value)| value.trim());
            found.filter(|value| !value.is_empty()).map(str::to_owned)
        };
        let action: BulkAction = text("action")
            .unwrap_or_default()
            .parse()
            .map_err(|why: String| Problem::bad_parameter("action", why))?;
        let picked: Vec<String> =
            pairs.iter().filter(|(name, _)| name == "id").map(|(_, value)| value.clone()).collect();
        let is_all = text("all").is_some();
        if !is_all && picked.is_empty() {
            return Err(Problem::bad_parameter("id", "no execution is selected"));
        }
        if picked.len() > PICKED_MAX {
            return Err(Problem::bad_parameter("id", format!("more than {PICKED_MAX} are selected")));
        }
        let mut filters = ListQuery::of(pairs)?;
        // The cursor of the list is its page; that of the command has another name.
        filters.cursor.clear();
        Ok(Self {
            action,
            picked: if is_all { Vec::new() } else { picked },
            filters,
            reason: text("reason"),
            cursor: text("go_on"),
        })
    }

    /// The commands to give: one for all that match, or one for each picked execution.
    fn commands(&self) -> Result<Vec<BulkCommand>, Problem> {
        let command = |filter| BulkCommand { action: self.action, filter, reason: self.reason.clone() };
        if self.picked.is_empty() {
            return Ok(vec![command(self.filters.filter()?)]);
        }
        let only = |id: &String| ExecutionFilter { words: vec![id.clone()], ..ExecutionFilter::default() };
        Ok(self.picked.iter().map(|id| command(only(id))).collect())
    }

    /// What the order is about, in words.
    fn about(&self) -> Vec<String> {
        if !self.picked.is_empty() {
            return self.picked.iter().map(|id| short_id(id).to_owned()).collect();
        }
        let told = |(name, value): (String, &str)| match name.strip_suffix('!') {
            Some(name) => format!("{name} is not {value}"),
            None => format!("{name}: {value}"),
        };
        self.filters.pairs().into_iter().map(told).collect()
    }

    /// The hidden fields that carry the order to the next request.
    fn fields(&self) -> Vec<(String, String)> {
        let mut fields = vec![("action".to_owned(), self.action.as_str().to_owned())];
        fields.extend(self.picked.iter().map(|id| ("id".to_owned(), id.clone())));
        if self.picked.is_empty() {
            fields.push(("all".to_owned(), "1".to_owned()));
        }
        fields.extend(self.filters.pairs().into_iter().map(|(name, value)| (name, value.to_owned())));
        fields.extend(self.cursor.clone().map(|cursor| ("go_on".to_owned(), cursor)));
        fields
    }
}

/// The word of an action, what it does, its icon, and whether it cannot be taken back.
fn words(action: BulkAction) -> (&'static str, &'static str, &'static str, bool) {
    match action {
        BulkAction::Pause => {
            ("Pause", "Nothing further starts; calls in flight finish. Resume lifts it.", "pause", false)
        }
        BulkAction::Resume => ("Resume", "Each goes on where it stands.", "play", false),
        BulkAction::Cancel => {
            ("Cancel", "Each ends; nothing is undone. What was done stays done.", "cancelled", true)
        }
        BulkAction::Retry => (
            "Retry the failed steps of",
            "Steps that failed and wait for an answer are called again. One whose outcome is unknown never is.",
            "retry",
            true,
        ),
    }
}
