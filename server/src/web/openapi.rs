//! `GET /openapi.json`: the API as an OpenAPI 3.1 document, made from the operations that the router is made from.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Map, Value, json};

use super::api::{self, Operation, ResponseBody};
use super::authentication::SignedIn;
use super::{RouterState, WebState};

/// The schemas of the views.
const SCHEMAS: &str = include_str!("openapi/schemas.json");

/// The document without its servers, which depend on where it is served.
static DOCUMENT: LazyLock<Value> = LazyLock::new(document);

pub fn router() -> Router<RouterState> {
    Router::new().route("/openapi.json", get(serve_document))
}

async fn serve_document(state: WebState, _signed_in: SignedIn) -> Response {
    let mut document = DOCUMENT.clone();
    document["servers"] = json!([{ "url": format!("{}/api/v1", state.access.base_url) }]);
    ([(header::CONTENT_TYPE, "application/vnd.oai.openapi+json;version=3.1")], Json(document)).into_response()
}

fn document() -> Value {
    let mut paths = Map::new();
    for operation in api::operations() {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method.to_ascii_lowercase()] = describe(&operation);
    }
    let schemas: Value = serde_json::from_str(SCHEMAS).expect("a test reads the file");
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Actbook",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Plans of tool calls: checked, run, journaled, undone",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "security": [{ "token": [] }, { "session": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "`actbook token create` makes one" },
                "session": {
                    "type": "apiKey", "in": "cookie", "name": "__Host-actbook",
                    "description": "A browser's session; on loopback the cookie is named actbook-PORT",
                },
            },
            "schemas": schemas,
            "responses": { "Problem": problem_response() },
        },
    })
}

fn problem_response() -> Value {
    let schema = json!({ "$ref": "#/components/schemas/Problem" });
    json!({
        "description": "The request was not carried out",
        "content": { "application/problem+json": { "schema": schema } },
    })
}

fn describe(operation: &Operation) -> Value {
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "description": format!("Needs the right `{}`.", operation.right),
        "tags": [operation.tag()],
        "parameters": parameters(operation),
        "responses": responses(operation),
    });
    if let Some((schema, example)) = &operation.body {
        let content = json!({ "application/json": { "schema": inline(schema), "example": example } });
        let is_required = schema["required"].as_array().is_some_and(|required| !required.is_empty());
        described["requestBody"] = json!({ "required": is_required, "content": content });
    }
    described
}

/// The parameters in the path, in the query, and the idempotency key of a change.
fn parameters(operation: &Operation) -> Vec<Value> {
    let mut parameters: Vec<Value> = operation
        .path_parameters()
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    let query = operation.query.as_ref().and_then(|schema| schema["properties"].as_object());
    for (name, schema) in query.into_iter().flatten() {
        let mut schema = schema.clone();
        let text = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        let mut parameter = json!({ "name": name, "in": "query", "schema": without_null(schema) });
        if let Some(text) = text {
            parameter["description"] = text;
        }
        parameters.push(parameter);
    }
    if operation.is_change() {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header",
            "description": "The same key and the same request give the same answer; another request is refused",
            "schema": { "type": "string", "minLength": 1, "maxLength": 200 },
        }));
    }
    if operation.id == "stream_events" {
        parameters.push(json!({
            "name": "Last-Event-ID", "in": "header", "schema": { "type": "integer", "minimum": 0 },
        }));
    }
    parameters
}

/// An optional parameter is left out, never null.
fn without_null(mut schema: Value) -> Value {
    if let Some(types) = schema["type"].as_array() {
        let kept = types.iter().find(|name| *name != "null").cloned();
        schema["type"] = kept.unwrap_or_else(|| json!("string"));
    }
    if let Some(choices) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        choices.retain(|choice| !choice.is_null());
    }
    schema
}

fn responses(operation: &Operation) -> Value {
    let mut success = json!({ "description": operation.status.canonical_reason().unwrap_or("done") });
    match operation.response {
        ResponseBody::None => {}
        ResponseBody::Json(name) => {
            let schema = json!({ "$ref": format!("#/components/schemas/{name}") });
            success["content"] = json!({ "application/json": { "schema": schema } });
        }
        ResponseBody::Media(media) => {
            success["content"] = json!({ media: { "schema": { "type": "string" } } });
        }
    }
    if operation.is_located {
        success["headers"] = json!({ "Location": {
            "description": "Where it can be read again", "schema": { "type": "string" },
        } });
    }
    let problem = json!({ "$ref": "#/components/responses/Problem" });
    let mut responses = Map::new();
    responses.insert(operation.status.as_u16().to_string(), success);
    responses.insert("4XX".to_owned(), problem.clone());
    responses.insert("5XX".to_owned(), problem);
    Value::Object(responses)
}

/// A schema without the keys that only a whole document has; its definitions stay beside it.
fn inline(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("$schema");
        fields.remove("title");
    }
    schema
}
