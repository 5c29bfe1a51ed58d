//! Idempotency keys: a key is written in the batch of its request, with the public id of what that gave.

use std::sync::Arc;

use actbook_engine::refusal::Refusal;

use super::super::{CommandRequest, Error, KeyedReply, KeyedRequest, LedgerRequest, PublicId, RequestKey};
use super::PendingState;
use crate::store::requests;

impl<R: LedgerRequest<Reply: PublicId>> LedgerRequest for KeyedRequest<R> {
    type Reply = KeyedReply<R::Reply>;

    /// Decides the request and queues its key with the public id of the reply. If the key was used before,
    /// queues nothing and returns the stored id; refused if the key was used for another request.
    fn decide(&self, pending: &mut PendingState, actor: &Arc<str>) -> Result<Self::Reply, Error> {
        if let Some(key) = &self.key
            && let Some(repeated) = pending.find_repeated(key)?
        {
            return Ok(KeyedReply::Repeated(repeated));
        }
        let reply = self.request.decide(pending, actor)?;
        if let Some(key) = &self.key {
            pending.queue_key(key, reply.public_id());
        }
        Ok(KeyedReply::First(reply))
    }

    fn command(&self) -> Option<&CommandRequest> {
        self.request.command()
    }
}

impl RequestKey {
    /// The stored public id of what the key's request gave. Refused if that was another request.
    pub fn stored_result(&self, found: requests::RequestRow) -> Result<String, Refusal> {
        if found.digest == self.digest.0 {
            return Ok(found.result);
        }
        Err(Refusal::KeyReused { key: self.key.clone() })
    }
}

impl PendingState {
    /// The public id that an earlier request under this key gave; None: the key is new.
    fn find_repeated(&mut self, key: &RequestKey) -> Result<Option<String>, Error> {
        let name = (key.caller.clone(), key.key.clone());
        let pending = self.queued_keys.get(&name).or_else(|| self.in_flight_keys.get(&name)).cloned();
        let found = match pending {
            Some(found) => Some(found),
            None => requests::by_key(self.tenant, &key.caller, &key.key).first_blocking(&self.db)?,
        };
        Ok(found.map(|found| key.stored_result(found)).transpose()?)
    }

    /// Queues the row of a request key; `result`: the public id of what the request created.
    fn queue_key(&mut self, key: &RequestKey, result: String) {
        let request = requests::RequestRow { digest: key.digest.0.to_vec(), result, at: self.clock.now_ms() };
        self.queue.statements.push(requests::insert(self.tenant, &key.caller, &key.key, &request));
        self.queued_keys.insert((key.caller.clone(), key.key.clone()), request);
    }
}
