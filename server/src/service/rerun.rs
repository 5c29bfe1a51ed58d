//! Running an execution again: the same version of its plan, with the same inputs.

use std::sync::Arc;

use actbook_engine::analysis::PlanCheck;
use actbook_engine::event::PlanRef;
use actbook_engine::plan::Plan;
use serde_json::{Map, Value};

use super::executions::Executions;
use super::plans::Plans;
use super::plans::check_refusal;
use crate::error::{Corruption, ErasedUse, Error};
use crate::store::payloads;

/// The plan version that an execution ran, and its inputs.
#[derive(Clone, Debug)]
pub struct ExecutedPlan {
    pub reference: PlanRef,
    pub plan: Arc<Plan>,
    /// As they are stored: a secret input is a marker without its value.
    pub inputs: Map<String, Value>,
    /// The names of inputs that an earlier version of Actbook took although the plan neither declares nor
    /// reads them; they are left out of `inputs`.
    pub left_out: Vec<String>,
}

impl Executions<'_> {
    /// The plan version and the inputs of an execution. Refused if its inputs were erased; and, unless
    /// `here`, if it was started in another project with other definitions of its servers than this
    /// process's. `here`: the caller accepts this process's definitions.
    pub async fn executed_plan(self, id: &str, here: bool) -> Result<ExecutedPlan, Error> {
        let execution = self.load(id).await?;
        // In the same project other definitions are an edit of its config, and a rerun is a new execution.
        let is_own = execution.project.as_deref() == Some(self.0.project());
        if !here && !is_own && self.toolset_digest(&execution.plan) != execution.toolset {
            return Err(crate::runner::other_toolset(execution.project.as_deref()).into());
        }
        let mut inputs: Map<String, Value> = match execution.inputs {
            None => Map::new(),
            Some(kept) => {
                let payload = payloads::by_position(self.0.tenant, kept.position.0).first(&self.0.db).await?;
                let body = payload.ok_or_else(|| erased_inputs_error(&execution.plan_ref))?.body;
                serde_json::from_slice(&body).map_err(|error| {
                    Error::Corrupt(Corruption::Entry(format!("the inputs cannot be read: {error}")))
                })?
            }
        };
        let left_out = execution.plan.ignored_inputs(&inputs);
        for name in &left_out {
            inputs.remove(name);
        }
        let (reference, plan) = (execution.plan_ref.clone(), execution.plan.clone());
        Ok(ExecutedPlan { reference, plan, inputs, left_out })
    }
}

impl Plans<'_> {
    /// Checks a saved plan again, because its tools may have changed. Findings that refuse only new versions
    /// are warnings here. Refused if an error remains.
    pub async fn check_saved(self, plan: &Plan) -> Result<PlanCheck, Error> {
        let check = self.check(&plan.document, false).await.check.for_saved_plan();
        if check.ok { Ok(check) } else { Err(check_refusal(check)) }
    }
}

/// The refusal of an execution whose inputs were erased.
fn erased_inputs_error(plan: &PlanRef) -> Error {
    Error::Erased { needed_for: ErasedUse::Rerun { plan: plan.name.clone() } }
}
