//! A compiled expression: paths into the scope, and a tree of operations over their values. Depth and size
//! were checked when it was compiled.

use std::sync::OnceLock;

use regex::Regex;
use serde_json::Value;

use super::evaluator::compile_regex;
use super::function::Function;
use super::vocabulary::{BEFORE, ExpressionVocabulary};
use super::{BindError, ReadSet, lowering, source};

/// A compiled expression.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    /// The text as the author wrote it, for error messages.
    pub source: String,
    pub root: ExpressionNode,
    /// The distinct paths that the expression reads; nodes refer to them by index.
    pub paths: Vec<ReferencePath>,
}

impl Expression {
    /// Compiles an expression that reads these names, written without `${…}`.
    pub fn parse(text: &str, vocabulary: ExpressionVocabulary) -> Result<Self, BindError> {
        let refuse =
            |message| BindError { path: String::new(), message: format!("`{}`: {message}", excerpt(text)) };
        if text.trim_start().starts_with("env:") {
            return Err(refuse(
                "the environment is read in the config only, so that secrets stay out of plans".to_owned(),
            ));
        }
        let written = source::check_and_quote(text).map_err(refuse)?;
        lowering::compile_expression(text.trim(), &written, vocabulary).map_err(refuse)
    }

    /// What the expression reads.
    pub fn reads(&self) -> ReadSet {
        let mut reads = ReadSet::default();
        self.paths.iter().for_each(|path| path.add_to(&mut reads));
        reads
    }
}

/// The first 80 characters of an expression, for error messages.
pub(super) fn excerpt(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A read from the scope: a root and the literal fields and indices that follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReferencePath {
    pub root: ReferenceRoot,
    pub segments: Vec<PathSegment>,
}

/// Where a path starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReferenceRoot {
    Inputs,
    /// The output of the step with this id.
    Output(String),
    /// The status of the step with this id.
    Status(String),
    ExecutionId,
    OwnArguments,
    OwnOutput,
    /// A name that only an undo of a session's call or a rule can read.
    Fact(&'static str),
}

/// One step along a path: a field of an object, or an item of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathSegment {
    Field(String),
    Item(usize),
}

impl ReferencePath {
    /// Adds this path to what an expression reads.
    fn add_to(&self, reads: &mut ReadSet) {
        match &self.root {
            ReferenceRoot::Inputs => {
                reads.inputs = true;
                reads.input_fields.insert(self.leading_fields());
            }
            ReferenceRoot::Output(step) => drop(reads.outputs.insert(step.clone())),
            ReferenceRoot::Status(step) => drop(reads.statuses.insert(step.clone())),
            ReferenceRoot::ExecutionId => {}
            ReferenceRoot::OwnArguments => reads.own_arguments = true,
            ReferenceRoot::OwnOutput => reads.own_output = true,
            ReferenceRoot::Fact(name) => reads.own_before |= *name == BEFORE,
        }
    }

    /// The names of the fields before the first list index.
    fn leading_fields(&self) -> Vec<String> {
        let fields = self.segments.iter().map_while(|segment| match segment {
            PathSegment::Field(name) => Some(name.clone()),
            PathSegment::Item(_) => None,
        });
        fields.collect()
    }

    /// The root and the first `length` segments in source form, as in `steps.fetch.output.items[0]`.
    pub fn source_text(&self, length: usize) -> String {
        let mut text = match &self.root {
            ReferenceRoot::Inputs => "inputs".to_owned(),
            ReferenceRoot::Output(step) => format!("steps.{step}.output"),
            ReferenceRoot::Status(step) => format!("steps.{step}.status"),
            ReferenceRoot::ExecutionId => "execution.id".to_owned(),
            ReferenceRoot::OwnArguments => "arguments".to_owned(),
            ReferenceRoot::OwnOutput => "output".to_owned(),
            ReferenceRoot::Fact(name) => (*name).to_owned(),
        };
        for segment in &self.segments[..length] {
            match segment {
                PathSegment::Field(name) => text.extend([".", name]),
                PathSegment::Item(index) => text.push_str(&format!("[{index}]")),
            }
        }
        text
    }
}

/// A node of an expression's tree.
#[derive(Clone, Debug)]
pub(super) enum ExpressionNode {
    Literal(Value),
    /// A path, by its index in `Expression::paths`.
    Path(usize),
    /// A loop's variable, by the loop's depth, outermost first.
    Variable(usize),
    Field(Box<ExpressionNode>, String),
    /// `has(…)` on a computed value and a field's name.
    Has(Box<ExpressionNode>, String),
    /// `has(…)` on a path, by its index: whether its last field exists.
    HasPath(usize),
    Index(Box<ExpressionNode>, Box<ExpressionNode>),
    List(Vec<ExpressionNode>),
    Map(Vec<(ExpressionNode, ExpressionNode)>),
    Not(Box<ExpressionNode>),
    Negate(Box<ExpressionNode>),
    And(Box<ExpressionNode>, Box<ExpressionNode>),
    Or(Box<ExpressionNode>, Box<ExpressionNode>),
    /// Condition, value if true, value if false.
    If(Box<[ExpressionNode; 3]>),
    Binary(BinaryOperator, Box<ExpressionNode>, Box<ExpressionNode>),
    /// `matches(…)`: the text and the pattern.
    Matches(Box<ExpressionNode>, Pattern),
    /// A function with its arguments, the target first.
    Call(Function, Vec<ExpressionNode>),
    Loop(LoopKind, Box<LoopParts>),
}

/// The pattern of `matches(…)`.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    Literal(Box<LiteralPattern>),
    /// Computed and compiled at each evaluation.
    Dynamic(Box<ExpressionNode>),
}

/// A pattern that the expression holds as a text.
#[derive(Clone, Debug)]
pub(super) struct LiteralPattern {
    source: String,
    compiled: OnceLock<Regex>,
}

impl LiteralPattern {
    /// A pattern that is compiled when it is first needed.
    pub(super) fn new(source: String) -> Self {
        Self { source, compiled: OnceLock::new() }
    }

    /// The compiled pattern; `Err` says why it does not compile.
    pub(super) fn regex(&self) -> Result<&Regex, String> {
        if let Some(compiled) = self.compiled.get() {
            return Ok(compiled);
        }
        let compiled = compile_regex(&self.source)?;
        Ok(self.compiled.get_or_init(|| compiled))
    }
}

/// The parts of a loop.
#[derive(Clone, Debug)]
pub(super) struct LoopParts {
    /// The list or map that the loop runs over.
    pub range: ExpressionNode,
    /// The filter of a three-argument `map`.
    pub condition: Option<ExpressionNode>,
    pub body: ExpressionNode,
}

/// A binary operator, but for `&&` and `||`, which are nodes of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BinaryOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
}

/// Which of CEL's loop macros a loop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopKind {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}

impl ExpressionNode {
    /// The kind of the result, as in `a number`, if it is known not to be a boolean; of `a ? b : c` one such
    /// branch is enough. `None`: a boolean, or a kind that is known only at evaluation.
    pub fn non_boolean_kind(&self) -> Option<&'static str> {
        match self {
            Self::Literal(Value::Bool(_)) => None,
            Self::Literal(Value::Null) => Some("null"),
            Self::Literal(Value::Number(_)) | Self::Negate(_) => Some("a number"),
            Self::Literal(Value::String(_)) => Some("a text"),
            Self::List(_)
            | Self::Literal(Value::Array(_))
            | Self::Loop(LoopKind::Filter | LoopKind::Map, _) => Some("a list"),
            Self::Map(_) | Self::Literal(Value::Object(_)) => Some("a map"),
            Self::If(parts) => parts[1].non_boolean_kind().or(parts[2].non_boolean_kind()),
            Self::Binary(operator, ..) => operator.non_boolean_kind(),
            Self::Call(function, _) => function.non_boolean_kind(),
            Self::Path(_)
            | Self::Variable(_)
            | Self::Field(..)
            | Self::Has(..)
            | Self::HasPath(_)
            | Self::Index(..) => None,
            Self::Not(_) | Self::And(..) | Self::Or(..) | Self::Matches(..) => None,
            Self::Loop(LoopKind::All | LoopKind::Exists | LoopKind::ExistsOne, _) => None,
        }
    }
}

impl BinaryOperator {
    /// The kind of result if it is never a boolean; `None` if it is one.
    fn non_boolean_kind(self) -> Option<&'static str> {
        match self {
            Self::Add => Some("a sum"),
            Self::Subtract | Self::Multiply | Self::Divide | Self::Remainder => Some("a number"),
            Self::Equal | Self::NotEqual | Self::In => None,
            Self::Less | Self::LessEqual | Self::Greater | Self::GreaterEqual => None,
        }
    }
}
