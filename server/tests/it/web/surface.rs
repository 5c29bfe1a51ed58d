//! Every request that the server answers: the operations of the API, from its OpenAPI document, and the pages, from
//! the routes in the source. Tests that walk them cover whatever is added later.

use serde_json::Value;

use super::server::{WebReply, WebServer};

const PAGE_ROUTES: &str = include_str!("../../../src/web/pages.rs");

/// A request with its parameters filled in.
#[derive(Clone, Debug)]
pub struct SurfaceRequest {
    pub method: String,
    pub path: String,
    /// The example of an operation with a body.
    pub body: Option<Value>,
    /// The response does not end.
    pub is_stream: bool,
}

impl SurfaceRequest {
    pub fn is_page(&self) -> bool {
        !self.path.starts_with("/api/")
    }

    /// The same request with one text of its path and its body replaced.
    pub fn replaced(&self, from: &str, to: &str) -> Self {
        let body =
            self.body.as_ref().map(|body| serde_json::from_str(&body.to_string().replace(from, to)).unwrap());
        Self { path: self.path.replace(from, to), body, ..self.clone() }
    }
}

/// All requests, those that read first. `fill` gives the value of a parameter of a path; a page that changes
/// something is left out.
pub fn all_requests(server: &WebServer, fill: impl Fn(&str, &str) -> String) -> Vec<SurfaceRequest> {
    let filled = |template: &str| {
        let part = |part: &str| match part.strip_prefix('{') {
            None => part.to_owned(),
            Some(rest) => {
                let (name, end) = rest.split_once('}').unwrap();
                fill(template, name) + end
            }
        };
        template.split('/').map(part).collect::<Vec<_>>().join("/")
    };
    let mut requests = Vec::new();
    let document = server.get("/openapi.json").json();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let body = &operation["requestBody"]["content"]["application/json"]["example"];
            requests.push(SurfaceRequest {
                method: method.to_uppercase(),
                path: format!("/api/v1{}", filled(path)),
                body: (!body.is_null()).then(|| body.clone()),
                is_stream: operation["responses"].to_string().contains("text/event-stream"),
            });
        }
    }
    for route in PAGE_ROUTES.split(".route(\"").skip(1) {
        let (path, rest) = route.split_once('"').unwrap();
        if rest.starts_with(", get(") && !path.starts_with("/assets") {
            let (method, is_stream) = ("GET".to_owned(), path.ends_with("/live"));
            requests.push(SurfaceRequest { method, path: filled(path), body: None, is_stream });
        }
    }
    assert!(requests.len() > 50, "{requests:#?}");
    requests.sort_by_key(|request| request.method != "GET");
    requests
}

impl WebServer {
    pub fn send_request(&self, token: &str, request: &SurfaceRequest) -> WebReply {
        match &request.body {
            Some(body) => self.send_json_as(token, &request.method, &request.path, body),
            None => self.send(
                &request.method,
                &request.path,
                &[("Authorization", &format!("Bearer {token}"))],
                "",
            ),
        }
    }
}
