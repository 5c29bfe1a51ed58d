//! Plans and executions: save, start, watch, control, record, verify.

use actbook_engine::analysis::PlanCheck;
use actbook_engine::policy::StepAnswer;
use serde_json::{Value, json};

use super::{Client, Watch};
use crate::error::Error;
use crate::service::view::{EntryView, ExecutionSummary, ExecutionView, PlanView};
use crate::service::{
    ActionFacts, ActionRecord, Brief, Decision, DriveState, ExecutionFilter, ExportReport, FoundExecution,
    JournalFilter, RecordResult, SavedPlan, VerifyReport,
};
use crate::tools::ServerTools;

/// The execution right after a command; it goes on in the background, and [`Client::wait`] returns what came
/// of it.
type ViewResult = Result<ExecutionView, Error>;

impl Client {
    /// Checks a plan, in YAML or JSON, against the tools as they are now, without calling any.
    pub async fn check_plan(&self, document: &str) -> PlanCheck {
        self.service().plans().check(document, false).await.check
    }

    /// Checks a plan and saves it as the newest version of its name; one with errors is refused.
    pub async fn save_plan(&self, document: &str) -> Result<SavedPlan, Error> {
        let caller = self.caller_for(&json!(["save_plan", document]));
        self.service().plans().save(&caller, document, false).await
    }

    /// All saved plans, each in its newest version.
    pub async fn plans(&self) -> Result<Vec<PlanView>, Error> {
        self.service().plans().list().await
    }

    /// Deletes a plan, by name or id, from the list; its executions stay.
    pub async fn delete_plan(&self, plan: &str) -> Result<PlanView, Error> {
        self.service().plans().delete(&self.caller_for(&json!(["delete_plan", plan])), plan).await
    }

    /// All tools that a plan can name here, by server.
    pub async fn tools(&self) -> Vec<ServerTools> {
        self.service().catalog().list().await
    }

    /// Starts an execution of a saved plan, by name or id, and returns its view at once; it runs in the
    /// background.
    pub async fn start(&self, plan: &str, inputs: Option<Value>) -> Result<ExecutionView, Error> {
        let id = self.start_execution(plan, inputs).await?;
        self.view(&id).await
    }

    /// Starts an execution of a saved plan and waits for its end or its first question.
    pub async fn run(&self, plan: &str, inputs: Option<Value>) -> Result<ExecutionView, Error> {
        let id = self.start_execution(plan, inputs).await?;
        self.wait(&id).await
    }

    /// Starts an execution and returns its id; with a repeated key, the id of the earlier one.
    async fn start_execution(&self, plan: &str, inputs: Option<Value>) -> Result<String, Error> {
        self.check_open()?;
        let caller = self.caller_for(&json!(["start", plan, inputs]));
        if let Some(started) = self.service().executions().find_previous_start(&caller).await? {
            return Ok(started.id.to_string());
        }
        let (reference, plan, _) = self.service().plans().load_and_check(plan).await?;
        let started = self.service().executions().start(&caller, reference, plan, inputs, true).await?;
        if started.fresh {
            self.service().background().drive_claimed(started.progress);
        }
        Ok(started.id.to_string())
    }

    /// The current view of an execution: its steps, what it waits for and, if something went wrong, the
    /// brief. Here and in all methods, a unique prefix of an id is enough.
    pub async fn view(&self, execution: &str) -> Result<ExecutionView, Error> {
        self.service().executions().view(execution).await
    }

    /// What undoing an execution would do now, whether or not something went wrong.
    pub async fn brief(&self, execution: &str) -> Result<Brief, Error> {
        self.service().executions().watch(execution).await?.brief().await
    }

    /// Executions, newest first.
    pub async fn executions(
        &self,
        filter: &ExecutionFilter,
        limit: u64,
    ) -> Result<Vec<ExecutionSummary>, Error> {
        self.service().executions().list(filter, limit).await
    }

    /// Waits until an execution has ended, is paused, or waits for a person or an agent. To stop waiting,
    /// drop the future.
    pub async fn wait(&self, execution: &str) -> Result<ExecutionView, Error> {
        let mut watching = self.service().executions().watch(execution).await?;
        while !watching.is_settled() {
            watching.wait_for_change().await?;
        }
        watching.view().await
    }

    /// A stream of an execution's views, one after each change by any process, until it ends.
    pub async fn watch(&self, execution: &str) -> Result<Watch, Error> {
        Ok(Watch::new(self.service().executions().watch(execution).await?))
    }

    /// Takes over the executions of exited processes now; returns how many.
    pub async fn take_up(&self) -> Result<usize, Error> {
        self.check_open()?;
        Ok(self.service().background().take_over_orphaned().await?)
    }

    /// Approves a step; without a step, the plan or a proposed undo.
    pub async fn approve(&self, execution: &str, step: Option<&str>, reason: Option<&str>) -> ViewResult {
        let caller = self.caller_for(&json!(["approve", execution, step, reason]));
        self.view_after(
            self.service().executions().approve(&caller, execution, owned(step), owned(reason)).await,
        )
        .await
    }

    /// Rejects a step, or without a step the plan or a proposed undo. A rejected step has failed; an
    /// execution whose plan is rejected is cancelled.
    pub async fn reject(&self, execution: &str, step: Option<&str>, reason: Option<&str>) -> ViewResult {
        let caller = self.caller_for(&json!(["reject", execution, step, reason]));
        self.view_after(
            self.service().executions().reject(&caller, execution, owned(step), owned(reason)).await,
        )
        .await
    }

    /// Decides about a step that failed or is unknown. `output` goes with `Happened` and `Skip`, and with
    /// `Retry` if the tool has asked a question.
    pub async fn decide(
        &self,
        execution: &str,
        step: &str,
        answer: StepAnswer,
        reason: Option<&str>,
        output: Option<Value>,
    ) -> ViewResult {
        let caller = self.caller_for(&json!(["decide", execution, step, answer, reason, output]));
        let (step, reason) = (step.to_owned(), owned(reason));
        self.view_after(
            self.service().executions().decide(&caller, execution, step, answer, reason, output).await,
        )
        .await
    }

    /// Pauses an execution: no further call starts, calls in flight finish.
    pub async fn pause(&self, execution: &str, reason: Option<&str>) -> ViewResult {
        let caller = self.caller_for(&json!(["pause", execution, reason]));
        self.view_after(self.service().executions().pause(&caller, execution, owned(reason)).await).await
    }

    /// Ends a pause, and drives the execution here if no live process does.
    pub async fn resume(&self, execution: &str) -> ViewResult {
        self.check_open()?;
        self.service().executions().require_drivable(execution).await?;
        let caller = self.caller_for(&json!(["resume", execution]));
        let found = self.service().executions().resume_if_paused(&caller, execution).await?;
        Ok(self.service().executions().continue_and_view(&found).await?.0)
    }

    /// Cancels an execution: no further call starts, calls in flight are asked to stop, nothing is undone.
    pub async fn cancel(&self, execution: &str, reason: Option<&str>) -> ViewResult {
        let caller = self.caller_for(&json!(["cancel", execution, reason]));
        self.view_after(self.service().executions().cancel(&caller, execution, owned(reason)).await).await
    }

    /// Undoes all steps that may have run, in reverse order; also of an execution that has ended.
    pub async fn undo(&self, execution: &str, reason: Option<&str>) -> ViewResult {
        self.check_open()?;
        self.service().executions().require_drivable(execution).await?;
        let caller = self.caller_for(&json!(["undo", execution, reason]));
        self.view_after(self.service().executions().undo(&caller, execution, owned(reason)).await).await
    }

    /// Records an agent's step, or an act outside of any plan; returns its position in the journal.
    pub async fn record_action(&self, action: ActionRecord) -> Result<u64, Error> {
        let request = json!([action.execution, action.step, action.status, action.output, action.facts]);
        let caller = self.caller_for(&json!(["record_action", request]));
        match self.service().executions().record_action(&caller, action).await? {
            RecordResult::Standalone(position) => Ok(position.0),
            RecordResult::InExecution(found, progress) => {
                self.service().executions().continue_and_view(&found).await?;
                Ok(progress.position.0)
            }
        }
    }

    /// Records a decision and its reason. `stop` and `continue` also take effect.
    pub async fn record_decision(&self, execution: &str, decision: Decision) -> ViewResult {
        let Decision { decision: choice, reason, step, details } = &decision;
        let caller = self.caller_for(&json!(["record_decision", execution, choice, reason, step, details]));
        self.view_after(self.service().executions().record_decision(&caller, execution, decision).await).await
    }

    /// Records that a step's effect was undone by hand or, with `done` false, that the attempt failed.
    pub async fn record_compensation(
        &self,
        execution: &str,
        step: &str,
        done: bool,
        facts: ActionFacts,
    ) -> ViewResult {
        let caller = self.caller_for(&json!(["record_compensation", execution, step, done, facts]));
        let step = step.to_owned();
        self.view_after(
            self.service().executions().record_compensation(&caller, execution, step, done, facts).await,
        )
        .await
    }

    /// The journal's entries that pass the filter, oldest first.
    pub async fn journal(&self, filter: &JournalFilter, limit: u64) -> Result<Vec<EntryView>, Error> {
        self.service().journal().list(filter, limit).await
    }

    /// Checks the whole journal: the hash chain, and every payload against its entry. Store the position and
    /// hash that it returns elsewhere: they prove later that the journal was not truncated.
    pub async fn verify(&self) -> Result<VerifyReport, Error> {
        self.service().journal().verify().await
    }

    /// Writes one execution as a file that `actbook verify FILE` checks without this database.
    pub async fn export(
        &self,
        execution: &str,
        to: &mut (dyn std::io::Write + Send),
    ) -> Result<ExportReport, Error> {
        self.service().journal().export(execution, to).await
    }

    /// Returns the execution's view after a command, and drives it on; if this process lacks the plan's
    /// tools, the process that has them does.
    async fn view_after(&self, result: Result<(FoundExecution, DriveState), Error>) -> ViewResult {
        let (found, _) = result?;
        Ok(self.service().executions().continue_and_view(&found).await?.0)
    }
}

fn owned(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}
