//! Which arguments go together. A tool whose arguments depend on one another declares its call variants, such
//! as one per action, in a table; an argument that the chosen variant does not take is refused and never
//! dropped.

use rmcp::model::JsonObject;
use serde_json::Value;

/// One variant of a tool's call, such as one of its actions, with the arguments that it takes.
#[derive(Clone, Copy, Debug)]
pub struct CallVariant {
    pub when: VariantCondition,
    /// Required arguments.
    pub required: &'static [&'static str],
    /// Optional arguments.
    pub optional: &'static [&'static str],
}

/// When a call is of a variant. The first variant in the table that matches counts.
#[derive(Clone, Copy, Debug)]
pub enum VariantCondition {
    /// The argument `action` is this word.
    Action(&'static str),
    /// The argument is given, and is not `false`.
    Given(&'static str),
    /// No other variant matches; the text describes such a call in an error.
    Otherwise(&'static str),
}

/// An argument that every variant takes.
const ALWAYS_ACCEPTED: &str = "idempotency_key";

impl CallVariant {
    /// The variant of calls whose `action` is this word.
    pub const fn when_action(
        word: &'static str,
        needs: &'static [&'static str],
        takes: &'static [&'static str],
    ) -> Self {
        Self { when: VariantCondition::Action(word), required: needs, optional: takes }
    }

    /// The variant of calls that have this argument.
    pub const fn when_given(
        name: &'static str,
        needs: &'static [&'static str],
        takes: &'static [&'static str],
    ) -> Self {
        Self { when: VariantCondition::Given(name), required: needs, optional: takes }
    }

    /// The variant of all other calls; `name` describes them in errors.
    pub const fn otherwise(name: &'static str, takes: &'static [&'static str]) -> Self {
        Self { when: VariantCondition::Otherwise(name), required: &[], optional: takes }
    }

    /// Whether the call's arguments meet this variant's condition; the first variant of the table that
    /// matches counts.
    pub fn matches(&self, given: &JsonObject) -> bool {
        match self.when {
            VariantCondition::Action(word) => given.get("action").and_then(Value::as_str) == Some(word),
            VariantCondition::Given(name) => {
                given.get(name).is_some_and(|value| *value != Value::Bool(false))
            }
            VariantCondition::Otherwise(_) => true,
        }
    }

    /// The argument that selects this variant; None: the variant of all other calls.
    fn selecting_argument(&self) -> Option<&'static str> {
        match self.when {
            VariantCondition::Action(_) => Some("action"),
            VariantCondition::Given(name) => Some(name),
            VariantCondition::Otherwise(_) => None,
        }
    }

    /// The names of all arguments of this variant; the one that selects it comes first.
    pub fn argument_names(&self) -> impl Iterator<Item = &'static str> {
        let named = self
            .required
            .iter()
            .chain(self.optional)
            .copied()
            .filter(|name| Some(*name) != self.selecting_argument());
        self.selecting_argument().into_iter().chain(named)
    }

    /// Whether the variant takes this argument; true for the idempotency key.
    pub fn accepts(&self, name: &str) -> bool {
        name == ALWAYS_ACCEPTED || self.argument_names().any(|own| own == name)
    }

    /// Describes the call in an error, such as `task with action "list"` or `status without an id`.
    pub fn describe(&self, tool: &str) -> String {
        match self.when {
            VariantCondition::Action(word) => format!("{tool} with action \"{word}\""),
            VariantCondition::Given(name) => format!("{tool} with `{name}`"),
            VariantCondition::Otherwise(text) => text.to_owned(),
        }
    }
}

/// Describes the variants that take an argument, joined with commas; None: no variant does.
pub fn variants_that_accept(variants: &[CallVariant], tool: &str, name: &str) -> Option<String> {
    let takes: Vec<String> = variants
        .iter()
        .filter(|variant| variant.accepts(name))
        .map(|variant| variant.describe(tool))
        .collect();
    (!takes.is_empty()).then(|| takes.join(", "))
}
