//! An expression as it is kept: paths into the scope, and operations over what they give.
//! Knows nothing of values; depth and size were checked when it was made.

use regex::Regex;
use serde_json::Value;

use super::function::Function;
use super::{Reads, Unbound, lower, source};

#[derive(Debug)]
pub(super) struct Expression {
    /// As the author wrote it, for refusals.
    pub source: String,
    pub root: Node,
    /// What the root's `Node::Path`s number.
    pub paths: Vec<Path>,
}

impl Expression {
    pub fn parse(text: &str) -> Result<Self, Unbound> {
        let refuse =
            |message| Unbound { path: String::new(), message: format!("`{}`: {message}", shown(text)) };
        if text.trim_start().starts_with("env:") {
            return Err(refuse(
                "the environment is read in the config only, so that secrets stay out of plans".to_owned(),
            ));
        }
        let written = source::checked(text).map_err(refuse)?;
        lower::expression(text.trim(), &written).map_err(refuse)
    }

    pub fn reads(&self) -> Reads {
        let mut reads = Reads::default();
        self.paths.iter().for_each(|path| path.note(&mut reads));
        reads
    }
}

/// The beginning of what the author wrote, enough to recognise it.
pub(super) fn shown(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub root: Root,
    pub segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    Inputs,
    Output(String),
    Status(String),
    ExecutionId,
    OwnArguments,
    OwnOutput,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    Field(String),
    Item(usize),
}

impl Path {
    fn note(&self, reads: &mut Reads) {
        match &self.root {
            Root::Inputs => {
                reads.inputs = true;
                reads.input_fields.insert(self.leading_fields());
            }
            Root::Output(step) => drop(reads.outputs.insert(step.clone())),
            Root::Status(step) => drop(reads.statuses.insert(step.clone())),
            Root::ExecutionId => {}
            Root::OwnArguments => reads.own_arguments = true,
            Root::OwnOutput => reads.own_output = true,
        }
    }

    fn leading_fields(&self) -> Vec<String> {
        let fields = self.segments.iter().map_while(|segment| match segment {
            Segment::Field(name) => Some(name.clone()),
            Segment::Item(_) => None,
        });
        fields.collect()
    }

    /// The path's first `length` segments as the author would write them.
    pub fn spelled(&self, length: usize) -> String {
        let mut text = match &self.root {
            Root::Inputs => "inputs".to_owned(),
            Root::Output(step) => format!("steps.{step}.output"),
            Root::Status(step) => format!("steps.{step}.status"),
            Root::ExecutionId => "execution.id".to_owned(),
            Root::OwnArguments => "arguments".to_owned(),
            Root::OwnOutput => "output".to_owned(),
        };
        for segment in &self.segments[..length] {
            match segment {
                Segment::Field(name) => text.extend([".", name]),
                Segment::Item(index) => text.push_str(&format!("[{index}]")),
            }
        }
        text
    }
}

#[derive(Debug)]
pub(super) enum Node {
    Literal(Value),
    Path(usize),
    /// A loop's variable, by its place on the stack of variables.
    Variable(usize),
    Field(Box<Node>, String),
    Has(Box<Node>, String),
    /// The last field of a path, which need not be there.
    HasPath(usize),
    Index(Box<Node>, Box<Node>),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Not(Box<Node>),
    Negate(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    If(Box<[Node; 3]>),
    Binary(Binary, Box<Node>, Box<Node>),
    /// The text and the pattern; a pattern written as a literal is compiled once.
    Matches(Box<Node>, Pattern),
    Call(Function, Vec<Node>),
    Loop(Loop, Box<LoopParts>),
}

#[derive(Debug)]
pub(super) enum Pattern {
    Compiled(Box<Regex>),
    Dynamic(Box<Node>),
}

#[derive(Debug)]
pub(super) struct LoopParts {
    pub range: Node,
    pub condition: Option<Node>,
    pub body: Node,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loop {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}

impl Node {
    /// What the node gives, where that can be told without values and is no boolean.
    pub fn never_boolean(&self) -> Option<&'static str> {
        match self {
            Self::Literal(Value::Bool(_)) => None,
            Self::Literal(Value::Null) => Some("null"),
            Self::Literal(Value::Number(_)) | Self::Negate(_) => Some("a number"),
            Self::Literal(Value::String(_)) => Some("a text"),
            Self::List(_) | Self::Literal(Value::Array(_)) | Self::Loop(Loop::Filter | Loop::Map, _) => {
                Some("a list")
            }
            Self::Map(_) | Self::Literal(Value::Object(_)) => Some("a map"),
            Self::If(parts) => parts[1].never_boolean().or(parts[2].never_boolean()),
            Self::Binary(operator, ..) => operator.never_boolean(),
            Self::Call(function, _) => function.never_boolean(),
            Self::Path(_)
            | Self::Variable(_)
            | Self::Field(..)
            | Self::Has(..)
            | Self::HasPath(_)
            | Self::Index(..) => None,
            Self::Not(_) | Self::And(..) | Self::Or(..) | Self::Matches(..) => None,
            Self::Loop(Loop::All | Loop::Exists | Loop::ExistsOne, _) => None,
        }
    }
}

impl Binary {
    fn never_boolean(self) -> Option<&'static str> {
        match self {
            Self::Add => Some("a sum"),
            Self::Subtract | Self::Multiply | Self::Divide | Self::Remainder => Some("a number"),
            Self::Equal | Self::NotEqual | Self::In => None,
            Self::Less | Self::LessEqual | Self::Greater | Self::GreaterEqual => None,
        }
    }
}
