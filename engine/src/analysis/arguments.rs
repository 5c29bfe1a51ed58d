//! A plan's calls held against the live tools' schemas: literal arguments exactly, templated ones as far
//! as types flow. Asks nobody; what it is given of the tools is all it knows.

use std::collections::BTreeMap;

use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value};

use super::ToolFacts;
use super::flow::{Flow, Scene, called, dereferenced, kinds, may_pass};
use crate::bind::{Outline, Path, Template, kind_of};
use crate::plan::{Finding, Plan, Step, Undo, Work, dotted};
use crate::schema;
use crate::spelling::nearest;

/// Of one call; a reader is not helped by more.
const ERRORS_MAX: usize = 20;
const VALUE_CHARS_MAX: usize = 160;

/// Validators by tool; none where the schema cannot be run here.
struct Checker<'a> {
    plan: &'a Plan,
    tools: &'a super::Tools,
    validators: BTreeMap<&'a str, Option<Validator>>,
    findings: Vec<Finding>,
}

pub(super) fn findings(plan: &Plan, tools: &super::Tools) -> Vec<Finding> {
    let mut checker = Checker { plan, tools, validators: BTreeMap::new(), findings: Vec::new() };
    for (no, step) in plan.numbered() {
        checker.step(step, &format!("steps[{}]", no.0));
    }
    checker.findings
}

impl<'a> Checker<'a> {
    fn step(&mut self, step: &'a Step, at: &str) {
        let own = called(step);
        let scene = Scene { plan: self.plan, tools: self.tools, step, output_of: own };
        match &step.work {
            Work::Tool { tool, arguments } => self.call(&scene, tool, arguments, at),
            Work::AgentTool { .. } => {}
            Work::Action { text, .. } => {
                self.paths(&scene, text.paths().into_iter(), &format!("{at}.action"), false);
            }
        }
        if let Some(when) = &step.when {
            self.paths(&scene, when.paths(), &format!("{at}.when"), false);
        }
        if let Some(Undo::Tool { tool, arguments }) = step.compensation.as_ref().map(|one| &one.work) {
            self.call(&scene, tool, arguments, &format!("{at}.compensation"));
        }
        if let Some(Undo::Action { action }) = step.compensation.as_ref().map(|one| &one.work) {
            self.paths(&scene, action.paths().into_iter(), &format!("{at}.compensation.action"), true);
        }
        if let Some(probe) = &step.probe {
            self.call(&scene, &probe.tool, &probe.arguments, &format!("{at}.probe"));
            let scene = Scene { output_of: Some(&probe.tool), ..scene };
            self.paths(&scene, probe.happened.paths(), &format!("{at}.probe.happened"), false);
        }
    }

    fn call(&mut self, scene: &Scene<'a>, tool: &'a str, arguments: &'a Template, at: &str) {
        let undoes = at.ends_with("compensation");
        let at_arguments = format!("{at}.arguments");
        self.paths(scene, arguments.paths().into_iter(), &at_arguments, undoes);
        let Some(facts) = self.tools.get(tool) else { return };
        let mut sample = Sample { scene, holes: Vec::new() };
        let value = sample.of(&arguments.outline(), String::new());
        let holes = sample.holes;
        self.held_against_schema(tool, facts, &value, &holes, at);
        self.findings
            .extend(holes.iter().filter_map(|hole| mistyped(&facts.input_schema, hole, &at_arguments)));
        self.findings.extend(unheard_of(tool, &facts.input_schema, &value, &at_arguments));
    }

    fn held_against_schema(
        &mut self,
        tool: &'a str,
        facts: &'a ToolFacts,
        value: &Value,
        holes: &[Hole<'_>],
        at: &str,
    ) {
        if !self.validators.contains_key(tool) {
            let compiled = schema::compile(&facts.input_schema);
            if let Err(why) = &compiled {
                let message = format!("the schema of `{tool}` cannot be used here: {why}");
                let cure = "its server alone checks the arguments; ask its maker for a plainer schema";
                self.findings.push(Finding::warning("unchecked_schema", format!("{at}.tool"), message, cure));
            }
            self.validators.insert(tool, compiled.ok());
        }
        let Some(Some(validator)) = self.validators.get(tool) else { return };
        let errors = validator.iter_errors(value).filter(|error| counts(error, holes)).take(ERRORS_MAX);
        let at = format!("{at}.arguments");
        let found: Vec<Finding> =
            errors.flat_map(|error| told(tool, &facts.input_schema, &error, &at)).collect();
        self.findings.extend(found);
    }

    /// Reads of what no schema declares. An undo must not need what may be missing.
    fn paths(&mut self, scene: &Scene<'a>, paths: impl Iterator<Item = &'a Path>, at: &str, undoes: bool) {
        for path in paths {
            match scene.flow(path) {
                Flow::Absent { message, cure, never: true } => {
                    self.findings.push(Finding::error("not_there", at, message, cure));
                }
                Flow::Absent { message, cure, never: false } => {
                    self.findings.push(Finding::warning("undeclared_output", at, message, cure));
                }
                Flow::Schema { always: false, .. } if undoes => {
                    let message = format!(
                        "`{}` is not always there, and the undo needs it",
                        path.spelled(path.segments.len())
                    );
                    let cure = "use `arguments` or a field that the tool's schema requires";
                    self.findings.push(Finding::warning("undo_may_lack", at, message, cure));
                }
                Flow::Schema { .. } | Flow::Unknown | Flow::Known(_) | Flow::Kind(_) => {}
            }
        }
    }
}

/// A place in the arguments whose value is not known yet.
struct Hole<'a> {
    /// A JSON pointer.
    at: String,
    flow: Flow<'a>,
}

/// The arguments with null where a value is still to come.
struct Sample<'s, 'a> {
    scene: &'s Scene<'a>,
    holes: Vec<Hole<'a>>,
}

impl<'a> Sample<'_, 'a> {
    fn of(&mut self, outline: &Outline<'a>, at: String) -> Value {
        let flow = match outline {
            Outline::Literal(value) => return (*value).clone(),
            Outline::List(items) => {
                let items = items.iter().enumerate();
                return Value::Array(
                    items.map(|(index, item)| self.of(item, format!("{at}/{index}"))).collect(),
                );
            }
            Outline::Object(fields) => {
                let inner = |name: &str| format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                let fields =
                    fields.iter().map(|(name, field)| ((*name).to_owned(), self.of(field, inner(name))));
                return Value::Object(fields.collect::<Map<_, _>>());
            }
            Outline::Read(path) => self.scene.flow(path),
            Outline::Computed(Some(kind)) => Flow::Kind(kind),
            Outline::Computed(None) => Flow::Unknown,
        };
        if let Flow::Known(value) = flow {
            return value.clone();
        }
        self.holes.push(Hole { at, flow });
        Value::Null
    }
}

/// An error at a hole, or one that a hole may have caused, says nothing of the plan.
fn counts(error: &ValidationError<'_>, holes: &[Hole<'_>]) -> bool {
    const OF_SHAPE: [&str; 5] =
        ["required", "additionalProperties", "type", "minProperties", "maxProperties"];
    let at = error.instance_path().as_str();
    let within = |outer: &str, inner: &str| inner == outer || inner.starts_with(&format!("{outer}/"));
    !holes.iter().any(|hole| {
        let of_shape = OF_SHAPE.contains(&error.kind().keyword()) && hole.at != at;
        within(&hole.at, at) || (within(at, &hole.at) && !of_shape)
    })
}

fn told(tool: &str, schema: &Value, error: &ValidationError<'_>, at: &str) -> Vec<Finding> {
    use jsonschema::error::ValidationErrorKind as Kind;
    let inside = dotted(error.instance_path().as_str());
    let place = |inner: &str| match (inside.as_str(), inner) {
        ("", "") => at.to_owned(),
        ("", inner) => format!("{at}.{inner}"),
        (inside, "") => format!("{at}.{inside}"),
        (inside, inner) => format!("{at}.{inside}.{inner}"),
    };
    match error.kind() {
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let (message, cure) = (format!("`{tool}` needs `{name}`"), format!("add `{name}`"));
            vec![Finding::error("missing_argument", place(name), message, cure)]
        }
        Kind::AdditionalProperties { unexpected } => {
            let one = |name: &String| {
                let (message, cure) = (format!("`{tool}` takes no `{name}`"), meant(schema, name));
                Finding::error("superfluous_argument", place(name), message, cure)
            };
            unexpected.iter().map(one).collect()
        }
        _ => {
            let cure = format!("see `actbook tools show {tool}`");
            vec![Finding::error("bad_argument", place(""), cut(&error.to_string()), cure)]
        }
    }
}

fn meant(schema: &Value, name: &str) -> String {
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

fn cut(text: &str) -> String {
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A value that will come, and cannot be of a kind that the tool takes there.
fn mistyped(schema: &Value, hole: &Hole<'_>, at: &str) -> Option<Finding> {
    let wanted = kinds(schema, wanted_at(schema, &hole.at)?)?;
    let given = match &hole.flow {
        Flow::Kind(kind) => [*kind].into(),
        Flow::Schema { root, schema, .. } => kinds(root, schema)?,
        Flow::Known(value) => [kind_of(value)].into(),
        Flow::Unknown | Flow::Absent { .. } => return None,
    };
    if may_pass(&given, &wanted) {
        return None;
    }
    let words = |kinds: std::collections::BTreeSet<&str>| kinds.into_iter().collect::<Vec<_>>().join(" or ");
    let (given, wanted) = (words(given), words(wanted));
    let message = format!("gives {given}, and the tool takes {wanted} here");
    let cure = format!("read something that is {wanted}, or turn it into one: string(…), int(…), double(…)");
    let inside = dotted(&hole.at);
    let path = if inside.is_empty() { at.to_owned() } else { format!("{at}.{inside}") };
    Some(Finding::error("mistyped_argument", path, message, cure))
}

/// The schema of a place in the arguments, where there is one and only one.
fn wanted_at<'a>(root: &'a Value, pointer: &str) -> Option<&'a Value> {
    let mut schema = root;
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        let here = dereferenced(root, schema)?;
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

/// A tool whose schema is open takes any name; one that it does not know is most likely a slip.
fn unheard_of(tool: &str, schema: &Value, value: &Value, at: &str) -> Vec<Finding> {
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
    let one = |name: &String| {
        let message = format!("the schema of `{tool}` does not speak of `{name}`");
        Finding::warning("superfluous_argument", format!("{at}.{name}"), message, meant(schema, name))
    };
    unknown.map(one).collect()
}
