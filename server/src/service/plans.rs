//! Plans: checking, saving, listing, loading and deleting them.

use std::sync::Arc;

use actbook_engine::analysis::{self, PlanCheck};
use actbook_engine::event::PlanRef;
use actbook_engine::id::PlanId;
use actbook_engine::library::SaveOptions;
use actbook_engine::plan::{Finding, Plan, Severity, add_step_ids};
use serde::Serialize;

use super::Service;
use super::preflight::DescribedTools;
use super::view::PlanView;
use crate::caller::{Caller, Right};
use crate::error::{Ambiguity, Corruption, DocumentKind, Error, PersonAct};
use crate::ledger::{DeletePlanRequest, KeyedReply, SavePlanRequest};
use crate::random;
use crate::store::{self, payloads, plans};

/// At most this many plans are listed.
const PLANS_LISTED_MAX: u64 = 1_000;

/// The result of checking a plan document.
#[derive(Debug)]
pub struct CheckedPlan {
    /// `None`: the document is not a valid plan.
    pub plan: Option<Arc<Plan>>,
    pub check: PlanCheck,
    /// The plan's tools as their servers describe them. `None`: the check was offline, or there is no plan.
    pub(super) tools: Option<DescribedTools>,
}

/// The result of saving a plan.
#[derive(Clone, Debug, Serialize)]
pub struct SavedPlan {
    pub plan_id: PlanId,
    pub name: String,
    pub version: u32,
    pub digest: String,
    /// False: the same document was the newest version already, or the request was repeated.
    pub fresh: bool,
    pub check: PlanCheck,
    #[serde(skip)]
    pub reference: PlanRef,
    #[serde(skip)]
    pub plan: Arc<Plan>,
}

/// Saved plans and their versions: checking, saving, finding and deleting them.
#[derive(Clone, Copy, Debug)]
pub struct Plans<'a>(pub(super) &'a Service);

impl Plans<'_> {
    /// Checks a plan document, also against its live tools unless `offline`. Lists tools and calls none.
    /// Errors in the document are findings of the result.
    pub async fn check(self, text: &str, offline: bool) -> CheckedPlan {
        let (plan, errors) = Plan::parse_draft(text);
        let plan = match plan {
            Some(plan) if errors.is_empty() => Arc::new(plan),
            draft => {
                let mut findings = errors;
                if let Some(draft) = draft {
                    findings.extend(self.check_draft(&draft, offline).await);
                }
                self.0.redact_findings(&mut findings);
                return CheckedPlan { plan: None, check: PlanCheck::from_errors(findings), tools: None };
            }
        };
        let (tools, unavailable) = if offline {
            (None, Vec::new())
        } else {
            let (tools, unavailable) = self.describe_tools(&plan).await;
            (Some(tools), unavailable)
        };
        let no_tools = DescribedTools::default();
        let terms = tools.as_ref().unwrap_or(&no_tools).tool_policies(self.0, &plan);
        let mut check = analysis::check_plan(&plan, &terms);
        check.findings.extend(analysis::check_names(&plan));
        check.findings.extend(analysis::check_markers(&plan));
        check.findings.extend(unavailable);
        if let Some(tools) = &tools {
            check.findings.extend(self.check_against_tools(&plan, tools, &terms));
        }
        check.findings.extend(self.0.secret_in_plan(&plan.document));
        self.0.redact_findings(&mut check.findings);
        add_step_ids(&mut check.findings, |number| Some(plan.steps.get(number)?.id.to_string()));
        check.ok = !check.findings.iter().any(|finding| finding.severity == Severity::Error);
        CheckedPlan { plan: Some(plan), check, tools }
    }

    /// Findings about an invalid document beyond the errors of parsing it, so that one check reports
    /// everything.
    async fn check_draft(self, draft: &Plan, offline: bool) -> Vec<Finding> {
        let (tools, unavailable) =
            if offline { Default::default() } else { self.describe_tools(draft).await };
        let terms = tools.tool_policies(self.0, draft);
        let mut findings = analysis::check_draft(draft, &terms);
        findings.extend(unavailable);
        if !offline {
            findings.extend(self.check_against_tools(draft, &tools, &terms));
        }
        findings.extend(self.0.secret_in_plan(&draft.document));
        add_step_ids(&mut findings, |number| Some(draft.steps.get(number)?.id.to_string()));
        findings
    }

    /// Checks a plan and saves it as the newest version of its name. Refused if the check finds an error.
    /// `offline`: without its live tools, so that the plan is not pinned to them.
    pub async fn save(self, caller: &Caller, text: &str, offline: bool) -> Result<SavedPlan, Error> {
        // Before servers are asked for their tools.
        self.0.require(caller, Right::Run)?;
        let repeated = self.0.previous_result(caller).await?;
        let (request, check) = self.prepare(text, offline || repeated.is_some()).await?;
        self.save_prepared(caller, request, check).await
    }

    /// Checks a plan document and builds the ledger's request to save it. Refused if the check finds an
    /// error.
    pub(super) async fn prepare(
        self,
        text: &str,
        offline: bool,
    ) -> Result<(SavePlanRequest, PlanCheck), Error> {
        let CheckedPlan { plan, check, tools } = self.check(text, offline).await;
        let Some(plan) = plan.filter(|_| check.ok) else {
            return Err(check_refusal(check));
        };
        let request = SavePlanRequest {
            plan,
            new_id: PlanId::new(random::id()),
            placement: SaveOptions { project: Some(self.0.project().to_owned()), ..SaveOptions::default() },
            pins: tools.as_ref().map(DescribedTools::pins),
            tools: tools.map(|tools| tools.tool_rows(self.0)).unwrap_or_default(),
        };
        Ok((request, check))
    }

    /// Submits a checked plan to the ledger. From version 2 on, also adds its new steps to the tasks that
    /// were split by it.
    pub(super) async fn save_prepared(
        self,
        caller: &Caller,
        request: SavePlanRequest,
        check: PlanCheck,
    ) -> Result<SavedPlan, Error> {
        let plan = request.plan.clone();
        let (reference, plan, fresh) = match self.0.submit(caller, request).await? {
            KeyedReply::First(saved) => (saved.plan, plan, saved.is_new),
            KeyedReply::Repeated(result) => {
                let (reference, plan) = self.load_previous_save(&result).await?;
                (reference, plan, false)
            }
        };
        if reference.version > 1 {
            self.0.tasks().add_new_steps_as_subtasks(caller, &reference, &plan).await?;
        }
        let PlanRef { id, name, version, digest } = reference.clone();
        Ok(SavedPlan {
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

    /// Loads the plan that a request key stored as its result, written `id@version`.
    async fn load_previous_save(self, result: &str) -> Result<(PlanRef, Arc<Plan>), Error> {
        let corrupt = || Error::Corrupt(Corruption::Entry(format!("a key gave the plan `{result}`")));
        let parsed = result.rsplit_once('@').and_then(|(id, version)| Some((id, version.parse().ok()?)));
        let (id, version): (&str, u32) = parsed.ok_or_else(corrupt)?;
        let row = plans::by_version(self.0.tenant, id, u64::from(version)).first(&self.0.db).await?;
        let row = row.ok_or_else(corrupt)?;
        let plan = self.at(row.position).await?;
        Ok((PlanRef { id: PlanId::new(id), name: row.name, version, digest: plan.digest }, plan))
    }

    /// Views of the newest version of each visible plan, by name.
    pub async fn list(self) -> Result<Vec<PlanView>, Error> {
        Ok(self.rows().await?.iter().map(PlanView::of).collect())
    }

    /// Rows of the newest version of each visible plan, by name.
    pub(super) async fn rows(self) -> Result<Vec<plans::PlanRow>, Error> {
        Ok(plans::list(self.0.tenant, self.0.boundary(), PLANS_LISTED_MAX).all(&self.0.db).await?)
    }

    /// The newest version of a plan, by name, id or a unique prefix of the id.
    pub async fn get(self, name_or_id: &str) -> Result<(PlanView, Arc<Plan>), Error> {
        let row = self.row(name_or_id).await?;
        Ok((PlanView::of(&row), self.at(row.position).await?))
    }

    /// Loads the plan whose document was saved at this position. Err: the document is missing or cannot be
    /// parsed.
    pub(super) async fn at(self, position: u64) -> Result<Arc<Plan>, Error> {
        let missing = || Error::Corrupt(Corruption::Entry("the plan's document is missing".to_owned()));
        let document =
            payloads::by_position(self.0.tenant, position).first(&self.0.db).await?.ok_or_else(missing)?;
        let text = String::from_utf8(document.body).map_err(|_| missing())?;
        let plan =
            Plan::parse(&text).map_err(|findings| Error::invalid(DocumentKind::StoredPlan, findings))?;
        Ok(Arc::new(plan))
    }

    /// A saved plan in its newest version, and the reference with which it is started.
    pub async fn load(self, name_or_id: &str) -> Result<(PlanRef, Arc<Plan>), Error> {
        let (view, plan) = self.get(name_or_id).await?;
        let version = u32::try_from(view.version)
            .map_err(|error| Error::Corrupt(Corruption::Row(format!("version {}: {error}", view.version))))?;
        let reference = PlanRef { id: PlanId::new(view.id), name: view.name, version, digest: plan.digest };
        Ok((reference, plan))
    }

    /// Like `load`, checked again because its tools may have changed. Refused if the check finds an
    /// error.
    pub async fn load_and_check(self, name_or_id: &str) -> Result<(PlanRef, Arc<Plan>, PlanCheck), Error> {
        let (reference, plan) = self.load(name_or_id).await?;
        let check = self.check_saved(&plan).await?;
        Ok((reference, plan, check))
    }

    /// The row of a plan's newest version, by name, id or a unique prefix of the id.
    pub(super) async fn row(self, name_or_id: &str) -> Result<plans::PlanRow, Error> {
        match plans::find_by_name_or_id(
            &self.0.db,
            self.0.tenant,
            self.0.boundary(),
            self.0.project(),
            name_or_id,
        )
        .await?
        {
            store::PrefixMatch::One(row)
                if row.name == name_or_id || self.0.may_name(name_or_id, &row.id) =>
            {
                Ok(row)
            }
            store::PrefixMatch::Several if !self.0.takes_whole_ids => {
                Err(Error::Ambiguous(Ambiguity::PlanId { prefix: name_or_id.to_owned() }))
            }
            store::PrefixMatch::One(_) | store::PrefixMatch::Several | store::PrefixMatch::None => {
                Err(self.no_such_plan(name_or_id).await?)
            }
        }
    }

    /// The refusal of an unknown plan, with the nearest name. `Err`: the known names could not be read.
    async fn no_such_plan(self, name: &str) -> Result<Error, Error> {
        let known = self.rows().await?;
        let nearest = analysis::nearest(name, known.iter().map(|row| row.name.as_str()));
        Ok(Error::NoSuchPlan { given: name.to_owned(), nearest: nearest.map(str::to_owned) })
    }

    /// Deletes a plan by name, id or a unique prefix of the id; its executions stay. A confined service is
    /// refused another project's plan.
    pub async fn delete(self, caller: &Caller, name_or_id: &str) -> Result<PlanView, Error> {
        let row = self.row(name_or_id).await?;
        self.0.require_own_project(row.project.as_deref(), PersonAct::DeleteForeignPlan)?;
        self.0.submit(caller, DeletePlanRequest { id: PlanId::new(row.id.as_str()) }).await?;
        Ok(PlanView::of(&row))
    }
}

/// The refusal of a plan whose check found errors.
pub(super) fn check_refusal(check: PlanCheck) -> Error {
    let errors = check.findings.into_iter().filter(|finding| finding.severity == Severity::Error);
    Error::invalid(DocumentKind::Plan, errors.collect())
}
