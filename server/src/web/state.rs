//! What the routes share, and what one request gets of it: the service as its caller may use it.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tokio_util::sync::CancellationToken;

use super::AccessConfig;
use super::api::EventTail;
use super::event_stream::CredentialWatch;
use super::pages::LivePages;
use super::problem::Problem;
use crate::caller::Credential;
use crate::service::{Access, Service};

/// The state of all routes. Its service sees every project, so handlers do not get at it: they take `WebState`.
/// Clones share one state.
#[derive(Clone, Debug)]
pub struct RouterState(WebState);

/// What a handler gets.
#[derive(Clone, Debug)]
pub struct WebState {
    /// The service as the caller may use it: see `Service::for_role`.
    pub service: Service,
    pub access: Arc<AccessConfig>,
    /// The tail of the journal, which all streams of events share.
    pub tail: EventTail,
    /// The pages that streams keep current.
    pub live: LivePages,
    /// Cancelled at shutdown: streams end then.
    pub ending: CancellationToken,
}

impl RouterState {
    /// The state of a server that checks callers as `access` says; cancelling `ending` ends its streams.
    pub fn new(service: Service, access: AccessConfig, ending: CancellationToken) -> Self {
        let tail = EventTail::new(service.clone());
        Self(WebState { service, access: access.into(), tail, live: LivePages::default(), ending })
    }

    /// Tokens, sessions and login codes, for requests whose caller is not known yet.
    pub fn credentials(&self) -> Access<'_> {
        self.0.service.access()
    }

    /// Watches the credential of a stream.
    pub fn watch(&self, credential: Credential) -> CredentialWatch {
        CredentialWatch { service: self.0.service.clone(), credential }
    }

    pub fn access(&self) -> &AccessConfig {
        &self.0.access
    }
}

impl FromRequestParts<RouterState> for WebState {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &RouterState) -> Result<Self, Problem> {
        let credential = parts.extensions.get::<Credential>().ok_or_else(Problem::unauthorized)?;
        Ok(Self { service: state.0.service.for_role(credential.role), ..state.0.clone() })
    }
}
