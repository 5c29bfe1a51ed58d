//! A JSON value with `${…}` in its texts. A text that is one `${…}` becomes the value itself, its
//! type kept; in any other text the value is written out. Keys are never expressions.

use serde_json::{Map, Value};

use super::budget::{Budget, Fault};
use super::evaluate::evaluate;
use super::node::{Expression, Path, shown};
use super::source::closing_brace;
use super::{Outline, Reads, Scope, Unbound, outline};

#[derive(Debug)]
pub struct Template {
    shape: Shape,
    reads: Reads,
}

#[derive(Debug)]
enum Shape {
    Literal(Value),
    Whole(Expression),
    Text(Vec<Piece>),
    List(Vec<Shape>),
    Object(Vec<(String, Shape)>),
}

#[derive(Debug)]
enum Piece {
    Plain(String),
    Bound(Expression),
}

impl Template {
    pub fn parse(value: &Value) -> Result<Self, Unbound> {
        let mut reads = Reads::default();
        let shape = shape(value, &mut reads)?;
        Ok(Self { shape, reads })
    }

    /// A value without expressions, whatever it looks like.
    pub(crate) fn of_literal(value: Value) -> Self {
        Self { shape: Shape::Literal(value), reads: Reads::default() }
    }

    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    pub(crate) fn outline(&self) -> Outline<'_> {
        self.shape.outline()
    }

    /// Every path that must be there for it to be bound.
    pub(crate) fn paths(&self) -> Vec<&Path> {
        let mut paths = Vec::new();
        self.shape.paths(&mut paths);
        paths
    }

    /// The value itself, where it holds no expression.
    pub fn literal(&self) -> Option<&Value> {
        match &self.shape {
            Shape::Literal(value) => Some(value),
            Shape::Whole(_) | Shape::Text(_) | Shape::List(_) | Shape::Object(_) => None,
        }
    }

    pub fn bind(&self, scope: &Scope) -> Result<Value, Unbound> {
        self.shape.bind(scope, &mut Budget::new())
    }
}

fn shape(value: &Value, reads: &mut Reads) -> Result<Shape, Unbound> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(Shape::Literal(value.clone())),
        Value::String(text) => text_shape(text, reads),
        Value::Array(items) => {
            let shaped = items
                .iter()
                .enumerate()
                .map(|(index, item)| shape(item, reads).map_err(|error| error.within_item(index)));
            Ok(list_shape(shaped.collect::<Result<_, _>>()?))
        }
        Value::Object(fields) => {
            let shaped = fields.iter().map(|(name, field)| match shape(field, reads) {
                Ok(shape) => Ok((name.clone(), shape)),
                Err(error) => Err(error.within_field(name)),
            });
            Ok(object_shape(shaped.collect::<Result<_, _>>()?))
        }
    }
}

/// A list without expressions is one literal, so that binding it is one copy.
fn list_shape(items: Vec<Shape>) -> Shape {
    if !items.iter().all(Shape::is_literal) {
        return Shape::List(items);
    }
    Shape::Literal(Value::Array(items.into_iter().filter_map(Shape::into_literal).collect()))
}

fn object_shape(fields: Vec<(String, Shape)>) -> Shape {
    if !fields.iter().all(|(_, field)| field.is_literal()) {
        return Shape::Object(fields);
    }
    let literal = fields.into_iter().filter_map(|(name, field)| Some((name, field.into_literal()?)));
    Shape::Literal(Value::Object(literal.collect()))
}

fn text_shape(text: &str, reads: &mut Reads) -> Result<Shape, Unbound> {
    let mut pieces = pieces(text)?;
    for piece in &pieces {
        match piece {
            Piece::Bound(expression) => reads.add(&expression.reads()),
            Piece::Plain(_) => {}
        }
    }
    Ok(match (pieces.pop(), pieces.is_empty()) {
        (None, _) => Shape::Literal(Value::from("")),
        (Some(Piece::Plain(text)), true) => Shape::Literal(Value::from(text)),
        (Some(Piece::Bound(expression)), true) => Shape::Whole(expression),
        (Some(last), false) => {
            pieces.push(last);
            Shape::Text(pieces)
        }
    })
}

/// `$${` stands for a plain `${`.
fn pieces(text: &str) -> Result<Vec<Piece>, Unbound> {
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
        let end = closing_brace(inside).ok_or_else(|| Unbound {
            path: String::new(),
            message: format!(
                "`{}`: the `${{` is never closed; write `$${{` for a plain `${{`",
                shown(&rest[at..])
            ),
        })?;
        if !plain.is_empty() {
            pieces.push(Piece::Plain(std::mem::take(&mut plain)));
        }
        pieces.push(Piece::Bound(Expression::parse(&inside[..end])?));
        rest = &inside[end + 1..];
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        pieces.push(Piece::Plain(plain));
    }
    Ok(pieces)
}

impl Shape {
    fn outline(&self) -> Outline<'_> {
        match self {
            Self::Literal(value) => Outline::Literal(value),
            Self::Whole(expression) => outline::of_expression(expression),
            Self::Text(_) => Outline::Computed(Some("string")),
            Self::List(items) => Outline::List(items.iter().map(Self::outline).collect()),
            Self::Object(fields) => {
                Outline::Object(fields.iter().map(|(name, field)| (name.as_str(), field.outline())).collect())
            }
        }
    }

    fn paths<'a>(&'a self, paths: &mut Vec<&'a Path>) {
        match self {
            Self::Literal(_) => {}
            Self::Whole(expression) => paths.extend(outline::paths_read(expression)),
            Self::Text(pieces) => pieces.iter().for_each(|piece| match piece {
                Piece::Plain(_) => {}
                Piece::Bound(expression) => paths.extend(outline::paths_read(expression)),
            }),
            Self::List(items) => items.iter().for_each(|item| item.paths(paths)),
            Self::Object(fields) => fields.iter().for_each(|(_, field)| field.paths(paths)),
        }
    }

    fn is_literal(&self) -> bool {
        matches!(self, Self::Literal(_))
    }

    fn into_literal(self) -> Option<Value> {
        match self {
            Self::Literal(value) => Some(value),
            Self::Whole(_) | Self::Text(_) | Self::List(_) | Self::Object(_) => None,
        }
    }

    fn bind(&self, scope: &Scope, budget: &mut Budget) -> Result<Value, Unbound> {
        match self {
            Self::Literal(value) => Ok(value.clone()),
            Self::Whole(expression) => value_of(expression, scope, budget),
            Self::Text(pieces) => text_of(pieces, scope, budget).map(Value::String),
            Self::List(items) => {
                let bound = items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| item.bind(scope, budget).map_err(|error| error.within_item(index)));
                Ok(Value::Array(bound.collect::<Result<_, _>>()?))
            }
            Self::Object(fields) => {
                let bound = fields.iter().map(|(name, field)| match field.bind(scope, budget) {
                    Ok(value) => Ok((name.clone(), value)),
                    Err(error) => Err(error.within_field(name)),
                });
                Ok(Value::Object(bound.collect::<Result<Map<_, _>, _>>()?))
            }
        }
    }
}

fn value_of(expression: &Expression, scope: &Scope, budget: &mut Budget) -> Result<Value, Unbound> {
    let value = evaluate(expression, scope, budget).and_then(|held| held.into_value(budget));
    value.map_err(|fault| unbound(expression, fault))
}

/// Texts as they are, everything else as JSON.
fn text_of(pieces: &[Piece], scope: &Scope, budget: &mut Budget) -> Result<String, Unbound> {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Plain(plain) => text.push_str(plain),
            Piece::Bound(expression) => match value_of(expression, scope, budget)? {
                Value::String(bound) => text.push_str(&bound),
                other => text.push_str(&other.to_string()),
            },
        }
    }
    Ok(text)
}

fn unbound(expression: &Expression, fault: Fault) -> Unbound {
    let (Fault::Plain(message) | Fault::Final(message)) = fault;
    Unbound { path: String::new(), message: format!("`{}`: {message}", shown(&expression.source)) }
}

impl Unbound {
    fn within_field(self, name: &str) -> Self {
        let path = match self.path.as_str() {
            "" => name.to_owned(),
            inner if inner.starts_with('[') => format!("{name}{inner}"),
            inner => format!("{name}.{inner}"),
        };
        Self { path, ..self }
    }

    fn within_item(self, index: usize) -> Self {
        let path = match self.path.as_str() {
            "" => format!("[{index}]"),
            inner if inner.starts_with('[') => format!("[{index}]{inner}"),
            inner => format!("[{index}].{inner}"),
        };
        Self { path, ..self }
    }
}
