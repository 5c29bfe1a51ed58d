//! Evaluates an expression in a scope, within a budget. Deterministic: maps are walked in the order of their
//! keys. Values are data: nothing here parses them as expressions.

use std::cmp::Ordering;
use std::rc::Rc;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use super::budget::{EvaluatedValue, EvaluationBudget, EvaluationError, approximate_bytes, recoverable};
use super::expression::{
    BinaryOperator, Expression, ExpressionNode, LoopKind, LoopParts, PathSegment, Pattern, ReferencePath,
    ReferenceRoot,
};
use super::function::cel_type_name;
use super::number::{arithmetic, compare_values, list_index, negate, values_equal};
use super::{ExpressionScope, REDACTED_KEY, WORK_MAX, find_redacted};

/// Largest compiled regular expression, in bytes.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// Evaluates `expression` in `scope`. The work limit is reset for each expression, the byte limit is not.
pub(super) fn evaluate<'a>(
    expression: &'a Expression,
    scope: &'a ExpressionScope,
    budget: &mut EvaluationBudget,
) -> Result<EvaluatedValue<'a>, EvaluationError> {
    budget.reset_work();
    let found = vec![None; expression.paths.len()];
    Evaluator { paths: &expression.paths, scope, budget, resolved: found, variables: Vec::new() }
        .evaluate_node(&expression.root)
}

/// The state of one evaluation.
struct Evaluator<'a, 'b> {
    paths: &'a [ReferencePath],
    scope: &'a ExpressionScope,
    budget: &'b mut EvaluationBudget,
    /// Per path, its value once it was read. A cache: the search for secrets inside it runs once, even in a
    /// loop.
    resolved: Vec<Option<&'a Value>>,
    /// The values of the enclosing loops' variables, outermost first.
    variables: Vec<EvaluatedValue<'a>>,
}

/// An evaluated value, or why there is none.
type EvaluationResult<'a> = Result<EvaluatedValue<'a>, EvaluationError>;

impl<'a> Evaluator<'a, '_> {
    /// Evaluates a node, charging one operation.
    fn evaluate_node(&mut self, node: &'a ExpressionNode) -> EvaluationResult<'a> {
        self.budget.charge_work(1)?;
        match node {
            ExpressionNode::Literal(value) => Ok(EvaluatedValue::Borrowed(value)),
            ExpressionNode::Path(number) => self.read_path(*number),
            ExpressionNode::Variable(depth) => Ok(self.variables[*depth].clone()),
            ExpressionNode::Field(of, name) => self.read_field(of, name),
            ExpressionNode::Has(of, name) => self.evaluate_node(of).and_then(|value| has_field(&value, name)),
            ExpressionNode::HasPath(number) => self.has_path(*number),
            ExpressionNode::Index(of, index) => self.read_index(of, index),
            ExpressionNode::List(items) => self.evaluate_list(items),
            ExpressionNode::Map(entries) => self.evaluate_map(entries),
            ExpressionNode::Not(of) => self.evaluate_bool(of).map(|flag| EvaluatedValue::from_bool(!flag)),
            ExpressionNode::Negate(of) => self.evaluate_negate(of),
            ExpressionNode::And(left, right) => self.evaluate_logic(left, right, false),
            ExpressionNode::Or(left, right) => self.evaluate_logic(left, right, true),
            ExpressionNode::If(parts) => {
                let chosen = if self.evaluate_bool(&parts[0])? { &parts[1] } else { &parts[2] };
                self.evaluate_node(chosen)
            }
            ExpressionNode::Binary(operator, left, right) => self.evaluate_binary(*operator, left, right),
            ExpressionNode::Matches(text, pattern) => self.evaluate_matches(text, pattern),
            ExpressionNode::Call(function, args) => {
                let given = args.iter().map(|arg| self.evaluate_node(arg)).collect::<Result<Vec<_>, _>>()?;
                function.call(&given, self.budget)
            }
            ExpressionNode::Loop(kind, parts) => self.evaluate_loop(*kind, parts),
        }
    }

    /// Evaluates a node to a boolean; any other type is an error.
    fn evaluate_bool(&mut self, node: &'a ExpressionNode) -> Result<bool, EvaluationError> {
        let value = self.evaluate_node(node)?;
        value
            .as_bool()
            .ok_or_else(|| recoverable(format!("a bool is wanted here, not {}", cel_type_name(&value))))
    }

    /// Evaluates `&&` (`decides` is false) or `||` (`decides` is true). A side with the deciding value gives
    /// the result even where the other side is an error.
    fn evaluate_logic(
        &mut self,
        left: &'a ExpressionNode,
        right: &'a ExpressionNode,
        decides: bool,
    ) -> EvaluationResult<'a> {
        let left = match self.evaluate_bool(left) {
            Ok(flag) if flag == decides => return Ok(EvaluatedValue::from_bool(decides)),
            Err(error @ EvaluationError::Fatal(_)) => return Err(error),
            other => other,
        };
        match (self.evaluate_bool(right)?, left) {
            (right, Ok(_)) => Ok(EvaluatedValue::from_bool(right)),
            (right, Err(_)) if right == decides => Ok(EvaluatedValue::from_bool(decides)),
            (_, Err(error)) => Err(error),
        }
    }

    /// Reads a path by its number and refuses values that hold a secret.
    fn read_path(&mut self, number: usize) -> EvaluationResult<'a> {
        let path = &self.paths[number];
        if let Some(value) = self.resolved[number] {
            return Ok(EvaluatedValue::Borrowed(value));
        }
        match &path.root {
            ReferenceRoot::Status(step) => return self.read_status(path, step),
            ReferenceRoot::ExecutionId => return self.root_text(path, &self.scope.execution_id),
            ReferenceRoot::Inputs
            | ReferenceRoot::Output(_)
            | ReferenceRoot::OwnArguments
            | ReferenceRoot::OwnOutput
            | ReferenceRoot::Fact(_) => {}
        }
        let value = follow_path(path, path.segments.len(), self.root_value(path)?)?;
        refuse_secret(find_redacted(value))?;
        self.resolved[number] = Some(value);
        Ok(EvaluatedValue::Borrowed(value))
    }

    /// The value that the path starts from; an error where the scope does not have it.
    fn root_value(&self, path: &ReferencePath) -> Result<&'a Value, EvaluationError> {
        let value = match &path.root {
            ReferenceRoot::Inputs => self.scope.inputs.as_deref(),
            ReferenceRoot::Output(step) => self.scope.outputs.get(step).map(AsRef::as_ref),
            ReferenceRoot::OwnArguments => self.scope.arguments.as_deref(),
            ReferenceRoot::OwnOutput => self.scope.output.as_deref(),
            ReferenceRoot::Fact(name) => self.scope.facts.get(name).map(AsRef::as_ref),
            ReferenceRoot::Status(_) | ReferenceRoot::ExecutionId => None,
        };
        value.ok_or_else(|| recoverable(format!("{} is not known", path.source_text(0))))
    }

    fn read_status(&mut self, path: &'a ReferencePath, step: &str) -> EvaluationResult<'a> {
        let status = self.scope.statuses.get(step).copied();
        self.root_text(
            path,
            status.ok_or_else(|| recoverable(format!("{} is not known", path.source_text(0))))?,
        )
    }

    /// A text that is the path's root; an error where the path goes on into it.
    fn root_text(&mut self, path: &'a ReferencePath, text: &str) -> EvaluationResult<'a> {
        if path.segments.is_empty() {
            self.budget.charge_value(text.into())
        } else {
            Err(recoverable(format!("{} is a text and has no fields", path.source_text(0))))
        }
    }

    fn read_field(&mut self, of: &'a ExpressionNode, name: &str) -> EvaluationResult<'a> {
        let value = self.evaluate_node(of)?;
        match &*value {
            Value::Object(_) => {}
            other => return Err(recoverable(format!("{name} is read from {}", cel_type_name(other)))),
        }
        value
            .select(|value| value.get(name), self.budget)?
            .ok_or_else(|| recoverable(format!("there is no field {name}")))
    }

    /// Whether the last field of a path exists; the fields before it must.
    fn has_path(&mut self, number: usize) -> EvaluationResult<'a> {
        let path = &self.paths[number];
        match path.segments.split_last() {
            Some((PathSegment::Field(name), leading)) => {
                has_field(follow_path(path, leading.len(), self.root_value(path)?)?, name)
            }
            Some((PathSegment::Item(_), _)) | None => {
                self.read_path(number).map(|_| EvaluatedValue::from_bool(true))
            }
        }
    }

    /// Evaluates `of[index]`: a list's item or a map's field; a recoverable error for other types.
    fn read_index(&mut self, of: &'a ExpressionNode, index: &'a ExpressionNode) -> EvaluationResult<'a> {
        let (value, index) = (self.evaluate_node(of)?, self.evaluate_node(index)?);
        let part = match (&*value, &*index) {
            (Value::Object(_), Value::String(name)) => {
                value.select(|value| value.get(name.as_str()), self.budget)?
            }
            (Value::Array(_), Value::Number(number)) => {
                let item = list_index(number);
                value.select(|value| value.get(item?), self.budget)?
            }
            (value, index) => {
                return Err(recoverable(format!(
                    "{} has no index of type {}",
                    cel_type_name(value),
                    cel_type_name(index)
                )));
            }
        };
        part.ok_or_else(|| recoverable(format!("there is no item {}", *index)))
    }

    fn evaluate_list(&mut self, items: &'a [ExpressionNode]) -> EvaluationResult<'a> {
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            list.push(self.evaluate_node(item)?.into_value(self.budget)?);
        }
        Ok(EvaluatedValue::Shared(Rc::new(Value::Array(list))))
    }

    fn evaluate_map(&mut self, entries: &'a [(ExpressionNode, ExpressionNode)]) -> EvaluationResult<'a> {
        let mut map = Map::new();
        for (key, value) in entries {
            let Value::String(key) = self.evaluate_node(key)?.into_value(self.budget)? else {
                return Err(recoverable("a map's keys are texts"));
            };
            let value = self.evaluate_node(value)?.into_value(self.budget)?;
            if map.contains_key(&key) {
                return Err(recoverable(format!("the key {key} is given twice")));
            }
            map.insert(key, value);
        }
        Ok(EvaluatedValue::Shared(Rc::new(Value::Object(map))))
    }

    fn evaluate_negate(&mut self, of: &'a ExpressionNode) -> EvaluationResult<'a> {
        let value = self.evaluate_node(of)?;
        let number = value
            .as_number()
            .ok_or_else(|| recoverable(format!("{} cannot be negated", cel_type_name(&value))))?;
        let negated = negate(number).ok_or_else(|| recoverable(format!("-{number} is out of range")))?;
        self.budget.charge_value(Value::Number(negated))
    }

    /// Evaluates `matches(…)`; the work is charged by the text's length.
    fn evaluate_matches(&mut self, text: &'a ExpressionNode, pattern: &'a Pattern) -> EvaluationResult<'a> {
        let value = self.evaluate_node(text)?;
        let text = value
            .as_str()
            .ok_or_else(|| recoverable(format!("matches(…) does not take {}", cel_type_name(&value))))?;
        self.budget.charge_work(1 + text.len() as u64 / 8)?;
        let found = match pattern {
            Pattern::Literal(pattern) => pattern.regex().map_err(recoverable)?.is_match(text),
            Pattern::Dynamic(node) => {
                let pattern = self.evaluate_node(node)?;
                // Compiling a pattern costs far more than one operation.
                self.budget.charge_work(WORK_MAX / 1_000)?;
                let pattern =
                    pattern.as_str().ok_or_else(|| recoverable("matches(…) takes a pattern in a text"))?;
                compile_regex(pattern).map_err(recoverable)?.is_match(text)
            }
        };
        Ok(EvaluatedValue::from_bool(found))
    }

    /// Evaluates a loop such as `map` or `exists`.
    fn evaluate_loop(&mut self, kind: LoopKind, parts: &'a LoopParts) -> EvaluationResult<'a> {
        let range = self.evaluate_node(&parts.range)?;
        let items = self.loop_items(range)?;
        match kind {
            LoopKind::All => self.evaluate_quantifier(items, &parts.body, false),
            LoopKind::Exists => self.evaluate_quantifier(items, &parts.body, true),
            LoopKind::ExistsOne => {
                let mut count = 0;
                for item in items {
                    count += usize::from(self.with_variable(item, |run| run.evaluate_bool(&parts.body))?);
                }
                Ok(EvaluatedValue::from_bool(count == 1))
            }
            LoopKind::Filter => self.evaluate_filter(items, &parts.body),
            LoopKind::Map => self.evaluate_map_loop(items, parts),
        }
    }

    /// The items that a loop runs over: a list's items or a map's keys.
    fn loop_items(&mut self, range: EvaluatedValue<'a>) -> Result<Vec<EvaluatedValue<'a>>, EvaluationError> {
        let of_keys = |fields: &Map<String, Value>| {
            Value::Array(fields.keys().map(|key| key.as_str().into()).collect())
        };
        let range = match &*range {
            Value::Array(_) => range,
            Value::Object(fields) => EvaluatedValue::Shared(Rc::new(of_keys(fields))),
            other => return Err(recoverable(format!("a list is wanted here, not {}", cel_type_name(other)))),
        };
        match range {
            EvaluatedValue::Borrowed(value) => {
                Ok(value.as_array().into_iter().flatten().map(EvaluatedValue::Borrowed).collect())
            }
            owned @ EvaluatedValue::Shared(_) => match owned.into_value(self.budget)? {
                Value::Array(items) => {
                    Ok(items.into_iter().map(|item| EvaluatedValue::Shared(Rc::new(item))).collect())
                }
                other => Err(recoverable(format!("a list is wanted here, not {}", cel_type_name(&other)))),
            },
        }
    }

    /// Runs `body` with `item` as the innermost loop variable.
    fn with_variable<T>(
        &mut self,
        item: EvaluatedValue<'a>,
        body: impl FnOnce(&mut Self) -> Result<T, EvaluationError>,
    ) -> Result<T, EvaluationError> {
        self.variables.push(item);
        let result = body(self);
        self.variables.pop();
        result
    }

    /// Evaluates `all` (`decides` is false) or `exists` (`decides` is true). An item with the deciding value
    /// gives the result even where the body fails on other items.
    fn evaluate_quantifier(
        &mut self,
        items: Vec<EvaluatedValue<'a>>,
        body: &'a ExpressionNode,
        decides: bool,
    ) -> EvaluationResult<'a> {
        let mut first_error = None;
        for item in items {
            match self.with_variable(item, |run| run.evaluate_bool(body)) {
                Ok(flag) if flag == decides => return Ok(EvaluatedValue::from_bool(decides)),
                Ok(_) => {}
                Err(EvaluationError::Recoverable(message)) => {
                    first_error = first_error.or(Some(EvaluationError::Recoverable(message)))
                }
                Err(EvaluationError::Fatal(message)) => return Err(EvaluationError::Fatal(message)),
            }
        }
        first_error.map_or_else(|| Ok(EvaluatedValue::from_bool(!decides)), Err)
    }

    fn evaluate_filter(
        &mut self,
        items: Vec<EvaluatedValue<'a>>,
        body: &'a ExpressionNode,
    ) -> EvaluationResult<'a> {
        let mut kept = Vec::new();
        for item in items {
            if self.with_variable(item.clone(), |run| run.evaluate_bool(body))? {
                kept.push(item.into_value(self.budget)?);
            }
        }
        Ok(EvaluatedValue::Shared(Rc::new(Value::Array(kept))))
    }

    fn evaluate_map_loop(
        &mut self,
        items: Vec<EvaluatedValue<'a>>,
        parts: &'a LoopParts,
    ) -> EvaluationResult<'a> {
        let mut made = Vec::new();
        for item in items {
            let value = self.with_variable(item, |run| match &parts.condition {
                Some(condition) if !run.evaluate_bool(condition)? => Ok(None),
                _ => run.evaluate_node(&parts.body).map(Some),
            })?;
            if let Some(value) = value {
                made.push(value.into_value(self.budget)?);
            }
        }
        Ok(EvaluatedValue::Shared(Rc::new(Value::Array(made))))
    }

    fn evaluate_binary(
        &mut self,
        operator: BinaryOperator,
        left: &'a ExpressionNode,
        right: &'a ExpressionNode,
    ) -> EvaluationResult<'a> {
        let (left, right) = (self.evaluate_node(left)?, self.evaluate_node(right)?);
        let mut ordered = |wanted: &[Ordering]| {
            let ordering = compare_values(&left, &right, self.budget)?;
            Ok(EvaluatedValue::from_bool(ordering.is_some_and(|ordering| wanted.contains(&ordering))))
        };
        match operator {
            BinaryOperator::Less => ordered(&[Ordering::Less]),
            BinaryOperator::LessEqual => ordered(&[Ordering::Less, Ordering::Equal]),
            BinaryOperator::Greater => ordered(&[Ordering::Greater]),
            BinaryOperator::GreaterEqual => ordered(&[Ordering::Greater, Ordering::Equal]),
            BinaryOperator::Equal => Ok(EvaluatedValue::from_bool(values_equal(&left, &right, self.budget)?)),
            BinaryOperator::NotEqual => {
                Ok(EvaluatedValue::from_bool(!values_equal(&left, &right, self.budget)?))
            }
            BinaryOperator::In => self.evaluate_in(&left, &right),
            BinaryOperator::Add => self.evaluate_add(&left, &right),
            BinaryOperator::Subtract
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Remainder => {
                let number = arithmetic(operator, &left, &right)?;
                self.budget.charge_value(number)
            }
        }
    }

    /// Evaluates `in`: an item of a list, or a key of a map.
    fn evaluate_in(&mut self, item: &Value, range: &Value) -> EvaluationResult<'a> {
        match (item, range) {
            (_, Value::Array(items)) => {
                for other in items {
                    if values_equal(item, other, self.budget)? {
                        return Ok(EvaluatedValue::from_bool(true));
                    }
                }
                Ok(EvaluatedValue::from_bool(false))
            }
            (Value::String(key), Value::Object(fields)) => {
                Ok(EvaluatedValue::from_bool(fields.contains_key(key)))
            }
            // In CEL a key may be a number or a boolean; in JSON it is always a string.
            (Value::Number(_) | Value::Bool(_), Value::Object(_)) => Ok(EvaluatedValue::from_bool(false)),
            (_, other) => Err(recoverable(format!(
                "`in` does not look for {} in {}",
                cel_type_name(item),
                cel_type_name(other)
            ))),
        }
    }

    /// Evaluates `+` on numbers, texts or lists.
    fn evaluate_add(&mut self, left: &Value, right: &Value) -> EvaluationResult<'a> {
        match (left, right) {
            (Value::String(left), Value::String(right)) => {
                self.budget.check_bytes(left.len() + right.len())?;
                self.budget.charge_value(Value::String([left.as_str(), right].concat()))
            }
            (Value::Array(one), Value::Array(other)) => {
                self.budget.check_bytes(approximate_bytes(left) + approximate_bytes(right))?;
                self.budget.charge_value(Value::Array(one.iter().chain(other).cloned().collect()))
            }
            _ => {
                let number = arithmetic(BinaryOperator::Add, left, right)?;
                self.budget.charge_value(number)
            }
        }
    }
}

/// Follows the path's first `length` segments from `root`; an error where one is missing or redacted.
fn follow_path<'a>(
    path: &ReferencePath,
    length: usize,
    root: &'a Value,
) -> Result<&'a Value, EvaluationError> {
    let mut value = root;
    for (index, segment) in path.segments[..length].iter().enumerate() {
        refuse_secret(value.get(REDACTED_KEY).and_then(|_| find_redacted(value)))?;
        let next = match (segment, value) {
            (PathSegment::Field(name), Value::Object(fields)) => fields.get(name),
            (PathSegment::Item(index), Value::Array(items)) => items.get(*index),
            (PathSegment::Field(_) | PathSegment::Item(_), other) => {
                return Err(unreadable_error(path, index, other));
            }
        };
        value = next.ok_or_else(|| missing_error(path, index, value))?;
    }
    Ok(value)
}

/// The error for a field or item that `value`, the path's value after `index` segments, does not have.
fn missing_error(path: &ReferencePath, index: usize, value: &Value) -> EvaluationError {
    let message = format!("there is no {}", path.source_text(index + 1));
    let truncated = value.get("truncated") == Some(&Value::Bool(true)) && value.get("text").is_some();
    if !truncated {
        return recoverable(message);
    }
    let here = path.source_text(index);
    recoverable(format!(
        "{message}: {here} was too long, and only the beginning of it is kept, as {here}.text"
    ))
}

/// The error for a value that has no fields or items: the path's value after `index` segments.
fn unreadable_error(path: &ReferencePath, index: usize, value: &Value) -> EvaluationError {
    let (here, next) = (path.source_text(index), path.source_text(index + 1));
    match value {
        Value::Null => recoverable(format!("{here} is null; {next} cannot be read")),
        other => recoverable(format!("{here} is of type {}; {next} cannot be read", cel_type_name(other))),
    }
}

/// Whether `value` has the field `name`. Null has none: the output of a skipped step is null, and `has(…)` on
/// it is allowed.
fn has_field<'a>(value: &Value, name: &str) -> EvaluationResult<'a> {
    match value {
        Value::Object(fields) => Ok(EvaluatedValue::from_bool(fields.contains_key(name))),
        Value::Null => Ok(EvaluatedValue::from_bool(false)),
        other => Err(recoverable(format!("has(…) looks for {name} in {}", cel_type_name(other)))),
    }
}

/// Fatal error if there is a secret of this name.
fn refuse_secret(name: Option<&str>) -> Result<(), EvaluationError> {
    match name {
        None => Ok(()),
        Some(name) => Err(EvaluationError::Fatal(format!(
            "{name} is secret and is not kept; take it from the environment in the config with ${{env:NAME}}"
        ))),
    }
}

/// Compiles a pattern; `Err` also where the compiled form exceeds `REGEX_BYTES_MAX`.
pub(super) fn compile_regex(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern).size_limit(REGEX_BYTES_MAX).build();
    built.map_err(|error| {
        format!(
            "`{pattern}` is not a regular expression: {}",
            error.to_string().lines().last().unwrap_or_default()
        )
    })
}
