//! `when` and `happened`: an expression that says yes or no.

use super::budget::{Budget, Fault};
use super::evaluate::evaluate;
use super::function::type_name;
use super::node::{Expression, Node, Path, shown};
use super::{Reads, Scope, Unbound, outline};

#[derive(Debug)]
pub struct Condition {
    expression: Expression,
    reads: Reads,
}

impl Condition {
    pub fn parse(text: &str) -> Result<Self, Unbound> {
        let refuse = |message: String| Unbound {
            path: String::new(),
            message: format!("`{}`: {message}", shown(text)),
        };
        if text.trim_start().starts_with("${") {
            return Err(refuse("a condition is an expression by itself; write it without ${…}".to_owned()));
        }
        let expression = Expression::parse(text)?;
        match expression.root.never_boolean() {
            Some(kind) => Err(refuse(format!("gives {kind}, not true or false; compare it with something"))),
            None => Ok(Self { reads: expression.reads(), expression }),
        }
    }

    /// The paths that must be there for it to be tested.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        outline::paths_read(&self.expression)
    }

    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    /// As the author wrote it.
    pub fn source(&self) -> &str {
        &self.expression.source
    }

    /// What it says whatever the scope holds, where it is written out as `true` or `false`.
    pub fn literal(&self) -> Option<bool> {
        if let Node::Literal(value) = &self.expression.root { value.as_bool() } else { None }
    }

    pub fn test(&self, scope: &Scope) -> Result<bool, Unbound> {
        let refuse = |message: String| Unbound {
            path: String::new(),
            message: format!("`{}`: {message}", shown(self.source())),
        };
        match evaluate(&self.expression, scope, &mut Budget::new()) {
            Ok(value) => value
                .as_bool()
                .ok_or_else(|| refuse(format!("gave {}, not true or false", type_name(&value)))),
            Err(Fault::Plain(message) | Fault::Final(message)) => Err(refuse(message)),
        }
    }
}
