//! A JSON value with `${…}` in its texts. A text that is a single `${…}` becomes the expression's value, with
//! its type; in any other text the value is inserted as text. Keys are never expressions.

use serde_json::{Map, Value};

use super::budget::{EvaluationBudget, EvaluationError};
use super::evaluator::evaluate;
use super::expression::{Expression, ReferencePath, excerpt};
use super::source::closing_brace;
use super::{BindError, ExpressionScope, ExpressionVocabulary, ReadSet, TemplateOutline, outline};

/// A JSON value whose texts may hold expressions, compiled.
#[derive(Clone, Debug)]
pub struct ValueTemplate {
    root: ValueTemplateNode,
    reads: ReadSet,
}

/// A node of a template.
#[derive(Clone, Debug)]
enum ValueTemplateNode {
    /// A value, of any depth, without expressions.
    Literal(Value),
    /// A text that is a single `${…}`.
    Expression(Expression),
    /// A text with expressions inside.
    Text(Vec<TextPiece>),
    List(Vec<ValueTemplateNode>),
    Object(Vec<(String, ValueTemplateNode)>),
    /// A text that does not compile, in a draft; it is never bound.
    Invalid,
}

/// A part of a text with expressions.
#[derive(Clone, Debug)]
enum TextPiece {
    Literal(String),
    Expression(Expression),
}

impl ValueTemplate {
    /// Compiles the expressions in the texts of a plan's value; `Err` is the first that does not compile.
    pub fn parse(value: &Value) -> Result<Self, BindError> {
        Self::parse_in(value, ExpressionVocabulary::Plan)
    }

    /// Compiles expressions that read these names; `Err` is the first that does not compile.
    pub fn parse_in(value: &Value, vocabulary: ExpressionVocabulary) -> Result<Self, BindError> {
        let (template, errors) = Self::compile(value, vocabulary);
        errors.into_iter().next().map_or(Ok(template), Err)
    }

    /// Compiles what it can, with all errors. With any error the template is for static checks only.
    pub(crate) fn parse_draft(value: &Value) -> (Self, Vec<BindError>) {
        Self::compile(value, ExpressionVocabulary::Plan)
    }

    fn compile(value: &Value, vocabulary: ExpressionVocabulary) -> (Self, Vec<BindError>) {
        let mut parser = TemplateParser { vocabulary, reads: ReadSet::default(), errors: Vec::new() };
        let root = parser.parse_node(value);
        (Self { root, reads: parser.reads }, parser.errors)
    }

    /// A template that binds to `value` as it is; `${…}` in it is plain text.
    pub(crate) fn from_literal(value: Value) -> Self {
        Self { root: ValueTemplateNode::Literal(value), reads: ReadSet::default() }
    }

    /// What the template's expressions read.
    pub fn reads(&self) -> &ReadSet {
        &self.reads
    }

    /// The template's structure for static checks.
    pub(crate) fn outline(&self) -> TemplateOutline<'_> {
        self.root.outline()
    }

    /// The paths that must exist for the template to be bound.
    pub(crate) fn required_paths(&self) -> Vec<&ReferencePath> {
        let mut paths = Vec::new();
        self.root.collect_required_paths(&mut paths);
        paths
    }

    /// The value, if the template holds no expression; `None` otherwise.
    pub fn as_literal(&self) -> Option<&Value> {
        match &self.root {
            ValueTemplateNode::Literal(value) => Some(value),
            ValueTemplateNode::Expression(_)
            | ValueTemplateNode::Text(_)
            | ValueTemplateNode::List(_)
            | ValueTemplateNode::Object(_)
            | ValueTemplateNode::Invalid => None,
        }
    }

    /// Evaluates the expressions in `scope` and returns the value with their results in place.
    pub fn bind(&self, scope: &ExpressionScope) -> Result<Value, BindError> {
        self.root.bind(scope, &mut EvaluationBudget::new())
    }
}

/// The state of compiling one template.
struct TemplateParser {
    vocabulary: ExpressionVocabulary,
    /// What the expressions so far read.
    reads: ReadSet,
    /// The expressions so far that do not compile.
    errors: Vec<BindError>,
}

impl TemplateParser {
    /// Compiles a value.
    fn parse_node(&mut self, value: &Value) -> ValueTemplateNode {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => ValueTemplateNode::Literal(value.clone()),
            Value::String(text) => self.parse_text(text),
            Value::Array(items) => {
                let items = items.iter().enumerate();
                let part = |(index, item)| self.parse_part(item, &|error| error.prefix_item(index));
                list_node(items.map(part).collect())
            }
            Value::Object(fields) => {
                let part = |(name, field): (&String, &Value)| {
                    (name.clone(), self.parse_part(field, &|error| error.prefix_field(name)))
                };
                object_node(fields.iter().map(part).collect())
            }
        }
    }

    /// Compiles a part of a value; its errors get the path of the part.
    fn parse_part(&mut self, value: &Value, prefix: &dyn Fn(BindError) -> BindError) -> ValueTemplateNode {
        let outer = std::mem::take(&mut self.errors);
        let node = self.parse_node(value);
        let inner = std::mem::replace(&mut self.errors, outer);
        self.errors.extend(inner.into_iter().map(prefix));
        node
    }

    /// Compiles a text: a literal, a single expression, or pieces. With a part that does not compile the node is
    /// `Invalid`.
    fn parse_text(&mut self, text: &str) -> ValueTemplateNode {
        let errors_before = self.errors.len();
        let mut pieces = split_text(text, self.vocabulary, &mut self.errors);
        for piece in &pieces {
            match piece {
                TextPiece::Expression(expression) => self.reads.merge(&expression.reads()),
                TextPiece::Literal(_) => {}
            }
        }
        if self.errors.len() > errors_before {
            return ValueTemplateNode::Invalid;
        }
        match (pieces.pop(), pieces.is_empty()) {
            (None, _) => ValueTemplateNode::Literal(Value::from("")),
            (Some(TextPiece::Literal(text)), true) => ValueTemplateNode::Literal(Value::from(text)),
            (Some(TextPiece::Expression(expression)), true) => ValueTemplateNode::Expression(expression),
            (Some(last), false) => {
                pieces.push(last);
                ValueTemplateNode::Text(pieces)
            }
        }
    }
}

/// A list's node; one literal where no item holds an expression, so that binding is a single copy.
fn list_node(items: Vec<ValueTemplateNode>) -> ValueTemplateNode {
    if !items.iter().all(ValueTemplateNode::is_literal) {
        return ValueTemplateNode::List(items);
    }
    ValueTemplateNode::Literal(Value::Array(
        items.into_iter().filter_map(ValueTemplateNode::into_literal).collect(),
    ))
}

/// An object's node; one literal where no field holds an expression.
fn object_node(fields: Vec<(String, ValueTemplateNode)>) -> ValueTemplateNode {
    if !fields.iter().all(|(_, field)| field.is_literal()) {
        return ValueTemplateNode::Object(fields);
    }
    let literal = fields.into_iter().filter_map(|(name, field)| Some((name, field.into_literal()?)));
    ValueTemplateNode::Literal(Value::Object(literal.collect()))
}

/// Splits a text into literal parts and expressions. `$${` is an escaped `${`.
fn split_text(text: &str, vocabulary: ExpressionVocabulary, errors: &mut Vec<BindError>) -> Vec<TextPiece> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            plain.push_str(&rest[..at - 1]);
            plain.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        plain.push_str(&rest[..at]);
        let inside = &rest[at + 2..];
        let Some(end) = closing_brace(inside) else {
            let source = excerpt(&rest[at..]);
            let message = format!("`{source}`: the `${{` is never closed; write `$${{` for a plain `${{`");
            errors.push(BindError { path: String::new(), message });
            return pieces;
        };
        if !plain.is_empty() {
            pieces.push(TextPiece::Literal(std::mem::take(&mut plain)));
        }
        match Expression::parse(&inside[..end], vocabulary) {
            Ok(expression) => pieces.push(TextPiece::Expression(expression)),
            Err(error) => errors.push(error),
        }
        rest = &inside[end + 1..];
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        pieces.push(TextPiece::Literal(plain));
    }
    pieces
}

impl ValueTemplateNode {
    /// The node's structure for static checks; nothing is evaluated.
    fn outline(&self) -> TemplateOutline<'_> {
        match self {
            Self::Literal(value) => TemplateOutline::Literal(value),
            Self::Expression(expression) => outline::outline_of(expression),
            Self::Text(_) => TemplateOutline::Computed(Some("string")),
            Self::Invalid => TemplateOutline::Computed(None),
            Self::List(items) => TemplateOutline::List(items.iter().map(Self::outline).collect()),
            Self::Object(fields) => TemplateOutline::Object(
                fields.iter().map(|(name, field)| (name.as_str(), field.outline())).collect(),
            ),
        }
    }

    /// Adds the paths that must exist for this node to be bound.
    fn collect_required_paths<'a>(&'a self, paths: &mut Vec<&'a ReferencePath>) {
        match self {
            Self::Literal(_) | Self::Invalid => {}
            Self::Expression(expression) => paths.extend(outline::required_paths(expression)),
            Self::Text(pieces) => pieces.iter().for_each(|piece| match piece {
                TextPiece::Literal(_) => {}
                TextPiece::Expression(expression) => paths.extend(outline::required_paths(expression)),
            }),
            Self::List(items) => items.iter().for_each(|item| item.collect_required_paths(paths)),
            Self::Object(fields) => fields.iter().for_each(|(_, field)| field.collect_required_paths(paths)),
        }
    }

    fn is_literal(&self) -> bool {
        matches!(self, Self::Literal(_))
    }

    fn into_literal(self) -> Option<Value> {
        match self {
            Self::Literal(value) => Some(value),
            Self::Expression(_) | Self::Text(_) | Self::List(_) | Self::Object(_) | Self::Invalid => None,
        }
    }

    /// Evaluates the expressions of the node to a value. The error has the path, in the template, of the part
    /// that failed.
    fn bind(&self, scope: &ExpressionScope, budget: &mut EvaluationBudget) -> Result<Value, BindError> {
        match self {
            Self::Literal(value) => Ok(value.clone()),
            Self::Expression(expression) => evaluate_to_value(expression, scope, budget),
            Self::Text(pieces) => render_text(pieces, scope, budget).map(Value::String),
            Self::Invalid => Err(BindError { path: String::new(), message: "does not compile".to_owned() }),
            Self::List(items) => {
                let bound = items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| item.bind(scope, budget).map_err(|error| error.prefix_item(index)));
                Ok(Value::Array(bound.collect::<Result<_, _>>()?))
            }
            Self::Object(fields) => {
                let bound = fields.iter().map(|(name, field)| match field.bind(scope, budget) {
                    Ok(value) => Ok((name.clone(), value)),
                    Err(error) => Err(error.prefix_field(name)),
                });
                Ok(Value::Object(bound.collect::<Result<Map<_, _>, _>>()?))
            }
        }
    }
}

/// Evaluates an expression to an owned value.
fn evaluate_to_value(
    expression: &Expression,
    scope: &ExpressionScope,
    budget: &mut EvaluationBudget,
) -> Result<Value, BindError> {
    let value = evaluate(expression, scope, budget).and_then(|value| value.into_value(budget));
    value.map_err(|error| bind_error(expression, error))
}

/// Joins the pieces into one text: text values as they are, all others as JSON.
fn render_text(
    pieces: &[TextPiece],
    scope: &ExpressionScope,
    budget: &mut EvaluationBudget,
) -> Result<String, BindError> {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            TextPiece::Literal(plain) => text.push_str(plain),
            TextPiece::Expression(expression) => match evaluate_to_value(expression, scope, budget)? {
                Value::String(bound) => text.push_str(&bound),
                other => text.push_str(&other.to_string()),
            },
        }
    }
    Ok(text)
}

/// Converts an evaluation error to a binding error that quotes the expression.
fn bind_error(expression: &Expression, error: EvaluationError) -> BindError {
    let (EvaluationError::Recoverable(message) | EvaluationError::Fatal(message)) = error;
    BindError { path: String::new(), message: format!("`{}`: {message}", excerpt(&expression.source)) }
}

impl BindError {
    /// The same error, seen from the object around: its path begins with the field.
    fn prefix_field(self, name: &str) -> Self {
        let path = match self.path.as_str() {
            "" => name.to_owned(),
            inner if inner.starts_with('[') => format!("{name}{inner}"),
            inner => format!("{name}.{inner}"),
        };
        Self { path, ..self }
    }

    /// The same error, seen from the list around: its path begins with the index.
    fn prefix_item(self, index: usize) -> Self {
        let path = match self.path.as_str() {
            "" => format!("[{index}]"),
            inner if inner.starts_with('[') => format!("[{index}]{inner}"),
            inner => format!("[{index}].{inner}"),
        };
        Self { path, ..self }
    }
}
