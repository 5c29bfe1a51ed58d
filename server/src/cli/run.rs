//! `run` and `rerun`: save and check a plan, start it, and drive it here or in the background.

use std::sync::Arc;

use crate::error::Error;
use crate::error::cures::finding_cure_for_command_line;
use crate::service::{ExecutedPlan, StartedExecution};
use actbook_engine::analysis::PlanCheck;
use actbook_engine::event::PlanRef;
use actbook_engine::plan::{Plan, Severity};
use actbook_engine::policy::PlanApproval;
use serde_json::Value;

use super::args::{RerunArgs, RunArgs, RunFlags};
use super::foreground::{self, Events, Goal};
use super::inputs::{self, PlanArgument};
use super::session::Session;
use super::status_style::{ATTENTION, QUIET, painted};
use super::{CommandResult, detach};

/// Runs a plan given as a file or by name.
pub async fn run(session: &Session, args: RunArgs) -> CommandResult {
    let (reference, plan) = load_checked_plan(session, &args.plan).await?;
    let inputs = inputs::run_inputs(&args.input_args, &plan)?;
    start_and_follow(session, reference, plan, inputs, args.flags).await
}

/// Runs the plan version of an earlier execution again, with its inputs overridden by those given now.
pub async fn rerun(session: &Session, args: RerunArgs) -> CommandResult {
    let ExecutedPlan { reference, plan, mut inputs, left_out } =
        session.service.executions().executed_plan(&args.execution, args.here).await?;
    inputs::check_input_names(&args.input_args, &plan)?;
    let given = inputs::given_inputs(&args.input_args, &plan)?;
    for name in left_out.iter().filter(|name| !given.contains_key(*name)) {
        let word = painted(ATTENTION, "warning:");
        session.output.notice(format_args!("{word} the plan declares no input `{name}`: it is left out"));
    }
    inputs.extend(given);
    print_warnings(session, &session.service.plans().check_saved(&plan).await?);
    let inputs = (!inputs.is_empty()).then_some(Value::Object(inputs));
    start_and_follow(session, reference, plan, inputs, args.flags).await
}

/// Starts an execution, approves its plan with `--yes`, and drives it here or with `--detach` in the
/// background.
pub async fn start_and_follow(
    session: &Session,
    reference: PlanRef,
    plan: Arc<Plan>,
    inputs: Option<Value>,
    flags: RunFlags,
) -> CommandResult {
    let events = Events::open()?.with_values(flags.verbose);
    if flags.verbose && !session.output.json {
        let output = session.output.clone();
        session.service.catalog().pass_on_command_output(Arc::new(move |tool: &str, line: &str| {
            output.line(format_args!("  {} {line}", painted(QUIET, format_args!("{tool} │"))));
        }));
    }
    let here = !flags.detach.detach;
    let approved = flags.yes && plan.policy.approval == PlanApproval::Plan;
    // Only a driver can wait for the plan's approval; it sends nothing before it has one.
    let drives = here || approved;
    let StartedExecution { id, progress, .. } =
        session.service.executions().start(&session.caller, reference, plan, inputs, drives).await?;
    if approved {
        let reason = Some("--yes".to_owned());
        session.service.executions().approve(&session.caller, id.as_str(), None, reason).await?;
    }
    if !here {
        return detach::hand_over_and_report(session, id.as_str()).await;
    }
    // The approval was appended after `progress` was read; a new claim continues from there.
    let claimed = if approved {
        session.service.executions().claim(&session.caller, id.as_str(), false).await?
    } else {
        Some(progress)
    };
    foreground::follow(session, id.as_str(), events, claimed, Goal::Run).await
}

/// The plan to run, checked: a file is saved first; a saved plan is checked again, since its tools may have
/// changed. Prints warnings; errors are an `Err`.
pub async fn load_checked_plan(session: &Session, word: &str) -> Result<(PlanRef, Arc<Plan>), Error> {
    match inputs::plan_source(word)? {
        PlanArgument::Document(text) => {
            let saved = session.service.plans().save(&session.caller, &text, false).await;
            let saved = saved.map_err(|error| inputs::point_to_check(error, word))?;
            print_warnings(session, &saved.check);
            Ok((saved.reference, saved.plan))
        }
        PlanArgument::Saved(name) => {
            let loaded = session.service.plans().load_and_check(&name).await;
            let (reference, plan, check) = loaded.map_err(|error| inputs::point_to_check(error, word))?;
            print_warnings(session, &check);
            Ok((reference, plan))
        }
    }
}

/// Prints the warnings of a check to stderr.
pub fn print_warnings(session: &Session, check: &PlanCheck) {
    for finding in check.findings.iter().filter(|finding| finding.severity == Severity::Warning) {
        let word = painted(ATTENTION, "warning:");
        session.output.notice(format_args!("{word} {}: {}", finding.path_with_step(), finding.message));
        session.output.notice(format_args!("  → {}", finding_cure_for_command_line(finding)));
    }
}
