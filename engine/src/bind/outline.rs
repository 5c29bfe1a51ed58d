//! What is known of a template without values: its literals, the paths it reads, and the JSON types of its
//! expressions.

use std::collections::BTreeSet;

use serde_json::Value;

use super::expression::{
    BinaryOperator, Expression, ExpressionNode, LoopKind, LoopParts, Pattern, ReferencePath,
};
use super::function::Function;

/// A template's structure for static checks. Types are named as in JSON Schema: `string`, `integer`, …
#[derive(Debug)]
pub(crate) enum TemplateOutline<'a> {
    Literal(&'a Value),
    /// A value that is read and inserted with its type.
    Read(&'a ReferencePath),
    /// A computed value, with its type where that is known.
    Computed(Option<&'static str>),
    List(Vec<TemplateOutline<'a>>),
    Object(Vec<(&'a str, TemplateOutline<'a>)>),
}

/// The outline of a single expression.
pub(super) fn outline_of(expression: &Expression) -> TemplateOutline<'_> {
    match &expression.root {
        ExpressionNode::Path(number) => TemplateOutline::Read(&expression.paths[*number]),
        ExpressionNode::Literal(value) => TemplateOutline::Literal(value),
        computed => TemplateOutline::Computed(node_type(computed)),
    }
}

/// The paths that must exist for the expression to evaluate. Paths that only `has(…)` tests are not included.
pub(super) fn required_paths(expression: &Expression) -> impl Iterator<Item = &ReferencePath> {
    let mut numbers = BTreeSet::new();
    collect_required_paths(&expression.root, &mut numbers);
    numbers.into_iter().map(|number| &expression.paths[number])
}

/// Collects the indices of the required paths under `node`.
fn collect_required_paths(node: &ExpressionNode, numbers: &mut BTreeSet<usize>) {
    match node {
        ExpressionNode::Path(number) => drop(numbers.insert(*number)),
        ExpressionNode::Literal(_) | ExpressionNode::Variable(_) | ExpressionNode::HasPath(_) => {}
        ExpressionNode::Field(inner, _)
        | ExpressionNode::Has(inner, _)
        | ExpressionNode::Not(inner)
        | ExpressionNode::Negate(inner) => {
            collect_required_paths(inner, numbers);
        }
        ExpressionNode::Index(one, two)
        | ExpressionNode::And(one, two)
        | ExpressionNode::Or(one, two)
        | ExpressionNode::Binary(_, one, two) => {
            collect_required_paths(one, numbers);
            collect_required_paths(two, numbers);
        }
        ExpressionNode::List(items) | ExpressionNode::Call(_, items) => {
            items.iter().for_each(|item| collect_required_paths(item, numbers))
        }
        ExpressionNode::Map(entries) => entries.iter().for_each(|(name, value)| {
            collect_required_paths(name, numbers);
            collect_required_paths(value, numbers);
        }),
        ExpressionNode::If(parts) => parts.iter().for_each(|part| collect_required_paths(part, numbers)),
        ExpressionNode::Matches(text, pattern) => {
            collect_required_paths(text, numbers);
            match pattern {
                Pattern::Literal(_) => {}
                Pattern::Dynamic(pattern) => collect_required_paths(pattern, numbers),
            }
        }
        ExpressionNode::Loop(_, parts) => {
            let LoopParts { range, condition, body } = parts.as_ref();
            [Some(range), condition.as_ref(), Some(body)]
                .into_iter()
                .flatten()
                .for_each(|part| collect_required_paths(part, numbers));
        }
    }
}

/// The JSON Schema type of the node's result; `None` where it depends on values.
fn node_type(node: &ExpressionNode) -> Option<&'static str> {
    match node {
        ExpressionNode::Literal(value) => Some(json_type_of(value)),
        ExpressionNode::List(_) | ExpressionNode::Loop(LoopKind::Filter | LoopKind::Map, _) => Some("array"),
        ExpressionNode::Map(_) => Some("object"),
        ExpressionNode::Negate(_) => Some("number"),
        ExpressionNode::Not(_)
        | ExpressionNode::And(..)
        | ExpressionNode::Or(..)
        | ExpressionNode::Matches(..) => Some("boolean"),
        ExpressionNode::Has(..) | ExpressionNode::HasPath(_) => Some("boolean"),
        ExpressionNode::Loop(LoopKind::All | LoopKind::Exists | LoopKind::ExistsOne, _) => Some("boolean"),
        ExpressionNode::If(parts) => {
            node_type(&parts[1]).filter(|first| node_type(&parts[2]) == Some(*first))
        }
        ExpressionNode::Binary(operator, ..) => operator_type(*operator),
        ExpressionNode::Call(function, _) => function_type(*function),
        ExpressionNode::Path(_)
        | ExpressionNode::Variable(_)
        | ExpressionNode::Field(..)
        | ExpressionNode::Index(..) => None,
    }
}

/// The JSON Schema type of a value.
pub(crate) fn json_type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The JSON Schema type of an operator's result; `None` where it depends on the operands.
fn operator_type(operator: BinaryOperator) -> Option<&'static str> {
    match operator {
        // Texts and lists can be added too.
        BinaryOperator::Add => None,
        BinaryOperator::Subtract
        | BinaryOperator::Multiply
        | BinaryOperator::Divide
        | BinaryOperator::Remainder => Some("number"),
        BinaryOperator::Equal | BinaryOperator::NotEqual | BinaryOperator::In => Some("boolean"),
        BinaryOperator::Less
        | BinaryOperator::LessEqual
        | BinaryOperator::Greater
        | BinaryOperator::GreaterEqual => Some("boolean"),
    }
}

/// The JSON Schema type of a function's result; `None` where it depends on the argument.
fn function_type(function: Function) -> Option<&'static str> {
    use Function as F;
    match function {
        F::Int | F::Size => Some("integer"),
        F::Double => Some("number"),
        F::Join | F::Json | F::LowerAscii | F::Replace | F::String => Some("string"),
        F::Trim | F::Type | F::UpperAscii => Some("string"),
        F::Split => Some("array"),
        F::Bool | F::Contains | F::EndsWith | F::Matches | F::StartsWith => Some("boolean"),
        F::Dyn => None,
    }
}
