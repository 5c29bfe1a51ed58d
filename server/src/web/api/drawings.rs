//! What is drawn of an execution: its graph with the state of each step, and when each step ran.

use axum::Json;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;
use serde_json::{Value, json};

use super::operation::Operation;
use crate::drawing::{PlanGraph, render_svg};
use crate::service::view::format_time;
use crate::service::{StepSpan, StepTimeline};
use crate::tools::escape_hidden;
use crate::web::{Problem, SignedIn, WebState};

/// A plan with more steps than this is not drawn: the layout takes long, and the drawing would not be readable.
const STEPS_DRAWN_MAX: usize = 200;

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::new("GET", "/executions/{id}/graph.svg", "draw_execution", get(graph))
            .summary("Its plan drawn, with the state of each step")
            .gives_media("image/svg+xml"),
        Operation::new("GET", "/executions/{id}/timeline", "get_timeline", get(timeline))
            .summary("When each step ran, waited and was undone: one span for each stretch")
            .gives("Timeline"),
    ]
}

async fn graph(state: WebState, _signed_in: SignedIn, Path(id): Path<String>) -> Result<Response, Problem> {
    let watch = state.service.executions().watch(&id).await?;
    let statuses = watch.step_snapshots().map(|step| step.status);
    draw_graph(&state, PlanGraph::from_plan(watch.plan()).with_statuses(statuses))
}

/// The drawing as a response, as the caller may see it. Err: the graph is too large to be drawn.
pub fn draw_graph(state: &WebState, graph: PlanGraph) -> Result<Response, Problem> {
    if graph.nodes.len() > STEPS_DRAWN_MAX {
        let detail = format!("a plan of more than {STEPS_DRAWN_MAX} steps is not drawn");
        let cure = "GET /api/v1/plans/{id} has its steps";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "too_many_steps", detail, cure));
    }
    let graph = if state.service.withholds() { graph.without_texts() } else { graph };
    Ok(([(header::CONTENT_TYPE, "image/svg+xml")], escape_hidden(&render_svg(&graph))).into_response())
}

/// When each step of an execution ran.
#[derive(Debug, Serialize)]
struct TimelineView {
    from: String,
    ended_at: Option<String>,
    /// Stretches in which the whole execution waited for an answer or was paused.
    whole: Vec<Value>,
    steps: Vec<StepTimelineView>,
}

/// When one step ran.
#[derive(Debug, Serialize)]
struct StepTimelineView {
    step: String,
    status: &'static str,
    spans: Vec<Value>,
}

async fn timeline(
    state: WebState,
    _signed_in: SignedIn,
    Path(id): Path<String>,
) -> Result<Json<TimelineView>, Problem> {
    let timeline = state.service.executions().timeline(&id).await?;
    Ok(Json(TimelineView {
        from: format_time(timeline.from_ms),
        ended_at: timeline.ended_ms.map(format_time),
        whole: timeline.whole.iter().map(span_view).collect(),
        steps: timeline.steps.iter().map(step_view).collect(),
    }))
}

fn step_view(step: &StepTimeline) -> StepTimelineView {
    let spans = step.spans.iter().map(span_view).collect();
    StepTimelineView { step: step.id.to_string(), status: step.status.as_str(), spans }
}

/// A span; an attempt or a compensation that has ended also has its outcome.
fn span_view(span: &StepSpan) -> Value {
    let mut view = json!({
        "kind": span.kind.as_str(), "from": format_time(span.from_ms), "to": span.to_ms.map(format_time),
    });
    if let Some(outcome) = span.kind.outcome() {
        view["outcome"] = outcome.as_str().into();
    }
    view
}
