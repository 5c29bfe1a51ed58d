//! What came of the steps, in the text: an agent that reads nothing else must be able to go on with it.

use serde_json::Value;

use super::next::reads_step;
use crate::mcp::text::Text;
use crate::service::quote;
use crate::service::view::{ExecutionView, StepView};

/// Of all the outputs that one answer shows.
const CHARS_MAX: usize = 4_000;
/// Outputs that are shown, the last ones first.
const SHOWN_MAX: usize = 8;
/// In a list of executions.
const LISTED_CHARS_MAX: usize = 200;

/// The last outputs, each up to its share of the room, with the calls that read the rest.
pub fn tell(text: &mut Text, view: &ExecutionView) {
    let given = given(view);
    let share = CHARS_MAX / given.len().clamp(1, SHOWN_MAX);
    for (step, output) in given.iter().take(SHOWN_MAX) {
        let output = quote::readable(output);
        let size = output.chars().count();
        text.line(format!("Output of step `{}` ({size} characters):", step.id));
        text.block(&output, share);
        if size > share {
            let rest = reads_step(view.id.as_str(), step.id.as_str(), share);
            text.line(format!("The rest of it: status {rest}"));
        }
    }
    if let Some((step, _)) = given.get(SHOWN_MAX) {
        let (more, one) = (given.len() - SHOWN_MAX, reads_step(view.id.as_str(), step.id.as_str(), 0));
        text.line(format!("{more} earlier steps have outputs, too: status {one} reads one."));
    }
}

/// The last output of an execution on one line, for a list.
pub fn last_outputs(view: &ExecutionView) -> Option<String> {
    let given = given(view);
    let (step, output) = given.first()?;
    let said = quote::quoted(&quote::readable(output), LISTED_CHARS_MAX);
    Some(format!("last output, of step `{}`: {said}", step.id))
}

/// Steps with an output, the one that ended last first.
fn given(view: &ExecutionView) -> Vec<(&StepView, &Value)> {
    let mut given: Vec<(&StepView, &Value)> =
        view.steps.iter().filter_map(|step| Some((step, step.output.as_ref()?))).rev().collect();
    given.sort_by(|(one, _), (other, _)| other.ended_at.cmp(&one.ended_at));
    given
}
