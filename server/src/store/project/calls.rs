//! A stream's entries → its calls, each from its start to its end as the journal tells them.

use std::collections::BTreeMap;

use actbook_engine::event::{Event, Kept, PlanRef, Probed};
use actbook_engine::execution::Recorded;
use actbook_engine::id::StepId;
use actbook_engine::plan::{Plan, Step, Undo, Work};
use actbook_engine::policy::{Category, Outcome};

use crate::store::calls::Call;

const RUN: &str = "run";
const PROBE: &str = "probe";
const COMPENSATION: &str = "compensation";

type Name = (String, &'static str, u64);

/// Every call of one execution. What a takeover proved unsent was never made, and is left out.
pub fn calls(stream: u64, reference: &PlanRef, plan: &Plan, entries: &[Recorded]) -> Vec<Call> {
    let mut open = Open { stream, reference, plan, calls: BTreeMap::new() };
    for recorded in entries {
        open.read(recorded);
    }
    open.calls.into_values().collect()
}

struct Open<'a> {
    stream: u64,
    reference: &'a PlanRef,
    plan: &'a Plan,
    calls: BTreeMap<Name, Call>,
}

/// How a call ended.
struct End {
    outcome: Outcome,
    category: Option<Category>,
    said: Option<Kept>,
    unsent: bool,
    /// Concluded by whoever took over; nobody saw when it ended.
    takeover: bool,
}

impl Open<'_> {
    fn read(&mut self, recorded: &Recorded) {
        match &recorded.event {
            Event::AttemptStarted(event) => {
                let does = |step: &Step| match &step.work {
                    Work::Tool { tool, .. } => (Some(tool.clone()), false),
                    Work::AgentTool { tool, .. } => (Some(tool.clone()), true),
                    Work::Action { .. } => (None, true),
                };
                self.begin(recorded, &event.step, RUN, event.attempt, does);
            }
            Event::ProbeStarted(event) => {
                let does = |step: &Step| (step.probe.as_ref().map(|probe| probe.tool.clone()), false);
                self.begin(recorded, &event.step, PROBE, event.attempt, does);
            }
            Event::CompensationStarted(event) => {
                let does = |step: &Step| match step.compensation.as_ref().map(|undo| &undo.work) {
                    Some(Undo::Tool { tool, .. }) => (Some(tool.clone()), false),
                    Some(Undo::Action { .. }) | None => (None, true),
                };
                self.begin(recorded, &event.step, COMPENSATION, event.compensation, does);
            }
            Event::AttemptEnded(event) => {
                let (outcome, category, said) = (event.outcome, event.category, event.result);
                let end = End { outcome, category, said, unsent: event.unsent, takeover: event.takeover };
                self.end(recorded, &event.step, RUN, event.attempt, &end);
            }
            Event::ProbeEnded(event) => {
                self.end(recorded, &event.step, PROBE, event.attempt, &probed(event.found, event.result));
            }
            Event::CompensationEnded(event) => {
                let (outcome, category, said) = (event.outcome, event.category, event.result);
                let end = End { outcome, category, said, unsent: event.unsent, takeover: event.takeover };
                self.end(recorded, &event.step, COMPENSATION, event.compensation, &end);
            }
            _ => {}
        }
    }

    fn begin(
        &mut self,
        recorded: &Recorded,
        id: &StepId,
        kind: &'static str,
        number: u32,
        does: impl Fn(&Step) -> (Option<String>, bool),
    ) {
        let Some(no) = self.plan.find(id.as_str()) else { return };
        let (tool, agent) = does(self.plan.step(no));
        let call = Call {
            stream: self.stream,
            step: id.to_string(),
            kind,
            number: u64::from(number),
            plan: self.reference.id.to_string(),
            plan_version: u64::from(self.reference.version),
            tool,
            agent,
            started_at: recorded.at_ms,
            took_ms: None,
            outcome: None,
            category: None,
            sent: true,
            said: None,
        };
        self.calls.insert((id.to_string(), kind, u64::from(number)), call);
    }

    fn end(&mut self, recorded: &Recorded, id: &StepId, kind: &'static str, number: u32, end: &End) {
        let name = (id.to_string(), kind, u64::from(number));
        if end.unsent && end.takeover {
            self.calls.remove(&name);
            return;
        }
        let Some(call) = self.calls.get_mut(&name) else { return };
        call.took_ms = (!end.takeover).then(|| recorded.at_ms - call.started_at);
        call.outcome = Some(end.outcome.as_str());
        call.category = end.category.map(Category::as_str);
        call.sent = !end.unsent;
        call.said = end.said.filter(|_| end.outcome != Outcome::Succeeded).map(|_| recorded.position.0);
    }
}

/// A probe that answered has succeeded, whatever the answer. The journal gives its errors no category.
fn probed(found: Probed, said: Option<Kept>) -> End {
    let (outcome, takeover) = match found {
        Probed::Happened | Probed::DidNotHappen => (Outcome::Succeeded, false),
        Probed::Error => (Outcome::Failed, false),
        Probed::Lost => (Outcome::Unknown, true),
    };
    End { outcome, category: None, said, unsent: false, takeover }
}
