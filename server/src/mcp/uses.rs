//! Which arguments each use of a tool takes. A tool whose arguments depend on one another declares its uses in
//! a table; an argument that the chosen use does not take is refused and never dropped.

use rmcp::model::JsonObject;
use serde_json::Value;

/// One way to call a tool, such as one of its actions.
#[derive(Clone, Copy, Debug)]
pub struct ToolUse {
    pub when: Condition,
    pub needs: &'static [&'static str],
    /// Beside `needs`.
    pub takes: &'static [&'static str],
}

/// What a call must look like to be a use. The first use of a tool that fits a call counts.
#[derive(Clone, Copy, Debug)]
pub enum Condition {
    /// The argument `action` is this word.
    Action(&'static str),
    /// The argument is given, and is not `false`.
    Given(&'static str),
    /// No other use fits; the text names such a call in a refusal.
    Otherwise(&'static str),
}

/// Every use of a tool takes it, where the tool has it.
const ALWAYS_TAKEN: &str = "idempotency_key";

impl ToolUse {
    pub const fn action(
        word: &'static str,
        needs: &'static [&'static str],
        takes: &'static [&'static str],
    ) -> Self {
        Self { when: Condition::Action(word), needs, takes }
    }

    pub const fn given(
        name: &'static str,
        needs: &'static [&'static str],
        takes: &'static [&'static str],
    ) -> Self {
        Self { when: Condition::Given(name), needs, takes }
    }

    pub const fn otherwise(name: &'static str, takes: &'static [&'static str]) -> Self {
        Self { when: Condition::Otherwise(name), needs: &[], takes }
    }

    pub fn fits(&self, given: &JsonObject) -> bool {
        match self.when {
            Condition::Action(word) => given.get("action").and_then(Value::as_str) == Some(word),
            Condition::Given(name) => given.get(name).is_some_and(|value| *value != Value::Bool(false)),
            Condition::Otherwise(_) => true,
        }
    }

    /// The argument that marks this use.
    fn mark(&self) -> Option<&'static str> {
        match self.when {
            Condition::Action(_) => Some("action"),
            Condition::Given(name) => Some(name),
            Condition::Otherwise(_) => None,
        }
    }

    /// The names of all arguments of this use, its mark first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let named = self.needs.iter().chain(self.takes).copied().filter(|name| Some(*name) != self.mark());
        self.mark().into_iter().chain(named)
    }

    pub fn accepts(&self, name: &str) -> bool {
        name == ALWAYS_TAKEN || self.names().any(|own| own == name)
    }

    /// Such as `task with action "list"`.
    pub fn describe(&self, tool: &str) -> String {
        match self.when {
            Condition::Action(word) => format!("{tool} with action \"{word}\""),
            Condition::Given(name) => format!("{tool} with `{name}`"),
            Condition::Otherwise(text) => text.to_owned(),
        }
    }
}

/// What the uses that take an argument are called, or nothing where none does.
pub fn uses_that_take(uses: &[ToolUse], tool: &str, name: &str) -> Option<String> {
    let takes: Vec<String> =
        uses.iter().filter(|one| one.accepts(name)).map(|one| one.describe(tool)).collect();
    (!takes.is_empty()).then(|| takes.join(", "))
}
