//! `/tools/{server}/{tool}`: one tool with its schema, pin, settings and figures; what has changed of it, and the form
//! that accepts the change.

use askama::Template;
use axum::Form;
use axum::extract::Path;
use axum::http::HeaderMap;
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::Value;

use super::execution_parts::ReaderRights;
use super::frame::{Area, Frame};
use super::json_tree::{TreeExtent, json_tree};
use super::markup::{Markup, url_part};
use super::render;
use super::times::duration;
use super::tools::{CallFigures, tool_path};
use crate::caller::Right;
use crate::service::{DiffLine, ToolChange, ToolPolicyView, diff_lines, near_changes};
use crate::tools::ToolInfo;
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

/// Servers whose tools the config defines. Their definitions hold command lines and URLs.
const CONFIG_SERVERS: [&str; 2] = ["command", "http"];

#[derive(Debug, Template)]
#[template(path = "tool.html")]
struct ToolPage {
    frame: Frame,
    name: String,
    path: String,
    description: String,
    facts: Vec<(&'static str, String)>,
    figures: CallFigures,
    /// Places of characters that a reader does not see.
    hidden: Vec<String>,
    input_schema: Markup,
    output_schema: Option<Markup>,
    change: Option<ChangePart>,
    may_accept: bool,
    executions_path: String,
}

/// What has changed of a tool.
#[derive(Debug)]
struct ChangePart {
    summary: String,
    plans: String,
    digest: String,
    /// Lines of both definitions: a class, and the text.
    lines: Vec<(&'static str, String)>,
}

/// The form that accepts a tool's definition.
#[derive(Debug, Deserialize)]
pub struct AcceptForm {
    /// The digest of the definition that was shown.
    digest: String,
    #[serde(default)]
    reason: String,
}

/// `GET /tools/{server}/{tool}`.
pub async fn show(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Path((server, tool)): Path<(String, String)>,
) -> Result<Html<String>, Problem> {
    let name = format!("{server}/{tool}");
    let catalog = state.service.catalog();
    let info = catalog.get(&name).await?;
    let policy = catalog.policy_view(&name, &info)?;
    let stats = state.service.journal().tool_call_stats(None).await?;
    let listed = catalog.list_server(&server).await;
    let changes = catalog.changes(std::slice::from_ref(&listed)).await?;
    let frame = Frame::load(&state, &signed_in, &headers, Area::Tools, name.as_str()).await?;
    let path = format!("/tools/{}", tool_path(&name));
    let schema = |value: &Value| json_tree(value, None, TreeExtent::Part).html;
    render(&ToolPage {
        frame: frame.at(path.clone()),
        description: info.description.clone().or(info.title.clone()).unwrap_or_default(),
        facts: facts(&info, &policy),
        figures: CallFigures::of(stats.tools.get(&name), ReaderRights::of(&signed_in).values),
        hidden: info.hidden.clone(),
        input_schema: schema(&info.input_schema),
        output_schema: info.output_schema.as_ref().map(schema),
        change: changes
            .into_iter()
            .find(|change| change.tool == name)
            .map(|change| ChangePart::of(&server, change)),
        may_accept: signed_in.may(Right::Admin),
        executions_path: format!("/?tool={}", url_part(&name)),
        path,
        name,
    })
}

/// What the server claims and the operator says.
fn facts(info: &ToolInfo, policy: &ToolPolicyView) -> Vec<(&'static str, String)> {
    let yes_no = |flag: bool| if flag { "yes" } else { "no" };
    let hints = [
        ("read-only", info.annotations.read_only),
        ("destructive", info.annotations.destructive),
        ("idempotent", info.annotations.idempotent),
    ];
    let claims: Vec<String> =
        hints.iter().filter_map(|(hint, value)| Some(format!("{hint}: {}", yes_no((*value)?)))).collect();
    let terms = &policy.terms;
    let settings = [
        policy.trusted.then(|| "its server is trusted".to_owned()),
        terms.read_only.map(|value| format!("read-only: {}", yes_no(value))),
        terms.idempotent.map(|value| format!("idempotent: {}", yes_no(value))),
        terms.approval.then(|| "asks before each call".to_owned()),
        terms.timeout_ms.map(|ms| format!("at most {}", duration(i64::try_from(ms).unwrap_or(i64::MAX)))),
    ];
    let settings: Vec<String> = settings.into_iter().flatten().collect();
    let mut facts = vec![("Pin", info.digest.to_string())];
    facts.extend(policy.accepted.map(|digest| ("Accepted", digest.to_string())));
    facts.push(("Its server says", if claims.is_empty() { "nothing".to_owned() } else { claims.join(", ") }));
    facts.push((
        "The config says",
        if settings.is_empty() { "nothing".to_owned() } else { settings.join(", ") },
    ));
    facts
}

impl ChangePart {
    fn of(server: &str, change: ToolChange) -> Self {
        let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
        let former = change.former.as_ref().map(pretty).filter(|_| !CONFIG_SERVERS.contains(&server));
        let lines = former.map(|former| diff_text(&former, &pretty(&change.current))).unwrap_or_default();
        Self {
            summary: change.summary,
            plans: change.plans.join(", "),
            digest: change.digest.to_string(),
            lines,
        }
    }
}

/// The changed lines of two texts: the class of each, and the text with its mark.
pub fn diff_text(old: &str, new: &str) -> Vec<(&'static str, String)> {
    let line = |line: Option<DiffLine<'_>>| match line {
        None => ("", "  …".to_owned()),
        Some(DiffLine::Same(text)) => ("", format!("  {text}")),
        Some(DiffLine::Removed(text)) => ("del", format!("- {text}")),
        Some(DiffLine::Added(text)) => ("add", format!("+ {text}")),
    };
    near_changes(&diff_lines(old, new)).into_iter().map(line).collect()
}

/// `POST /tools/{server}/{tool}/accept`: accepts the definition that was shown; another one is shown instead.
pub async fn accept(
    state: WebState,
    signed_in: SignedIn,
    Path((server, tool)): Path<(String, String)>,
    Form(form): Form<AcceptForm>,
) -> Result<Response, Problem> {
    signed_in.require(Right::Admin)?;
    let name = format!("{server}/{tool}");
    let path = format!("/tools/{}", tool_path(&name));
    let catalog = state.service.catalog();
    // What a person accepts is exactly what was shown.
    if catalog.get(&name).await?.digest.to_string() == form.digest {
        let reason = Some(form.reason.trim().to_owned()).filter(|reason| !reason.is_empty());
        catalog.accept(&signed_in.caller, &name, reason).await?;
        return Ok(Redirect::to("/tools").into_response());
    }
    Ok(Redirect::to(&format!("{path}#change")).into_response())
}
