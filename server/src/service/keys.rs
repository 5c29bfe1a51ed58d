//! Idempotent requests: a request that is repeated under the same key returns the result of the first one.

use actbook_engine::id::{Position, StreamId};

use super::Service;
use super::executions::Executions;
use super::redact::RedactedRequest;
use crate::caller::{Caller, IdempotencyKey};
use crate::error::{Corruption, Error};
use crate::ledger::{DriveState, KeyedReply, KeyedRequest, RequestKey};
use crate::store::requests;

/// Longest idempotency key that a caller may choose, in bytes.
const KEY_BYTES_MAX: usize = 200;

impl Service {
    /// Redacts a request and submits it to the ledger, under the caller's request key if there is one.
    /// `Repeated`: the key was used for the same request before, and nothing was appended.
    pub(super) async fn submit<R: RedactedRequest>(
        &self,
        caller: &Caller,
        mut request: R,
    ) -> Result<KeyedReply<R::Reply>, Error> {
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

    /// The key as it is stored. In a confined service keys are separate per project, even for callers of the
    /// same name. Refused if the key is empty, too long or holds a secret.
    fn request_key(&self, caller: &Caller, key: &IdempotencyKey) -> Result<RequestKey, Error> {
        if key.name.is_empty() || key.name.len() > KEY_BYTES_MAX {
            return Err(Error::InvalidKey { bytes_max: KEY_BYTES_MAX });
        }
        self.refuse_secret_name("the request key", &key.name)?;
        let actor = self.journaled_actor(caller);
        let caller = match self.boundary() {
            Some(project) => format!("{actor} in {project}"),
            None => actor.to_string(),
        };
        Ok(RequestKey { caller, key: key.name.clone(), digest: key.request_digest })
    }
}

impl Executions<'_> {
    /// The current progress of an execution, for a request that changed nothing.
    pub(super) fn current(self, stream: StreamId) -> Result<DriveState, Error> {
        Ok(self.0.ledger.with_execution(stream, |execution| DriveState::from_execution(stream, execution))?)
    }
}
