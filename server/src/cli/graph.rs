//! A plan as a drawing: who needs whom, what takes each step back, and where the point of no return
//! lies. What is drawn is gathered once here; each format only puts it down.

mod layout;
mod markup;
mod svg;
mod text;

use actbook_engine::analysis;
use actbook_engine::plan::{Plan, Step, Undo, Work};
use actbook_engine::policy::Cancellable;

use super::args::GraphFormat;

#[derive(Debug)]
pub struct Drawing {
    name: String,
    /// One at a time: then the order of the list is part of the picture.
    sequential: bool,
    nodes: Vec<Node>,
    /// Indices of nodes, in the order in which they run one at a time.
    order: Vec<usize>,
    /// Indices of nodes, wave by wave.
    waves: Vec<Vec<usize>>,
}

#[derive(Debug)]
struct Node {
    id: String,
    name: Option<String>,
    does: String,
    by_agent: bool,
    approval: bool,
    /// The condition without which the step is skipped, as written, in one line.
    when: Option<String>,
    needs: Vec<Need>,
    back: Back,
    point_of_no_return: bool,
}

#[derive(Debug)]
struct Need {
    step: usize,
    /// Only the other's status is read.
    status_read: bool,
}

/// The way back from a step.
#[derive(Debug, PartialEq, Eq)]
enum Back {
    /// It changes nothing.
    ReadOnly,
    Whole(String),
    Partly(Option<String>),
    None,
}

impl Back {
    fn words(&self) -> String {
        match self {
            Self::ReadOnly => "reads only".to_owned(),
            Self::Whole(undo) => format!("↺ {undo}"),
            Self::Partly(Some(undo)) => format!("↺ partly: {undo}"),
            Self::Partly(None) => "only partly undone".to_owned(),
            Self::None => "✗ cannot be undone".to_owned(),
        }
    }
}

pub fn draw(plan: &Plan, format: GraphFormat) -> String {
    let drawing = Drawing::of(plan);
    match format {
        GraphFormat::Text => text::draw(&drawing),
        GraphFormat::Mermaid => markup::mermaid(&drawing),
        GraphFormat::Dot => markup::dot(&drawing),
        GraphFormat::Svg => svg::draw(&drawing),
    }
}

impl Drawing {
    fn of(plan: &Plan) -> Self {
        let no_return = analysis::point_of_no_return(plan);
        let nodes = plan.numbered().map(|(no, step)| node(step, no_return == Some(no))).collect();
        let index = |id: &actbook_engine::id::StepId| plan.find(id.as_str()).map(|no| no.index());
        let waves =
            analysis::waves(plan).iter().map(|wave| wave.iter().filter_map(index).collect()).collect();
        Self {
            name: plan.name.clone(),
            sequential: plan.policy.concurrency == 1,
            nodes,
            order: analysis::order(plan).into_iter().map(|no| no.index()).collect(),
            waves,
        }
    }

    fn headline(&self) -> String {
        let how =
            if self.sequential { "one at a time" } else { "side by side where nothing holds them back" };
        match self.nodes.len() {
            1 => format!("{}: 1 step", self.name),
            count => format!("{}: {count} steps, {how}", self.name),
        }
    }

    /// What needs what; and, one at a time, what merely comes after what.
    fn edges(&self) -> Vec<Edge> {
        let needed = self.nodes.iter().enumerate().flat_map(|(to, node)| {
            node.needs.iter().map(move |need| Edge {
                from: need.step,
                to,
                kind: if need.status_read { Kind::Status } else { Kind::Need },
            })
        });
        let mut edges: Vec<Edge> = needed.collect();
        if self.sequential {
            for pair in self.order.windows(2) {
                let [from, to] = *pair else { continue };
                if !self.nodes[to].needs.iter().any(|need| need.step == from) {
                    edges.push(Edge { from, to, kind: Kind::Then });
                }
            }
        }
        edges
    }
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    from: usize,
    to: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Need,
    Status,
    /// No need, only the order of the list.
    Then,
}

fn node(step: &Step, point_of_no_return: bool) -> Node {
    let does = match &step.work {
        Work::Tool { tool, .. } => tool.clone(),
        Work::AgentTool { tool, .. } => format!("the agent calls {tool}"),
        Work::Action { action, .. } => action.clone(),
    };
    let needs = step.needs.iter().map(|need| Need { step: need.step.index(), status_read: need.status_read });
    Node {
        id: step.id.to_string(),
        name: step.name.clone(),
        does,
        by_agent: step.by_agent(),
        approval: step.approval,
        when: step.when.as_ref().map(|when| when.source().split_whitespace().collect::<Vec<_>>().join(" ")),
        needs: needs.collect(),
        back: back(step),
        point_of_no_return,
    }
}

fn back(step: &Step) -> Back {
    let undo = step.compensation.as_ref().map(|compensation| match &compensation.work {
        Undo::Tool { tool, .. } => tool.clone(),
        Undo::Action { action } => {
            let text = action.literal().and_then(serde_json::Value::as_str).unwrap_or("as its text says");
            format!("by hand: {text}")
        }
    });
    match (step.read_only, step.cancellable, undo) {
        (true, _, _) => Back::ReadOnly,
        (false, Cancellable::Reversible, Some(undo)) => Back::Whole(undo),
        (false, Cancellable::Reversible, None) => Back::Whole("nothing to undo".to_owned()),
        (false, Cancellable::PartiallyReversible, undo) => Back::Partly(undo),
        (false, Cancellable::Irreversible, _) => Back::None,
    }
}
