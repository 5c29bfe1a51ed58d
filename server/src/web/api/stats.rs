//! `/stats`: rates, success, percentiles, failures, waiting and calibration.

use axum::Json;
use axum::routing::get;
use schemars::JsonSchema;
use serde::Deserialize;

use super::operation::Operation;
use super::params::{self, Params};
use crate::service::{Stats, StatsFilter};
use crate::web::{Problem, SignedIn, WebState};

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::new("GET", "/stats", "get_stats", get(stats))
            .summary("Statistics of the executions that match")
            .query::<StatsRangeQuery>()
            .gives("Stats"),
    ]
}

/// The query of `GET /stats`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StatsRangeQuery {
    /// RFC 3339, a date, or an age such as 30d
    #[schemars(extend("anyOf" = params::time_forms()))]
    since: Option<String>,
    #[schemars(extend("anyOf" = params::time_forms()))]
    until: Option<String>,
    /// A plan's id or name
    plan: Option<String>,
    task: Option<String>,
}

async fn stats(
    state: WebState,
    _signed_in: SignedIn,
    Params(query): Params<StatsRangeQuery>,
) -> Result<Json<Stats>, Problem> {
    let filter = StatsFilter {
        since: params::time("since", query.since)?,
        until: params::time("until", query.until)?,
        plan: query.plan,
        task: query.task,
        project: None,
    };
    Ok(Json(state.service.journal().stats(&filter).await?))
}
