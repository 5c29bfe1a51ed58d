//! The limit on the values of one response, in bytes. A value beyond it says its size, and where it is read whole and
//! in parts.

use serde_json::{Value, json};

use super::page::LIMIT_MAX;
use crate::service::view::{ExecutionView, StepView};

/// Most bytes of inputs, arguments, outputs and records in one response.
const VALUES_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A value of this size is never cut, so that the steps of a page stay readable.
const SMALL_VALUE_BYTES: usize = 256;
const _: () = assert!(SMALL_VALUE_BYTES * 4 * LIMIT_MAX as usize <= VALUES_BYTES_MAX);

/// The bytes that the values of a response may still have.
struct ValueBudget {
    left: usize,
}

/// Cuts the values of an execution to what one response may have.
pub fn limit_values(view: &mut ExecutionView) {
    let path = format!("/api/v1/executions/{}", view.id);
    let mut budget = ValueBudget { left: VALUES_BYTES_MAX };
    budget.take(&mut view.inputs, &format!("{path}/export"));
    budget.take_steps(&mut view.steps, &path);
    view.records.iter_mut().for_each(|record| budget.take(&mut record.details, &format!("{path}/export")));
}

/// Cuts the values of a page of steps; `execution`: the id of theirs.
pub fn limit_step_values<'a>(steps: impl IntoIterator<Item = &'a mut StepView>, execution: &str) {
    ValueBudget { left: VALUES_BYTES_MAX }.take_steps(steps, &format!("/api/v1/executions/{execution}"));
}

impl ValueBudget {
    fn take_steps<'a>(&mut self, steps: impl IntoIterator<Item = &'a mut StepView>, path: &str) {
        for step in steps {
            let at = format!("{path}/steps/{}", step.id);
            for value in [&mut step.output, &mut step.arguments, &mut step.recorded] {
                self.take(value, &at);
            }
        }
    }

    /// Leaves a value as it is if it fits, else says its size and where it is.
    fn take(&mut self, value: &mut Option<Value>, at: &str) {
        let Some(whole) = value else { return };
        let bytes = whole.to_string().len();
        if bytes > SMALL_VALUE_BYTES && bytes > self.left {
            *whole = json!({ "cut": true, "bytes": bytes, "at": at });
        }
        self.left = self.left.saturating_sub(bytes);
    }
}
