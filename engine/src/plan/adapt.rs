//! Documents in the shape of other agent stores, rewritten in this format: fields under other names, durations
//! as numbers, steps as plain texts. Only what can be meant in one way is rewritten, and nothing is taken over
//! unseen: the corrected document is shown in one finding.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::finding::{At, Finding};

/// A field's name elsewhere, and here.
type Renames = &'static [(&'static str, &'static str)];

const PLAN: Renames = &[
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
const STEP: Renames = &[
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
/// What other stores keep of a plan and its steps that the journal knows here.
const PLAN_LEFT_OUT: [&str; 6] = ["plan_id", "version", "status", "created_at", "updated_at", "agent_id"];
const STEP_LEFT_OUT: [&str; 4] = ["status", "order", "step_number", "created_at"];
/// A suffix that names a unit, and the unit as a duration has it.
const UNITS: [(&str, &str); 6] =
    [("_ms", "ms"), ("_seconds", "s"), ("_s", "s"), ("_minutes", "m"), ("_min", "m"), ("_hours", "h")];
const DURATIONS: [&str; 2] = ["timeout", "estimated_duration"];
/// A single change is said better by the finding about its field.
const CHANGES_MIN: usize = 2;
/// A longer document is not shown; the list of changes is.
const SHOWN_BYTES_MAX: usize = 8 << 10;

/// A document rewritten in this format, with what was changed.
pub(super) struct Adapted {
    pub document: Value,
    changes: BTreeSet<String>,
}

impl Adapted {
    /// `None` where too little was in another shape.
    pub fn of(value: &Value) -> Option<Self> {
        let mut adapted = Self { document: value.clone(), changes: BTreeSet::new() };
        let mut plan = std::mem::take(adapted.document.as_object_mut()?);
        adapted.plan(&mut plan);
        adapted.document = Value::Object(plan);
        (adapted.changes.len() >= CHANGES_MIN).then_some(adapted)
    }

    pub fn finding(&self) -> Finding {
        let changes: Vec<&str> = self.changes.iter().map(String::as_str).collect();
        let changes = changes.join("; ");
        let text = self.document.to_string();
        let message = "the plan is in the shape of another store";
        let cure = match text.len() <= SHOWN_BYTES_MAX {
            true => format!("give this document instead: {text} ({changes})"),
            false => format!("change all of these: {changes}"),
        };
        Finding::error("other_format", At::Plan, message, cure)
    }

    fn plan(&mut self, plan: &mut Map<String, Value>) {
        self.rename(plan, PLAN);
        self.leave_out(plan, &PLAN_LEFT_OUT);
        if let Some(Value::Object(policy)) = plan.get_mut("policy") {
            self.durations(policy, &DURATIONS[..1]);
        }
        if let Some(Value::Array(steps)) = plan.get_mut("steps") {
            steps.iter_mut().enumerate().for_each(|(index, step)| self.step(index, step));
        }
        self.name(plan);
    }

    /// Other stores find a plan by its type and task.
    fn name(&mut self, plan: &mut Map<String, Value>) {
        let known = ["type", "task"].map(|field| plan.get(field).and_then(Value::as_str));
        let known: Vec<&str> = known.into_iter().flatten().collect();
        if !plan.contains_key("name") && !known.is_empty() {
            let name = known.join("-");
            plan.insert("name".to_owned(), Value::String(name));
            self.changes.insert("a plan has a `name`".to_owned());
        }
    }

    fn step(&mut self, index: usize, step: &mut Value) {
        if let Value::String(text) = step {
            *step = json!({ "id": format!("step-{}", index + 1), "action": text });
            self.changes.insert("a step is a map with `id` and `action` or `tool`".to_owned());
        }
        let Value::Object(step) = step else { return };
        self.rename(step, STEP);
        self.leave_out(step, &STEP_LEFT_OUT);
        self.work(step);
        self.id(index, step);
        self.durations(step, &DURATIONS);
        self.dependencies(step);
        if let Some(Value::String(action)) = step.get("compensation") {
            let undo = json!({ "action": action });
            step.insert("compensation".to_owned(), undo);
            self.changes.insert("a `compensation` is {action} or {tool, arguments}".to_owned());
        }
    }

    /// A description says what is to be done where nothing else does.
    fn work(&mut self, step: &mut Map<String, Value>) {
        let says = ["tool", "action"].iter().any(|field| step.contains_key(*field));
        let target = match (says, step.contains_key("name")) {
            (false, _) => "action",
            (true, false) => "name",
            (true, true) => return,
        };
        self.rename(
            step,
            if target == "action" { &[("description", "action")] } else { &[("description", "name")] },
        );
    }

    fn id(&mut self, index: usize, step: &mut Map<String, Value>) {
        let id = match step.get("id") {
            None => format!("step-{}", index + 1),
            Some(Value::Number(number)) => number.to_string(),
            Some(_) => return,
        };
        step.insert("id".to_owned(), Value::String(id));
        self.changes.insert("a step has an `id` that is a text".to_owned());
    }

    fn dependencies(&mut self, step: &mut Map<String, Value>) {
        let Some(needs) = step.get_mut("depends_on") else { return };
        let as_text = |need: &Value| match need {
            Value::Number(number) => Value::String(number.to_string()),
            other => other.clone(),
        };
        let list: Value = match &*needs {
            Value::Array(list) => list.iter().map(as_text).collect(),
            one @ (Value::String(_) | Value::Number(_)) => vec![as_text(one)].into(),
            Value::Null | Value::Bool(_) | Value::Object(_) => return,
        };
        if *needs != list {
            *needs = list;
            self.changes.insert("`depends_on` is a list of step ids".to_owned());
        }
    }

    /// A number is a duration in seconds, or in the unit that the field's name ends with.
    fn durations(&mut self, map: &mut Map<String, Value>, fields: &[&str]) {
        for field in fields {
            for (suffix, unit) in UNITS {
                let other = format!("{field}{suffix}");
                if !map.contains_key(*field)
                    && let Some(number) = map.get(&other).and_then(Value::as_u64)
                {
                    map.remove(&other);
                    map.insert((*field).to_owned(), Value::String(format!("{number}{unit}")));
                    self.changes
                        .insert(format!("`{other}` is `{field}` with a unit, as in `{number}{unit}`"));
                }
            }
            if let Some(number) = map.get(*field).and_then(Value::as_u64) {
                map.insert((*field).to_owned(), Value::String(format!("{number}s")));
                self.changes
                    .insert(format!("`{field}` has a unit, as in `30s` (a bare number was read as seconds)"));
            }
        }
    }

    fn rename(&mut self, map: &mut Map<String, Value>, names: Renames) {
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

    fn leave_out(&mut self, map: &mut Map<String, Value>, names: &[&str]) {
        for name in names {
            if map.remove(*name).is_some() {
                self.changes.insert(format!("`{name}` is left out: the journal knows it"));
            }
        }
    }
}
