//! The MCP resources: the guide, the plan format, examples, plans, executions and their journals.

use rmcp::model::{
    CacheScope, ErrorData, ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};
use serde_json::{Value, json};

use super::McpEndpoint;
use crate::error::Error;
use crate::service::{ExecutionFilter, JournalFilter, Service, shipped_templates};

/// The guide for people; the plan format is a part of it.
const USER_GUIDE: &str = include_str!("../../../docs/guide.md");
/// The JSON Schema of a plan document.
pub const PLAN_SCHEMA: &str = include_str!("resources/plan.schema.json");
/// The headings between which the guide describes the plan format.
const PLAN_FORMAT_START: &str = "## Plans";
const PLAN_FORMAT_END: &str = "## States";

/// Journal entries, or executions to complete an id from, that are read at most.
const ROWS_READ_MAX: u64 = 1_000;
const COMPLETIONS_MAX: usize = 100;
/// How the addresses of Actbook's own resources begin.
pub const OWN_SCHEME: &str = "actbook://";
/// How long a client may cache what changes only with the binary.
const STATIC_TTL_MS: u64 = 3_600_000;

/// A parsed `actbook://` URI; the strings are names or ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceUri {
    Guide,
    PlanFormat,
    Example(String),
    Plan(String),
    Execution(String),
    Journal(String),
}

impl ResourceUri {
    /// Parses an `actbook://` URI. None: no resource has such a URI.
    pub fn parse(uri: &str) -> Option<Self> {
        let path = uri.strip_prefix(OWN_SCHEME)?;
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

    /// The id of the execution whose changes change this resource; None: executions do not change it.
    pub fn execution_id(&self) -> Option<&str> {
        match self {
            Self::Execution(id) | Self::Journal(id) => Some(id),
            Self::Guide | Self::PlanFormat | Self::Example(_) | Self::Plan(_) => None,
        }
    }
}

/// Answers `resources/list`.
pub fn list() -> ListResourcesResult {
    let about = "How to use Actbook, for an agent";
    let guide = Resource::new("actbook://guide", "guide").with_description(about);
    let format = Resource::new("actbook://plan-format", "plan-format")
        .with_description("Every field of a plan, and its JSON Schema");
    let examples = shipped_templates().iter().map(|one| {
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

/// Answers `resources/templates/list`.
pub fn list_templates() -> ListResourceTemplatesResult {
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

/// Answers `resources/read`. Err: there is no such resource, plan or execution.
pub async fn read(endpoint: &McpEndpoint, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let Some(address) = ResourceUri::parse(uri) else {
        return Err(not_found(uri, "there is no such resource"));
    };
    let text = |text: &str, mime_type: &str| ResourceContents::text(text, uri).with_mime_type(mime_type);
    let json = |shown: Result<Value, Error>| {
        let shown = shown.map_err(|error| not_found(uri, &error.to_string()))?;
        Ok::<_, ErrorData>(vec![text(&shown.to_string(), "application/json")])
    };
    let service = endpoint.service();
    let (contents, is_fixed) = match &address {
        ResourceUri::Guide => (vec![text(&endpoint.profile().guide(), "text/markdown")], true),
        ResourceUri::PlanFormat => {
            let schema = ResourceContents::text(PLAN_SCHEMA, "actbook://plan-format#schema");
            (
                vec![
                    text(plan_format_section(), "text/markdown"),
                    schema.with_mime_type("application/schema+json"),
                ],
                true,
            )
        }
        ResourceUri::Example(name) => match shipped_templates().iter().find(|one| one.name == name) {
            Some(one) => (vec![text(one.text, "application/yaml")], true),
            None => return Err(not_found(uri, "there is no such example")),
        },
        ResourceUri::Plan(id) => {
            let plan = service.plans().get(id).await;
            (json(plan.map(|(view, plan)| json!({ "plan": view, "document": plan.document })))?, false)
        }
        ResourceUri::Execution(id) => {
            (json(service.executions().view(id).await.map(|view| json!(view)))?, false)
        }
        ResourceUri::Journal(id) => {
            let filter = JournalFilter { execution: Some(id.clone()), ..Default::default() };
            (json(service.journal().list(&filter, ROWS_READ_MAX).await.map(|entries| json!(entries)))?, false)
        }
    };
    let mut read = ReadResourceResult::new(contents);
    read.ttl_ms = Some(if is_fixed { STATIC_TTL_MS } else { 0 });
    read.cache_scope = Some(if is_fixed { CacheScope::Public } else { CacheScope::Private });
    Ok(read)
}

/// The part of the guide that describes the plan format.
fn plan_format_section() -> &'static str {
    let begins = USER_GUIDE.find(PLAN_FORMAT_START).unwrap_or(0);
    let ends = USER_GUIDE.find(PLAN_FORMAT_END).unwrap_or(USER_GUIDE.len());
    &USER_GUIDE[begins..ends]
}

/// The protocol error for a URI that cannot be read or subscribed to; `why` is the end of its message.
pub fn not_found(uri: &str, why: &str) -> ErrorData {
    ErrorData::resource_not_found(format!("{uri}: {why}"), Some(json!({ "uri": uri })))
}

/// Plan names and ids (`of_plans`), or execution ids, that start with `prefix`; `COMPLETIONS_MAX` at most.
pub async fn complete_id(service: &Service, of_plans: bool, prefix: &str) -> Result<Vec<String>, Error> {
    let known: Vec<String> = if of_plans {
        service.plans().list().await?.into_iter().flat_map(|plan| [plan.name, plan.id]).collect()
    } else {
        let rows = service.executions().list(&ExecutionFilter::default(), ROWS_READ_MAX).await?;
        rows.into_iter().map(|row| row.id).collect()
    };
    Ok(known.into_iter().filter(|id| id.starts_with(prefix)).take(COMPLETIONS_MAX).collect())
}
