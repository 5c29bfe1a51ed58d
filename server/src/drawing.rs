//! Draws a plan: the dependencies of its steps, what undoes each of them, and the point of no return. This
//! file collects what is drawn; each format only renders it. Files carry their style; pages style a drawing by
//! its classes.

mod columns;
mod layout;
mod markup;
mod page;
mod stacks;
mod svg;

use actbook_engine::analysis;
use actbook_engine::plan::{CompensationWork, Plan, Step, StepWork};
use actbook_engine::policy::{Reversibility, StepStatus};

pub use columns::char_columns;
pub use markup::{render_dot, render_mermaid};
pub use page::{NodeState, render_for_page};
pub use svg::render_svg;

/// What is drawn of a plan, whatever the format.
#[derive(Debug)]
pub struct PlanGraph {
    pub name: String,
    /// The steps run one at a time, so their order is drawn too.
    pub sequential: bool,
    pub nodes: Vec<GraphNode>,
    /// Indices of nodes, in the order in which they run one at a time.
    pub order: Vec<usize>,
    /// Indices of nodes, wave by wave.
    pub waves: Vec<Vec<usize>>,
}

/// A step.
#[derive(Debug)]
pub struct GraphNode {
    pub id: String,
    pub name: Option<String>,
    /// Its tool, or its action in words.
    pub does: String,
    /// `does` is an action in words.
    pub is_action: bool,
    pub by_agent: bool,
    pub approval: bool,
    /// The condition of the step as written, in one line; if it is false the step is skipped.
    pub when: Option<String>,
    pub needs: Vec<GraphDependency>,
    pub undo: Undoability,
    pub point_of_no_return: bool,
    /// The state of the step in an execution. `None`: the plan alone is drawn.
    pub status: Option<StepStatus>,
}

/// A dependency of one step on another.
#[derive(Debug)]
pub struct GraphDependency {
    /// The index of the other step.
    pub step: usize,
    /// Only the other step's status is read, not its output.
    pub status_read: bool,
}

/// Whether, and by what, a step can be undone.
#[derive(Debug, PartialEq, Eq)]
pub enum Undoability {
    /// The step changes nothing.
    ReadOnly,
    /// By this tool or action.
    Full(String),
    /// In part, by this tool or action if there is one.
    Partial(Option<String>),
    Impossible,
}

impl Undoability {
    /// `↺ files/delete_file`, `✗ cannot be undone`
    pub fn label(&self) -> String {
        match self {
            Self::ReadOnly => "reads only".to_owned(),
            Self::Full(undo) => format!("↺ {undo}"),
            Self::Partial(Some(undo)) => format!("↺ partly: {undo}"),
            Self::Partial(None) => "only partly undone".to_owned(),
            Self::Impossible => "✗ cannot be undone".to_owned(),
        }
    }
}

/// Begins what undoes a step whose compensation is an action.
const BY_HAND: &str = "by hand: ";

impl PlanGraph {
    /// What is drawn of this plan.
    pub fn from_plan(plan: &Plan) -> Self {
        let no_return = analysis::point_of_no_return(plan);
        let nodes = plan.numbered_steps().map(|(no, step)| graph_node(step, no_return == Some(no))).collect();
        let index = |id: &actbook_engine::id::StepId| plan.find_step(id.as_str()).map(|no| no.index());
        let waves =
            analysis::waves(plan).iter().map(|wave| wave.iter().filter_map(index).collect()).collect();
        Self {
            name: plan.name.clone(),
            sequential: plan.policy.concurrency == 1,
            nodes,
            order: plan.sequential_order().into_iter().map(|no| no.index()).collect(),
            waves,
        }
    }

    /// The same drawing with the state of each step in an execution, in the plan's order.
    pub fn with_statuses(mut self, statuses: impl IntoIterator<Item = StepStatus>) -> Self {
        for (node, status) in self.nodes.iter_mut().zip(statuses) {
            node.status = Some(status);
        }
        self
    }

    /// The same drawing for readers who may not see values: fixed words in place of actions and conditions.
    pub fn without_texts(mut self) -> Self {
        for node in &mut self.nodes {
            if node.is_action {
                node.does = "work for an agent or a person".to_owned();
            }
            node.when = node.when.take().map(|_| "a condition".to_owned());
            if let Undoability::Full(undo) | Undoability::Partial(Some(undo)) = &mut node.undo
                && undo.starts_with(BY_HAND)
            {
                *undo = BY_HAND.trim_end_matches(": ").to_owned();
            }
        }
        self
    }

    /// `release: 6 steps, one at a time`
    pub fn headline(&self) -> String {
        let how =
            if self.sequential { "one at a time" } else { "in parallel where their dependencies allow" };
        match self.nodes.len() {
            1 => format!("{}: 1 step", self.name),
            count => format!("{}: {count} steps, {how}", self.name),
        }
    }

    /// The dependencies; and if steps run one at a time, an edge from each to the next in `order`, where that
    /// one does not depend on it.
    fn edges(&self) -> Vec<GraphEdge> {
        let dependencies = self.nodes.iter().enumerate().flat_map(|(to, node)| {
            node.needs.iter().map(move |need| GraphEdge {
                from: need.step,
                to,
                kind: if need.status_read { EdgeKind::StatusOnly } else { EdgeKind::Dependency },
            })
        });
        let mut edges: Vec<GraphEdge> = dependencies.collect();
        if self.sequential {
            for pair in self.order.windows(2) {
                let [from, to] = *pair else { continue };
                if !self.nodes[to].needs.iter().any(|need| need.step == from) {
                    edges.push(GraphEdge { from, to, kind: EdgeKind::OrderOnly });
                }
            }
        }
        edges
    }
}

/// An arrow between two nodes, by their indices.
#[derive(Clone, Copy, Debug)]
struct GraphEdge {
    from: usize,
    to: usize,
    kind: EdgeKind,
}

/// Why there is an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EdgeKind {
    /// The step uses the other step's output, or must come after it.
    Dependency,
    /// The step reads only the other step's status.
    StatusOnly,
    /// No dependency: the steps run one at a time, in this order.
    OrderOnly,
}

fn graph_node(step: &Step, point_of_no_return: bool) -> GraphNode {
    let does = match &step.work {
        StepWork::Tool { tool, .. } => tool.clone(),
        StepWork::AgentTool { tool, .. } => format!("the agent calls {tool}"),
        StepWork::Action { action, .. } => action.clone(),
    };
    let needs = step
        .dependencies
        .iter()
        .map(|need| GraphDependency { step: need.step.index(), status_read: need.status_read });
    GraphNode {
        id: step.id.to_string(),
        name: step.name.clone(),
        does,
        is_action: matches!(step.work, StepWork::Action { .. }),
        by_agent: step.is_agent_step(),
        approval: step.approval,
        when: step.when.as_ref().map(|when| when.source().split_whitespace().collect::<Vec<_>>().join(" ")),
        needs: needs.collect(),
        undo: undoability(step),
        point_of_no_return,
        status: None,
    }
}

/// Whether and how the step can be undone, by its declared reversibility and its compensation.
fn undoability(step: &Step) -> Undoability {
    let undo = step.compensation.as_ref().map(|compensation| match &compensation.work {
        CompensationWork::Tool { tool, .. } => tool.clone(),
        CompensationWork::Action { action } => {
            let text = action.as_literal().and_then(serde_json::Value::as_str).unwrap_or("as its text says");
            format!("{BY_HAND}{text}")
        }
    });
    match (step.read_only, step.cancellable, undo) {
        (true, _, _) => Undoability::ReadOnly,
        (false, Reversibility::Reversible, Some(undo)) => Undoability::Full(undo),
        (false, Reversibility::Reversible, None) => Undoability::Full("nothing to undo".to_owned()),
        (false, Reversibility::PartiallyReversible, undo) => Undoability::Partial(undo),
        (false, Reversibility::Irreversible, _) => Undoability::Impossible,
    }
}
