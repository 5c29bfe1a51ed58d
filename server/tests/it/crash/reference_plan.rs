//! The reference plan, the tools it calls, and automatic answers to its questions. Each call appends a line
//! to the file `witness` before it does anything else.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::fixture::{CliFixture, file_names};
use crate::durability::rng::SeededRng;

/// `VERB STEP TEXT`: writes the witness line, takes effect, answers. Sending `post` twice leaves two files.
const TOOL: &str = r#"
verb=$1 step=$2 text=$3
echo "$verb $step $ACTBOOK_IDEMPOTENCY_KEY $$" >>witness
case $verb in
post) : >"work/$step.$$" ;;
unpost) rm -f "work/$step."* ;;
put) echo "$text" >"work/$step" ;;
remove) rm -f "work/$step" ;;
flaky)
    if [ ! -e said-no ]; then : >said-no; exit 1; fi
    : >"work/$step.$$" ;;
refuse) exit 1 ;;
hold)
    until [ -e release ] || [ ! -d work ]; do sleep 0.01; done
    : >"work/$step.$$" ;;
look) until [ -e release ] || [ ! -d work ]; do sleep 0.01; done ;;
esac
exists=false
for file in "work/$step" "work/$step."*; do if [ -e "$file" ]; then exists=true; fi; done
echo "{\"text\": \"$verb $step\", \"exists\": $exists}"
"#;

const VERBS: [&str; 9] = ["hold", "post", "unpost", "put", "remove", "flaky", "refuse", "stat", "look"];

/// Steps whose calls must never be sent twice without a decision.
pub const SEND_ONCE_STEPS: [&str; 4] = ["a", "c", "d", "e"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoVariant {
    /// A failure is undone automatically.
    Auto,
    /// A failure waits for a decision.
    Manual,
}

pub fn config() -> Value {
    let command =
        |verb: &str| json!({ "argv": ["sh", "tool.sh", verb, "${arguments.step}", "${arguments.text}"] });
    let commands: BTreeMap<&str, Value> = VERBS.iter().map(|verb| (*verb, command(verb))).collect();
    json!({ "commands": commands })
}

pub fn plan(variant: UndoVariant) -> Value {
    let with = |step: &str, text: &str| json!({ "step": step, "text": text });
    let undo = json!({ "tool": "command/unpost", "arguments": { "step": "${arguments.step}", "text": "" } });
    let retry = |on: &[&str]| json!({ "max_attempts": 4, "backoff": "1ms", "on": on });
    let lasting = json!({
        "tool": "command/remove", "arguments": { "step": "${arguments.step}", "text": "" },
        "idempotent": true, "retry": retry(&["unavailable", "tool_error"]),
    });
    let probe = json!({ "tool": "command/stat", "arguments": with("c", ""), "happened": "output.exists" });
    let on_failure = if variant == UndoVariant::Auto { "auto" } else { "manual" };
    json!({ "name": "reference", "policy": { "on_failure": on_failure }, "steps": [
        { "id": "look", "tool": "command/stat", "arguments": with("a", ""), "read_only": true,
          "retry": retry(&["unavailable"]) },
        { "id": "a", "tool": "command/post", "arguments": with("a", ""), "compensation": undo },
        { "id": "b", "tool": "command/put", "arguments": with("b", "${steps.a.output.text}"),
          "idempotent": true, "retry": retry(&["unavailable"]), "compensation": lasting },
        { "id": "c", "tool": "command/post", "arguments": with("c", ""), "compensation": undo, "probe": probe },
        { "id": "d", "tool": "command/flaky", "arguments": with("d", ""), "compensation": undo,
          "retry": retry(&["tool_error", "unavailable"]) },
        { "id": "e", "tool": "command/post", "arguments": with("e", "${steps.d.output.text}"),
          "compensation": undo },
        { "id": "f", "tool": "command/refuse", "arguments": with("f", ""), "read_only": true },
    ]})
}

/// A step whose id is its verb.
pub fn step(verb: &str) -> Value {
    json!({ "id": verb, "tool": format!("command/{verb}"), "arguments": { "step": verb, "text": "" } })
}

/// A fixture with these tools and this plan.
pub fn new_fixture(kind: crate::store::Kind, plan: &Value) -> CliFixture {
    let fixture = CliFixture::new(kind, &config());
    std::fs::write(fixture.path("tool.sh"), TOOL).unwrap();
    std::fs::write(fixture.path("witness"), "").unwrap();
    std::fs::write(fixture.path("plan.json"), plan.to_string()).unwrap();
    fixture
}

/// One line of the witness file: a call that arrived at a tool.
#[derive(Debug, Clone)]
pub struct ReceivedCall {
    pub verb: String,
    pub step: String,
    pub key: String,
    pub process: u32,
}

pub fn received_calls(fixture: &CliFixture) -> Vec<ReceivedCall> {
    let text = std::fs::read_to_string(fixture.path("witness")).unwrap();
    let call = |line: &str| {
        let fields: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let [verb, step, key, process] = <[String; 4]>::try_from(fields).expect("whole lines only");
        ReceivedCall { verb, step, key, process: process.parse().expect("a process's number") }
    };
    text.lines().map(call).collect()
}

/// Counts a step's effects (files) in the work folder.
pub fn effect_count(fixture: &CliFixture, step: &str) -> usize {
    let begins = format!("{step}.");
    file_names(&fixture.path("work")).iter().filter(|name| *name == step || name.starts_with(&begins)).count()
}

/// Answers the first waiting question by what the work folder shows. Returns the answer.
pub fn answer_first_question(fixture: &CliFixture, view: &Value, rng: &mut SeededRng) -> String {
    let waiting = &view["waiting"][0];
    let step = waiting["step"].as_str().unwrap_or_else(|| panic!("a step waits: {view}"));
    let status =
        view["steps"].as_array().unwrap().iter().find(|seen| seen["id"] == step).unwrap()["status"].clone();
    let has_effect = effect_count(fixture, step) > 0;
    let answer = match (status.as_str().unwrap(), has_effect) {
        ("unknown", true) => "happened",
        ("unknown", false) => "did-not-happen",
        ("compensation_failed", true) => "did-not-happen",
        ("compensation_failed", false) => "happened",
        ("failed", _) if step == "f" => *rng.pick(&["compensate", "compensate", "skip", "retry"]),
        ("failed", _) => "retry",
        (other, _) => panic!("step {step} is {other} and waits: {view}"),
    };
    let id = view["id"].as_str().unwrap();
    let mut args = vec!["decide", id, step, answer, "--reason", "went and looked"];
    if answer == "happened" {
        args.extend(["--output", r#"{"text": "seen"}"#]);
    }
    let output = fixture.run(&args);
    assert_eq!(output.code, Some(0), "{output:?} for {view}");
    answer.to_owned()
}
