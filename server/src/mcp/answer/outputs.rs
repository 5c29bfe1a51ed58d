//! The outputs of steps in the text of an answer, so that an agent that reads only the text can go on.

use actbook_engine::policy::StepStatus;
use serde_json::Value;

use super::suggestions::status_step_arguments;
use crate::mcp::text::AnswerText;
use crate::service::quote;
use crate::service::view::{ExecutionView, StepView};

/// Most characters of all outputs in one answer together.
const CHARS_MAX: usize = 4_000;
/// Outputs in one answer, the latest first.
const SHOWN_MAX: usize = 8;
/// Most characters of the output that a list of executions shows.
const LISTED_CHARS_MAX: usize = 200;

/// Adds the latest outputs, at most `SHOWN_MAX`, each up to its share of the limit, with the calls that read
/// the rest.
pub fn push_outputs(text: &mut AnswerText, view: &ExecutionView) {
    let outputs = steps_with_output(view);
    let share = CHARS_MAX / outputs.len().clamp(1, SHOWN_MAX);
    for (step, output) in outputs.iter().take(SHOWN_MAX) {
        let cut = truncation_text(output);
        let output = quote::readable(output);
        let size = output.chars().count();
        text.push_line(format!("Output of step `{}` ({size} characters{cut}):", step.id));
        text.push_quoted_block(&output, share);
        if size > share {
            let rest = status_step_arguments(view.id.as_str(), step.id.as_str(), share);
            text.push_line(format!("The rest of it: status {rest}"));
        }
    }
    if let Some((step, _)) = outputs.get(SHOWN_MAX) {
        let (more, one) =
            (outputs.len() - SHOWN_MAX, status_step_arguments(view.id.as_str(), step.id.as_str(), 0));
        text.push_line(format!("{more} earlier steps have outputs, too: status {one} reads one."));
    }
}

/// Says that an output was longer than its limit when it was received and was cut; empty if it was not.
pub fn truncation_text(output: &Value) -> String {
    if output.get("truncated") != Some(&Value::Bool(true)) || output.get("text").is_none() {
        return String::new();
    }
    let came = output["bytes"].as_u64().map(|bytes| format!(" of {bytes} bytes")).unwrap_or_default();
    format!("; truncated: the tool's output{came} was too long, and only its beginning is kept, as `text`")
}

/// The latest output of an execution on one line; None: no step has an output.
pub fn last_output_line(view: &ExecutionView) -> Option<String> {
    let outputs = steps_with_output(view);
    let (step, output) = outputs.first()?;
    let shown = quote::quoted(&quote::readable(output), LISTED_CHARS_MAX);
    Some(format!("last output, of step `{}`{}: {shown}", step.id, truncation_text(output)))
}

/// The steps that have an output and are not undone, with it; the step that ended last comes first.
fn steps_with_output(view: &ExecutionView) -> Vec<(&StepView, &Value)> {
    let mut outputs: Vec<(&StepView, &Value)> = view
        .steps
        .iter()
        .filter(|step| step.status != StepStatus::Compensated)
        .filter_map(|step| Some((step, step.output.as_ref()?)))
        .rev()
        .collect();
    outputs.sort_by(|(one, _), (other, _)| other.ended_at.cmp(&one.ended_at));
    outputs
}
