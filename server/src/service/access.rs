//! Credentials of callers over HTTP: tokens of programs and people, the sessions of browsers, and the one-time codes
//! that open a session. Only hashes are stored, so a copy of the database holds no credential.

mod token_text;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actbook_engine::chain::Digest;
use parking_lot::Mutex;
use serde::Serialize;

use super::Service;
use super::view::format_time;
use crate::caller::{Caller, Credential, CredentialKind, IdempotencyKey, Right, Role};
use crate::error::{Corruption, Error};
use crate::random;
use crate::store::{Statement, credentials};

/// How long a token is good unless its creator says otherwise.
pub const TOKEN_LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);
/// Longest lifetime of a token: ten years.
const TOKEN_LIFETIME_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// How long a token stays good that was replaced by another.
const ROTATION_OVERLAP: Duration = Duration::from_secs(24 * 3600);
/// How long a one-time login code is good.
pub const LOGIN_CODE_LIFETIME: Duration = Duration::from_secs(10 * 60);
/// How long a session is good without a request.
pub const SESSION_IDLE_MAX: Duration = Duration::from_secs(12 * 3600);
/// The use of a credential is written down at most this often.
const USE_WRITE_INTERVAL: Duration = Duration::from_secs(60);
/// Longest name of a token; every entry that its holder causes carries it.
const NAME_CHARS_MAX: usize = 60;

/// A token to create.
#[derive(Clone, Debug)]
pub struct TokenSpec {
    pub name: String,
    pub role: Role,
    /// For a person (`abp_`) instead of an agent or a program (`abk_`).
    pub is_person: bool,
    pub lifetime: Duration,
}

/// A token that was just created.
#[derive(Clone, Debug, Serialize)]
pub struct NewToken {
    /// The token itself, which is shown this once. `None`: the request was repeated under its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    #[serde(flatten)]
    pub view: TokenView,
}

/// A token as lists show it, without the secret.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct TokenView {
    pub id: String,
    /// The token's first characters.
    pub prefix: String,
    /// `program` or `person`.
    pub kind: String,
    pub name: String,
    pub role: String,
    pub created_by: String,
    pub created_at: String,
    pub expires_at: String,
    /// To the minute; `None`: it was not used yet.
    pub last_used_at: Option<String>,
    pub revoked_at: Option<String>,
    /// `active`, `expired` or `revoked`.
    pub status: &'static str,
}

/// A browser's session as lists show it, without the secret.
#[derive(Clone, Debug, Serialize)]
pub struct LoginSessionView {
    pub id: String,
    pub name: String,
    pub role: String,
    pub created_at: String,
    pub last_used_at: String,
}

/// A session that was just opened.
#[derive(Clone, Debug)]
pub struct OpenedSession {
    /// The secret of the session's cookie.
    pub secret: String,
    pub credential: Credential,
}

/// When this process wrote down the use of each credential, to do so once a minute. Clones share one state.
#[derive(Clone, Debug, Default)]
pub(super) struct CredentialUse(Arc<Mutex<HashMap<String, std::time::Instant>>>);

impl CredentialUse {
    /// Whether the use is to be written down now.
    fn is_due(&self, id: &str) -> bool {
        let mut written = self.0.lock();
        let now = std::time::Instant::now();
        written.retain(|_, at| now.duration_since(*at) < USE_WRITE_INTERVAL);
        written.insert(id.to_owned(), now).is_none()
    }
}

/// Credentials: creating, checking, listing and revoking them.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a>(&'a Service);

impl Service {
    pub fn access(&self) -> Access<'_> {
        Access(self)
    }

    /// Refuses a caller whose credential lacks a right.
    pub(super) fn require(&self, caller: &Caller, right: Right) -> Result<(), Error> {
        if caller.rights.has(right) { Ok(()) } else { Err(Error::Forbidden { needed: right }) }
    }
}

impl Access<'_> {
    /// Creates a token. Refused if the caller is no admin, or if the name or the lifetime does not fit.
    pub async fn create_token(self, caller: &Caller, spec: TokenSpec) -> Result<NewToken, Error> {
        self.issue_token(caller, async { Ok((spec, None)) }).await
    }

    /// Replaces a token by a new one of the same name, role and lifetime; the old one stays good for a while, so that
    /// its holders can be changed one by one. `given`: its name, its id or a unique beginning of the id.
    pub async fn rotate_token(self, caller: &Caller, given: &str) -> Result<NewToken, Error> {
        let find = async {
            let old = self.find_token(given).await?;
            if !is_active(&old) {
                return Err(Error::NoSuchToken { given: given.to_owned() });
            }
            let lifetime = Duration::from_millis((old.expires_at - old.created_at).unsigned_abs());
            let (role, is_person) =
                (parse_role(&old.role)?, old.kind == CredentialKind::PersonToken.as_str());
            Ok((TokenSpec { name: old.name, role, is_person, lifetime }, Some(old.id)))
        };
        self.issue_token(caller, find).await
    }

    /// Creates the token that `wanted` describes; the token whose id it gives expires soon. A repeated request creates
    /// none, and is not shown the secret again, which is not stored.
    async fn issue_token(
        self,
        caller: &Caller,
        wanted: impl Future<Output = Result<(TokenSpec, Option<String>), Error>>,
    ) -> Result<NewToken, Error> {
        self.0.require(caller, Right::Admin)?;
        let mut secret = None;
        let issue = async {
            let (spec, replaced) = wanted.await?;
            let kind =
                if spec.is_person { CredentialKind::PersonToken } else { CredentialKind::ProgramToken };
            let token = token_text::new_token(kind);
            let issued = self.insert_token(caller, spec, kind, &token, replaced.as_deref())?;
            secret = Some(token);
            Ok(issued)
        };
        let id: String = self.0.commit_once(caller, issue).await?;
        if caller.key.as_ref().is_some_and(IdempotencyKey::was_repeated) {
            secret = None;
        }
        let stored = credentials::token_by_id(self.0.tenant, &id).first(&self.0.db).await?;
        let missing = || Error::NoSuchToken { given: id.clone() };
        Ok(NewToken { token: secret, view: token_view(stored.ok_or_else(missing)?) })
    }

    /// The statements that insert a token, and its id; the token with the id `replaced` expires after `ROTATION_OVERLAP`.
    fn insert_token(
        self,
        caller: &Caller,
        spec: TokenSpec,
        kind: CredentialKind,
        token: &str,
        replaced: Option<&str>,
    ) -> Result<(Vec<Statement>, String), Error> {
        let name = check_name(&spec.name)?;
        self.0.refuse_secret_name("the token's name", name)?;
        let row = credentials::TokenRow {
            id: random::id(),
            prefix: token_text::shown_prefix(token).to_owned(),
            kind: kind.as_str().to_owned(),
            name: name.to_owned(),
            role: spec.role.as_str().to_owned(),
            created_by: self.0.journaled_actor(caller).to_string(),
            created_at: 0,
            expires_at: 0,
            last_used_at: None,
            revoked_at: None,
            now_ms: 0,
        };
        let hash = Digest::of(token.as_bytes());
        let lifetime_ms = spec.lifetime.min(TOKEN_LIFETIME_MAX).as_millis() as i64;
        let mut statements = vec![credentials::insert_token(self.0.tenant, &row, &hash.0, lifetime_ms)];
        let overlap_ms = ROTATION_OVERLAP.as_millis() as i64;
        statements.extend(replaced.map(|id| credentials::shorten_token(self.0.tenant, id, overlap_ms)));
        Ok((statements, row.id))
    }

    /// Every token, newest first. Refused if the caller is no admin.
    pub async fn list_tokens(self, caller: &Caller) -> Result<Vec<TokenView>, Error> {
        self.0.require(caller, Right::Admin)?;
        let rows = credentials::list_tokens(self.0.tenant).all(&self.0.db).await?;
        Ok(rows.into_iter().map(token_view).collect())
    }

    /// Revokes a token, found by its id, its name or a unique beginning of the id; gives its view.
    pub async fn revoke_token(self, caller: &Caller, given: &str) -> Result<TokenView, Error> {
        self.0.require(caller, Right::Admin)?;
        let id = self.find_token(given).await?.id;
        credentials::revoke_token(&self.0.db, self.0.tenant, &id).await?;
        Ok(token_view(self.find_token(&id).await?))
    }

    /// The one token that the text names. A name counts only among tokens that are still good.
    async fn find_token(self, given: &str) -> Result<credentials::TokenRow, Error> {
        let rows = credentials::list_tokens(self.0.tenant).all(&self.0.db).await?;
        let matches = |row: &credentials::TokenRow| {
            let names_id = !given.is_empty() && row.id.starts_with(given) && self.0.may_name(given, &row.id);
            names_id || (row.name == given && is_active(row))
        };
        let mut found = rows.into_iter().filter(matches);
        let no_such = || Error::NoSuchToken { given: given.to_owned() };
        let first = found.next().ok_or_else(no_such)?;
        if first.id != given && found.next().is_some() {
            return Err(Error::Ambiguous(crate::error::Ambiguity::Token { given: given.to_owned() }));
        }
        Ok(first)
    }

    /// The credential that a token proves. None: it is no token, unknown, expired or revoked.
    pub async fn check_token(self, token: &str) -> Result<Option<Credential>, Error> {
        let kinds = [CredentialKind::ProgramToken, CredentialKind::PersonToken];
        let Some(kind) = kinds.into_iter().find(|kind| token_text::is_well_formed(token, *kind)) else {
            return Ok(None);
        };
        let hash = Digest::of(token.as_bytes());
        let found = credentials::token_by_hash(self.0.tenant, &hash.0).look_up(&self.0.db).await?;
        let Some(row) = found.into_iter().next().filter(is_active) else { return Ok(None) };
        self.record_use(&row.id, credentials::touch_token(self.0.tenant, &row.id));
        let role = parse_role(&row.role)?;
        Ok(Some(Credential { id: row.id, kind, name: row.name, role }))
    }

    /// Whether a token is neither revoked nor expired, by its id.
    pub async fn is_token_active(self, id: &str) -> Result<bool, Error> {
        let found = credentials::token_by_id(self.0.tenant, id).look_up(&self.0.db).await?;
        Ok(found.first().is_some_and(is_active))
    }

    /// Whether a session is open, by its id. Counts as a use of it: a page that is watched is not idle.
    pub async fn is_session_open(self, id: &str) -> Result<bool, Error> {
        let found = credentials::session_by_id(self.0.tenant, id).look_up(&self.0.db).await?;
        let is_open = found.first().is_some_and(is_open);
        if is_open {
            self.record_use(id, credentials::touch_session(self.0.tenant, id));
        }
        Ok(is_open)
    }

    /// Creates a one-time code that signs the caller in as a person, with the rights of an admin.
    pub async fn create_login_code(self, caller: &Caller) -> Result<String, Error> {
        self.0.require(caller, Right::Admin)?;
        let actor = self.0.journaled_actor(caller);
        let name = actor.split_once(':').map_or(&*actor, |(_, name)| name).to_owned();
        let login = credentials::LoginRow { name, role: Role::Admin.as_str().to_owned() };
        let code = token_text::new_token(CredentialKind::Session);
        let (hash, lifetime) = (Digest::of(code.as_bytes()), LOGIN_CODE_LIFETIME.as_millis() as i64);
        credentials::insert_login_code(&self.0.db, self.0.tenant, &hash.0, &login, lifetime).await?;
        Ok(code)
    }

    /// Uses up a login code and opens a session. None: the code is unknown, used or expired.
    pub async fn redeem_login_code(self, code: &str) -> Result<Option<OpenedSession>, Error> {
        if !token_text::is_well_formed(code, CredentialKind::Session) {
            return Ok(None);
        }
        let hash = Digest::of(code.as_bytes());
        let Some(login) = credentials::take_login_code(&self.0.db, self.0.tenant, &hash.0).await? else {
            return Ok(None);
        };
        let (id, secret) = (random::id(), token_text::new_token(CredentialKind::Session));
        let hash = Digest::of(secret.as_bytes());
        let idle_ms = SESSION_IDLE_MAX.as_millis() as i64;
        credentials::insert_session(&self.0.db, self.0.tenant, &id, &hash.0, &login, idle_ms).await?;
        let role = parse_role(&login.role)?;
        let credential = Credential { id, kind: CredentialKind::Session, name: login.name, role };
        Ok(Some(OpenedSession { secret, credential }))
    }

    /// The credential that the secret of a session's cookie proves. None: it is none, or was idle for too long.
    pub async fn check_session(self, secret: &str) -> Result<Option<Credential>, Error> {
        if !token_text::is_well_formed(secret, CredentialKind::Session) {
            return Ok(None);
        }
        let hash = Digest::of(secret.as_bytes());
        let found = credentials::session_by_hash(self.0.tenant, &hash.0).look_up(&self.0.db).await?;
        let Some(row) = found.into_iter().next().filter(is_open) else { return Ok(None) };
        self.record_use(&row.id, credentials::touch_session(self.0.tenant, &row.id));
        let role = parse_role(&row.role)?;
        Ok(Some(Credential { id: row.id, kind: CredentialKind::Session, name: row.name, role }))
    }

    /// Every session that is still good. Refused if the caller is no admin.
    pub async fn list_sessions(self, caller: &Caller) -> Result<Vec<LoginSessionView>, Error> {
        self.0.require(caller, Right::Admin)?;
        let rows = credentials::list_sessions(self.0.tenant).all(&self.0.db).await?;
        Ok(rows.into_iter().filter(is_open).map(session_view).collect())
    }

    /// Ends a session. A caller may end its own; those of others need the right `admin`.
    pub async fn end_session(self, caller: &Caller, id: &str) -> Result<(), Error> {
        if caller.credential.as_deref() != Some(id) {
            self.0.require(caller, Right::Admin)?;
        }
        if credentials::delete_session(&self.0.db, self.0.tenant, id).await? {
            return Ok(());
        }
        Err(Error::NoSuchSession { given: id.to_owned() })
    }

    /// Writes the use of a credential down, at most once a minute, without making the request wait.
    fn record_use(self, id: &str, touch: Statement) {
        if !self.0.credential_use.is_due(id) {
            return;
        }
        let db = self.0.db.clone();
        tokio::spawn(async move {
            if let Err(error) = db.transact(vec![touch]).await {
                tracing::debug!("the use of a credential was not written down: {error}");
            }
        });
    }
}

/// The name without spaces around it. Err: it is empty, too long, or has control characters.
fn check_name(name: &str) -> Result<&str, Error> {
    let name = name.trim();
    let trouble = if name.is_empty() {
        Some("no character".to_owned())
    } else if name.chars().count() > NAME_CHARS_MAX {
        Some(format!("more than {NAME_CHARS_MAX} characters"))
    } else {
        name.chars().find(|c| c.is_control()).map(|c| format!("the control character {c:?}"))
    };
    trouble.map_or(Ok(name), |trouble| Err(Error::InvalidName { field: "name", trouble }))
}

/// Whether a token is neither revoked nor expired.
fn is_active(row: &credentials::TokenRow) -> bool {
    row.revoked_at.is_none() && row.now_ms < row.expires_at
}

/// Whether a session was used within the idle limit.
fn is_open(row: &credentials::SessionRow) -> bool {
    row.now_ms - row.last_used_at < SESSION_IDLE_MAX.as_millis() as i64
}

fn parse_role(text: &str) -> Result<Role, Error> {
    text.parse().map_err(|why| Error::Corrupt(Corruption::Row(why)))
}

fn token_view(row: credentials::TokenRow) -> TokenView {
    let status = match (row.revoked_at, is_active(&row)) {
        (Some(_), _) => "revoked",
        (None, true) => "active",
        (None, false) => "expired",
    };
    TokenView {
        id: row.id,
        prefix: row.prefix,
        kind: row.kind,
        name: row.name,
        role: row.role,
        created_by: row.created_by,
        created_at: format_time(row.created_at),
        expires_at: format_time(row.expires_at),
        last_used_at: row.last_used_at.map(format_time),
        revoked_at: row.revoked_at.map(format_time),
        status,
    }
}

fn session_view(row: credentials::SessionRow) -> LoginSessionView {
    LoginSessionView {
        id: row.id,
        name: row.name,
        role: row.role,
        created_at: format_time(row.created_at),
        last_used_at: format_time(row.last_used_at),
    }
}
