//! `run`: a plan is saved, checked, started, and driven here or in the background.

use std::sync::Arc;

use actbook::error::Error;
use actbook::service::{Executed, Started};
use actbook_engine::analysis::Check;
use actbook_engine::event::PlanRef;
use actbook_engine::plan::{Plan, Severity};
use actbook_engine::policy::PlanApproval;
use serde_json::Value;

use super::args::{How, Rerun, Run};
use super::foreground::{self, Eyes, Goal};
use super::inputs::{self, Named};
use super::session::Session;
use super::signs::{ASKS, painted};
use super::{Ended, detach};

pub async fn run(session: &Session, asked: Run) -> Ended {
    let (reference, plan) = ready(session, &asked.plan).await?;
    let inputs = inputs::inputs(&asked.given, &plan)?;
    start(session, reference, plan, inputs, asked.how).await
}

/// The same plan version as an earlier execution's, with its inputs under what is given now.
pub async fn rerun(session: &Session, asked: Rerun) -> Ended {
    let Executed { reference, plan, mut inputs } = session.service.executed(&asked.execution).await?;
    inputs.extend(inputs::given(&asked.given, &plan)?);
    warn(session, &session.service.check_saved(&plan).await?);
    let inputs = (!inputs.is_empty()).then_some(Value::Object(inputs));
    start(session, reference, plan, inputs, asked.how).await
}

pub async fn start(
    session: &Session,
    reference: PlanRef,
    plan: Arc<Plan>,
    inputs: Option<Value>,
    how: How,
) -> Ended {
    let eyes = Eyes::open()?.verbose(how.verbose);
    let here = !how.detach.detach;
    let approved = how.yes && plan.policy.approval == PlanApproval::Plan;
    // Only a driver asks for the plan's approval, and before it has one it sends nothing.
    let drives = here || approved;
    let Started { id, progress, .. } =
        session.service.start(&session.caller, reference, plan, inputs, drives).await?;
    if approved {
        let why = Some("--yes".to_owned());
        session.service.approve(&session.caller, id.as_str(), None, why).await?;
    }
    if !here {
        return detach::hand_over(session, id.as_str()).await;
    }
    // The yes moved the execution from outside its driver; taking it up again goes on from there.
    let claimed = match approved {
        true => session.service.claim(&session.caller, id.as_str(), false).await?,
        false => Some(progress),
    };
    foreground::follow(session, id.as_str(), eyes, claimed, Goal::Run).await
}

/// The plan as it will run: a file is saved first; a saved plan is checked anew, for its tools may have gone.
pub async fn ready(session: &Session, word: &str) -> Result<(PlanRef, Arc<Plan>), Error> {
    match inputs::plan(word)? {
        Named::Document(text) => {
            let saved = session.service.save_plan(&session.caller, &text, false).await?;
            warn(session, &saved.check);
            Ok((saved.reference, saved.plan))
        }
        Named::Saved(name) => {
            let (reference, plan, check) = session.service.ready_plan(&name).await?;
            warn(session, &check);
            Ok((reference, plan))
        }
    }
}

pub fn warn(session: &Session, check: &Check) {
    for finding in check.findings.iter().filter(|finding| finding.severity == Severity::Warning) {
        let word = painted(ASKS, "warning:");
        session.output.aside(format_args!("{word} {}: {}", finding.place(), finding.message));
        session.output.aside(format_args!("  → {}", finding.cure));
    }
}
