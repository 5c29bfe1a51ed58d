//! An expression and a scope give a value, within a budget. Deterministic: maps are walked in the
//! order of their keys. Values are data: nothing here parses them.

use std::cmp::Ordering;
use std::rc::Rc;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use super::budget::{Budget, Fault, Held, plain, weight};
use super::function::type_name;
use super::node::{Binary, Expression, Loop, LoopParts, Node, Path, Pattern, Root, Segment};
use super::number::{arithmetic, equal, negated, ordering, place};
use super::{REDACTED, Scope, WORK_MAX, redacted_in};

const REGEX_BYTES_MAX: usize = 1 << 20;

/// What `expression` gives in `scope`. The work is counted per expression, the bytes per budget.
pub(super) fn evaluate<'a>(
    expression: &'a Expression,
    scope: &'a Scope,
    budget: &mut Budget,
) -> Result<Held<'a>, Fault> {
    budget.next_expression();
    let found = vec![None; expression.paths.len()];
    Run { paths: &expression.paths, scope, budget, found, variables: Vec::new() }.node(&expression.root)
}

struct Run<'a, 'b> {
    paths: &'a [Path],
    scope: &'a Scope,
    budget: &'b mut Budget,
    /// What each path led to, once it was read: secrets are looked for once, also inside a loop.
    found: Vec<Option<&'a Value>>,
    variables: Vec<Held<'a>>,
}

type Given<'a> = Result<Held<'a>, Fault>;

impl<'a> Run<'a, '_> {
    fn node(&mut self, node: &'a Node) -> Given<'a> {
        self.budget.work(1)?;
        match node {
            Node::Literal(value) => Ok(Held::Ref(value)),
            Node::Path(number) => self.path(*number),
            Node::Variable(place) => Ok(self.variables[*place].clone()),
            Node::Field(of, name) => self.field(of, name),
            Node::Has(of, name) => self.node(of).and_then(|value| has(&value, name)),
            Node::HasPath(number) => self.has_path(*number),
            Node::Index(of, index) => self.index(of, index),
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Not(of) => self.flag(of).map(|flag| Held::flag(!flag)),
            Node::Negate(of) => self.negate(of),
            Node::And(left, right) => self.logic(left, right, false),
            Node::Or(left, right) => self.logic(left, right, true),
            Node::If(parts) => {
                let chosen = if self.flag(&parts[0])? { &parts[1] } else { &parts[2] };
                self.node(chosen)
            }
            Node::Binary(operator, left, right) => self.binary(*operator, left, right),
            Node::Matches(text, pattern) => self.matches(text, pattern),
            Node::Call(function, args) => {
                let given = args.iter().map(|arg| self.node(arg)).collect::<Result<Vec<_>, _>>()?;
                function.call(&given, self.budget)
            }
            Node::Loop(kind, parts) => self.looped(*kind, parts),
        }
    }

    fn flag(&mut self, node: &'a Node) -> Result<bool, Fault> {
        let value = self.node(node)?;
        value.as_bool().ok_or_else(|| plain(format!("a bool is wanted here, not {}", type_name(&value))))
    }

    /// `and` and `or`: the one value that decides wins over a fault on the other side.
    fn logic(&mut self, left: &'a Node, right: &'a Node, decides: bool) -> Given<'a> {
        let left = match self.flag(left) {
            Ok(flag) if flag == decides => return Ok(Held::flag(decides)),
            Err(fault @ Fault::Final(_)) => return Err(fault),
            other => other,
        };
        match (self.flag(right)?, left) {
            (right, Ok(_)) => Ok(Held::flag(right)),
            (right, Err(_)) if right == decides => Ok(Held::flag(decides)),
            (_, Err(fault)) => Err(fault),
        }
    }

    fn path(&mut self, number: usize) -> Given<'a> {
        let path = &self.paths[number];
        if let Some(value) = self.found[number] {
            return Ok(Held::Ref(value));
        }
        match &path.root {
            Root::Status(step) => return self.status(path, step),
            Root::ExecutionId => return self.scalar(path, &self.scope.execution_id),
            Root::Inputs | Root::Output(_) | Root::OwnArguments | Root::OwnOutput => {}
        }
        let value = follow(path, path.segments.len(), self.root(path)?)?;
        secret(redacted_in(value))?;
        self.found[number] = Some(value);
        Ok(Held::Ref(value))
    }

    fn root(&self, path: &Path) -> Result<&'a Value, Fault> {
        let value = match &path.root {
            Root::Inputs => self.scope.inputs.as_deref(),
            Root::Output(step) => self.scope.outputs.get(step).map(AsRef::as_ref),
            Root::OwnArguments => self.scope.arguments.as_deref(),
            Root::OwnOutput => self.scope.output.as_deref(),
            Root::Status(_) | Root::ExecutionId => None,
        };
        value.ok_or_else(|| plain(format!("{} is not known", path.spelled(0))))
    }

    fn status(&mut self, path: &'a Path, step: &str) -> Given<'a> {
        let status = self.scope.statuses.get(step).copied();
        self.scalar(path, status.ok_or_else(|| plain(format!("{} is not known", path.spelled(0))))?)
    }

    fn scalar(&mut self, path: &'a Path, text: &str) -> Given<'a> {
        match path.segments.is_empty() {
            true => self.budget.made(text.into()),
            false => Err(plain(format!("{} is a text and has no fields", path.spelled(0)))),
        }
    }

    fn field(&mut self, of: &'a Node, name: &str) -> Given<'a> {
        let value = self.node(of)?;
        match &*value {
            Value::Object(_) => {}
            other => return Err(plain(format!("{name} is read from {}", type_name(other)))),
        }
        value
            .part(|value| value.get(name), self.budget)?
            .ok_or_else(|| plain(format!("there is no field {name}")))
    }

    fn has_path(&mut self, number: usize) -> Given<'a> {
        let path = &self.paths[number];
        match path.segments.split_last() {
            Some((Segment::Field(name), leading)) => {
                has(follow(path, leading.len(), self.root(path)?)?, name)
            }
            Some((Segment::Item(_), _)) | None => self.path(number).map(|_| Held::flag(true)),
        }
    }

    fn index(&mut self, of: &'a Node, index: &'a Node) -> Given<'a> {
        let (value, index) = (self.node(of)?, self.node(index)?);
        let part = match (&*value, &*index) {
            (Value::Object(_), Value::String(name)) => {
                value.part(|value| value.get(name.as_str()), self.budget)?
            }
            (Value::Array(_), Value::Number(number)) => {
                let place = place(number);
                value.part(|value| value.get(place?), self.budget)?
            }
            (value, index) => {
                return Err(plain(format!("{} has no index of type {}", type_name(value), type_name(index))));
            }
        };
        part.ok_or_else(|| plain(format!("there is no item {}", *index)))
    }

    fn list(&mut self, items: &'a [Node]) -> Given<'a> {
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            list.push(self.node(item)?.into_value(self.budget)?);
        }
        Ok(Held::Own(Rc::new(Value::Array(list))))
    }

    fn map(&mut self, entries: &'a [(Node, Node)]) -> Given<'a> {
        let mut map = Map::new();
        for (key, value) in entries {
            let Value::String(key) = self.node(key)?.into_value(self.budget)? else {
                return Err(plain("a map's keys are texts"));
            };
            let value = self.node(value)?.into_value(self.budget)?;
            if map.contains_key(&key) {
                return Err(plain(format!("the key {key} is there twice")));
            }
            map.insert(key, value);
        }
        Ok(Held::Own(Rc::new(Value::Object(map))))
    }

    fn negate(&mut self, of: &'a Node) -> Given<'a> {
        let value = self.node(of)?;
        let number =
            value.as_number().ok_or_else(|| plain(format!("{} cannot be negated", type_name(&value))))?;
        let negated = negated(number).ok_or_else(|| plain(format!("-{number} is out of range")))?;
        self.budget.made(Value::Number(negated))
    }

    fn matches(&mut self, text: &'a Node, pattern: &'a Pattern) -> Given<'a> {
        let value = self.node(text)?;
        let text =
            value.as_str().ok_or_else(|| plain(format!("matches(…) does not take {}", type_name(&value))))?;
        self.budget.work(1 + text.len() as u64 / 8)?;
        let found = match pattern {
            Pattern::Compiled(regex) => regex.is_match(text),
            Pattern::Dynamic(node) => {
                let pattern = self.node(node)?;
                // Compiling costs far more than an operation.
                self.budget.work(WORK_MAX / 1_000)?;
                let pattern =
                    pattern.as_str().ok_or_else(|| plain("matches(…) takes a pattern in a text"))?;
                regex(pattern).map_err(plain)?.is_match(text)
            }
        };
        Ok(Held::flag(found))
    }

    fn looped(&mut self, kind: Loop, parts: &'a LoopParts) -> Given<'a> {
        let range = self.node(&parts.range)?;
        let items = self.items(range)?;
        match kind {
            Loop::All => self.quantified(items, &parts.body, false),
            Loop::Exists => self.quantified(items, &parts.body, true),
            Loop::ExistsOne => {
                let mut count = 0;
                for item in items {
                    count += usize::from(self.with(item, |run| run.flag(&parts.body))?);
                }
                Ok(Held::flag(count == 1))
            }
            Loop::Filter => self.filtered(items, &parts.body),
            Loop::Map => self.mapped(items, parts),
        }
    }

    /// A list's items, or a map's keys.
    fn items(&mut self, range: Held<'a>) -> Result<Vec<Held<'a>>, Fault> {
        let of_keys = |fields: &Map<String, Value>| {
            Value::Array(fields.keys().map(|key| key.as_str().into()).collect())
        };
        let range = match &*range {
            Value::Array(_) => range,
            Value::Object(fields) => Held::Own(Rc::new(of_keys(fields))),
            other => return Err(plain(format!("a list is wanted here, not {}", type_name(other)))),
        };
        match range {
            Held::Ref(value) => Ok(value.as_array().into_iter().flatten().map(Held::Ref).collect()),
            owned @ Held::Own(_) => match owned.into_value(self.budget)? {
                Value::Array(items) => Ok(items.into_iter().map(|item| Held::Own(Rc::new(item))).collect()),
                other => Err(plain(format!("a list is wanted here, not {}", type_name(&other)))),
            },
        }
    }

    fn with<T>(
        &mut self,
        item: Held<'a>,
        body: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.variables.push(item);
        let result = body(self);
        self.variables.pop();
        result
    }

    /// `all` and `exists`: the first item that decides wins over faults on others.
    fn quantified(&mut self, items: Vec<Held<'a>>, body: &'a Node, decides: bool) -> Given<'a> {
        let mut fault = None;
        for item in items {
            match self.with(item, |run| run.flag(body)) {
                Ok(flag) if flag == decides => return Ok(Held::flag(decides)),
                Ok(_) => {}
                Err(Fault::Plain(message)) => fault = fault.or(Some(Fault::Plain(message))),
                Err(Fault::Final(message)) => return Err(Fault::Final(message)),
            }
        }
        fault.map_or_else(|| Ok(Held::flag(!decides)), Err)
    }

    fn filtered(&mut self, items: Vec<Held<'a>>, body: &'a Node) -> Given<'a> {
        let mut kept = Vec::new();
        for item in items {
            if self.with(item.clone(), |run| run.flag(body))? {
                kept.push(item.into_value(self.budget)?);
            }
        }
        Ok(Held::Own(Rc::new(Value::Array(kept))))
    }

    fn mapped(&mut self, items: Vec<Held<'a>>, parts: &'a LoopParts) -> Given<'a> {
        let mut made = Vec::new();
        for item in items {
            let value = self.with(item, |run| match &parts.condition {
                Some(condition) if !run.flag(condition)? => Ok(None),
                _ => run.node(&parts.body).map(Some),
            })?;
            if let Some(value) = value {
                made.push(value.into_value(self.budget)?);
            }
        }
        Ok(Held::Own(Rc::new(Value::Array(made))))
    }

    fn binary(&mut self, operator: Binary, left: &'a Node, right: &'a Node) -> Given<'a> {
        let (left, right) = (self.node(left)?, self.node(right)?);
        let mut ordered = |wanted: &[Ordering]| {
            let ordering = ordering(&left, &right, self.budget)?;
            Ok(Held::flag(ordering.is_some_and(|ordering| wanted.contains(&ordering))))
        };
        match operator {
            Binary::Less => ordered(&[Ordering::Less]),
            Binary::LessEqual => ordered(&[Ordering::Less, Ordering::Equal]),
            Binary::Greater => ordered(&[Ordering::Greater]),
            Binary::GreaterEqual => ordered(&[Ordering::Greater, Ordering::Equal]),
            Binary::Equal => Ok(Held::flag(equal(&left, &right, self.budget)?)),
            Binary::NotEqual => Ok(Held::flag(!equal(&left, &right, self.budget)?)),
            Binary::In => self.contained(&left, &right),
            Binary::Add => self.sum(&left, &right),
            Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Remainder => {
                let number = arithmetic(operator, &left, &right)?;
                self.budget.made(number)
            }
        }
    }

    fn contained(&mut self, item: &Value, range: &Value) -> Given<'a> {
        match (item, range) {
            (_, Value::Array(items)) => {
                for other in items {
                    if equal(item, other, self.budget)? {
                        return Ok(Held::flag(true));
                    }
                }
                Ok(Held::flag(false))
            }
            (Value::String(key), Value::Object(fields)) => Ok(Held::flag(fields.contains_key(key))),
            // CEL's keys may be numbers and booleans; those of JSON never are.
            (Value::Number(_) | Value::Bool(_), Value::Object(_)) => Ok(Held::flag(false)),
            (_, other) => {
                Err(plain(format!("`in` does not look for {} in {}", type_name(item), type_name(other))))
            }
        }
    }

    fn sum(&mut self, left: &Value, right: &Value) -> Given<'a> {
        match (left, right) {
            (Value::String(left), Value::String(right)) => {
                self.budget.fits(left.len() + right.len())?;
                self.budget.made(Value::String([left.as_str(), right].concat()))
            }
            (Value::Array(one), Value::Array(other)) => {
                self.budget.fits(weight(left) + weight(right))?;
                self.budget.made(Value::Array(one.iter().chain(other).cloned().collect()))
            }
            _ => {
                let number = arithmetic(Binary::Add, left, right)?;
                self.budget.made(number)
            }
        }
    }
}

/// Where the path's first `length` segments lead.
fn follow<'a>(path: &Path, length: usize, root: &'a Value) -> Result<&'a Value, Fault> {
    let mut value = root;
    for (index, segment) in path.segments[..length].iter().enumerate() {
        secret(value.get(REDACTED).and_then(|_| redacted_in(value)))?;
        let next = match (segment, value) {
            (Segment::Field(name), Value::Object(fields)) => fields.get(name),
            (Segment::Item(place), Value::Array(items)) => items.get(*place),
            (Segment::Field(_) | Segment::Item(_), other) => return Err(unreadable(path, index, other)),
        };
        value = next.ok_or_else(|| plain(format!("there is no {}", path.spelled(index + 1))))?;
    }
    Ok(value)
}

fn unreadable(path: &Path, index: usize, value: &Value) -> Fault {
    let (here, next) = (path.spelled(index), path.spelled(index + 1));
    match value {
        Value::Null => plain(format!("{here} is null; {next} cannot be read")),
        other => plain(format!("{here} is of type {}; {next} cannot be read", type_name(other))),
    }
}

/// A step that was skipped has null for its output: nothing is in it, and asking is no fault.
fn has<'a>(value: &Value, name: &str) -> Given<'a> {
    match value {
        Value::Object(fields) => Ok(Held::flag(fields.contains_key(name))),
        Value::Null => Ok(Held::flag(false)),
        other => Err(plain(format!("has(…) looks for {name} in {}", type_name(other)))),
    }
}

fn secret(name: Option<&str>) -> Result<(), Fault> {
    match name {
        None => Ok(()),
        Some(name) => Err(Fault::Final(format!(
            "{name} is secret and is not kept; take it from the environment in the config with ${{env:NAME}}"
        ))),
    }
}

pub(super) fn regex(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern).size_limit(REGEX_BYTES_MAX).build();
    built.map_err(|error| {
        format!(
            "`{pattern}` is no regular expression: {}",
            error.to_string().lines().last().unwrap_or_default()
        )
    })
}
