//! What can be told of a template without any values: its literals, the paths it reads, and the kind of
//! value that an expression gives.

use std::collections::BTreeSet;

use serde_json::Value;

use super::function::Function;
use super::node::{Binary, Expression, Loop, LoopParts, Node, Path, Pattern};

/// A template's shape. Kinds are JSON Schema's words: `string`, `integer`, …
#[derive(Debug)]
pub(crate) enum Outline<'a> {
    Literal(&'a Value),
    /// A value that is read and put in whole, its type kept.
    Read(&'a Path),
    /// Computed; with its kind, where that can be told.
    Computed(Option<&'static str>),
    List(Vec<Outline<'a>>),
    Object(Vec<(&'a str, Outline<'a>)>),
}

pub(super) fn of_expression(expression: &Expression) -> Outline<'_> {
    match &expression.root {
        Node::Path(number) => Outline::Read(&expression.paths[*number]),
        Node::Literal(value) => Outline::Literal(value),
        computed => Outline::Computed(kind(computed)),
    }
}

/// The paths that must be there: what `has(…)` asks for need not.
pub(super) fn paths_read(expression: &Expression) -> impl Iterator<Item = &Path> {
    let mut numbers = BTreeSet::new();
    read_in(&expression.root, &mut numbers);
    numbers.into_iter().map(|number| &expression.paths[number])
}

fn read_in(node: &Node, numbers: &mut BTreeSet<usize>) {
    match node {
        Node::Path(number) => drop(numbers.insert(*number)),
        Node::Literal(_) | Node::Variable(_) | Node::HasPath(_) => {}
        Node::Field(inner, _) | Node::Has(inner, _) | Node::Not(inner) | Node::Negate(inner) => {
            read_in(inner, numbers);
        }
        Node::Index(one, two) | Node::And(one, two) | Node::Or(one, two) | Node::Binary(_, one, two) => {
            read_in(one, numbers);
            read_in(two, numbers);
        }
        Node::List(items) | Node::Call(_, items) => items.iter().for_each(|item| read_in(item, numbers)),
        Node::Map(entries) => entries.iter().for_each(|(name, value)| {
            read_in(name, numbers);
            read_in(value, numbers);
        }),
        Node::If(parts) => parts.iter().for_each(|part| read_in(part, numbers)),
        Node::Matches(text, pattern) => {
            read_in(text, numbers);
            match pattern {
                Pattern::Compiled(_) => {}
                Pattern::Dynamic(pattern) => read_in(pattern, numbers),
            }
        }
        Node::Loop(_, parts) => {
            let LoopParts { range, condition, body } = parts.as_ref();
            [Some(range), condition.as_ref(), Some(body)]
                .into_iter()
                .flatten()
                .for_each(|part| read_in(part, numbers));
        }
    }
}

fn kind(node: &Node) -> Option<&'static str> {
    match node {
        Node::Literal(value) => Some(kind_of(value)),
        Node::List(_) | Node::Loop(Loop::Filter | Loop::Map, _) => Some("array"),
        Node::Map(_) => Some("object"),
        Node::Negate(_) => Some("number"),
        Node::Not(_) | Node::And(..) | Node::Or(..) | Node::Matches(..) => Some("boolean"),
        Node::Has(..) | Node::HasPath(_) => Some("boolean"),
        Node::Loop(Loop::All | Loop::Exists | Loop::ExistsOne, _) => Some("boolean"),
        Node::If(parts) => kind(&parts[1]).filter(|first| kind(&parts[2]) == Some(*first)),
        Node::Binary(operator, ..) => of_operator(*operator),
        Node::Call(function, _) => of_function(*function),
        Node::Path(_) | Node::Variable(_) | Node::Field(..) | Node::Index(..) => None,
    }
}

pub(crate) fn kind_of(value: &Value) -> &'static str {
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

fn of_operator(operator: Binary) -> Option<&'static str> {
    match operator {
        // Texts and lists are added, too.
        Binary::Add => None,
        Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Remainder => Some("number"),
        Binary::Equal | Binary::NotEqual | Binary::In => Some("boolean"),
        Binary::Less | Binary::LessEqual | Binary::Greater | Binary::GreaterEqual => Some("boolean"),
    }
}

fn of_function(function: Function) -> Option<&'static str> {
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
