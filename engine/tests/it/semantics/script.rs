//! Runs one case: parses its plan, executes its `>` lines, and prints the results.

mod session;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use actbook_engine::event::ApprovalScope;
use actbook_engine::execution::{
    ActionFacts, AgentReport, AnnotationKind, CallId, CallKind, Command, LoadedPayloads, Question,
    ReportedOutcome, Reporter, brief, due, questions,
};
use actbook_engine::id::{Epoch, Position};
use actbook_engine::plan::{Plan, parse_duration_ms};
use actbook_engine::policy::{ErrorCategory, Outcome, StepAnswer, StepStatus};
use actbook_engine::refusal::Refusal;
use actbook_engine::tool_policy::ToolPolicies;
use serde_json::{Value, json};

use crate::harness::{ExecutionHarness, event_line};

/// Returns the case with the engine's current answers.
pub fn replay(case: &str) -> String {
    let script = case.find("\n> ").expect("a case has a command") + 1;
    let (head, script) = case.split_at(script);
    let (_, plan) = head.split_once('\n').expect("a plan follows the title");
    let mut runner = ScriptRunner { harness: open_harness(plan), keys: Vec::new(), shown: Vec::new() };
    let mut output = head.to_owned();
    for request in script.lines().filter_map(|line| line.strip_prefix("> ")) {
        let answer = runner.run_line(request);
        writeln!(output, "> {request}").expect("a string can be written to");
        output.push_str(&answer);
    }
    output.push('\n');
    output
}

/// The execution of a case: a session where the case begins with a line `session: {…}`, else one of its plan.
fn open_harness(head: &str) -> ExecutionHarness {
    if let Some(start) = head.strip_prefix("session: ") {
        return ExecutionHarness::open_session(serde_json::from_str(start).expect("a session's start"));
    }
    let (policies, plan) = split_policies(head);
    let plan =
        Plan::parse(&format!("name: case\n{plan}")).unwrap_or_else(|found| panic!("{found:#?} in {head}"));
    ExecutionHarness::open(Arc::new(plan), None, &policies)
}

/// Splits off the tool policies: a case with policies begins with a line `terms: {…}`.
fn split_policies(head: &str) -> (ToolPolicies, &str) {
    match head.strip_prefix("terms: ").and_then(|rest| rest.split_once('\n')) {
        Some((terms, plan)) => (serde_json::from_str(terms).expect("terms in JSON"), plan),
        None => (ToolPolicies::new(), head),
    }
}

/// The execution that a case's commands are run on.
struct ScriptRunner {
    harness: ExecutionHarness,
    /// Idempotency keys in the order of their first use.
    keys: Vec<String>,
    /// The questions that the last `ask` showed.
    shown: Vec<Question>,
}

/// As the last word of an answer: it replies to the question that the last `ask` showed.
const AS_ASKED: &str = "as-asked";

impl ScriptRunner {
    fn run_line(&mut self, request: &str) -> String {
        let (verb, rest) = request.split_once(' ').unwrap_or((request, ""));
        match verb {
            "show" => return self.show_state(),
            "ask" => return self.show_questions(),
            "brief" => return self.show_brief(),
            "due" => return self.show_due(),
            "notes" => return self.show_annotations(),
            "session" => return session::show_session(self.harness.execution()),
            _ => {}
        }
        let mark = self.harness.entries.len();
        match self.run_command(verb, rest) {
            Ok(()) => {
                let fresh = self.harness.entries[mark..].iter();
                let mut output: String =
                    fresh.map(|entry| format!("  {}\n", event_line(&entry.recorded.event))).collect();
                if output.is_empty() {
                    output.push_str("  nothing\n");
                }
                output
            }
            Err(refusal) => format!("  refused: {refusal}\n    {}: {refusal:?}\n", refusal.code()),
        }
    }

    fn run_command(&mut self, verb: &str, rest: &str) -> Result<(), Refusal> {
        let mut words: Vec<&str> = rest.split_whitespace().collect();
        let is_reply = words.pop_if(|word| *word == AS_ASKED).is_some();
        let step = words.first().map(|word| (*word).to_owned());
        let (reason, replies_to) = (None, is_reply.then(|| self.shown_position(step.as_deref())));
        let command = match verb {
            "claim" | "takeover" => {
                let unsent: BTreeSet<CallId> =
                    words.iter().skip(1).map(|word| self.find_call(word)).collect();
                self.harness.claim(unsent);
                return Ok(());
            }
            "at" => {
                let later = parse_duration_ms(rest.trim_start_matches('+')).expect("a duration");
                self.harness.now_ms += later as i64;
                self.harness.drive();
                return Ok(());
            }
            "end" => return self.harness.apply(&self.parse_outcome_report(rest, self.harness.epoch())),
            "late" => self.parse_outcome_report(rest, Epoch(0)),
            "decide" | "agent-decide" => self.parse_decision(&words, replies_to, verb == "decide"),
            "record" | "note" | "undid" | "decision" => parse_record(verb, rest, self.harness.now_ms),
            "accept" => Command::AcceptTask { call: self.find_call(words[0]), task: words[1].to_owned() },
            "approve" => {
                let scope = words.get(1).map_or(ApprovalScope::Once, |scope| scope.parse().expect("a scope"));
                Command::Approve { step, reason, replies_to, scope }
            }
            "reject" => Command::Reject { step, reason, replies_to },
            "pause" => Command::Pause { reason },
            "resume" => Command::Resume,
            "cancel" => Command::Cancel { reason },
            "undo" | "agent-undo" => {
                let steps = words.iter().map(|step| (*step).to_owned()).collect::<Vec<_>>();
                let steps = Some(steps).filter(|steps| !steps.is_empty());
                Command::Undo { reason, steps, approves: verb == "undo" }
            }
            "erase" => Command::ErasePayloads,
            "move-pin" => {
                let digest = serde_json::from_value(json!(words[1])).expect("a digest");
                Command::MovePin { tool: words[0].to_owned(), digest }
            }
            "claim-again" => self.harness.reclaim_command(),
            "drive" => Command::Drive { epoch: Epoch(rest.parse().expect("an epoch")) },
            _ => Command::Session(session::parse_command(self.harness.execution(), verb, &words)),
        };
        self.harness.apply(&command)?;
        if verb != "drive" {
            self.harness.drive();
        }
        Ok(())
    }

    /// Parses `a`, `a#2`, `probe a` or `undo a`, then the outcome.
    fn parse_outcome_report(&self, rest: &str, epoch: Epoch) -> Command {
        let mut words = rest.splitn(3, ' ');
        let first = words.next().expect("a call");
        let (call, outcome, detail) = if first == "probe" || first == "undo" {
            let (step, rest) = rest[first.len() + 1..].split_once(' ').expect("how it ended");
            let (outcome, detail) = rest.split_once(' ').unwrap_or((rest, ""));
            (self.find_call(&format!("{first}:{step}")), outcome, detail)
        } else {
            (self.find_call(first), words.next().expect("how it ended"), words.next().unwrap_or(""))
        };
        Command::ReportOutcome { epoch, call, outcome: parse_outcome(outcome, detail) }
    }

    fn find_call(&self, name: &str) -> CallId {
        let (kind, name) = match name.split_once(':') {
            Some(("probe", name)) => (CallKind::Probe, name),
            Some((_, name)) => (CallKind::Compensation, name),
            None => (CallKind::Run, name),
        };
        let (step, number) = name.split_once('#').map_or((name, None), |(step, no)| (step, Some(no)));
        let no = self.harness.execution().plan.find_step(step).expect("a step of the plan");
        let state = self.harness.execution().step(no);
        let count = match kind {
            CallKind::Run | CallKind::Probe => state.attempts.len(),
            CallKind::Compensation => state.compensations.len(),
        };
        let number = number.map_or(count as u32, |number| number.parse().expect("a number"));
        CallId { step: no, kind, index: number - 1 }
    }

    fn show_state(&self) -> String {
        let execution = self.harness.execution();
        let steps = execution.step_numbers().map(|no| {
            let (spec, state) = (execution.plan.step(no), execution.step(no));
            let shown = matches!(state.status(), StepStatus::Failed | StepStatus::Unknown);
            let why = state.error.filter(|_| shown).map(|error| format!(" ({})", error.category));
            let output = state.output.map(|stored| self.payload(stored.position.0));
            let output = output.map(|output| format!(" {output}")).unwrap_or_default();
            format!("{} {}{}{output}", spec.id, state.status(), why.unwrap_or_default())
        });
        let steps: Vec<String> = steps.collect();
        format!("  {}: {}\n", execution.status(), steps.join(", "))
    }

    fn show_annotations(&self) -> String {
        let execution = self.harness.execution();
        let of_steps = execution.step_numbers().filter_map(|no| {
            let facts = self.payload(execution.step(no).facts?.position.0);
            Some(format!("  {}: {facts}\n", execution.step_id(no)))
        });
        let others = execution.annotations.iter().map(|note| match &note.kind {
            AnnotationKind::Action { facts, .. } => format!("  {}\n", self.payload(facts.position.0)),
            AnnotationKind::Decision { decision, reason, .. } => {
                format!("  {decision}, because {}\n", reason.as_deref().unwrap_or_default())
            }
        });
        of_steps.chain(others).collect()
    }

    fn payload(&self, position: u64) -> Arc<Value> {
        self.harness.entries[position as usize - 1].payload.clone().expect("kept")
    }

    /// Parses a step, an answer, and an output or, marked `@`, corrected arguments.
    fn parse_decision(&self, words: &[&str], replies_to: Option<Position>, approves: bool) -> Command {
        let answer = words[1].parse().expect("an answer");
        let given = words.get(2).map(|text| {
            let value: Value = serde_json::from_str(text.trim_start_matches('@')).expect("JSON");
            (text.starts_with('@'), value)
        });
        let (arguments, output) = match given {
            Some((true, arguments)) => (Some(arguments), None),
            Some((false, output)) => (None, Some(output)),
            None => (None, None),
        };
        let is_reply = output.is_some() && answer == StepAnswer::Retry;
        let replies_to =
            if is_reply { replies_to.or_else(|| self.open_position(words[0])) } else { replies_to };
        let (step, reason) = (words[0].to_owned(), None);
        Command::Decide { step, answer, reason, output, arguments, approves, replies_to }
    }

    /// The entry that asks about this step now, which a reply names as it is given.
    fn open_position(&self, step: &str) -> Option<Position> {
        let execution = self.harness.execution();
        execution.asked_at(Some(execution.plan.find_step(step).expect("a step of the plan")))
    }

    /// The entry that asked what the last `ask` showed about this step, or without one about the execution.
    fn shown_position(&self, step: Option<&str>) -> Position {
        let plan = &self.harness.execution().plan;
        let no = step.map(|step| plan.find_step(step).expect("a step of the plan"));
        let shown = self.shown.iter().find(|question| question.step == no);
        shown.and_then(|question| question.asked_at).expect("`ask` has shown this question")
    }

    fn show_questions(&mut self) -> String {
        self.shown = questions(self.harness.execution());
        let execution = self.harness.execution();
        let output = self.shown.iter().map(|question| {
            let step = question.step.map(|no| format!(" {}", execution.plan.step(no).id)).unwrap_or_default();
            let answers: Vec<&str> = question.answers.iter().map(|answer| answer.as_str()).collect();
            format!("  {:?}{step}: {}", question.subject, answers.join(", ")).trim_end().to_owned() + "\n"
        });
        let output: String = output.collect();
        if output.is_empty() { "  nothing\n".to_owned() } else { output }
    }

    fn show_brief(&self) -> String {
        let mut values = LoadedPayloads::default();
        let brief = loop {
            match brief(self.harness.execution(), &values) {
                Ok(brief) => break brief,
                Err(missing) => self.harness.load(missing, &mut values),
            }
        };
        let Value::Object(parts) = serde_json::to_value(&brief).expect("a brief is JSON") else {
            panic!("a brief is a map")
        };
        let mut output = String::new();
        for (name, part) in parts {
            match part.as_array().map(Vec::as_slice) {
                Some([]) | None => {}
                Some(items) if items.iter().all(Value::is_string) => {
                    let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                    output += &format!("  {name}: {}\n", items.join(", "));
                }
                Some(items) => output.extend(items.iter().map(|item| format!("  {name}: {item}\n"))),
            }
        }
        output
    }

    fn show_due(&mut self) -> String {
        let due = due(self.harness.execution());
        let mut output = String::new();
        for call in due.calls {
            let key = self.keys.iter().position(|key| *key == call.idempotency_key).unwrap_or_else(|| {
                self.keys.push(call.idempotency_key.clone());
                self.keys.len() - 1
            });
            let step = self.harness.execution().step_id(call.id.step);
            let arguments = call.arguments.map(|stored| self.payload(stored.position.0));
            let arguments = arguments.map(|value| format!(" {value}")).unwrap_or_default();
            let cancel = if call.cancel_requested { ", asked to stop" } else { "" };
            let yes = if call.pin_approved { " approved" } else { "" };
            let pin = call.pin.map(|pin| format!(", pin {}{yes}", &pin.to_string()[..4])).unwrap_or_default();
            let kind = format!("{:?}", call.id.kind).to_lowercase();
            let task = call.task_handle.map(|task| format!(", asked after as {task}")).unwrap_or_default();
            let answer = call.reply.map(|one| format!(", told {}", self.payload(one.answer.position.0)));
            let answer = answer.unwrap_or_default();
            output += &format!(
                "  {kind} {step}#{}: {}{arguments}, key {}, {} ms{pin}{cancel}{task}{answer}\n",
                call.id.index + 1,
                call.tool,
                key + 1,
                call.timeout_ms
            );
        }
        if let Some(at) = due.wake_at {
            output += &format!("  look again in {} ms\n", at - self.harness.now_ms);
        }
        if output.is_empty() { "  nothing\n".to_owned() } else { output }
    }
}

/// The command of a record: a report, a remark, an undo by hand or a decision.
fn parse_record(verb: &str, rest: &str, now_ms: i64) -> Command {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let step = words.first().map(|word| (*word).to_owned());
    match verb {
        "record" => {
            let by = parse_reporter(&words, now_ms);
            let about: Vec<&str> = words.iter().copied().filter(|word| !is_reporter(word)).collect();
            let (facts, words) = parse_facts(&about);
            let report = report(&words);
            Command::RecordReport {
                step: step.expect("a step"),
                report,
                facts: facts.into(),
                by,
                replies_to: None,
            }
        }
        "note" => {
            let (facts, words) = parse_facts(&words);
            let status = words.get(1).map(|word| word.parse().expect("a report"));
            Command::RecordAction {
                step: words.first().map(|step| (*step).to_owned()),
                status,
                facts: facts.into(),
            }
        }
        "undid" => {
            let (facts, words) = parse_facts(&words);
            let done = words.get(1) != Some(&"failed");
            Command::RecordCompensation { step: words[0].to_owned(), done, facts: facts.into() }
        }
        "decision" => {
            let (decision, reason) = rest.split_once(" because ").unwrap_or((rest, "no reason"));
            let (decision, reason) = (decision.to_owned(), Some(reason.to_owned()));
            Command::RecordDecision { decision, reason, step: None, details: None }
        }
        _ => panic!("unknown record {verb}"),
    }
}

/// Splits the words into facts such as `entity=file`, and the others.
fn parse_facts<'a>(words: &[&'a str]) -> (ActionFacts, Vec<&'a str>) {
    let mut facts = ActionFacts::default();
    let is_fact = |word: &&str| word.contains('=') && !word.starts_with('{');
    for (name, value) in words.iter().filter(|word| is_fact(word)).filter_map(|word| word.split_once('=')) {
        let text = || Some(value.to_owned());
        let json = || Some(serde_json::from_str(value).expect("JSON"));
        match name {
            "description" => facts.description = text(),
            "type" => facts.kind = text(),
            "entity" => facts.entity = text(),
            "before" => facts.before_state = json(),
            "after" => facts.after_state = json(),
            "confidence" => facts.confidence = value.parse().ok(),
            "error" => facts.error = text(),
            "reason" => facts.reason = text(),
            "action" => facts.action_taken = text(),
            other => panic!("unknown fact {other}"),
        }
    }
    (facts, words.iter().copied().filter(|word| !is_fact(word)).collect())
}

pub(super) fn parse_outcome(outcome: &str, detail: &str) -> ReportedOutcome {
    if let "asks" | "asks-midway" = outcome {
        let question = serde_json::from_str(detail).expect("JSON");
        return ReportedOutcome::InputRequired { question, may_have_run: outcome == "asks-midway" };
    }
    let (category, rest) = detail.split_once(' ').unwrap_or((detail, ""));
    let unsent = rest == "unsent";
    let retry_after_ms = rest.strip_prefix("after ").and_then(parse_duration_ms);
    let category = || category.parse::<ErrorCategory>().expect("a category");
    match outcome.parse::<Outcome>().expect("an outcome") {
        Outcome::Succeeded if detail.is_empty() => ReportedOutcome::Succeeded { output: Value::Null },
        Outcome::Succeeded => {
            ReportedOutcome::Succeeded { output: serde_json::from_str(detail).expect("JSON") }
        }
        Outcome::Failed => ReportedOutcome::Failed {
            category: category(),
            error: json!({"message": "no"}),
            unsent,
            retry_after_ms,
        },
        Outcome::Unknown => ReportedOutcome::Unknown {
            category: category(),
            error: json!({"message": "no answer"}),
            retry_after_ms,
        },
    }
}

fn report(words: &[&str]) -> AgentReport {
    let output = words.get(2).map(|text| serde_json::from_str(text).expect("JSON"));
    match words[1] {
        "started" => AgentReport::Started,
        "succeeded" => AgentReport::Succeeded { output },
        "compensated" => AgentReport::Compensated { output },
        "failed" => AgentReport::Failed { reason: None, category: ErrorCategory::ToolError },
        other => panic!("unknown report {other}"),
    }
}

fn is_reporter(word: &str) -> bool {
    word.starts_with("by=") || word.starts_with("departed=") || word == "take-over"
}

/// `by=NAME`, `take-over`, and `departed=NAME`: a holder whose session has ended. A NAME of `person` is one.
fn parse_reporter(words: &[&str], at_ms: i64) -> Option<Reporter> {
    let holder = words.iter().find_map(|word| word.strip_prefix("by="))?;
    let takes_over = words.contains(&"take-over");
    let departed = words.iter().find_map(|word| word.strip_prefix("departed="));
    Some(Reporter {
        holder: holder.to_owned(),
        is_person: holder == "person",
        takes_over,
        node: None,
        departed_holder: departed.map(str::to_owned),
        at_ms,
    })
}
