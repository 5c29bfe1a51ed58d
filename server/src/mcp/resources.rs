//! What can be read by its address: the guide, the plan format, examples, plans, executions, journals.

use rmcp::model::{
    CacheScope, ErrorData, ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};
use serde_json::json;

use super::Door;
use crate::error::Error;
use crate::service::{ExecutionFilter, JournalFilter, Service, shipped};

const FORMAT: &str = include_str!("../../../docs/guide.md");
pub const PLAN_SCHEMA: &str = include_str!("resources/plan.schema.json");
/// Where the plan format stands in the guide for people.
const FORMAT_BEGINS: &str = "## Plans";
const FORMAT_ENDS: &str = "## States";

const JOURNAL_SHOWN: u64 = 1_000;
const COMPLETED_MAX: usize = 100;
const STATIC_TTL_MS: u64 = 3_600_000;

/// What an address names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Guide,
    PlanFormat,
    Example(String),
    Plan(String),
    Execution(String),
    Journal(String),
}

impl Address {
    pub fn parse(uri: &str) -> Option<Self> {
        let path = uri.strip_prefix("actbook://")?;
        let parts: Vec<&str> = path.split('/').collect();
        match parts.as_slice() {
            ["guide"] => Some(Self::Guide),
            ["plan-format"] => Some(Self::PlanFormat),
            ["examples", name] => Some(Self::Example((*name).to_owned())),
            ["plans", id] if !id.is_empty() => Some(Self::Plan((*id).to_owned())),
            ["executions", id] if !id.is_empty() => Some(Self::Execution((*id).to_owned())),
            ["executions", id, "journal"] if !id.is_empty() => Some(Self::Journal((*id).to_owned())),
            _ => None,
        }
    }

    /// The execution whose movements move it.
    pub fn execution(&self) -> Option<&str> {
        match self {
            Self::Execution(id) | Self::Journal(id) => Some(id),
            Self::Guide | Self::PlanFormat | Self::Example(_) | Self::Plan(_) => None,
        }
    }
}

pub fn list() -> ListResourcesResult {
    let words = "How to use Actbook, for an agent";
    let guide = Resource::new("actbook://guide", "guide").with_description(words);
    let format = Resource::new("actbook://plan-format", "plan-format")
        .with_description("Every field of a plan, and its JSON Schema");
    let examples = shipped().iter().map(|one| {
        Resource::new(format!("actbook://examples/{}", one.name), one.name)
            .with_description(one.plan.description.as_deref().unwrap_or_default())
            .with_mime_type("application/yaml")
    });
    let fixed = [guide.with_mime_type("text/markdown"), format.with_mime_type("text/markdown")];
    let mut listed = ListResourcesResult::with_all_items(fixed.into_iter().chain(examples).collect());
    listed.ttl_ms = Some(STATIC_TTL_MS);
    listed.cache_scope = Some(CacheScope::Public);
    listed
}

pub fn templates() -> ListResourceTemplatesResult {
    let template = |uri: &str, name: &str, about: &str| {
        ResourceTemplate::new(uri, name).with_description(about).with_mime_type("application/json")
    };
    let mut listed = ListResourceTemplatesResult::with_all_items(vec![
        template("actbook://plans/{id}", "plan", "A saved plan's document, by id or name"),
        template("actbook://executions/{id}", "execution", "An execution's whole view; can be subscribed to"),
        template("actbook://executions/{id}/journal", "journal", "An execution's journal entries"),
    ]);
    listed.ttl_ms = Some(STATIC_TTL_MS);
    listed.cache_scope = Some(CacheScope::Public);
    listed
}

pub async fn read(door: &Door, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let Some(address) = Address::parse(uri) else { return Err(not_found(uri, "there is no such resource")) };
    let text = |text: &str, kind: &str| ResourceContents::text(text, uri).with_mime_type(kind);
    let (contents, fixed) = match &address {
        Address::Guide => (vec![text(&door.profile().guide(), "text/markdown")], true),
        Address::PlanFormat => {
            let schema = ResourceContents::text(PLAN_SCHEMA, "actbook://plan-format#schema");
            (
                vec![text(plan_format(), "text/markdown"), schema.with_mime_type("application/schema+json")],
                true,
            )
        }
        Address::Example(name) => match shipped().iter().find(|one| one.name == name) {
            Some(one) => (vec![text(one.text, "application/yaml")], true),
            None => return Err(not_found(uri, "there is no such example")),
        },
        Address::Plan(_) | Address::Execution(_) | Address::Journal(_) => {
            let shown =
                kept(door.service(), &address).await.map_err(|error| not_found(uri, &error.message))?;
            (vec![text(&shown, "application/json")], false)
        }
    };
    let mut read = ReadResourceResult::new(contents);
    read.ttl_ms = Some(if fixed { STATIC_TTL_MS } else { 0 });
    read.cache_scope = Some(if fixed { CacheScope::Public } else { CacheScope::Private });
    Ok(read)
}

fn plan_format() -> &'static str {
    let begins = FORMAT.find(FORMAT_BEGINS).unwrap_or(0);
    let ends = FORMAT.find(FORMAT_ENDS).unwrap_or(FORMAT.len());
    &FORMAT[begins..ends]
}

/// What the journal holds, as JSON.
async fn kept(service: &Service, address: &Address) -> Result<String, Error> {
    let shown = match address {
        Address::Plan(id) => {
            let (view, plan) = service.plan(id).await?;
            json!({ "plan": view, "document": plan.document })
        }
        Address::Execution(id) => json!(service.view(id).await?),
        Address::Journal(id) => {
            let filter = JournalFilter { execution: Some(id.clone()), ..Default::default() };
            json!(service.journal(&filter, JOURNAL_SHOWN).await?)
        }
        Address::Guide | Address::PlanFormat | Address::Example(_) => unreachable!("these are not journaled"),
    };
    Ok(shown.to_string())
}

pub fn not_found(uri: &str, why: &str) -> ErrorData {
    ErrorData::resource_not_found(format!("{uri}: {why}"), Some(json!({ "uri": uri })))
}

/// Ids that begin as somebody has begun to type.
pub async fn completions(service: &Service, of_plans: bool, begun: &str) -> Result<Vec<String>, Error> {
    let known: Vec<String> = match of_plans {
        true => service.plans().await?.into_iter().flat_map(|plan| [plan.name, plan.id]).collect(),
        false => {
            let rows = service.list(&ExecutionFilter::default(), JOURNAL_SHOWN).await?;
            rows.into_iter().map(|row| row.id).collect()
        }
    };
    Ok(known.into_iter().filter(|id| id.starts_with(begun)).take(COMPLETED_MAX).collect())
}
