//! `/plans/{id}/diff`: two versions of a plan, step by step, with what the newer one takes away first.

use actbook_engine::analysis::{FieldChange, StepChange, StepChangeKind};
use askama::Template;
use axum::extract::{Path, Query};
use axum::http::HeaderMap;
use axum::response::Html;
use serde::Deserialize;
use serde_json::Value;

use super::frame::{Area, Frame};
use super::markup::{Markup, StatusMark, url_part};
use super::plan_check::{FindingLine, finding_line};
use super::plans::draw;
use super::render;
use super::times::{PageTime, page_time};
use super::tool::diff_text;
use crate::service::view::PlanView;
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

/// A longer value is compared line by line.
const SHORT_VALUE_CHARS: usize = 80;

/// Which versions to compare.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PlanDiffQuery {
    /// `None`: the version before `to`.
    from: Option<u64>,
    /// `None`: the newest.
    to: Option<u64>,
}

#[derive(Debug, Template)]
#[template(path = "plan_diff.html")]
struct DiffPage {
    frame: Frame,
    name: String,
    path: String,
    from: VersionHead,
    to: VersionHead,
    verdicts: Vec<FindingLine>,
    fields: Vec<FieldPart>,
    steps: Vec<StepPart>,
    drawing: Option<Markup>,
}

/// A version, and when it was saved.
#[derive(Debug)]
struct VersionHead {
    version: u64,
    path: String,
    saved: PageTime,
}

/// A step that differs.
#[derive(Debug)]
struct StepPart {
    id: String,
    mark: StatusMark,
    /// The verdicts about this step.
    verdicts: Vec<FindingLine>,
    fields: Vec<FieldPart>,
}

/// A field that differs: both values in short, or their lines.
#[derive(Debug)]
struct FieldPart {
    path: String,
    lines: Vec<(&'static str, String)>,
}

/// `GET /plans/{id}/diff`.
pub async fn show(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Path(id): Path<String>,
    Query(query): Query<PlanDiffQuery>,
) -> Result<Html<String>, Problem> {
    let diff = state.service.plans().diff(&id, query.from, query.to).await?;
    let path = format!("/plans/{}", url_part(&diff.to.id));
    let frame =
        Frame::load(&state, &signed_in, &headers, Area::Plans, format!("{} compared", diff.to.name)).await?;
    let (of_steps, of_plan) = diff.comparison.findings.iter().partition::<Vec<_>, _>(|one| {
        diff.comparison.steps.iter().any(|step| one.step.as_deref() == Some(step.step.as_str()))
    });
    let step = |change: &StepChange| StepPart {
        id: change.step.to_string(),
        mark: mark(change.change),
        verdicts: of_steps
            .iter()
            .filter(|one| one.step.as_deref() == Some(change.step.as_str()))
            .map(|one| finding_line(one))
            .collect(),
        fields: change.fields.iter().map(field).collect(),
    };
    render(&DiffPage {
        frame: frame.at(format!("{path}/diff?from={}&to={}", diff.from.version, diff.to.version)),
        name: diff.to.name.clone(),
        from: VersionHead::of(&path, &diff.from),
        to: VersionHead::of(&path, &diff.to),
        verdicts: of_plan.into_iter().map(finding_line).collect(),
        fields: diff.comparison.fields.iter().map(field).collect(),
        steps: diff.comparison.steps.iter().map(step).collect(),
        drawing: draw(&diff.to_plan, &path, state.service.withholds()),
        path,
    })
}

impl VersionHead {
    fn of(path: &str, plan: &PlanView) -> Self {
        Self {
            version: plan.version,
            path: format!("{path}?version={}", plan.version),
            saved: page_time(&plan.saved_at),
        }
    }
}

/// How a step differs, as icon, word and colour.
fn mark(change: StepChangeKind) -> StatusMark {
    match change {
        StepChangeKind::Added => StatusMark::new("succeeded", "added"),
        StepChangeKind::Removed => StatusMark::new("failed", "removed"),
        StepChangeKind::Changed => StatusMark::new("blocked", "changed"),
        StepChangeKind::Moved => StatusMark::new("pending", "moved"),
    }
}

fn field(change: &FieldChange) -> FieldPart {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    let [from, to] = [&change.from, &change.to].map(|value| value.as_ref().map(text));
    let is_short = |text: &Option<String>| {
        text.as_ref().is_none_or(|text| text.len() <= SHORT_VALUE_CHARS && !text.contains('\n'))
    };
    let lines = if is_short(&from) && is_short(&to) {
        let line =
            |class, mark: &str, text: Option<String>| text.map(|text| (class, format!("{mark} {text}")));
        [line("del", "-", from), line("add", "+", to)].into_iter().flatten().collect()
    } else {
        diff_text(&from.unwrap_or_default(), &to.unwrap_or_default())
    };
    FieldPart { path: change.path.clone(), lines }
}
