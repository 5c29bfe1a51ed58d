//! Checks a plan's calls against the live tools' schemas: literal arguments exactly, templated ones as far as
//! their types can be inferred. Works on the given facts only and calls no tool.

use std::collections::BTreeMap;

use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value};

use super::ToolFacts;
use super::inference::{
    ExpressionContext, InferredValue, accepted_types, resolve_references, tool_called_by_actbook,
    types_may_match,
};
use crate::bind::{ReferencePath, TemplateOutline, ValueTemplate, json_type_of};
use crate::plan::{CompensationWork, CureAction, Finding, Plan, Step, StepWork, pointer_to_path};
use crate::schema;
use crate::spelling::nearest;

/// Most schema errors reported for one call.
const ERRORS_MAX: usize = 20;
/// Longest validator message shown, in characters.
const MESSAGE_CHARS_MAX: usize = 160;

/// Checks the calls of one plan and collects findings.
struct ArgumentChecker<'a> {
    plan: &'a Plan,
    tools: &'a super::ToolFactsByName,
    /// Compiled schemas by tool; `None` where a schema cannot be used.
    validators: BTreeMap<&'a str, Option<Validator>>,
    findings: Vec<Finding>,
}

/// The findings about all calls and reads of a plan.
pub(super) fn findings(plan: &Plan, tools: &super::ToolFactsByName) -> Vec<Finding> {
    let mut checker = ArgumentChecker { plan, tools, validators: BTreeMap::new(), findings: Vec::new() };
    for (no, step) in plan.numbered_steps() {
        checker.check_step(step, &format!("steps[{}]", no.0));
    }
    checker.findings
}

impl<'a> ArgumentChecker<'a> {
    /// Checks a step's work, `when`, compensation and probe.
    fn check_step(&mut self, step: &'a Step, at: &str) {
        let own = tool_called_by_actbook(step);
        let context = ExpressionContext { plan: self.plan, tools: self.tools, step, output_of: own };
        match &step.work {
            StepWork::Tool { tool, arguments } => self.check_call(&context, tool, arguments, at),
            StepWork::AgentTool { .. } => {}
            StepWork::Action { text, .. } => {
                self.check_paths(&context, text.required_paths().into_iter(), &format!("{at}.action"), false);
            }
        }
        if let Some(when) = &step.when {
            self.check_paths(&context, when.required_paths(), &format!("{at}.when"), false);
        }
        if let Some(CompensationWork::Tool { tool, arguments }) =
            step.compensation.as_ref().map(|compensation| &compensation.work)
        {
            self.check_call(&context, tool, arguments, &format!("{at}.compensation"));
        }
        if let Some(CompensationWork::Action { action }) =
            step.compensation.as_ref().map(|compensation| &compensation.work)
        {
            self.check_paths(
                &context,
                action.required_paths().into_iter(),
                &format!("{at}.compensation.action"),
                true,
            );
        }
        if let Some(probe) = &step.probe {
            self.check_call(&context, &probe.tool, &probe.arguments, &format!("{at}.probe"));
            let context = ExpressionContext { output_of: Some(&probe.tool), ..context };
            self.check_paths(
                &context,
                probe.happened.required_paths(),
                &format!("{at}.probe.happened"),
                false,
            );
        }
    }

    /// Checks the arguments of one tool call. `at` is the path of the map that names the tool.
    fn check_call(
        &mut self,
        context: &ExpressionContext<'a>,
        tool: &'a str,
        arguments: &'a ValueTemplate,
        at: &str,
    ) {
        let undoes = at.ends_with("compensation");
        let at_arguments = format!("{at}.arguments");
        self.check_paths(context, arguments.required_paths().into_iter(), &at_arguments, undoes);
        let Some(facts) = self.tools.get(tool) else { return };
        let mut sample = SampleBuilder { context, unknown: Vec::new() };
        let value = sample.build(&arguments.outline(), String::new());
        let unknown = sample.unknown;
        self.validate_arguments(tool, facts, &value, &unknown, at);
        let mismatches =
            unknown.iter().filter_map(|one| type_mismatch(&facts.input_schema, one, &at_arguments));
        self.findings.extend(mismatches);
        self.findings.extend(undeclared_arguments(tool, &facts.input_schema, &value, &at_arguments));
    }

    /// Validates the sample arguments; errors that an unknown value may have caused are left out.
    fn validate_arguments(
        &mut self,
        tool: &'a str,
        facts: &'a ToolFacts,
        value: &Value,
        unknown: &[UnknownArgument<'_>],
        at: &str,
    ) {
        if !self.validators.contains_key(tool) {
            let compiled = schema::compile(&facts.input_schema);
            if let Err(why) = &compiled {
                let message = format!("the schema of `{tool}` cannot be used here: {why}");
                let cure = "only its server checks the arguments; ask its author for a simpler schema";
                self.findings.push(Finding::warning("unchecked_schema", format!("{at}.tool"), message, cure));
            }
            self.validators.insert(tool, compiled.ok());
        }
        let Some(Some(validator)) = self.validators.get(tool) else { return };
        let errors =
            validator.iter_errors(value).filter(|error| is_conclusive(error, unknown)).take(ERRORS_MAX);
        let at = format!("{at}.arguments");
        let found: Vec<Finding> =
            errors.flat_map(|error| error_findings(tool, &facts.input_schema, &error, &at)).collect();
        self.findings.extend(found);
    }

    /// Reports reads of values that no schema declares and, in a compensation (`undoes`), of values that may
    /// be missing.
    fn check_paths(
        &mut self,
        context: &ExpressionContext<'a>,
        paths: impl Iterator<Item = &'a ReferencePath>,
        at: &str,
        undoes: bool,
    ) {
        for path in paths {
            match context.infer(path) {
                InferredValue::Undeclared { message, cure, never: true } => {
                    self.findings.push(Finding::error("not_there", at, message, cure));
                }
                InferredValue::Undeclared { message, cure, never: false } => {
                    self.findings.push(Finding::warning("undeclared_output", at, message, cure));
                }
                InferredValue::Schema { always: false, .. } if undoes => {
                    let message = format!(
                        "`{}` is not always present, and the undo needs it",
                        path.source_text(path.segments.len())
                    );
                    let cure = "use `arguments` or a field that the tool's schema requires";
                    self.findings.push(Finding::warning("undo_may_lack", at, message, cure));
                }
                InferredValue::Schema { .. }
                | InferredValue::Unknown
                | InferredValue::Known(_)
                | InferredValue::Type(_) => {}
            }
        }
    }
}

/// A location in the arguments whose value is not known before the plan runs.
struct UnknownArgument<'a> {
    /// A JSON pointer into the arguments.
    at: String,
    inferred: InferredValue<'a>,
}

/// Builds sample arguments for validation: null stands for each value that is not known yet.
struct SampleBuilder<'s, 'a> {
    context: &'s ExpressionContext<'a>,
    unknown: Vec<UnknownArgument<'a>>,
}

impl<'a> SampleBuilder<'_, 'a> {
    /// The sample value for an outline at the JSON pointer `at`; records each unknown value in `unknown`.
    fn build(&mut self, outline: &TemplateOutline<'a>, at: String) -> Value {
        let inferred = match outline {
            TemplateOutline::Literal(value) => return (*value).clone(),
            TemplateOutline::List(items) => {
                let items = items.iter().enumerate();
                return Value::Array(
                    items.map(|(index, item)| self.build(item, format!("{at}/{index}"))).collect(),
                );
            }
            TemplateOutline::Object(fields) => {
                let inner = |name: &str| format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                let fields =
                    fields.iter().map(|(name, field)| ((*name).to_owned(), self.build(field, inner(name))));
                return Value::Object(fields.collect::<Map<_, _>>());
            }
            TemplateOutline::Read(path) => self.context.infer(path),
            TemplateOutline::Computed(Some(kind)) => InferredValue::Type(kind),
            TemplateOutline::Computed(None) => InferredValue::Unknown,
        };
        if let InferredValue::Known(value) = inferred {
            return value.clone();
        }
        self.unknown.push(UnknownArgument { at, inferred });
        Value::Null
    }
}

/// Whether a validation error holds whatever the unknown values turn out to be: it is neither at one of them
/// nor caused by the null that stands for it.
fn is_conclusive(error: &ValidationError<'_>, unknown: &[UnknownArgument<'_>]) -> bool {
    // Keywords about an object's own shape, which the values inside do not influence.
    const SHAPE_KEYWORDS: [&str; 5] =
        ["required", "additionalProperties", "type", "minProperties", "maxProperties"];
    let at = error.instance_path().as_str();
    let within = |outer: &str, inner: &str| inner == outer || inner.starts_with(&format!("{outer}/"));
    !unknown.iter().any(|one| {
        let of_shape = SHAPE_KEYWORDS.contains(&error.kind().keyword()) && one.at != at;
        within(&one.at, at) || (within(at, &one.at) && !of_shape)
    })
}

/// Translates a validation error into findings. `at` is the path of the arguments.
fn error_findings(tool: &str, schema: &Value, error: &ValidationError<'_>, at: &str) -> Vec<Finding> {
    use jsonschema::error::ValidationErrorKind as Kind;
    let inside = pointer_to_path(error.instance_path().as_str());
    let path = |inner: &str| match (inside.as_str(), inner) {
        ("", "") => at.to_owned(),
        ("", inner) => format!("{at}.{inner}"),
        (inside, "") => format!("{at}.{inside}"),
        (inside, inner) => format!("{at}.{inside}.{inner}"),
    };
    match error.kind() {
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let (message, cure) = (format!("`{tool}` needs `{name}`"), format!("add `{name}`"));
            vec![Finding::error("missing_argument", path(name), message, cure)]
        }
        Kind::AdditionalProperties { unexpected } => {
            let superfluous = |name: &String| {
                let (message, cure) =
                    (format!("`{tool}` takes no `{name}`"), undeclared_argument_cure(schema, name));
                Finding::error("superfluous_argument", path(name), message, cure)
            };
            unexpected.iter().map(superfluous).collect()
        }
        _ => {
            let cure = format!("compare it with the schema of `{tool}`");
            let finding = Finding::error("bad_argument", path(""), truncate(&error.to_string()), cure);
            vec![finding.with_action(CureAction::ReadToolSchema)]
        }
    }
}

/// The cure for an argument that the schema does not declare: the nearest name, or the list of names.
fn undeclared_argument_cure(schema: &Value, name: &str) -> String {
    let known = || {
        schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
    };
    match nearest(name, known()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("leave it out; there are {}", known().collect::<Vec<_>>().join(", ")),
    }
}

/// Shortens a text to `MESSAGE_CHARS_MAX` characters.
fn truncate(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The error for an unknown value whose inferred types the tool does not accept; `None` where one may fit.
fn type_mismatch(schema: &Value, unknown: &UnknownArgument<'_>, at: &str) -> Option<Finding> {
    let wanted = accepted_types(schema, schema_at(schema, &unknown.at)?)?;
    let given = match &unknown.inferred {
        InferredValue::Type(kind) => [*kind].into(),
        InferredValue::Schema { root, schema, .. } => accepted_types(root, schema)?,
        InferredValue::Known(value) => [json_type_of(value)].into(),
        InferredValue::Unknown | InferredValue::Undeclared { .. } => return None,
    };
    if types_may_match(&given, &wanted) {
        return None;
    }
    let joined = |kinds: std::collections::BTreeSet<&str>| kinds.into_iter().collect::<Vec<_>>().join(" or ");
    let (given, wanted) = (joined(given), joined(wanted));
    let message = format!("gives {given}, and the tool takes {wanted} here");
    let cure = format!("read something that is {wanted}, or turn it into one: string(…), int(…), double(…)");
    let inside = pointer_to_path(&unknown.at);
    let path = if inside.is_empty() { at.to_owned() } else { format!("{at}.{inside}") };
    Some(Finding::error("mistyped_argument", path, message, cure))
}

/// The schema of the argument at a JSON pointer; `None` where no single schema applies.
fn schema_at<'a>(root: &'a Value, pointer: &str) -> Option<&'a Value> {
    let mut schema = root;
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        let here = resolve_references(root, schema)?;
        let property = here.get("properties").and_then(|properties| properties.get(&part));
        let item = || {
            part.parse::<usize>().ok().and_then(|index| {
                let first = here.get("prefixItems").and_then(|items| items.get(index));
                first.or_else(|| here.get("items")).filter(|item| item.is_object())
            })
        };
        schema = property.or_else(item)?;
    }
    Some(schema)
}

/// Warns of arguments that are not among the schema's properties: most likely misspellings. Says nothing where a
/// keyword such as `additionalProperties` or `anyOf` speaks of further ones.
fn undeclared_arguments(tool: &str, schema: &Value, value: &Value, at: &str) -> Vec<Finding> {
    let properties = schema.get("properties").and_then(Value::as_object).filter(|names| !names.is_empty());
    let open = ![
        "additionalProperties",
        "patternProperties",
        "anyOf",
        "oneOf",
        "allOf",
        "$ref",
        "unevaluatedProperties",
    ]
    .iter()
    .any(|word| schema.get(word).is_some());
    let (Some(properties), Some(arguments), true) = (properties, value.as_object(), open) else {
        return Vec::new();
    };
    let unknown = arguments.keys().filter(|name| !properties.contains_key(*name));
    let undeclared = |name: &String| {
        let message = format!("the schema of `{tool}` does not mention `{name}`");
        Finding::warning(
            "superfluous_argument",
            format!("{at}.{name}"),
            message,
            undeclared_argument_cure(schema, name),
        )
    };
    unknown.map(undeclared).collect()
}
