//! Renders the graph of a plan for the command line. As text it is drawn in box characters: the steps below
//! each other in running order, or wave by wave.

use actbook_engine::plan::Plan;

use super::args::GraphFormat;
use super::printable::escape_flat;
use super::status_style::{ATTENTION, BAD, BUSY, GOOD, QUIET, STRONG, painted};
use super::table::{display_width, truncate};
use crate::drawing::{self, GraphDependency, GraphNode, PlanGraph, Undoability};

const COLUMN_MAX: usize = 44;

/// The plan in the given format. `Text` holds style marks; the others are plain.
pub fn render(plan: &Plan, format: GraphFormat) -> String {
    let graph = PlanGraph::from_plan(plan);
    match format {
        GraphFormat::Text => render_text(&graph),
        GraphFormat::Mermaid => drawing::render_mermaid(&graph),
        GraphFormat::Dot => drawing::render_dot(&graph),
        GraphFormat::Svg => drawing::render_svg(&graph),
    }
}

/// The graph as text with style marks, without a final line break.
fn render_text(graph: &PlanGraph) -> String {
    let columns = ColumnWidths::for_graph(graph);
    let mut lines = vec![painted(STRONG, graph.headline())];
    if graph.sequential {
        push_rail(graph, &columns, &mut lines);
    } else {
        push_waves(graph, &columns, &mut lines);
    }
    if !graph.nodes.iter().any(|node| node.point_of_no_return) {
        lines.push(painted(QUIET, "no point of no return: whatever ran can be undone at any time"));
    }
    // Texts of the plan may have line breaks; each step is drawn on one line.
    lines.iter().map(|line| escape_flat(line)).collect::<Vec<_>>().join("\n")
}

/// Adds a line for each step in running order, with a bar before the point of no return.
fn push_rail(graph: &PlanGraph, columns: &ColumnWidths, lines: &mut Vec<String>) {
    for (position, index) in graph.order.iter().enumerate() {
        let node = &graph.nodes[*index];
        if node.point_of_no_return {
            lines.push(painted(BAD, "╞══ point of no return ══ from here on, full undo is impossible"));
        }
        let joint = if position + 1 == graph.order.len() { "└─" } else { "├─" };
        lines.push(format!("{joint} {}", columns.step_line(graph, node)));
    }
}

/// Adds the steps wave by wave, each wave under its number.
fn push_waves(graph: &PlanGraph, columns: &ColumnWidths, lines: &mut Vec<String>) {
    for (number, wave) in graph.waves.iter().enumerate() {
        let corner = if number == 0 { "┌" } else { "├" };
        lines.push(painted(QUIET, format_args!("{corner}─ wave {} {}", number + 1, "─".repeat(24))));
        for index in wave {
            let node = &graph.nodes[*index];
            let mark = if node.point_of_no_return {
                painted(BAD, "  ◆ point of no return")
            } else {
                String::new()
            };
            lines.push(format!("│  {}{mark}", columns.step_line(graph, node)));
        }
    }
    lines.push(painted(QUIET, format_args!("└{}", "─".repeat(33))));
}

/// How wide each column must be to fit every step, at most `COLUMN_MAX`.
struct ColumnWidths {
    id: usize,
    does: usize,
    needs: usize,
}

impl ColumnWidths {
    fn for_graph(graph: &PlanGraph) -> Self {
        let widest = |text: fn(&PlanGraph, &GraphNode) -> String| {
            graph
                .nodes
                .iter()
                .map(|node| display_width(&text(graph, node)))
                .max()
                .unwrap_or(0)
                .min(COLUMN_MAX)
        };
        Self {
            id: widest(|_, node| node.id.clone()),
            does: widest(|_, node| work_text(node)),
            needs: widest(needs_text),
        }
    }

    /// One step's line: id, work, dependencies, undo, approval, condition.
    fn step_line(&self, graph: &PlanGraph, node: &GraphNode) -> String {
        let style = match node.undo {
            Undoability::Full(_) => GOOD,
            Undoability::ReadOnly => QUIET,
            Undoability::Partial(_) => ATTENTION,
            Undoability::Impossible => BAD,
        };
        let (id, does, needs) = (
            padded(&node.id, self.id),
            padded(&work_text(node), self.does),
            padded(&needs_text(graph, node), self.needs),
        );
        let asks = if node.approval { painted(ATTENTION, "  asks first") } else { String::new() };
        let back = painted(style, node.undo.label());
        let when = node
            .when
            .as_ref()
            .map(|when| painted(BUSY, format_args!("  when {}", truncate(when, COLUMN_MAX))));
        let when = when.unwrap_or_default();
        format!("{}  {does}  {}  {back}{asks}{when}", painted(STRONG, id), painted(BUSY, needs))
    }
}

/// The text truncated and padded to exactly `columns`.
fn padded(text: &str, columns: usize) -> String {
    let text = truncate(text, columns);
    let gap = columns - display_width(&text);
    text + &" ".repeat(gap)
}

/// The step's work, marked if the agent does it.
fn work_text(node: &GraphNode) -> String {
    match (node.by_agent, node.does.starts_with("the agent")) {
        (true, false) => format!("agent: {}", node.does),
        (_, _) => node.does.clone(),
    }
}

/// `← draft, (check)`: the ids of the steps it depends on; in brackets if only their status is read.
fn needs_text(graph: &PlanGraph, node: &GraphNode) -> String {
    if node.needs.is_empty() {
        return String::new();
    }
    let name = |need: &GraphDependency| {
        let id = &graph.nodes[need.step].id;
        if need.status_read { format!("({id})") } else { id.clone() }
    };
    format!("← {}", node.needs.iter().map(name).collect::<Vec<_>>().join(", "))
}
