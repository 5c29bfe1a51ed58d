//! One operation of the API: its route and its description. The router and the OpenAPI document are made from the
//! same list, so that none of them has an operation that the other lacks.

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::caller::{Credential, Right};
use crate::error::Error;
use crate::web::{Problem, RouterState};

/// An operation of the API.
#[derive(Debug)]
pub struct Operation {
    pub method: &'static str,
    /// Without `/api/v1`.
    pub path: &'static str,
    /// Its name for generated clients.
    pub id: &'static str,
    pub summary: &'static str,
    pub right: Right,
    /// The JSON schema of its query.
    pub query: Option<Value>,
    /// The JSON schema of its body, and an example of one.
    pub body: Option<(Value, Value)>,
    pub status: StatusCode,
    /// What it answers with.
    pub response: ResponseBody,
    /// The header `Location` says where what it creates can be read again.
    pub is_located: bool,
    handler: MethodRouter<RouterState>,
}

/// The body of an operation's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    None,
    /// JSON of the schema with this name.
    Json(&'static str),
    /// Another media type.
    Media(&'static str),
}

impl Operation {
    /// An operation that needs the right `read`, without a query or a body, and gives nothing.
    pub fn new(
        method: &'static str,
        path: &'static str,
        id: &'static str,
        handler: MethodRouter<RouterState>,
    ) -> Self {
        Self {
            method,
            path,
            id,
            handler,
            summary: "",
            right: Right::Read,
            query: None,
            body: None,
            status: StatusCode::NO_CONTENT,
            response: ResponseBody::None,
            is_located: false,
        }
    }

    pub fn summary(self, summary: &'static str) -> Self {
        Self { summary, ..self }
    }

    pub fn right(self, right: Right) -> Self {
        Self { right, ..self }
    }

    pub fn query<T: JsonSchema>(self) -> Self {
        Self { query: Some(inline_schema::<T>()), ..self }
    }

    pub fn body<T: JsonSchema>(self, example: Value) -> Self {
        Self { body: Some((inline_schema::<T>(), example)), ..self }
    }

    /// Its body takes `wait_s` besides its own fields.
    pub fn waits(mut self) -> Self {
        if let Some((schema, _)) = &mut self.body {
            schema["properties"]["wait_s"] = json!({
                "type": "number", "minimum": 0, "maximum": 300,
                "description": "Seconds to wait for its end or its next question; 0 unless given",
            });
        }
        self
    }

    /// Answers with JSON of this schema.
    pub fn gives(self, schema: &'static str) -> Self {
        Self { status: StatusCode::OK, response: ResponseBody::Json(schema), ..self }
    }

    /// Creates something, and answers with JSON of this schema.
    pub fn creates(self, schema: &'static str) -> Self {
        Self { status: StatusCode::CREATED, response: ResponseBody::Json(schema), ..self }
    }

    /// Creates something that has a path of its own, and answers with JSON of this schema.
    pub fn creates_resource(self, schema: &'static str) -> Self {
        Self { is_located: true, ..self.creates(schema) }
    }

    pub fn gives_media(self, media: &'static str) -> Self {
        Self { status: StatusCode::OK, response: ResponseBody::Media(media), ..self }
    }

    pub fn gives_nothing(self) -> Self {
        Self { status: StatusCode::NO_CONTENT, response: ResponseBody::None, ..self }
    }

    /// The first part of its path, by which operations are grouped.
    pub fn tag(&self) -> &'static str {
        self.path.split(['/', ':']).nth(1).unwrap_or_default()
    }

    /// The names of the parameters in its path.
    pub fn path_parameters(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// Whether it changes something, so that it takes an idempotency key.
    pub fn is_change(&self) -> bool {
        self.method != "GET"
    }

    /// Adds the operation's route, behind the check of its right. The service checks rights too; here the right that
    /// the document names is checked, before the request is parsed.
    pub fn add_to(self, router: Router<RouterState>) -> Router<RouterState> {
        let right = self.right;
        let check = move |request: Request, next: Next| require_right(right, request, next);
        router.route(self.path, self.handler.route_layer(from_fn(check)))
    }
}

/// Refuses a request whose credential lacks the right.
async fn require_right(right: Right, request: Request, next: Next) -> Response {
    match request.extensions().get::<Credential>() {
        Some(credential) if credential.role.rights().has(right) => next.run(request).await,
        Some(_) => Problem::from(Error::Forbidden { needed: right }).into_response(),
        None => Problem::unauthorized().into_response(),
    }
}

/// The schema of a type, without references: it becomes a part of the OpenAPI document, whose root it is not.
fn inline_schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    add_maxima(&mut schema);
    schema
}

/// Gives unsigned integers the maximum of their type: requests with larger ones are refused.
fn add_maxima(schema: &mut Value) {
    if let Value::Object(fields) = schema {
        let maximum = match fields.get("format").and_then(Value::as_str) {
            Some("uint64") => Some(u64::MAX),
            Some("uint32") => Some(u64::from(u32::MAX)),
            Some(_) | None => None,
        };
        if let (Some(maximum), false) = (maximum, fields.contains_key("maximum")) {
            fields.insert("maximum".to_owned(), maximum.into());
        }
        fields.values_mut().for_each(add_maxima);
    }
}
