//! What agents reported of their plans' steps, against the calls that guards have seen in the same project at the same
//! time.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::chain::{Digest, with_sorted_keys};
use actbook_engine::execution::{Execution, LoadedPayloads, PayloadRef};
use actbook_engine::id::{ExecutionId, StepId, StepNo};
use actbook_engine::plan::StepWork;
use actbook_engine::policy::{ErrorCategory, Outcome};
use actbook_engine::report_check::{
    REPORT_SLACK_MS, ReportVerdict, ReportedCall, SeenCall, check_reports, unreported_calls,
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::executions::Executions;
use crate::error::Error;
use crate::store::executions;

/// The server of the tools that an agent's client brings itself.
const CLIENT_TOOLS: &str = "client/";
/// The arguments of clients' own tools that have one name for all clients.
const COMMON_ARGUMENTS: [&str; 4] = ["command", "path", "content", "url"];
/// Most items that are listed: those that disagree come first.
const ITEMS_MAX: usize = 100;

/// How the reports of agents about an execution, or the calls of a session, agree with what was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReportChecksView {
    pub confirmed: usize,
    pub contradicted: usize,
    pub claimed_unseen: usize,
    pub seen_unclaimed: usize,
    pub items: Vec<ReportCheckView>,
}

/// A report with the call that it is about, or one of the two without the other.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReportCheckView {
    pub verdict: ReportVerdict,
    pub tool: String,
    /// The step of a plan that the report is about.
    pub reported: Option<StepRef>,
    /// The call of a session.
    pub seen: Option<StepRef>,
}

/// A step of an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepRef {
    pub execution: ExecutionId,
    pub step: StepId,
}

/// A step that was reported on, with its arguments as they are stored.
struct Report {
    at: StepRef,
    /// The number of the step's attempt, from 1.
    attempt: u32,
    arguments: PayloadRef,
    call: ReportedCall,
}

/// A call of a session, with its arguments as they are stored.
struct Sighting {
    at: StepRef,
    arguments: PayloadRef,
    call: SeenCall,
    recognised_as: Option<(StepRef, u32)>,
}

/// The forms of a call's arguments that a plan may have: as they are, or of a client's own tool only those that have one
/// name for all clients.
pub fn argument_forms(tool: &str, arguments: &Value) -> Vec<Value> {
    let mut forms = vec![arguments.clone()];
    if let (true, Value::Object(fields)) = (tool.starts_with(CLIENT_TOOLS), arguments) {
        let common = fields.iter().filter(|(name, _)| COMMON_ARGUMENTS.contains(&name.as_str()));
        let common: Map<String, Value> = common.map(|(name, value)| (name.clone(), value.clone())).collect();
        forms.push(Value::Object(common));
    }
    forms
}

impl Executions<'_> {
    /// Like `report_checks`, by the execution's id or a unique prefix of it.
    pub async fn report_checks_of(self, id: &str) -> Result<Option<ReportChecksView>, Error> {
        let execution = self.load(id).await?;
        self.report_checks(&execution).await
    }

    /// How the reports about an execution, or a session's calls, agree with what was seen. `None`: no agent reported a
    /// call, or no guard watched any at the time.
    pub(super) async fn report_checks(
        self,
        execution: &Execution,
    ) -> Result<Option<ReportChecksView>, Error> {
        let (Some(project), Some((from_ms, until_ms))) = (&execution.project, watched_time(execution)) else {
            return Ok(None);
        };
        let (tenant, db) = (self.0.tenant, &self.0.db);
        let sessions = executions::sessions_since(tenant, project, from_ms).all(db).await?;
        let mut sightings = Vec::new();
        for row in sessions.iter().filter(|row| row.started_at <= until_ms) {
            // One that cannot be read is no reason to show nothing of the others.
            let Ok(session) = self.fold(row.id).await else { continue };
            sightings.extend(sightings_of(&session));
        }
        if sightings.is_empty() {
            return Ok(None);
        }
        let mut reports = reports_of(execution);
        for row in executions::plans_between(tenant, project, (from_ms, until_ms)).all(db).await? {
            if row.public_id != execution.id.as_str()
                && let Ok(plan) = self.fold(row.id).await
            {
                reports.extend(reports_of(&plan));
            }
        }
        if reports.is_empty() {
            return Ok(None);
        }
        self.digest_arguments(&mut reports, &mut sightings).await?;
        Ok(Some(compare(execution, &reports, sightings)))
    }

    /// Digests the arguments of calls whose tool was reported, in a way that is the same for all executions. What is
    /// erased equals nothing.
    async fn digest_arguments(self, reports: &mut [Report], sightings: &mut [Sighting]) -> Result<(), Error> {
        let tools: BTreeSet<&str> = reports.iter().map(|report| report.call.tool.as_str()).collect();
        let is_reported = |one: &&Sighting| tools.contains(one.call.tool.as_str());
        let seen = sightings.iter().filter(is_reported).map(|one| one.arguments.position);
        let positions = reports.iter().map(|report| report.arguments.position).chain(seen).collect();
        let mut values = LoadedPayloads::default();
        self.load_values(positions, &mut values).await?;
        let value = |stored: PayloadRef| values.0.get(&stored.position).filter(|value| !value.is_null());
        for report in reports.iter_mut() {
            let own = Digest::of(report.at.execution.as_str().as_bytes());
            report.call.arguments = value(report.arguments).map_or(own, |arguments| digest(arguments));
        }
        for one in sightings.iter_mut() {
            let forms = value(one.arguments).map(|arguments| argument_forms(&one.call.tool, arguments));
            one.call.arguments = forms.unwrap_or_default().iter().map(digest).collect();
        }
        Ok(())
    }
}

/// The time in which calls concern an execution: of a session its own, of a plan that of the reports about its steps.
/// `None`: there are none.
fn watched_time(execution: &Execution) -> Option<(i64, i64)> {
    if execution.session.is_some() {
        let ended_ms = execution.ended_at_ms.unwrap_or(execution.last_entry_at_ms);
        return Some((execution.started_at_ms - REPORT_SLACK_MS, ended_ms + REPORT_SLACK_MS));
    }
    let reports = reports_of(execution);
    let due_ms = reports.iter().map(|report| report.call.due_ms).min()?;
    let reported_ms = reports.iter().map(|report| report.call.reported_ms).max()?;
    Some((due_ms - REPORT_SLACK_MS, reported_ms + REPORT_SLACK_MS))
}

fn digest(value: &Value) -> Digest {
    let bytes = serde_json::to_vec(&with_sorted_keys(value)).expect("a JSON value always serialises");
    Digest::of(&bytes)
}

fn step_ref(execution: &Execution, no: StepNo) -> StepRef {
    StepRef { execution: execution.id.clone(), step: execution.step_id(no) }
}

/// What agents reported about the steps of a plan that are calls of their own tools.
fn reports_of(execution: &Execution) -> Vec<Report> {
    let mut reports = Vec::new();
    for no in execution.step_numbers().filter(|_| execution.session.is_none()) {
        let StepWork::AgentTool { tool, .. } = &execution.plan.step(no).work else { continue };
        for (attempt, number) in execution.step(no).attempts.iter().zip(1..) {
            let succeeded = match attempt.outcome {
                Some(Outcome::Succeeded) => true,
                Some(Outcome::Failed) => false,
                Some(Outcome::Unknown) | None => continue,
            };
            let (Some(arguments), Some(reported_ms)) = (attempt.arguments, attempt.ended_at_ms) else {
                continue;
            };
            let call = ReportedCall {
                tool: tool.clone(),
                arguments: arguments.digest.digest,
                succeeded,
                due_ms: attempt.started_at_ms,
                reported_ms,
            };
            reports.push(Report { at: step_ref(execution, no), attempt: number, arguments, call });
        }
    }
    reports
}

/// The calls of a session that were made, or that a rule or a person refused.
fn sightings_of(execution: &Execution) -> Vec<Sighting> {
    let Some(session) = execution.session.as_deref() else { return Vec::new() };
    let sighting = |no: StepNo| {
        let (step, arguments) = (execution.step(no), execution.step(no).literal_arguments?);
        let made = step.attempts.first();
        let is_refused = step.error.is_some_and(|error| error.category == ErrorCategory::Policy);
        let refused_ms = step.ended_at_ms.filter(|_| is_refused);
        let succeeded = match made.map(|attempt| attempt.effective_outcome()) {
            Some(Some(Outcome::Succeeded)) => Some(true),
            Some(Some(Outcome::Failed)) | None => Some(false),
            Some(Some(Outcome::Unknown) | None) => None,
        };
        let recognised = session.call(no).matched.as_ref();
        let recognised_as = recognised.map(|matched| {
            (StepRef { execution: matched.execution.clone(), step: matched.step.clone() }, matched.attempt)
        });
        let call = SeenCall {
            tool: execution.plan.step(no).tool()?.to_owned(),
            arguments: Vec::new(),
            succeeded,
            was_made: made.is_some() && !is_refused,
            at_ms: made.map(|attempt| attempt.started_at_ms).or(refused_ms)?,
            recognised_as: None,
        };
        Some(Sighting { at: step_ref(execution, no), arguments, call, recognised_as })
    };
    execution.step_numbers().filter_map(sighting).collect()
}

/// Compares all reports with all calls, and keeps what concerns the execution.
fn compare(execution: &Execution, reports: &[Report], mut sightings: Vec<Sighting>) -> ReportChecksView {
    let number: BTreeMap<(&str, &str, u32), usize> = reports
        .iter()
        .enumerate()
        .map(|(index, one)| ((one.at.execution.as_str(), one.at.step.as_str(), one.attempt), index))
        .collect();
    for one in &mut sightings {
        let recognised = one.recognised_as.as_ref();
        one.call.recognised_as = recognised.and_then(|(at, attempt)| {
            number.get(&(at.execution.as_str(), at.step.as_str(), *attempt)).copied()
        });
    }
    let reported: Vec<ReportedCall> = reports.iter().map(|one| one.call.clone()).collect();
    let seen: Vec<SeenCall> = sightings.iter().map(|one| one.call.clone()).collect();
    let checked = check_reports(&reported, &seen);
    let of_reports = checked.iter().zip(reports).map(|(checked, report)| ReportCheckView {
        verdict: checked.verdict,
        tool: report.call.tool.clone(),
        reported: Some(report.at.clone()),
        seen: checked.seen.map(|index| sightings[index].at.clone()),
    });
    let of_calls = unreported_calls(&checked, &seen).into_iter().map(|index| ReportCheckView {
        verdict: ReportVerdict::SeenUnclaimed,
        tool: seen[index].tool.clone(),
        reported: None,
        seen: Some(sightings[index].at.clone()),
    });
    let is_of = |at: &Option<StepRef>| at.as_ref().is_some_and(|at| at.execution == execution.id);
    summary(of_reports.chain(of_calls).filter(|item| is_of(&item.reported) || is_of(&item.seen)).collect())
}

/// Counts the items, and lists those first that disagree.
fn summary(mut items: Vec<ReportCheckView>) -> ReportChecksView {
    let count = |verdict: ReportVerdict| items.iter().filter(|item| item.verdict == verdict).count();
    let view = ReportChecksView {
        confirmed: count(ReportVerdict::Confirmed),
        contradicted: count(ReportVerdict::Contradicted),
        claimed_unseen: count(ReportVerdict::ClaimedUnseen),
        seen_unclaimed: count(ReportVerdict::SeenUnclaimed),
        items: Vec::new(),
    };
    items.sort_by_key(|item| match item.verdict {
        ReportVerdict::Contradicted => 0,
        ReportVerdict::ClaimedUnseen => 1,
        ReportVerdict::SeenUnclaimed => 2,
        ReportVerdict::Confirmed => 3,
    });
    items.truncate(ITEMS_MAX);
    ReportChecksView { items, ..view }
}

impl ReportChecksView {
    /// The counts on one line, such as `2 confirmed, 1 contradicted`.
    pub fn counts(&self) -> String {
        let counts = [
            (self.confirmed, ReportVerdict::Confirmed),
            (self.contradicted, ReportVerdict::Contradicted),
            (self.claimed_unseen, ReportVerdict::ClaimedUnseen),
            (self.seen_unclaimed, ReportVerdict::SeenUnclaimed),
        ];
        let shown = counts.iter().filter(|(count, _)| *count > 0);
        shown.map(|(count, verdict)| format!("{count} {verdict}")).collect::<Vec<_>>().join(", ")
    }

    /// The items in which a report and what was seen disagree.
    pub fn disagreements(&self) -> impl Iterator<Item = &ReportCheckView> {
        let disagrees = |item: &&ReportCheckView| {
            matches!(item.verdict, ReportVerdict::Contradicted | ReportVerdict::ClaimedUnseen)
        };
        self.items.iter().filter(disagrees)
    }
}

impl ReportCheckView {
    /// The item on one line, which names steps by their ids alone.
    pub fn line(&self) -> String {
        let name = |at: &StepRef| format!("{} of {}", at.step, at.execution);
        let reported = self.reported.as_ref().map(name).unwrap_or_default();
        let seen = self.seen.as_ref().map(name).unwrap_or_default();
        let verdict = self.verdict;
        match (verdict, &self.seen) {
            (ReportVerdict::Confirmed, _) => format!("{reported} {verdict}: {seen} ended as reported"),
            (ReportVerdict::Contradicted, _) => {
                format!("{reported} {verdict}: {seen} did not end as reported")
            }
            (ReportVerdict::ClaimedUnseen, Some(_)) => {
                format!("{reported} {verdict}: nobody saw how {seen} ended")
            }
            (ReportVerdict::ClaimedUnseen, None) => format!("{reported} {verdict}: no such call was seen"),
            (ReportVerdict::SeenUnclaimed, _) => format!("{seen} {verdict}: no report is about it"),
        }
    }
}
