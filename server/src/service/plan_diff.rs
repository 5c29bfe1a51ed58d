//! The difference between two versions of a saved plan.

use std::sync::Arc;

use actbook_engine::analysis::{PlanComparison, compare_plans};
use actbook_engine::plan::Plan;
use serde::Serialize;

use super::plans::Plans;
use super::view::PlanView;
use crate::error::Error;

/// Two versions of a plan, and what differs between them.
#[derive(Clone, Debug, Serialize)]
pub struct PlanDiff {
    pub from: PlanView,
    pub to: PlanView,
    #[serde(flatten)]
    pub comparison: PlanComparison,
    #[serde(skip)]
    pub from_plan: Arc<Plan>,
    #[serde(skip)]
    pub to_plan: Arc<Plan>,
}

impl Plans<'_> {
    /// The difference between two versions of a plan: `from`, by default the version before `to`, and `to`, by
    /// default the newest. Refused if there is no such plan or version.
    pub async fn diff(self, name_or_id: &str, from: Option<u64>, to: Option<u64>) -> Result<PlanDiff, Error> {
        let (to, to_plan) = self.version(name_or_id, to).await?;
        let from = from.unwrap_or(to.version.saturating_sub(1));
        let (from, from_plan) = self.version(&to.id, Some(from)).await?;
        let mut comparison = compare_plans(&from_plan, &to_plan);
        self.0.withhold_comparison(&mut comparison);
        Ok(PlanDiff { from, to, comparison, from_plan, to_plan })
    }
}
