//! Matches an agent's calls with the steps of plans that wait for an agent, and refuses the others where the config
//! demands a plan.

use actbook_engine::event::MatchedStep;
use serde_json::Value;

use super::judge::UNTRUSTED;
use super::{Guard, GuardedCall};
use crate::config::PlanUse;
use crate::error::Error;
use crate::service::{SessionPart, argument_forms};

/// The server whose tools are Actbook's own: an agent asks for its plan by them.
const OWN_SERVER: &str = "actbook";

/// What a plan says of a call.
#[derive(Clone, Debug, Default)]
pub struct PlanMatch {
    pub matched: Option<MatchedStep>,
    /// Why a config that demands a plan refuses the call.
    pub refused: Option<String>,
}

impl Guard<'_> {
    /// The step of a plan that the call is, where the config looks for one.
    pub async fn match_plan(&self, part: &SessionPart, call: &GuardedCall) -> Result<PlanMatch, Error> {
        let plan = self.config.guard.as_ref().map(|guard| guard.plan).unwrap_or_default();
        if plan == PlanUse::Off || call.server() == OWN_SERVER {
            return Ok(PlanMatch::default());
        }
        let sessions = self.service.sessions();
        let forms: Vec<Value> =
            argument_forms(&call.tool, &call.arguments).iter().map(|form| sessions.as_stored(form)).collect();
        let matched = sessions.find_awaited_step(part, &call.tool, &forms).await?;
        let refused = match plan {
            PlanUse::Off | PlanUse::Match => None,
            PlanUse::Require => self.find_plan_problem(part, matched.as_ref()).await?,
        };
        Ok(PlanMatch { matched, refused })
    }

    /// Why the call is not that of a plan which a person approved before the session read a stranger's text.
    async fn find_plan_problem(
        &self,
        part: &SessionPart,
        matched: Option<&MatchedStep>,
    ) -> Result<Option<String>, Error> {
        let Some(matched) = matched else {
            return Ok(Some("no plan waits for this call; the config lets nothing else pass".to_owned()));
        };
        let sessions = self.service.sessions();
        let Some(approved_at) = sessions.plan_approved_at(matched).await? else {
            return Ok(Some(format!("nobody has approved the plan of {}", matched.execution)));
        };
        let untrusted_since = sessions.label_since(part, UNTRUSTED).await?;
        let is_late = untrusted_since.is_some_and(|since| since < approved_at);
        Ok(is_late.then(|| {
            format!(
                "the plan of {} was approved after the session had read untrusted text",
                matched.execution
            )
        }))
    }
}
