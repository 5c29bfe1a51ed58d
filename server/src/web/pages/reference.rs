//! `/api`: the reference of the HTTP API, one section for each operation with what it takes and a line of curl. Made
//! from the operations that the routes and the OpenAPI document are made from.

use askama::Template;
use axum::http::HeaderMap;
use axum::response::Html;
use serde_json::Value;

use super::frame::{Area, Frame};
use super::render;
use crate::web::WebState;
use crate::web::api::{Operation, ResponseBody, operations};
use crate::web::authentication::SignedIn;
use crate::web::curl::curl_line;
use crate::web::problem::Problem;

#[derive(Debug, Template)]
#[template(path = "reference.html")]
struct ReferencePage {
    frame: Frame,
    base_url: String,
    groups: Vec<ReferenceGroup>,
}

/// The operations under one first part of the path.
#[derive(Debug)]
struct ReferenceGroup {
    name: String,
    operations: Vec<ReferenceOperation>,
}

/// One operation as the page shows it.
#[derive(Debug)]
struct ReferenceOperation {
    id: &'static str,
    method: &'static str,
    path: String,
    summary: &'static str,
    right: &'static str,
    fields: Vec<ReferenceField>,
    /// The status and what comes with it.
    answer: String,
    curl: String,
}

/// A parameter, or a field of the body.
#[derive(Debug)]
struct ReferenceField {
    name: String,
    /// `path`, `query` or `body`.
    place: &'static str,
    /// The JSON type, if it has one.
    kind: String,
    is_required: bool,
    about: String,
}

/// `GET /api`.
pub async fn show(state: WebState, signed_in: SignedIn, headers: HeaderMap) -> Result<Html<String>, Problem> {
    let frame = Frame::load(&state, &signed_in, &headers, Area::Settings, "HTTP API").await?;
    let base_url = format!("{}/api/v1", state.access.base_url);
    render(&ReferencePage { frame: frame.at("/api"), groups: groups(&base_url), base_url })
}

/// All operations, in groups in the order in which they first occur.
fn groups(base_url: &str) -> Vec<ReferenceGroup> {
    let mut groups: Vec<ReferenceGroup> = Vec::new();
    for operation in operations() {
        let shown = reference_operation(&operation, base_url);
        match groups.iter_mut().find(|group| group.name == operation.tag()) {
            Some(group) => group.operations.push(shown),
            None => {
                groups.push(ReferenceGroup { name: operation.tag().to_owned(), operations: vec![shown] });
            }
        }
    }
    groups
}

fn reference_operation(operation: &Operation, base_url: &str) -> ReferenceOperation {
    let path_field = |name: &str| ReferenceField {
        name: name.to_owned(),
        place: "path",
        kind: "string".to_owned(),
        is_required: true,
        about: String::new(),
    };
    let mut fields: Vec<ReferenceField> = operation.path_parameters().map(path_field).collect();
    fields.extend(schema_fields(operation.query.as_ref(), "query"));
    fields.extend(schema_fields(operation.body.as_ref().map(|(schema, _)| schema), "body"));
    let gives = match operation.response {
        ResponseBody::None => String::new(),
        ResponseBody::Json(schema) => format!(" {schema}"),
        ResponseBody::Media(media) => format!(" {media}"),
    };
    ReferenceOperation {
        id: operation.id,
        method: operation.method,
        path: operation.path.to_owned(),
        summary: operation.summary,
        right: operation.right.as_str(),
        fields,
        answer: format!("{}{gives}", operation.status.as_u16()),
        curl: curl_line(operation, base_url),
    }
}

/// The properties of a schema.
fn schema_fields(schema: Option<&Value>, place: &'static str) -> Vec<ReferenceField> {
    let required = schema.and_then(|schema| schema["required"].as_array());
    let properties = schema.and_then(|schema| schema["properties"].as_object());
    let field = |(name, schema): (&String, &Value)| ReferenceField {
        name: name.clone(),
        place,
        kind: type_name(schema),
        is_required: required.is_some_and(|names| names.iter().any(|one| one == name)),
        about: schema["description"].as_str().unwrap_or_default().to_owned(),
    };
    properties.into_iter().flatten().map(field).collect()
}

/// The type of a schema, such as `integer`; `any` if it takes several.
fn type_name(schema: &Value) -> String {
    let named = |value: &Value| value.as_str().filter(|name| *name != "null").map(str::to_owned);
    match &schema["type"] {
        Value::Array(types) => types.iter().find_map(named),
        one => named(one),
    }
    .unwrap_or_else(|| "any".to_owned())
}
