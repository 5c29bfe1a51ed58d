//! From what the `cel` crate parsed to the tree that is kept: names resolved, functions known,
//! depth bounded. Everything that can be refused without values is refused here.

use std::sync::OnceLock;

use cel::Env;
use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, MapExpr, SelectExpr, operators};
use serde_json::Value;

use super::function::Function;
use super::node::{Binary, Expression, Loop, LoopParts, Node, Path, Pattern, Root, Segment};
use super::source::with_room;
use super::{DEPTH_MAX, LOOPS_MAX, evaluate, number};
use crate::spelling::nearest;

const VARIABLES: [&str; 5] = ["inputs", "steps", "execution", "arguments", "output"];
const TYPES: [&str; 7] = ["int", "double", "string", "bool", "list", "map", "null_type"];
const LOOPS: [(&str, Loop); 6] = [
    ("all", Loop::All),
    ("exists", Loop::Exists),
    ("exists_one", Loop::ExistsOne),
    ("existsOne", Loop::ExistsOne),
    ("filter", Loop::Filter),
    ("map", Loop::Map),
];

/// `source` is the author's text, `written` the same with quoted step ids.
pub(super) fn expression(source: &str, written: &str) -> Result<Expression, String> {
    let mut lowering = Lowering::default();
    let root = match plain_path(written) {
        Some(path) => Node::Path(lowering.path(path)),
        None => with_room(|| lowering.parsed(written))?,
    };
    Ok(Expression { source: source.to_owned(), root, paths: lowering.paths })
}

/// Most expressions are a plain path, and those need no parser: a plan of ten thousand steps is read
/// in a fraction of the time.
fn plain_path(written: &str) -> Option<Path> {
    let mut names = written.split('.');
    let root = match names.next()? {
        "inputs" => Root::Inputs,
        "arguments" => Root::OwnArguments,
        "output" => Root::OwnOutput,
        "execution" => (names.next()? == "id").then_some(Root::ExecutionId)?,
        "steps" => step_root(plain_name(names.next()?)?, names.next()?)?,
        _ => return None,
    };
    let segments = names.map(|name| plain_name(name).map(Segment::Field)).collect::<Option<_>>()?;
    Some(Path { root, segments })
}

fn plain_name(name: &str) -> Option<String> {
    const RESERVED: [&str; 4] = ["in", "true", "false", "null"];
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let plain = starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (plain && !RESERVED.contains(&name)).then(|| name.to_owned())
}

fn step_root(id: String, field: &str) -> Option<Root> {
    match field {
        "output" => Some(Root::Output(id)),
        "status" => Some(Root::Status(id)),
        _ => None,
    }
}

/// Without macros and optional values: loops and `has` are lowered here, as they were written.
fn environment() -> &'static Env {
    static PLAIN: OnceLock<Env> = OnceLock::new();
    PLAIN.get_or_init(|| Env::default().with_optional_support(false))
}

#[derive(Default)]
struct Lowering {
    paths: Vec<Path>,
    /// The names of the loops around.
    variables: Vec<String>,
}

type Lowered = Result<Node, String>;

impl Lowering {
    fn parsed(&mut self, written: &str) -> Lowered {
        match environment().parser().parse(written) {
            Ok(parsed) => self.node(&parsed, 0),
            Err(errors) => Err(errors.errors.first().map_or_else(
                || "is no CEL expression".to_owned(),
                |error| {
                    format!("is no CEL expression: {} at character {}", first_clause(&error.msg), error.pos.1)
                },
            )),
        }
    }

    fn path(&mut self, path: Path) -> usize {
        let known = self.paths.iter().position(|other| *other == path);
        known.unwrap_or_else(|| {
            self.paths.push(path);
            self.paths.len() - 1
        })
    }

    fn node(&mut self, expr: &IdedExpr, depth: usize) -> Lowered {
        if depth >= DEPTH_MAX {
            return Err(format!("nests operations deeper than {DEPTH_MAX}; split it over several steps"));
        }
        if let Some(path) = self.static_path(&expr.expr)? {
            return Ok(Node::Path(self.path(path)));
        }
        match &expr.expr {
            Expr::Literal(literal) => self::literal(literal).map(Node::Literal),
            Expr::Ident(name) => self.identifier(name),
            Expr::Select(select) => self.select(select, depth),
            Expr::Call(call) => self.call(call, depth + 1),
            Expr::List(list) => self.nodes(&list.elements, depth + 1).map(Node::List),
            Expr::Map(map) => self.map(map, depth + 1),
            Expr::Struct(made) => {
                Err(format!("makes a {}; only maps `{{\"key\": value}}` can be made", made.type_name))
            }
            Expr::Comprehension(_) | Expr::Unspecified => Err("is no CEL expression".to_owned()),
        }
    }

    fn boxed(&mut self, expr: &IdedExpr, depth: usize) -> Result<Box<Node>, String> {
        self.node(expr, depth).map(Box::new)
    }

    fn nodes(&mut self, exprs: &[IdedExpr], depth: usize) -> Result<Vec<Node>, String> {
        exprs.iter().map(|expr| self.node(expr, depth)).collect()
    }

    fn identifier(&mut self, name: &str) -> Lowered {
        if let Some(place) = self.variables.iter().rposition(|variable| variable == name) {
            return Ok(Node::Variable(place));
        }
        if TYPES.contains(&name) {
            return Ok(Node::Literal(name.into()));
        }
        let known = VARIABLES.into_iter().chain(self.variables.iter().map(String::as_str));
        let meant = nearest(name, known).map(|name| format!("; did you mean `{name}`?"));
        Err(format!(
            "`{name}` is not in scope{}",
            meant.unwrap_or_else(|| "; there are inputs, steps and execution".to_owned())
        ))
    }

    fn select(&mut self, select: &SelectExpr, depth: usize) -> Lowered {
        let of = self.boxed(&select.operand, depth + 1)?;
        Ok(Node::Field(of, select.field.clone()))
    }

    fn map(&mut self, map: &MapExpr, depth: usize) -> Lowered {
        let mut entries = Vec::with_capacity(map.entries.len());
        for entry in &map.entries {
            match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    entries.push((self.node(&entry.key, depth)?, self.node(&entry.value, depth)?))
                }
                EntryExpr::StructField(_) => return Err("is no CEL expression".to_owned()),
            }
        }
        Ok(Node::Map(entries))
    }

    fn call(&mut self, call: &CallExpr, depth: usize) -> Lowered {
        let name = call.func_name.as_str();
        match (&call.target, call.args.as_slice()) {
            (None, [condition, yes, no]) if name == operators::CONDITIONAL => Ok(Node::If(Box::new([
                self.node(condition, depth)?,
                self.node(yes, depth)?,
                self.node(no, depth)?,
            ]))),
            (None, [left, right]) if name == operators::LOGICAL_AND => {
                Ok(Node::And(self.boxed(left, depth)?, self.boxed(right, depth)?))
            }
            (None, [left, right]) if name == operators::LOGICAL_OR => {
                Ok(Node::Or(self.boxed(left, depth)?, self.boxed(right, depth)?))
            }
            (None, [of, index]) if name == operators::INDEX => {
                Ok(Node::Index(self.boxed(of, depth)?, self.boxed(index, depth)?))
            }
            (None, [of]) if name == operators::LOGICAL_NOT => Ok(Node::Not(self.boxed(of, depth)?)),
            (None, [of]) if name == operators::NEGATE => self.negated(of, depth),
            (None, [of]) if name == operators::HAS => self.has(of, depth),
            (None, [left, right]) if binary(name).is_some() => self.binary(name, left, right, depth),
            (Some(range), args) if LOOPS.iter().any(|(word, _)| *word == name) => {
                self.looped(name, range, args, depth)
            }
            (target, args) => self.function(name, target.as_deref().into_iter().chain(args).collect(), depth),
        }
    }

    fn negated(&mut self, of: &IdedExpr, depth: usize) -> Lowered {
        Ok(match self.node(of, depth)? {
            Node::Literal(Value::Number(given)) => match number::negated(&given) {
                Some(negated) => Node::Literal(Value::Number(negated)),
                None => return Err(format!("-{given} is out of range")),
            },
            node => Node::Negate(Box::new(node)),
        })
    }

    fn binary(&mut self, name: &str, left: &IdedExpr, right: &IdedExpr, depth: usize) -> Lowered {
        let operator = binary(name).ok_or_else(|| "is no CEL expression".to_owned())?;
        Ok(Node::Binary(operator, self.boxed(left, depth)?, self.boxed(right, depth)?))
    }

    fn has(&mut self, of: &IdedExpr, depth: usize) -> Lowered {
        let Expr::Select(select) = &of.expr else {
            return Err("has(…) takes a field, as in has(inputs.name)".to_owned());
        };
        let Some(path) = self.static_path(&of.expr)? else {
            return Ok(Node::Has(self.boxed(&select.operand, depth)?, select.field.clone()));
        };
        if path.segments.is_empty() {
            return Err(format!("{} is always there; has(…) takes a field inside it", path.spelled(0)));
        }
        Ok(Node::HasPath(self.path(path)))
    }

    /// `range.word(variable, body)`, and `range.map(variable, condition, body)`.
    fn looped(&mut self, name: &str, range: &IdedExpr, args: &[IdedExpr], depth: usize) -> Lowered {
        let wrong =
            || format!("{name}(…) takes a name and an expression, as in inputs.files.{name}(file, …)");
        let Some((_, kind)) = LOOPS.iter().find(|(word, _)| *word == name) else { return Err(wrong()) };
        let (variable, condition, body) = match args {
            [variable, body] => (variable, None, body),
            [variable, condition, body] if *kind == Loop::Map => (variable, Some(condition), body),
            _ => return Err(wrong()),
        };
        let Expr::Ident(variable) = &variable.expr else { return Err(wrong()) };
        let range = self.node(range, depth)?;
        if self.variables.len() >= LOOPS_MAX {
            return Err(format!("nests {name}(…) deeper than {LOOPS_MAX} loops"));
        }
        self.variables.push(variable.clone());
        let condition = condition.map(|condition| self.node(condition, depth)).transpose();
        let body = self.node(body, depth);
        self.variables.pop();
        Ok(Node::Loop(*kind, Box::new(LoopParts { range, condition: condition?, body: body? })))
    }

    fn function(&mut self, name: &str, args: Vec<&IdedExpr>, depth: usize) -> Lowered {
        let function = Function::named(name)?;
        let mut args = args.into_iter().map(|arg| self.node(arg, depth)).collect::<Result<Vec<_>, _>>()?;
        function.takes(args.len())?;
        if function != Function::Matches {
            return Ok(Node::Call(function, args));
        }
        let (Some(pattern), Some(text)) = (args.pop(), args.pop()) else {
            return Err("matches(…) takes a pattern".to_owned());
        };
        let pattern = match pattern {
            Node::Literal(Value::String(pattern)) => Pattern::Compiled(Box::new(evaluate::regex(&pattern)?)),
            node => Pattern::Dynamic(Box::new(node)),
        };
        Ok(Node::Matches(Box::new(text), pattern))
    }

    /// The longest spelled-out path that `expr` is, so that only what is read is loaded.
    fn static_path(&self, expr: &Expr) -> Result<Option<Path>, String> {
        let Some((root, mut segments)) = self.spelled_out(expr) else { return Ok(None) };
        let root = match root {
            "inputs" => Root::Inputs,
            "arguments" => Root::OwnArguments,
            "output" => Root::OwnOutput,
            "execution" => match segments.drain(..segments.len().min(1)).next() {
                Some(Segment::Field(field)) if field == "id" => Root::ExecutionId,
                _ => return Err("of the execution only execution.id can be read".to_owned()),
            },
            "steps" => self.step(&mut segments)?,
            _ => return Ok(None),
        };
        Ok(Some(Path { root, segments }))
    }

    fn step(&self, segments: &mut Vec<Segment>) -> Result<Root, String> {
        let mut first = segments.drain(..segments.len().min(2));
        match (first.next(), first.next()) {
            (Some(Segment::Field(id)), Some(Segment::Field(field))) => step_root(id.clone(), &field)
                .ok_or_else(|| format!("of a step only output and status can be read: steps.{id}.output, steps.{id}.status, not {field}")),
            (Some(Segment::Field(id)), _) => Err(format!("say what of the step is read: steps.{id}.output or steps.{id}.status")),
            _ => Err("name the step that is read, as in steps.fetch.output or steps[\"fetch\"].output".to_owned()),
        }
    }

    /// A root's name and the literal fields and indices after it. Walks, because the chain is as long as the author likes.
    fn spelled_out<'e>(&self, mut expr: &'e Expr) -> Option<(&'e str, Vec<Segment>)> {
        let mut segments = Vec::new();
        loop {
            match expr {
                Expr::Ident(name) => {
                    segments.reverse();
                    return (!self.variables.contains(name)).then_some((name.as_str(), segments));
                }
                Expr::Select(select) => {
                    segments.push(Segment::Field(select.field.clone()));
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

fn literal_segment(expr: &Expr) -> Option<Segment> {
    match expr {
        Expr::Literal(LiteralValue::String(name)) => Some(Segment::Field(name.inner().to_owned())),
        Expr::Literal(LiteralValue::Int(index)) => usize::try_from(*index.inner()).ok().map(Segment::Item),
        _ => None,
    }
}

fn literal(literal: &LiteralValue) -> Result<Value, String> {
    Ok(match literal {
        LiteralValue::Boolean(flag) => Value::Bool(*flag.inner()),
        LiteralValue::Int(number) => Value::from(*number.inner()),
        LiteralValue::Double(number) => number::float(*number.inner())?,
        LiteralValue::String(text) => Value::from(text.inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::UInt(number) => return Err(format!("write {0} instead of {0}u", number.inner())),
        LiteralValue::Bytes(_) => return Err("bytes are no JSON; write a text".to_owned()),
    })
}

fn binary(name: &str) -> Option<Binary> {
    Some(match name {
        operators::ADD => Binary::Add,
        operators::SUBSTRACT => Binary::Subtract,
        operators::MULTIPLY => Binary::Multiply,
        operators::DIVIDE => Binary::Divide,
        operators::MODULO => Binary::Remainder,
        operators::EQUALS => Binary::Equal,
        operators::NOT_EQUALS => Binary::NotEqual,
        operators::LESS => Binary::Less,
        operators::LESS_EQUALS => Binary::LessEqual,
        operators::GREATER => Binary::Greater,
        operators::GREATER_EQUALS => Binary::GreaterEqual,
        operators::IN => Binary::In,
        _ => return None,
    })
}

/// Without the parser's list of everything that could have stood there instead.
fn first_clause(message: &str) -> &str {
    let message = message.strip_prefix("Syntax error: ").unwrap_or(message);
    message.split(" expecting ").next().unwrap_or(message)
}
