//! An execution started again: the same version of its plan, with the inputs that it was given.

use std::sync::Arc;

use actbook_engine::analysis::Check;
use actbook_engine::event::PlanRef;
use actbook_engine::plan::Plan;
use serde_json::{Map, Value};

use super::Service;
use super::plans::refused;
use crate::error::Error;
use crate::store::payloads;

/// What an execution ran, and with what.
#[derive(Clone, Debug)]
pub struct Executed {
    pub reference: PlanRef,
    pub plan: Arc<Plan>,
    /// As they are kept: a secret one is marked and without its value.
    pub inputs: Map<String, Value>,
}

impl Service {
    /// The plan version and the inputs of an execution. Refused where its inputs were erased.
    pub async fn executed(&self, id: &str) -> Result<Executed, Error> {
        let execution = self.fold(self.find(id).await?.stream)?;
        let inputs = match execution.inputs {
            None => Map::new(),
            Some(kept) => {
                let payload = payloads::at(self.tenant, kept.position.0).first(&self.db).await?;
                let body = payload.ok_or_else(|| erased(&execution.plan_ref))?.body;
                serde_json::from_slice(&body).map_err(|error| {
                    Error::new(
                        "corrupt",
                        format!("the inputs cannot be read: {error}"),
                        "run `actbook verify`",
                    )
                })?
            }
        };
        Ok(Executed { reference: execution.plan_ref, plan: execution.plan, inputs })
    }

    /// The check of a plan that was saved before: its tools may have gone since. What only new versions are
    /// refused for is a warning here.
    pub async fn check_saved(&self, plan: &Plan) -> Result<Check, Error> {
        let check = self.check(&plan.document, false).await.check.of_saved_plan();
        if check.ok { Ok(check) } else { Err(refused(check)) }
    }
}

fn erased(plan: &PlanRef) -> Error {
    let cure = format!("start it anew: `actbook run {} --input NAME=VALUE`", plan.name);
    Error::new("erased", "what this execution was given has been erased", cure)
}
