//! Lowers the `cel` crate's syntax tree to the tree that is evaluated: resolves names and functions and
//! bounds the depth. Every error that can be found without values is reported here.

use std::sync::OnceLock;

use cel::Env;
use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, MapExpr, SelectExpr, operators};
use serde_json::Value;

use super::expression::{
    BinaryOperator, Expression, ExpressionNode, LiteralPattern, LoopKind, LoopParts, PathSegment, Pattern,
    ReferencePath, ReferenceRoot,
};
use super::function::Function;
use super::source::with_large_stack;
use super::{DEPTH_MAX, ExpressionVocabulary, LOOP_DEPTH_MAX, number};
use crate::spelling::nearest;

/// CEL's type names, which `type(…)` is compared with.
const TYPE_NAMES: [&str; 7] = ["int", "double", "string", "bool", "list", "map", "null_type"];
/// CEL's loop macros by name.
const LOOP_MACROS: [(&str, LoopKind); 6] = [
    ("all", LoopKind::All),
    ("exists", LoopKind::Exists),
    ("exists_one", LoopKind::ExistsOne),
    ("existsOne", LoopKind::ExistsOne),
    ("filter", LoopKind::Filter),
    ("map", LoopKind::Map),
];

/// Compiles an expression. `source` is the author's text, `written` the same with step ids quoted for CEL.
pub(super) fn compile_expression(
    source: &str,
    written: &str,
    vocabulary: ExpressionVocabulary,
) -> Result<Expression, String> {
    let mut lowering = Lowering { vocabulary, paths: Vec::new(), variables: Vec::new() };
    let root = match parse_plain_path(written, vocabulary) {
        Some(path) => ExpressionNode::Path(lowering.intern_path(path)),
        None => with_large_stack(|| lowering.parse_and_lower(written))?,
    };
    Ok(Expression { source: source.to_owned(), root, paths: lowering.paths })
}

/// Parses an expression that is only a dotted path; `None` for any other. Most expressions are such paths,
/// and a plan of ten thousand steps is read in a fraction of the time without the CEL parser.
fn parse_plain_path(written: &str, vocabulary: ExpressionVocabulary) -> Option<ReferencePath> {
    let mut names = written.split('.');
    let first = names.next()?;
    let root = match first {
        _ if !vocabulary.has(first) => return None,
        "inputs" => ReferenceRoot::Inputs,
        "arguments" => ReferenceRoot::OwnArguments,
        "output" => ReferenceRoot::OwnOutput,
        "execution" => (names.next()? == "id").then_some(ReferenceRoot::ExecutionId)?,
        "steps" => step_root(parse_plain_name(names.next()?)?, names.next()?)?,
        _ => ReferenceRoot::Fact(vocabulary.fact(first)?),
    };
    let segments = names.map(|name| parse_plain_name(name).map(PathSegment::Field)).collect::<Option<_>>()?;
    Some(ReferencePath { root, segments })
}

/// The name, if it is an identifier and no CEL keyword.
fn parse_plain_name(name: &str) -> Option<String> {
    const RESERVED: [&str; 4] = ["in", "true", "false", "null"];
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let plain = starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (plain && !RESERVED.contains(&name)).then(|| name.to_owned())
}

/// The root for `steps.<id>.<field>`; `None` for a field other than `output` and `status`.
fn step_root(id: String, field: &str) -> Option<ReferenceRoot> {
    match field {
        "output" => Some(ReferenceRoot::Output(id)),
        "status" => Some(ReferenceRoot::Status(id)),
        _ => None,
    }
}

/// The CEL parser's environment, without macros and optional values: this module lowers loops and `has`
/// itself.
fn cel_environment() -> &'static Env {
    static PLAIN: OnceLock<Env> = OnceLock::new();
    PLAIN.get_or_init(|| Env::default().with_optional_support(false))
}

/// The state of lowering one expression.
struct Lowering {
    vocabulary: ExpressionVocabulary,
    /// The distinct paths so far; nodes refer to them by index.
    paths: Vec<ReferencePath>,
    /// The variables of the enclosing loops, outermost first.
    variables: Vec<String>,
}

/// A lowered node, or the message that says why the expression is refused.
type LoweringResult = Result<ExpressionNode, String>;

impl Lowering {
    /// Parses the text as CEL and lowers it.
    fn parse_and_lower(&mut self, written: &str) -> LoweringResult {
        match cel_environment().parser().parse(written) {
            Ok(parsed) => self.lower_node(&parsed, 0),
            Err(errors) => Err(errors.errors.first().map_or_else(
                || "is not a CEL expression".to_owned(),
                |error| {
                    format!(
                        "is not a CEL expression: {} at character {}",
                        first_clause(&error.msg),
                        error.pos.1
                    )
                },
            )),
        }
    }

    /// The path's index in `paths`, added if it is new.
    fn intern_path(&mut self, path: ReferencePath) -> usize {
        let known = self.paths.iter().position(|other| *other == path);
        known.unwrap_or_else(|| {
            self.paths.push(path);
            self.paths.len() - 1
        })
    }

    /// Lowers an expression that stands `depth` operations deep.
    fn lower_node(&mut self, expr: &IdedExpr, depth: usize) -> LoweringResult {
        if depth >= DEPTH_MAX {
            return Err(format!("nests operations deeper than {DEPTH_MAX}; split it over several steps"));
        }
        if let Some(path) = self.static_path(&expr.expr)? {
            return Ok(ExpressionNode::Path(self.intern_path(path)));
        }
        match &expr.expr {
            Expr::Literal(literal) => self::literal_value(literal).map(ExpressionNode::Literal),
            Expr::Ident(name) => self.lower_identifier(name),
            Expr::Select(select) => self.lower_select(select, depth),
            Expr::Call(call) => self.lower_call(call, depth + 1),
            Expr::List(list) => self.lower_nodes(&list.elements, depth + 1).map(ExpressionNode::List),
            Expr::Map(map) => self.lower_map(map, depth + 1),
            Expr::Struct(made) => {
                Err(format!("makes a {}; only maps `{{\"key\": value}}` can be made", made.type_name))
            }
            Expr::Comprehension(_) | Expr::Unspecified => Err("is not a CEL expression".to_owned()),
        }
    }

    fn lower_boxed(&mut self, expr: &IdedExpr, depth: usize) -> Result<Box<ExpressionNode>, String> {
        self.lower_node(expr, depth).map(Box::new)
    }

    fn lower_nodes(&mut self, exprs: &[IdedExpr], depth: usize) -> Result<Vec<ExpressionNode>, String> {
        exprs.iter().map(|expr| self.lower_node(expr, depth)).collect()
    }

    /// A loop variable or a type name; any other name is refused.
    fn lower_identifier(&mut self, name: &str) -> LoweringResult {
        if let Some(depth) = self.variables.iter().rposition(|variable| variable == name) {
            return Ok(ExpressionNode::Variable(depth));
        }
        if TYPE_NAMES.contains(&name) {
            return Ok(ExpressionNode::Literal(name.into()));
        }
        let names = self.vocabulary.names().iter().copied();
        let known = names.chain(self.variables.iter().map(String::as_str));
        let meant = nearest(name, known).map(|name| format!("; did you mean `{name}`?"));
        Err(format!(
            "`{name}` is not in scope{}",
            meant.unwrap_or_else(|| format!("; there are {}", self.vocabulary.names_shown()))
        ))
    }

    fn lower_select(&mut self, select: &SelectExpr, depth: usize) -> LoweringResult {
        let of = self.lower_boxed(&select.operand, depth + 1)?;
        Ok(ExpressionNode::Field(of, select.field.clone()))
    }

    fn lower_map(&mut self, map: &MapExpr, depth: usize) -> LoweringResult {
        let mut entries = Vec::with_capacity(map.entries.len());
        for entry in &map.entries {
            match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    entries.push((self.lower_node(&entry.key, depth)?, self.lower_node(&entry.value, depth)?))
                }
                EntryExpr::StructField(_) => return Err("is not a CEL expression".to_owned()),
            }
        }
        Ok(ExpressionNode::Map(entries))
    }

    /// Lowers an operator, a loop or a function call: CEL's tree has one form for all three.
    fn lower_call(&mut self, call: &CallExpr, depth: usize) -> LoweringResult {
        let name = call.func_name.as_str();
        match (&call.target, call.args.as_slice()) {
            (None, [condition, yes, no]) if name == operators::CONDITIONAL => {
                Ok(ExpressionNode::If(Box::new([
                    self.lower_node(condition, depth)?,
                    self.lower_node(yes, depth)?,
                    self.lower_node(no, depth)?,
                ])))
            }
            (None, [left, right]) if name == operators::LOGICAL_AND => {
                Ok(ExpressionNode::And(self.lower_boxed(left, depth)?, self.lower_boxed(right, depth)?))
            }
            (None, [left, right]) if name == operators::LOGICAL_OR => {
                Ok(ExpressionNode::Or(self.lower_boxed(left, depth)?, self.lower_boxed(right, depth)?))
            }
            (None, [of, index]) if name == operators::INDEX => {
                Ok(ExpressionNode::Index(self.lower_boxed(of, depth)?, self.lower_boxed(index, depth)?))
            }
            (None, [of]) if name == operators::LOGICAL_NOT => {
                Ok(ExpressionNode::Not(self.lower_boxed(of, depth)?))
            }
            (None, [of]) if name == operators::NEGATE => self.lower_negation(of, depth),
            (None, [of]) if name == operators::HAS => self.lower_has(of, depth),
            (None, [left, right]) if binary_operator(name).is_some() => {
                self.lower_binary(name, left, right, depth)
            }
            (Some(range), args) if LOOP_MACROS.iter().any(|(word, _)| *word == name) => {
                self.lower_loop(name, range, args, depth)
            }
            (target, args) => {
                self.lower_function(name, target.as_deref().into_iter().chain(args).collect(), depth)
            }
        }
    }

    /// Lowers a unary minus; that of a literal is computed at once.
    fn lower_negation(&mut self, of: &IdedExpr, depth: usize) -> LoweringResult {
        Ok(match self.lower_node(of, depth)? {
            ExpressionNode::Literal(Value::Number(given)) => match number::negate(&given) {
                Some(negated) => ExpressionNode::Literal(Value::Number(negated)),
                None => return Err(format!("-{given} is out of range")),
            },
            node => ExpressionNode::Negate(Box::new(node)),
        })
    }

    fn lower_binary(
        &mut self,
        name: &str,
        left: &IdedExpr,
        right: &IdedExpr,
        depth: usize,
    ) -> LoweringResult {
        let operator = binary_operator(name).ok_or_else(|| "is not a CEL expression".to_owned())?;
        Ok(ExpressionNode::Binary(operator, self.lower_boxed(left, depth)?, self.lower_boxed(right, depth)?))
    }

    fn lower_has(&mut self, of: &IdedExpr, depth: usize) -> LoweringResult {
        let Expr::Select(select) = &of.expr else {
            return Err("has(…) takes a field, as in has(inputs.name)".to_owned());
        };
        let Some(path) = self.static_path(&of.expr)? else {
            return Ok(ExpressionNode::Has(self.lower_boxed(&select.operand, depth)?, select.field.clone()));
        };
        if path.segments.is_empty() {
            return Err(format!("{} is always there; has(…) takes a field inside it", path.source_text(0)));
        }
        Ok(ExpressionNode::HasPath(self.intern_path(path)))
    }

    /// Lowers a loop: `range.name(variable, body)` or `range.map(variable, condition, body)`.
    fn lower_loop(
        &mut self,
        name: &str,
        range: &IdedExpr,
        args: &[IdedExpr],
        depth: usize,
    ) -> LoweringResult {
        let usage =
            || format!("{name}(…) takes a name and an expression, as in inputs.files.{name}(file, …)");
        let Some((_, kind)) = LOOP_MACROS.iter().find(|(word, _)| *word == name) else { return Err(usage()) };
        let (variable, condition, body) = match args {
            [variable, body] => (variable, None, body),
            [variable, condition, body] if *kind == LoopKind::Map => (variable, Some(condition), body),
            _ => return Err(usage()),
        };
        let Expr::Ident(variable) = &variable.expr else { return Err(usage()) };
        let range = self.lower_node(range, depth)?;
        if self.variables.len() >= LOOP_DEPTH_MAX {
            return Err(format!("nests {name}(…) deeper than {LOOP_DEPTH_MAX} loops"));
        }
        self.variables.push(variable.clone());
        let condition = condition.map(|condition| self.lower_node(condition, depth)).transpose();
        let body = self.lower_node(body, depth);
        self.variables.pop();
        Ok(ExpressionNode::Loop(*kind, Box::new(LoopParts { range, condition: condition?, body: body? })))
    }

    /// Lowers a call (receiver first in `args`); compiles a literal pattern of `matches`, unless it ships. `Err`: why refused.
    fn lower_function(&mut self, name: &str, args: Vec<&IdedExpr>, depth: usize) -> LoweringResult {
        let function = Function::from_name(name)?;
        let mut args =
            args.into_iter().map(|arg| self.lower_node(arg, depth)).collect::<Result<Vec<_>, _>>()?;
        function.check_argument_count(args.len())?;
        if function != Function::Matches {
            return Ok(ExpressionNode::Call(function, args));
        }
        let (Some(pattern), Some(text)) = (args.pop(), args.pop()) else {
            return Err("matches(…) takes a pattern".to_owned());
        };
        let pattern = match pattern {
            ExpressionNode::Literal(Value::String(pattern)) => {
                let pattern = LiteralPattern::new(pattern);
                if self.vocabulary != ExpressionVocabulary::ShippedRule {
                    pattern.regex()?;
                }
                Pattern::Literal(Box::new(pattern))
            }
            node => Pattern::Dynamic(Box::new(node)),
        };
        Ok(ExpressionNode::Matches(Box::new(text), pattern))
    }

    /// The path that `expr` is, if it consists of a known root and literal segments; `None` otherwise.
    /// Knowing paths ahead of evaluation allows loading only the values that are read.
    fn static_path(&self, expr: &Expr) -> Result<Option<ReferencePath>, String> {
        let Some((root, mut segments)) = self.literal_path(expr) else { return Ok(None) };
        let root = match root {
            _ if !self.vocabulary.has(root) => return Ok(None),
            "inputs" => ReferenceRoot::Inputs,
            "arguments" => ReferenceRoot::OwnArguments,
            "output" => ReferenceRoot::OwnOutput,
            "execution" => {
                let first = segments.drain(..segments.len().min(1)).next();
                if !matches!(first, Some(PathSegment::Field(field)) if field == "id") {
                    return Err("of the execution only execution.id can be read".to_owned());
                }
                ReferenceRoot::ExecutionId
            }
            "steps" => self.take_step_root(&mut segments)?,
            _ => match self.vocabulary.fact(root) {
                Some(name) => ReferenceRoot::Fact(name),
                None => return Ok(None),
            },
        };
        Ok(Some(ReferencePath { root, segments }))
    }

    /// Takes the id and the field after `steps` off the front of `segments`.
    fn take_step_root(&self, segments: &mut Vec<PathSegment>) -> Result<ReferenceRoot, String> {
        let mut first = segments.drain(..segments.len().min(2));
        match (first.next(), first.next()) {
            (Some(PathSegment::Field(id)), Some(PathSegment::Field(field))) => step_root(id.clone(), &field)
                .ok_or_else(|| format!("of a step only output and status can be read: steps.{id}.output, steps.{id}.status, not {field}")),
            (Some(PathSegment::Field(id)), _) => Err(format!("say what of the step is read: steps.{id}.output or steps.{id}.status")),
            (Some(PathSegment::Item(_)) | None, _) => Err("name the step that is read, as in steps.fetch.output or steps[\"fetch\"].output".to_owned()),
        }
    }

    /// A root's name and the literal fields and indices after it; `None` where `expr` is anything else. A
    /// loop rather than recursion, because the author decides how long the chain is.
    fn literal_path<'e>(&self, mut expr: &'e Expr) -> Option<(&'e str, Vec<PathSegment>)> {
        let mut segments = Vec::new();
        loop {
            match expr {
                Expr::Ident(name) => {
                    segments.reverse();
                    return (!self.variables.contains(name)).then_some((name.as_str(), segments));
                }
                Expr::Select(select) => {
                    segments.push(PathSegment::Field(select.field.clone()));
                    expr = &select.operand.expr;
                }
                Expr::Call(call) if call.func_name == operators::INDEX && call.args.len() == 2 => {
                    segments.push(literal_segment(&call.args[1].expr)?);
                    expr = &call.args[0].expr;
                }
                _ => return None,
            }
        }
    }
}

/// A literal index expression as a path segment; `None` for any other expression.
fn literal_segment(expr: &Expr) -> Option<PathSegment> {
    match expr {
        Expr::Literal(LiteralValue::String(name)) => Some(PathSegment::Field(name.inner().to_owned())),
        Expr::Literal(LiteralValue::Int(index)) => {
            usize::try_from(*index.inner()).ok().map(PathSegment::Item)
        }
        _ => None,
    }
}

/// A CEL literal as JSON; `Err` for types that JSON does not have.
fn literal_value(literal: &LiteralValue) -> Result<Value, String> {
    Ok(match literal {
        LiteralValue::Boolean(flag) => Value::Bool(*flag.inner()),
        LiteralValue::Int(number) => Value::from(*number.inner()),
        LiteralValue::Double(number) => number::float_value(*number.inner())?,
        LiteralValue::String(text) => Value::from(text.inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::UInt(number) => return Err(format!("write {0} instead of {0}u", number.inner())),
        LiteralValue::Bytes(_) => return Err("bytes are no JSON; write a text".to_owned()),
    })
}

/// The binary operator with CEL's internal name; `None` where there is none.
fn binary_operator(name: &str) -> Option<BinaryOperator> {
    Some(match name {
        operators::ADD => BinaryOperator::Add,
        operators::SUBSTRACT => BinaryOperator::Subtract,
        operators::MULTIPLY => BinaryOperator::Multiply,
        operators::DIVIDE => BinaryOperator::Divide,
        operators::MODULO => BinaryOperator::Remainder,
        operators::EQUALS => BinaryOperator::Equal,
        operators::NOT_EQUALS => BinaryOperator::NotEqual,
        operators::LESS => BinaryOperator::Less,
        operators::LESS_EQUALS => BinaryOperator::LessEqual,
        operators::GREATER => BinaryOperator::Greater,
        operators::GREATER_EQUALS => BinaryOperator::GreaterEqual,
        operators::IN => BinaryOperator::In,
        _ => return None,
    })
}

/// The parser's message without its list of all the tokens that it expected.
fn first_clause(message: &str) -> &str {
    let message = message.strip_prefix("Syntax error: ").unwrap_or(message);
    message.split(" expecting ").next().unwrap_or(message)
}
