//! One execution driven in memory as the ledger drives it: decide, fold each entry, and append what follows
//! for the driver. Every entry is checked against `invariants`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use actbook_engine::chain::Digest;
use actbook_engine::event::{Event, ExecutionStarted, PlanRef, SessionStart};
use actbook_engine::execution::{
    CallId, Command, Execution, LoadedPayloads, MissingPayloads, NewEvent, Now, RecordedEvent, Rejection,
    StartContext, build_session_start_event, build_start_event, decide, evolve, follow, initial_state,
};
use actbook_engine::id::{Epoch, ExecutionId, NodeId, PlanId, Position};
use actbook_engine::plan::Plan;
use actbook_engine::refusal::Refusal;
use actbook_engine::tool_policy::ToolPolicies;
use serde_json::Value;

use crate::invariants;

/// More events than any plan of these tests may produce for one command.
const FOLLOW_MAX: usize = 500;

thread_local! {
    /// The trace of the current run; `None` when tracing is off.
    pub static TRACE: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

pub fn trace(line: impl FnOnce() -> String) {
    TRACE.with_borrow_mut(|trace| {
        if let Some(lines) = trace {
            lines.push(line());
        }
    });
}

#[derive(Clone)]
pub struct HarnessEntry {
    pub recorded: RecordedEvent,
    pub payload: Option<Arc<Value>>,
}

/// An execution, its entries and a clock.
pub struct ExecutionHarness {
    /// `None` only while an entry is folded, which takes the state by value.
    state: Option<Execution>,
    pub entries: Vec<HarnessEntry>,
    pub now_ms: i64,
    salt: Arc<[u8]>,
}

impl ExecutionHarness {
    pub fn open(plan: Arc<Plan>, inputs: Option<&Value>, policies: &ToolPolicies) -> Self {
        let salt = salt();
        let plan_ref = PlanRef { id: PlanId::new("p"), name: "p".into(), version: 1, digest: plan.digest };
        let (started, payload) =
            build_start_event(ExecutionId::new("e"), plan_ref, &plan, inputs, &context(), policies, &salt);
        Self::begin(started, payload, plan, salt)
    }

    /// A session that has just started.
    pub fn open_session(start: SessionStart) -> Self {
        let plan = Arc::new(Plan::of_session("session"));
        let started = build_session_start_event(ExecutionId::new("e"), &plan, &context(), start);
        Self::begin(started, None, plan, salt())
    }

    fn begin(started: ExecutionStarted, payload: Option<Vec<u8>>, plan: Arc<Plan>, salt: Arc<[u8]>) -> Self {
        let recorded = RecordedEvent { position: Position(1), at_ms: 0, event: started.into() };
        let entry = HarnessEntry { recorded, payload: parse_payload(payload) };
        Self { state: Some(fold_start(&entry, plan, salt.clone())), entries: vec![entry], now_ms: 0, salt }
    }

    /// The same execution, folded from the first `count` entries, as another process would load it.
    pub fn fork(&self, count: usize) -> Self {
        let entries = self.entries[..count].to_vec();
        let plan = match &self.execution().session {
            Some(_) => Arc::new(Plan::of_session("session")),
            None => self.execution().plan.clone(),
        };
        let mut execution = fold_start(&entries[0], plan, self.salt.clone());
        for entry in &entries[1..] {
            execution = evolve(execution, &entry.recorded).expect("a prefix of a journal is a journal");
        }
        Self { state: Some(execution), entries, now_ms: self.now_ms, salt: self.salt.clone() }
    }

    pub fn execution(&self) -> &Execution {
        self.state.as_ref().expect("there between entries")
    }

    pub fn claim(&mut self, unsent: BTreeSet<CallId>) {
        self.apply(&Command::Claim {
            node: NodeId::new("s"),
            expected_epoch: self.execution().epoch,
            unsent,
        })
        .expect("anyone may claim");
    }

    pub fn drive(&mut self) {
        self.apply(&Command::Drive { epoch: self.execution().epoch }).expect("the driver may drive");
    }

    /// The command of a driver whose lease may have lapsed.
    pub fn reclaim_command(&self) -> Command {
        let node = self.execution().node.clone().expect("the execution has a driver");
        Command::Reclaim { node, epoch: self.epoch() }
    }

    pub fn epoch(&self) -> Epoch {
        self.execution().epoch
    }

    /// The command's events as the engine decides them; nothing is appended.
    pub fn decide(&self, command: &Command) -> Result<Vec<NewEvent>, Refusal> {
        let mut values = LoadedPayloads::default();
        loop {
            let now = Now { at_ms: self.now_ms, random: 0 };
            match decide(self.execution(), command, now, &values) {
                Ok(events) => return Ok(events),
                Err(Rejection::Refused(refusal)) => return Err(refusal),
                Err(Rejection::MissingPayloads(missing)) => self.load(missing, &mut values),
            }
        }
    }

    /// Decides a command, appends its events, and for the driver appends what follows.
    pub fn apply(&mut self, command: &Command) -> Result<(), Refusal> {
        trace(|| format!("> {command:?} at {} ms", self.now_ms));
        let events = self.decide(command)?;
        for new_event in events {
            self.record(new_event);
        }
        if matches!(command, Command::Claim { .. }) || command.epoch() == Some(self.execution().epoch) {
            self.follow();
        }
        invariants::check_between_commands(self.execution());
        Ok(())
    }

    fn follow(&mut self) {
        for _ in 0..FOLLOW_MAX {
            let events = self.next_events();
            if events.is_empty() {
                return;
            }
            for new_event in events {
                self.record(new_event);
            }
        }
        panic!("follow-up events do not end");
    }

    pub fn next_events(&self) -> Vec<NewEvent> {
        self.next_events_at(self.now_ms)
    }

    pub fn next_events_at(&self, at_ms: i64) -> Vec<NewEvent> {
        let mut values = LoadedPayloads::default();
        loop {
            // The random number depends only on the time, so that a prefix decides as the whole did.
            match follow(self.execution(), Now { at_ms, random: at_ms as u64 }, &values) {
                Ok(events) => return events,
                Err(missing) => self.load(missing, &mut values),
            }
        }
    }

    pub fn load(&self, missing: MissingPayloads, values: &mut LoadedPayloads) {
        for position in missing.0 {
            let entry = &self.entries[position.0 as usize - 1];
            let payload = entry.payload.clone().expect("a requested payload is stored");
            values.0.insert(position, payload);
        }
    }

    fn record(&mut self, new_event: NewEvent) {
        let position = Position(self.entries.len() as u64 + 1);
        let recorded = RecordedEvent { position, at_ms: self.now_ms, event: new_event.event };
        trace(|| format!("    {}", event_line(&recorded.event)));
        let again =
            Event::decode(recorded.event.kind(), &recorded.event.body()).expect("an event reads back");
        assert_eq!(again, recorded.event, "the stored event equals the decided one");
        let before = invariants::StateBefore::capture(self.execution(), &recorded.event);
        let execution = self.state.take().expect("there between entries");
        self.state = Some(evolve(execution, &recorded).expect("a decided event can be folded"));
        self.entries.push(HarnessEntry { recorded, payload: parse_payload(new_event.payload) });
        let entry = self.entries.last().expect("just pushed");
        before.check_after(self.execution(), &entry.recorded.event);
    }
}

fn salt() -> Arc<[u8]> {
    Arc::from(*b"salt")
}

fn context() -> StartContext {
    StartContext { toolset: Digest::of(b"here"), project: Some("here".into()), agents_may_approve: false }
}

fn fold_start(first: &HarnessEntry, plan: Arc<Plan>, salt: Arc<[u8]>) -> Execution {
    let Event::ExecutionStarted(started) = &first.recorded.event else { panic!("the first entry starts") };
    initial_state(started.clone(), first.recorded.position, first.recorded.at_ms, plan, salt)
}

fn parse_payload(payload: Option<Vec<u8>>) -> Option<Arc<Value>> {
    payload.map(|bytes| Arc::new(serde_json::from_slice(&bytes).expect("a payload is JSON")))
}

/// An event in one line: its kind, step, number and other fields, without digests.
pub fn event_line(event: &Event) -> String {
    let mut fields: serde_json::Map<String, Value> =
        serde_json::from_str(&event.body()).expect("a body is a map");
    let kind = event.kind().split('.').next().expect("a kind has a name");
    let mut text = kind.to_owned();
    let mut take =
        |name: &str| fields.remove(name).map(|value| value.to_string().trim_matches('"').to_owned());
    let number =
        take("compensation").or_else(|| (kind != "compensation_started").then(|| take("attempt")).flatten());
    if let Some(step) = take("step") {
        text += &format!(" {step}");
        text += &number.map(|number| format!("#{number}")).unwrap_or_default();
    }
    for name in ["outcome", "answer", "found", "status", "category"] {
        text += &take(name).map(|value| format!(" {value}")).unwrap_or_default();
    }
    for name in ["unsent", "takeover", "asks"] {
        text += &take(name).map(|_| format!(" {name}")).unwrap_or_default();
    }
    for name in [
        "arguments",
        "result",
        "output",
        "inputs",
        "place",
        "plan",
        "id",
        "seat",
        "facts",
        "details",
        "terms",
        "servers",
        "undo",
        "state",
    ] {
        take(name);
    }
    for (name, value) in fields {
        let shown = match &value {
            Value::String(digest) if name == "pin" || name == "digest" => digest[..4].to_owned(),
            Value::Array(items) => items.iter().map(item_text).collect::<Vec<_>>().join(","),
            other => other.to_string(),
        };
        text += &format!(" {name}={shown}");
    }
    text
}

/// A step's id, or a call of an unwinding as `step#attempt`.
fn item_text(item: &Value) -> String {
    match item {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        call => format!("{}#{}", call["step"].as_str().unwrap_or_default(), call["attempt"]),
    }
}
