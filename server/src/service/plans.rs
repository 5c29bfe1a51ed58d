//! Plans: checked, saved, listed, shown, deleted.

use std::sync::Arc;

use actbook_engine::analysis::{self, Check};
use actbook_engine::event::PlanRef;
use actbook_engine::id::PlanId;
use actbook_engine::library::Placement;
use actbook_engine::plan::{Finding, Plan, Severity, Undo, name_steps};
use serde::Serialize;

use super::Service;
use super::preflight::Seen;
use super::redact::SECRET_IN_PLAN;
use super::view::PlanView;
use crate::caller::Caller;
use crate::error::{Error, UNTRUSTED_CONFIG};
use crate::ledger::{PlanAsked, Reply, Request};
use crate::random;
use crate::store::{self, payloads, plans};

/// Lists stop here; a longer one is asked for with a filter.
const PLANS_LISTED: u64 = 1_000;

/// A document that reads as a plan, with what the check found.
#[derive(Debug)]
pub struct PlanChecked {
    pub plan: Option<Arc<Plan>>,
    pub check: Check,
    /// None: they were not asked for.
    pub(super) tools: Option<Seen>,
}

#[derive(Clone, Debug, Serialize)]
pub struct PlanSaved {
    pub plan_id: PlanId,
    pub name: String,
    pub version: u32,
    pub digest: String,
    /// False: this very document was the newest version already.
    pub fresh: bool,
    pub check: Check,
    #[serde(skip)]
    pub reference: PlanRef,
    #[serde(skip)]
    pub plan: Arc<Plan>,
}

impl Service {
    /// The whole pre-flight; `offline` leaves out whatever needs the servers. Calls no tool.
    pub async fn check(&self, text: &str, offline: bool) -> PlanChecked {
        let (plan, wrong) = Plan::draft(text);
        let plan = match plan {
            Some(plan) if wrong.is_empty() => Arc::new(plan),
            draft => {
                let mut findings = wrong;
                findings.extend(draft.iter().flat_map(analysis::check_names));
                if let Some(draft) = draft.filter(|_| !offline) {
                    findings.extend(self.look_at_draft(&draft).await);
                }
                self.redact_findings(&mut findings);
                return PlanChecked { plan: None, check: Check::refused(findings), tools: None };
            }
        };
        let (tools, lost) = match offline {
            true => (None, Vec::new()),
            false => {
                let (seen, lost) = self.look_at_tools(&plan).await;
                (Some(seen), lost)
            }
        };
        let unseen = Seen::default();
        let terms = tools.as_ref().unwrap_or(&unseen).terms(self, &plan);
        let mut check = analysis::check(&plan, &terms);
        check.findings.extend(analysis::check_names(&plan));
        check.findings.extend(lost);
        if let Some(seen) = &tools {
            check.findings.extend(self.held_against_tools(&plan, seen, &terms));
        }
        check.findings.extend(self.secret_in_plan(&plan.document));
        self.redact_findings(&mut check.findings);
        name_steps(&mut check.findings, |number| Some(plan.steps.get(number)?.id.to_string()));
        check.ok = !check.findings.iter().any(|finding| finding.severity == Severity::Error);
        PlanChecked { plan: Some(plan), check, tools }
    }

    /// What is wrong with the tools is told along with what is wrong with the document: one run finds all.
    async fn look_at_draft(&self, draft: &Plan) -> Vec<Finding> {
        let (seen, mut findings) = self.look_at_tools(draft).await;
        let terms = seen.terms(self, draft);
        findings.extend(self.held_against_tools(draft, &seen, &terms));
        name_steps(&mut findings, |number| Some(draft.steps.get(number)?.id.to_string()));
        findings
    }

    pub async fn save_plan(&self, caller: &Caller, text: &str, offline: bool) -> Result<PlanSaved, Error> {
        let repeated = self.repeated(caller).await?;
        let (asked, check) = self.ready(text, offline || repeated.is_some()).await?;
        self.put_plan(caller, asked, check).await
    }

    /// A plan that may be saved; refused where its check finds an error.
    pub(super) async fn ready(&self, text: &str, offline: bool) -> Result<(PlanAsked, Check), Error> {
        let PlanChecked { plan, check, tools } = self.check(text, offline).await;
        let Some(plan) = plan.filter(|_| check.ok) else {
            return Err(refused(check));
        };
        let asked = PlanAsked {
            plan,
            new_id: PlanId::new(random::id()),
            placement: Placement { project: Some(self.project().to_owned()), ..Placement::default() },
            pins: tools.as_ref().map(Seen::pins),
            tools: tools.map(|tools| tools.rows(self)).unwrap_or_default(),
        };
        Ok((asked, check))
    }

    pub(super) async fn put_plan(
        &self,
        caller: &Caller,
        asked: PlanAsked,
        check: Check,
    ) -> Result<PlanSaved, Error> {
        let plan = asked.plan.clone();
        let (reference, plan, fresh) = match self.ask(caller, Request::SavePlan(Box::new(asked))).await? {
            Reply::Saved { plan: reference, fresh } => (reference, plan, fresh),
            Reply::Repeated(result) => {
                let (reference, plan) = self.saved_before(&result).await?;
                (reference, plan, false)
            }
            Reply::Moved(_) | Reply::Deleted | Reply::Accepted { .. } | Reply::Recorded(_) => {
                unreachable!("saving a plan answers with its place")
            }
        };
        if reference.version > 1 {
            self.follow_plan(caller, &reference, &plan).await?;
        }
        let PlanRef { id, name, version, digest } = reference.clone();
        Ok(PlanSaved {
            plan_id: id,
            name,
            version,
            digest: digest.to_string(),
            fresh,
            check,
            reference,
            plan,
        })
    }

    /// What an equal request was given, as its key remembers it: `id@version`.
    async fn saved_before(&self, result: &str) -> Result<(PlanRef, Arc<Plan>), Error> {
        let strange =
            || Error::new("corrupt", format!("a key gave the plan `{result}`"), "run `actbook verify`");
        let place = result.rsplit_once('@').and_then(|(id, version)| Some((id, version.parse().ok()?)));
        let (id, version): (&str, u32) = place.ok_or_else(strange)?;
        let row = plans::version(self.tenant, id, u64::from(version)).first(&self.db).await?;
        let row = row.ok_or_else(strange)?;
        let plan = self.document_at(row.position).await?;
        Ok((PlanRef { id: PlanId::new(id), name: row.name, version, digest: plan.digest }, plan))
    }

    pub async fn plans(&self) -> Result<Vec<PlanView>, Error> {
        Ok(self.plan_rows().await?.iter().map(PlanView::of).collect())
    }

    /// The newest version of each plan that is seen from here, by name.
    pub(super) async fn plan_rows(&self) -> Result<Vec<plans::Plan>, Error> {
        Ok(plans::list(self.tenant, self.boundary(), PLANS_LISTED).all(&self.db).await?)
    }

    /// By name, id, or the unique beginning of an id.
    pub async fn plan(&self, name_or_id: &str) -> Result<(PlanView, Arc<Plan>), Error> {
        let row = self.plan_row(name_or_id).await?;
        Ok((PlanView::of(&row), self.document_at(row.position).await?))
    }

    /// The plan whose document was saved at this position.
    pub(super) async fn document_at(&self, position: u64) -> Result<Arc<Plan>, Error> {
        let lost = || Error::new("corrupt", "the plan's document is missing", "run `actbook verify`");
        let document = payloads::at(self.tenant, position).first(&self.db).await?.ok_or_else(lost)?;
        let text = String::from_utf8(document.body).map_err(|_| lost())?;
        let plan = Plan::parse(&text).map_err(|findings| Error::findings("the stored plan", findings))?;
        Ok(Arc::new(plan))
    }

    /// A saved plan and the reference by which it is started.
    pub async fn saved_plan(&self, name_or_id: &str) -> Result<(PlanRef, Arc<Plan>), Error> {
        let (view, plan) = self.plan(name_or_id).await?;
        let version = u32::try_from(view.version).map_err(|error| {
            Error::new("corrupt", format!("version {}: {error}", view.version), "run `actbook rebuild`")
        })?;
        let reference = PlanRef { id: PlanId::new(view.id), name: view.name, version, digest: plan.digest };
        Ok((reference, plan))
    }

    /// The same, checked anew, for its tools may have gone.
    pub async fn ready_plan(&self, name_or_id: &str) -> Result<(PlanRef, Arc<Plan>, Check), Error> {
        let (reference, plan) = self.saved_plan(name_or_id).await?;
        let check = self.check_saved(&plan).await?;
        Ok((reference, plan, check))
    }

    pub(super) async fn plan_row(&self, name_or_id: &str) -> Result<plans::Plan, Error> {
        match plans::find(&self.db, self.tenant, self.boundary(), self.project(), name_or_id).await? {
            store::Found::One(row) => Ok(row),
            store::Found::Several => {
                let message = format!("more than one plan's id begins with `{name_or_id}`");
                Err(Error::new("ambiguous", message, "give more of the id"))
            }
            store::Found::None => Err(self.no_such_plan(name_or_id).await?),
        }
    }

    async fn no_such_plan(&self, name: &str) -> Result<Error, Error> {
        let known = self.plan_rows().await?;
        let near = analysis::nearest(name, known.iter().map(|row| row.name.as_str()));
        let cure = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`actbook plan list` shows the saved ones; a file is given by its path".to_owned(),
        };
        Ok(Error::new("no_such_plan", format!("there is no plan `{name}`"), cure))
    }

    pub async fn delete_plan(&self, caller: &Caller, name_or_id: &str) -> Result<PlanView, Error> {
        let row = self.plan_row(name_or_id).await?;
        self.require_own(row.project.as_deref(), "plan")?;
        let request = Request::DeletePlan { id: PlanId::new(row.id.as_str()) };
        self.ask(caller, request).await?;
        Ok(PlanView::of(&row))
    }
}

pub(super) fn refused(check: Check) -> Error {
    let errors = check.findings.into_iter().filter(|finding| finding.severity == Severity::Error);
    let errors: Vec<Finding> = errors.collect();
    // Codes of their own, for what is wrong is not the plan's shape.
    let code = [UNTRUSTED_CONFIG, SECRET_IN_PLAN]
        .into_iter()
        .find(|code| errors.iter().any(|error| error.code == *code));
    let refused = Error::findings("the plan is refused", errors);
    Error { code: code.unwrap_or(refused.code), ..refused }
}

/// Every tool a plan may call, with the place that names it.
pub(super) fn named_tools(plan: &Plan) -> Vec<(String, &str)> {
    let mut named = Vec::new();
    for (index, step) in plan.steps.iter().enumerate() {
        if let (Some(tool), false) = (step.tool(), step.by_agent()) {
            named.push((format!("steps[{index}].tool"), tool));
        }
        if let Some(Undo::Tool { tool, .. }) =
            step.compensation.as_ref().map(|compensation| &compensation.work)
        {
            named.push((format!("steps[{index}].compensation.tool"), tool.as_str()));
        }
        if let Some(probe) = &step.probe {
            named.push((format!("steps[{index}].probe.tool"), probe.tool.as_str()));
        }
    }
    named
}
