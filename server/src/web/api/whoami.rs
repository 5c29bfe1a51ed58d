//! `GET /whoami`: the caller, as the journal names it, and its rights.

use axum::Json;
use axum::routing::get;
use serde::Serialize;

use super::operation::Operation;
use crate::caller::{Right, Role};
use crate::web::authentication::SignedIn;

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::new("GET", "/whoami", "whoami", get(whoami))
            .summary("Who calls, and what the credential allows")
            .gives("Whoami"),
    ]
}

/// Who calls, and what the credential allows.
#[derive(Debug, Serialize)]
struct WhoamiView {
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

async fn whoami(signed_in: SignedIn) -> Json<WhoamiView> {
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
