//! Idempotent requests: a request that is repeated under the same key returns the result of the first one.

use actbook_engine::id::{Position, StreamId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Service;
use super::executions::Executions;
use super::redact::RedactedRequest;
use crate::caller::{Caller, IdempotencyKey, KEY_BYTES_MAX, KEY_PART_SEPARATOR};
use crate::error::{Corruption, Error};
use crate::ledger::{DriveState, KeyedReply, KeyedRequest, RequestKey};
use crate::store::{self, Statement, requests};

/// What the keys of a request's parts add to it at most, in bytes.
const KEY_PART_BYTES_MAX: usize = 64;

impl Service {
    /// Checks the caller's right, redacts a request and submits it to the ledger, under the caller's request key if there is one.
    pub(super) async fn submit<R: RedactedRequest>(
        &self,
        caller: &Caller,
        mut request: R,
    ) -> Result<KeyedReply<R::Reply>, Error> {
        self.require(caller, request.required_right())?;
        request.redact(self)?;
        let key = caller.key.as_ref().map(|key| self.request_key(caller, key)).transpose()?;
        let request = KeyedRequest { request, key };
        let reply = self.ledger.submit(&self.journaled_actor(caller), request).await?;
        if let (KeyedReply::Repeated(_), Some(key)) = (&reply, &caller.key) {
            key.mark_repeated();
        }
        Ok(reply)
    }

    /// Submits a request that appends one entry; returns the entry's position, also to a repeated request.
    pub(super) async fn submit_recorded<R: RedactedRequest<Reply = Position>>(
        &self,
        caller: &Caller,
        request: R,
    ) -> Result<Position, Error> {
        match self.submit(caller, request).await? {
            KeyedReply::First(position) => Ok(position),
            KeyedReply::Repeated(result) => {
                let corrupt =
                    |_| Error::Corrupt(Corruption::Entry(format!("a key gave the position `{result}`")));
                result.parse().map(Position).map_err(corrupt)
            }
        }
    }

    /// The stored result of the caller's request key. `None`: no key, or not used yet. Refused if the key was
    /// used for another request. A concurrent request with the same key is detected by the ledger.
    pub(super) async fn previous_result(&self, caller: &Caller) -> Result<Option<String>, Error> {
        let Some(key) = &caller.key else { return Ok(None) };
        let request = self.request_key(caller, key)?;
        let found = requests::by_key(self.tenant, &request.caller, &request.key).first(&self.db).await?;
        let result = found.map(|found| request.stored_result(found)).transpose()?;
        if result.is_some() {
            key.mark_repeated();
        }
        Ok(result)
    }

    /// Performs a request that appends no entry under the caller's key, or several of them: a repeated request gets
    /// the stored result of the first one, and `perform` is dropped.
    pub(super) async fn perform_once<T: Serialize + DeserializeOwned>(
        &self,
        caller: &Caller,
        perform: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let Some(key) = &caller.key else { return perform.await };
        if let Some(stored) = self.previous_result(caller).await? {
            return parse_result(&stored);
        }
        let result = perform.await?;
        match self.store_result(caller, key, result_text(&result)?).await {
            Ok(()) => Ok(result),
            // The same request was made at the same time.
            Err(Error::Store(store::Error::Constraint(_))) => match self.previous_result(caller).await? {
                Some(stored) => parse_result(&stored),
                None => Ok(result),
            },
            Err(error) => Err(error),
        }
    }

    /// Commits the statements that `prepare` gives, with its result under the caller's key. A repeated request commits
    /// nothing, also one made at the same time, and gets the result of the first.
    pub(super) async fn commit_once<T: Serialize + DeserializeOwned>(
        &self,
        caller: &Caller,
        prepare: impl Future<Output = Result<(Vec<Statement>, T), Error>>,
    ) -> Result<T, Error> {
        if let Some(stored) = self.previous_result(caller).await? {
            return parse_result(&stored);
        }
        let (mut statements, result) = prepare.await?;
        if let Some(key) = &caller.key {
            statements.push(self.insert_result(caller, key, result_text(&result)?)?);
        }
        match self.db.transact(statements).await {
            Ok(_) => Ok(result),
            Err(error @ store::Error::Constraint(_)) => match self.previous_result(caller).await? {
                Some(stored) => parse_result(&stored),
                None => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Stores what a request gave under its key. Err `Constraint`: the key was used meanwhile.
    async fn store_result(&self, caller: &Caller, key: &IdempotencyKey, result: String) -> Result<(), Error> {
        self.db.transact(vec![self.insert_result(caller, key, result)?]).await?;
        Ok(())
    }

    fn insert_result(
        &self,
        caller: &Caller,
        key: &IdempotencyKey,
        result: String,
    ) -> Result<Statement, Error> {
        let RequestKey { caller, key, digest } = self.request_key(caller, key)?;
        let at = self.ledger.clock().now_ms();
        let row = requests::RequestRow { digest: digest.0.to_vec(), result, at };
        Ok(requests::insert(self.tenant, &caller, &key, &row))
    }

    /// The key as it is stored. Keys are separate per credential, and in a confined service per project, even for
    /// callers of the same name.
    fn request_key(&self, caller: &Caller, key: &IdempotencyKey) -> Result<RequestKey, Error> {
        let chosen = key.name.split(KEY_PART_SEPARATOR).next().unwrap_or_default();
        let bytes_max = KEY_BYTES_MAX + KEY_PART_BYTES_MAX;
        if chosen.is_empty() || chosen.len() > KEY_BYTES_MAX || key.name.len() > bytes_max {
            return Err(Error::InvalidKey { bytes_max: KEY_BYTES_MAX });
        }
        self.refuse_secret_name("the request key", &key.name)?;
        let actor = self.journaled_actor(caller);
        let mut scope = actor.to_string();
        if let Some(credential) = &caller.credential {
            scope = format!("{scope} with {credential}");
        }
        if let Some(project) = self.boundary() {
            scope = format!("{scope} in {project}");
        }
        let caller = scope;
        Ok(RequestKey { caller, key: key.name.clone(), digest: key.request_digest })
    }
}

impl Executions<'_> {
    /// The current progress of an execution, for a request that changed nothing.
    pub(super) fn current(self, stream: StreamId) -> Result<DriveState, Error> {
        Ok(self.0.ledger.with_execution(stream, |execution| DriveState::from_execution(stream, execution))?)
    }
}

/// A result as it is stored.
fn result_text(result: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(result).map_err(|error| Error::Bug(format!("a result is no JSON: {error}")))
}

/// A stored result. Err: it is of another request, or of another version of Actbook.
fn parse_result<T: DeserializeOwned>(stored: &str) -> Result<T, Error> {
    let corrupt =
        |error: serde_json::Error| Error::Corrupt(Corruption::Entry(format!("a key's result: {error}")));
    serde_json::from_str(stored).map_err(corrupt)
}
