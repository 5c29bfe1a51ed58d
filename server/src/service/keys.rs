//! Requests under a key: whoever asks the same again gets what the first time gave.

use super::Service;
use crate::caller::{Caller, Key};
use crate::error::Error;
use crate::ledger::{Asked, Progress, Reply, Request, RequestKey};
use crate::store::requests;

const KEY_BYTES_MAX: usize = 200;

impl Service {
    pub(super) async fn ask(&self, caller: &Caller, mut request: Request) -> Result<Reply, Error> {
        self.redact_request(&mut request)?;
        let key = caller.key.as_ref().map(|key| self.request_key(caller, key)).transpose()?;
        let reply = self.ledger.ask(Asked { actor: caller.actor.clone(), request, key }).await?;
        if let (Reply::Repeated(_), Some(key)) = (&reply, &caller.key) {
            key.mark_repeated();
        }
        Ok(reply)
    }

    /// What the caller's key gave before. Twins on their way are for the ledger to find.
    pub(super) async fn repeated(&self, caller: &Caller) -> Result<Option<String>, Error> {
        let Some(key) = &caller.key else { return Ok(None) };
        let asked = self.request_key(caller, key)?;
        let found = requests::find(self.tenant, &asked.caller, &asked.key).first(&self.db).await?;
        match found {
            Some(found) if found.digest == asked.digest.0 => {
                key.mark_repeated();
                Ok(Some(found.result))
            }
            Some(_) => {
                let message = format!("the key `{}` was used for another request", key.name);
                Err(Error::new("key_reused", message, "use a new key for a new request"))
            }
            None => Ok(None),
        }
    }

    /// Callers of a confined service have keys of their own in each project, whatever names they go by.
    fn request_key(&self, caller: &Caller, key: &Key) -> Result<RequestKey, Error> {
        if key.name.is_empty() || key.name.len() > KEY_BYTES_MAX {
            let message = format!("a request key has 1 to {KEY_BYTES_MAX} bytes");
            return Err(Error::new("invalid_key", message, "use a fresh random id for each new request"));
        }
        let caller = match self.boundary() {
            Some(project) => format!("{} in {project}", caller.actor),
            None => caller.actor.to_string(),
        };
        Ok(RequestKey { caller, key: key.name.clone(), digest: key.request })
    }

    /// An execution as it stands, for an answer that nothing new led to.
    pub(super) fn stands(&self, stream: u64) -> Result<Progress, Error> {
        Ok(self.ledger.look(stream, |execution| Progress::of(stream, execution))?)
    }
}
