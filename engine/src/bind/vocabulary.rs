//! Which names an expression may read: that depends on where it stands.

/// The state before a session's call, as its undo reads it.
pub(super) const BEFORE: &str = "before";

/// Where an expression stands, which decides what it can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionVocabulary {
    /// A plan: inputs, other steps, and in compensations and probes the step itself.
    Plan,
    /// The undo of a session's call: the call's own arguments, output and the state before it.
    Undo,
    /// A rule about a call.
    Rule,
    /// A rule that ships with Actbook: its patterns are known to compile, and are compiled when they are first needed. A
    /// hook judges one call and exits.
    ShippedRule,
}

impl ExpressionVocabulary {
    /// The names that an expression in this place can read, besides its loop variables.
    pub(super) fn names(self) -> &'static [&'static str] {
        match self {
            Self::Plan => &["inputs", "steps", "execution", "arguments", "output"],
            Self::Undo => &["arguments", "output", BEFORE, "execution"],
            Self::Rule | Self::ShippedRule => &["call", "tool", "session", "caller", "now"],
        }
    }

    /// Whether the name can be read here.
    pub(super) fn has(self, name: &str) -> bool {
        self.names().contains(&name)
    }

    /// The name, if its value is one of the scope's facts; `None` for the names that a plan reads too.
    pub(super) fn fact(self, name: &str) -> Option<&'static str> {
        let is_fact = |known: &&&'static str| **known == name && !Self::Plan.has(name);
        self.names().iter().find(is_fact).copied()
    }

    /// The names that an error message lists.
    pub(super) fn names_shown(self) -> &'static str {
        match self {
            Self::Plan => "inputs, steps and execution",
            Self::Undo => "arguments, output and before",
            Self::Rule | Self::ShippedRule => "call, tool, session, caller and now",
        }
    }
}
