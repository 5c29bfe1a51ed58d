//! Converts plan documents written for other agent stores to this format: fields under other names, durations
//! as numbers, steps as plain strings. Only unambiguous differences are rewritten, and the converted document
//! is never used directly: a single finding shows it to the author.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::duration::parse_duration_ms;
use super::finding::{DocumentPath, Finding};

/// Pairs of a field's name in other formats and its name in this one.
type FieldRenames = &'static [(&'static str, &'static str)];

const PLAN_RENAMES: FieldRenames = &[
    ("plan_type", "type"),
    ("plan_name", "name"),
    ("title", "name"),
    ("task_id", "task"),
    ("rationale", "reasoning"),
    ("goal", "description"),
    ("summary", "description"),
    ("input_schema", "inputs"),
    ("actions", "steps"),
];
const STEP_RENAMES: FieldRenames = &[
    ("step_id", "id"),
    ("step_name", "name"),
    ("title", "name"),
    ("tool_name", "tool"),
    ("args", "arguments"),
    ("params", "arguments"),
    ("parameters", "arguments"),
    ("dependencies", "depends_on"),
    ("dependsOn", "depends_on"),
    ("requires", "depends_on"),
    ("condition", "when"),
    ("duration", "estimated_duration"),
    ("rollback", "compensation"),
    ("undo", "compensation"),
    ("compensating_action", "compensation"),
];
/// Fields that other stores keep in the plan and that the journal records here; they are removed.
const PLAN_FIELDS_REMOVED: [&str; 6] =
    ["plan_id", "version", "status", "created_at", "updated_at", "agent_id"];
/// The same for a step.
const STEP_FIELDS_REMOVED: [&str; 4] = ["status", "order", "step_number", "created_at"];
/// Field-name suffixes that name a unit, with that unit as durations spell it.
const UNIT_SUFFIXES: [(&str, &str); 6] =
    [("_ms", "ms"), ("_seconds", "s"), ("_s", "s"), ("_minutes", "m"), ("_min", "m"), ("_hours", "h")];
/// Fields whose value is a text; other stores keep numbers in some of them.
const PLAN_TEXTS: [&str; 5] = ["name", "description", "type", "task", "reasoning"];
const STEP_TEXTS: [&str; 4] = ["name", "tool", "action", "when"];
/// Fields whose value is a duration.
const DURATION_FIELDS: [&str; 2] = ["timeout", "estimated_duration"];
/// Fewest changes that are reported together: a single one is explained better by its field's own finding.
const CHANGES_MIN: usize = 2;
/// Longest converted document that the finding shows, in bytes; beyond it only the changes are listed.
const SHOWN_BYTES_MAX: usize = 8 << 10;

/// A document converted from another store's format, with a description of each change.
pub(super) struct AdaptedDocument {
    pub document: Value,
    changes: BTreeSet<String>,
}

impl AdaptedDocument {
    /// Converts `value`; `None` where it is no map or needed fewer than `CHANGES_MIN` changes.
    pub fn convert(value: &Value) -> Option<Self> {
        let mut adapted = Self { document: value.clone(), changes: BTreeSet::new() };
        let mut plan = std::mem::take(adapted.document.as_object_mut()?);
        adapted.convert_plan(&mut plan);
        adapted.document = Value::Object(plan);
        (adapted.changes.len() >= CHANGES_MIN).then_some(adapted)
    }

    /// The error that shows the author the converted document, or the list of changes. `valid`: the converted
    /// document has no errors of its own.
    pub fn to_finding(&self, valid: bool) -> Finding {
        let changes: Vec<&str> = self.changes.iter().map(String::as_str).collect();
        let changes = changes.join("; ");
        let text = self.document.to_string();
        let message = "the plan is in the format of another store";
        let cure = if text.len() <= SHOWN_BYTES_MAX && valid {
            format!("give this document instead: {text} ({changes})")
        } else if text.len() <= SHOWN_BYTES_MAX {
            format!("give this document instead, with the errors below corrected: {text} ({changes})")
        } else {
            format!("change all of these: {changes}")
        };
        Finding::error("other_format", DocumentPath::Plan, message, cure)
    }

    fn convert_plan(&mut self, plan: &mut Map<String, Value>) {
        self.rename_fields(plan, PLAN_RENAMES);
        self.remove_fields(plan, &PLAN_FIELDS_REMOVED);
        self.remove_empty_fields(plan);
        self.convert_texts(plan, &PLAN_TEXTS);
        if let Some(Value::Object(policy)) = plan.get_mut("policy") {
            self.convert_durations(policy, &DURATION_FIELDS[..1]);
        }
        if let Some(Value::Array(steps)) = plan.get_mut("steps") {
            steps.iter_mut().enumerate().for_each(|(index, step)| self.convert_step(index, step));
        }
        self.add_missing_name(plan);
    }

    /// Names an unnamed plan after its type and task, by which other stores find a plan.
    fn add_missing_name(&mut self, plan: &mut Map<String, Value>) {
        let known = ["type", "task"].map(|field| plan.get(field).and_then(Value::as_str));
        let known: Vec<&str> = known.into_iter().flatten().collect();
        if !plan.contains_key("name") && !known.is_empty() {
            let name = known.join("-");
            plan.insert("name".to_owned(), Value::String(name));
            self.changes.insert("a plan has a `name`".to_owned());
        }
    }

    /// Converts one step; a plain string becomes an action.
    fn convert_step(&mut self, index: usize, step: &mut Value) {
        if let Value::String(text) = step {
            *step = json!({ "id": format!("step-{}", index + 1), "action": text });
            self.changes.insert("a step is a map with `id` and `action` or `tool`".to_owned());
        }
        let Value::Object(step) = step else { return };
        self.rename_fields(step, STEP_RENAMES);
        self.remove_fields(step, &STEP_FIELDS_REMOVED);
        self.remove_empty_fields(step);
        self.convert_description(step);
        self.convert_texts(step, &STEP_TEXTS);
        self.convert_id(index, step);
        self.convert_durations(step, &DURATION_FIELDS);
        self.convert_dependencies(step);
        if let Some(Value::String(action)) = step.get("compensation") {
            let undo = json!({ "action": action });
            step.insert("compensation".to_owned(), undo);
            self.changes.insert("a `compensation` is {action} or {tool, arguments}".to_owned());
        }
    }

    /// Turns `description` into `action` where the step has no tool or action, else into `name`, else into
    /// `metadata`.
    fn convert_description(&mut self, step: &mut Map<String, Value>) {
        if !step.contains_key("tool") {
            self.rename_fields(step, &[("description", "action")]);
        }
        self.rename_fields(step, &[("description", "name")]);
        if !step.contains_key("metadata")
            && let Some(description) = step.remove("description")
        {
            step.insert("metadata".to_owned(), json!({ "description": description }));
            self.changes.insert("a step's `description` belongs in `metadata`".to_owned());
        }
    }

    /// Removes fields without a value.
    fn remove_empty_fields(&mut self, map: &mut Map<String, Value>) {
        let before = map.len();
        map.retain(|_, value| !value.is_null());
        if map.len() < before {
            self.changes.insert("a field without a value is left out".to_owned());
        }
    }

    /// Turns numbers and booleans into texts.
    fn convert_texts(&mut self, map: &mut Map<String, Value>, fields: &[&str]) {
        for field in fields {
            if let Some(value @ (Value::Number(_) | Value::Bool(_))) = map.get_mut(*field) {
                *value = Value::String(value.to_string());
                self.changes.insert(format!("`{field}` is a text"));
            }
        }
    }

    /// Gives the step a string id: its number in the list where it has none.
    fn convert_id(&mut self, index: usize, step: &mut Map<String, Value>) {
        let id = match step.get("id") {
            None => format!("step-{}", index + 1),
            Some(Value::Number(number)) => number_id(number),
            Some(_) => return,
        };
        step.insert("id".to_owned(), Value::String(id));
        self.changes.insert("a step has an `id` that is a text".to_owned());
    }

    /// Makes `depends_on` a list of strings.
    fn convert_dependencies(&mut self, step: &mut Map<String, Value>) {
        let Some(depends_on) = step.get_mut("depends_on") else { return };
        let as_text = |id: &Value| match id {
            Value::Number(number) => Value::String(number_id(number)),
            other => other.clone(),
        };
        let list: Value = match &*depends_on {
            Value::Array(list) => list.iter().map(as_text).collect(),
            one @ (Value::String(_) | Value::Number(_)) => vec![as_text(one)].into(),
            Value::Null | Value::Bool(_) | Value::Object(_) => return,
        };
        if *depends_on != list {
            *depends_on = list;
            self.changes.insert("`depends_on` is a list of step ids".to_owned());
        }
    }

    /// Rewrites durations that are whole numbers as text: in the unit of the field's suffix, or in seconds
    /// without one.
    fn convert_durations(&mut self, map: &mut Map<String, Value>, fields: &[&str]) {
        for field in fields {
            for (suffix, unit) in UNIT_SUFFIXES {
                let other = format!("{field}{suffix}");
                let duration = match map.get(&other) {
                    Some(Value::Number(number)) => format!("{number}{unit}"),
                    Some(Value::String(text)) => text.clone(),
                    Some(_) | None => continue,
                };
                if !map.contains_key(*field) && parse_duration_ms(&duration).is_some() {
                    map.remove(&other);
                    self.changes.insert(format!("`{other}` is `{field}` with a unit, as in `{duration}`"));
                    map.insert((*field).to_owned(), Value::String(duration));
                }
            }
            if let Some(number) = map.get(*field).and_then(Value::as_u64) {
                map.insert((*field).to_owned(), Value::String(format!("{number}s")));
                self.changes
                    .insert(format!("`{field}` has a unit, as in `30s` (a bare number was read as seconds)"));
            }
        }
    }

    /// Renames fields, unless the new name is taken.
    fn rename_fields(&mut self, map: &mut Map<String, Value>, names: FieldRenames) {
        for (other, own) in names {
            if map.contains_key(*own) {
                continue;
            }
            if let Some(value) = map.remove(*other) {
                map.insert((*own).to_owned(), value);
                self.changes.insert(format!("`{other}` is `{own}`"));
            }
        }
    }

    /// Removes fields that the journal records.
    fn remove_fields(&mut self, map: &mut Map<String, Value>, names: &[&str]) {
        for name in names {
            if map.remove(*name).is_some() {
                self.changes.insert(format!("`{name}` is left out: the journal has it"));
            }
        }
    }
}

/// A number as a step id, which has no points.
fn number_id(number: &serde_json::Number) -> String {
    number.to_string().replace('.', "-")
}
