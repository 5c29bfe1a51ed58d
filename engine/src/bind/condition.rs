//! Conditions: the boolean expressions in `when` and `happened`.

use super::budget::{EvaluationBudget, EvaluationError};
use super::evaluator::evaluate;
use super::expression::{Expression, ExpressionNode, ReferencePath, excerpt};
use super::function::cel_type_name;
use super::{BindError, ExpressionScope, ExpressionVocabulary, ReadSet, outline};

/// A compiled expression that must evaluate to true or false.
#[derive(Clone, Debug)]
pub struct ConditionExpression {
    expression: Expression,
    reads: ReadSet,
}

impl ConditionExpression {
    /// Compiles a plan's condition, written without `${…}`. `Err` also where it can never be a boolean.
    pub fn parse(text: &str) -> Result<Self, BindError> {
        Self::parse_in(text, ExpressionVocabulary::Plan)
    }

    /// Compiles a condition that reads these names.
    pub fn parse_in(text: &str, vocabulary: ExpressionVocabulary) -> Result<Self, BindError> {
        let refuse = |message: String| BindError {
            path: String::new(),
            message: format!("`{}`: {message}", excerpt(text)),
        };
        if text.trim_start().starts_with("${") {
            return Err(refuse("a condition is an expression by itself; write it without ${…}".to_owned()));
        }
        let expression = Expression::parse(text, vocabulary)?;
        match expression.root.non_boolean_kind() {
            Some(kind) => Err(refuse(format!("gives {kind}, not true or false; compare it with something"))),
            None => Ok(Self { reads: expression.reads(), expression }),
        }
    }

    /// The paths that must exist for the condition to be tested.
    pub(crate) fn required_paths(&self) -> impl Iterator<Item = &ReferencePath> {
        outline::required_paths(&self.expression)
    }

    /// The distinct paths that the condition reads, as far as their names are literal.
    pub(crate) fn paths(&self) -> &[ReferencePath] {
        &self.expression.paths
    }

    /// What the condition reads.
    pub fn reads(&self) -> &ReadSet {
        &self.reads
    }

    /// The expression as the author wrote it.
    pub fn source(&self) -> &str {
        &self.expression.source
    }

    /// The result if the condition is the literal `true` or `false`; `None` otherwise.
    pub fn as_literal(&self) -> Option<bool> {
        if let ExpressionNode::Literal(value) = &self.expression.root { value.as_bool() } else { None }
    }

    /// Evaluates the condition; `Err` where it cannot be evaluated or its result is not a boolean.
    pub fn test(&self, scope: &ExpressionScope) -> Result<bool, BindError> {
        let refuse = |message: String| BindError {
            path: String::new(),
            message: format!("`{}`: {message}", excerpt(self.source())),
        };
        match evaluate(&self.expression, scope, &mut EvaluationBudget::new()) {
            Ok(value) => value
                .as_bool()
                .ok_or_else(|| refuse(format!("gave {}, not true or false", cel_type_name(&value)))),
            Err(EvaluationError::Recoverable(message) | EvaluationError::Fatal(message)) => {
                Err(refuse(message))
            }
        }
    }
}
