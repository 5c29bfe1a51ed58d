//! Who asks. Every entry of the journal names its actor.

use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Caller {
    /// As the journal writes it: `person:name`.
    pub actor: Arc<str>,
}

impl Caller {
    /// The person at this machine's terminal, by the account's name.
    pub fn person() -> Self {
        let name = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "someone".to_owned());
        Self { actor: format!("person:{name}").into() }
    }
}
