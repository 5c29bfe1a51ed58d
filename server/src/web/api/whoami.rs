//! `GET /whoami`: the caller, as the journal names it, and its rights.

use axum::Json;
use serde::Serialize;

use crate::caller::{Right, Role};
use crate::web::authentication::SignedIn;

/// Who calls, and what the credential allows.
#[derive(Debug, Serialize)]
pub struct WhoamiView {
    /// As the journal writes it: `person:name`, `agent:name`, `program:name`.
    actor: String,
    credential: CredentialView,
    role: Role,
    rights: Vec<Right>,
}

/// The credential that a request came with, without the secret.
#[derive(Debug, Serialize)]
struct CredentialView {
    id: String,
    kind: &'static str,
    name: String,
}

pub async fn whoami(signed_in: SignedIn) -> Json<WhoamiView> {
    let SignedIn { caller, credential } = signed_in;
    Json(WhoamiView {
        actor: caller.actor.to_string(),
        role: credential.role,
        rights: credential.role.rights().iter().collect(),
        credential: CredentialView {
            kind: credential.kind.as_str(),
            id: credential.id,
            name: credential.name,
        },
    })
}
