//! Renders the graph for a page of the dashboard: the live state of each step, links to steps, and no style of
//! its own. The page's style sheet knows the classes, the page's sprite has the icons.

use std::collections::BTreeMap;

use actbook_engine::policy::StepStatus;

use super::columns::{display_columns, truncate};
use super::layout::{Layout, Point, compute_layout};
use super::stacks::StackedGraph;
use super::svg::{curve_path, escape_xml};
use super::{EdgeKind, GraphNode, PlanGraph, Undoability};

/// A graph with more boxes is not drawn: a table shows that many steps better.
const BOXES_MAX: usize = 150;
const BOX_HEIGHT: f64 = 66.0;
const BOX_WIDTH_MIN: f64 = 190.0;
const BOX_WIDTH_MAX: f64 = 268.0;
/// Room around the drawing for rings and halos.
const MARGIN: f64 = 10.0;
/// Left edge of the text in a box, and the room that stays free on its right.
const TEXT_LEFT: f64 = 34.0;
const TEXT_RIGHT: f64 = 12.0;
/// Widths of a character: of a step's id, of its tool in a fixed-width font, and of the other texts.
const ID_CHAR: f64 = 7.6;
const TOOL_CHAR: f64 = 6.7;
const TEXT_CHAR: f64 = 6.4;
/// Room between the end of an id and the time on its right.
const TIME_GAP: f64 = 10.0;
const BADGE_WIDTH: f64 = 120.0;

/// The state of a step as it is drawn.
#[derive(Debug)]
pub struct NodeState {
    pub status: StepStatus,
    /// How long it took, or its status in a word if it has not begun.
    pub time: String,
    pub attempts: usize,
    /// Where a click leads.
    pub link: String,
    /// Its details are shown beside the drawing.
    pub selected: bool,
}

/// The SVG of a graph with the state of each of its nodes. In a large graph equal steps share a box, which
/// leads to `stack_link`. `None`: there are too many boxes to draw.
pub fn render_for_page(graph: &PlanGraph, states: &[NodeState], stack_link: &str) -> Option<String> {
    let stacked = StackedGraph::of(graph);
    if stacked.boxes.len() > BOXES_MAX {
        return None;
    }
    let labels: Vec<BoxLabel<'_>> =
        stacked.boxes.iter().map(|nodes| BoxLabel::of(graph, states, nodes, stack_link)).collect();
    let width =
        labels.iter().map(BoxLabel::wanted_width).fold(BOX_WIDTH_MIN, f64::max).min(BOX_WIDTH_MAX).ceil();
    let sizes = vec![(width, BOX_HEIGHT); labels.len()];
    let arrows: Vec<(usize, usize)> = stacked.arrows.iter().map(|(from, to, _)| (*from, *to)).collect();
    let layout = compute_layout(&sizes, &arrows, &stacked.waves);
    let (whole_width, whole_height) = (layout.width + 2.0 * MARGIN, layout.height + 2.0 * MARGIN);
    let mut svg = format!(
        "<svg class=\"graph\" width=\"{whole_width:.0}\" height=\"{whole_height:.0}\" \
         viewBox=\"{:.0} {:.0} {whole_width:.0} {whole_height:.0}\" role=\"group\" \
         aria-label=\"Graph of {} with their states\">\n",
        -MARGIN,
        -MARGIN,
        count_of_steps(graph.nodes.len()),
    );
    draw_arrows(&stacked, &layout, &mut svg);
    for (label, centre) in labels.iter().zip(&layout.boxes) {
        label.draw(*centre, width, &mut svg);
    }
    svg.push_str("</svg>");
    Some(svg)
}

fn count_of_steps(count: usize) -> String {
    if count == 1 { "1 step".to_owned() } else { format!("{count} steps") }
}

fn draw_arrows(stacked: &StackedGraph, layout: &Layout, svg: &mut String) {
    for ((_, _, kind), path) in stacked.arrows.iter().zip(&layout.arrows) {
        let class = match kind {
            EdgeKind::Dependency => "need",
            EdgeKind::StatusOnly => "need reads",
            EdgeKind::OrderOnly => "need then",
        };
        svg.push_str(&format!("<path class=\"{class}\" d=\"{}\"/>", curve_path(path)));
        if let Some(Point { x, y }) = path.last() {
            let (left, top) = (x - 3.5, y - 6.0);
            svg.push_str(&format!("<path class=\"head\" d=\"M{left:.1} {top:.1}h7l-3.5 6z\"/>\n"));
        }
    }
}

/// The texts, the state and the link of one box, which stands for one step or for several.
struct BoxLabel<'a> {
    status: StepStatus,
    /// A step's id, or how many steps the box stands for.
    id: String,
    time: String,
    /// Its tool or action.
    does: &'a str,
    undo: String,
    cannot_undo: bool,
    tooltip: String,
    link: &'a str,
    selected: bool,
    stacked: bool,
    point_of_no_return: bool,
}

impl<'a> BoxLabel<'a> {
    fn of(graph: &'a PlanGraph, states: &'a [NodeState], nodes: &[usize], stack_link: &'a str) -> Self {
        match nodes {
            [one] => Self::of_step(&graph.nodes[*one], &states[*one]),
            several => Self::of_stack(graph, states, several, stack_link),
        }
    }

    fn of_step(node: &'a GraphNode, state: &'a NodeState) -> Self {
        let attempts =
            if state.attempts > 1 { format!(", {} attempts", state.attempts) } else { String::new() };
        let when = node.when.as_ref().map(|when| format!(", when {when}")).unwrap_or_default();
        let status = state.status.as_str().replace('_', " ");
        let asks_first = node.approval && state.status == StepStatus::Pending;
        Self {
            status: state.status,
            id: node.id.clone(),
            time: if asks_first { "asks first".to_owned() } else { state.time.clone() },
            does: &node.does,
            undo: undo_text(&node.undo),
            cannot_undo: node.undo == Undoability::Impossible,
            tooltip: format!("{}: {status}{attempts}. {}{when}", node.id, node.does),
            link: &state.link,
            selected: state.selected,
            stacked: false,
            point_of_no_return: node.point_of_no_return,
        }
    }

    fn of_stack(graph: &'a PlanGraph, states: &[NodeState], nodes: &[usize], link: &'a str) -> Self {
        let node = &graph.nodes[nodes[0]];
        let mut counts: BTreeMap<usize, (StepStatus, usize)> = BTreeMap::new();
        for index in nodes {
            let status = states[*index].status;
            counts.entry(urgency(status)).or_insert((status, 0)).1 += 1;
        }
        let count =
            |(status, count): &(StepStatus, usize)| format!("{count} {}", status.as_str().replace('_', " "));
        let told: Vec<String> = counts.values().map(count).collect();
        let finished = nodes.iter().filter(|index| states[**index].status == StepStatus::Succeeded).count();
        Self {
            status: counts.values().next().map_or(StepStatus::Pending, |(status, _)| *status),
            id: count_of_steps(nodes.len()),
            time: format!("{finished} done"),
            does: &node.does,
            undo: undo_text(&node.undo),
            cannot_undo: node.undo == Undoability::Impossible,
            tooltip: format!(
                "{} to {}: {}",
                node.id,
                graph.nodes[nodes[nodes.len() - 1]].id,
                told.join(", ")
            ),
            link,
            selected: false,
            stacked: true,
            point_of_no_return: false,
        }
    }

    /// The width at which no text of the box is cut.
    fn wanted_width(&self) -> f64 {
        let width = |text: &str, char_width: f64| display_columns(text) as f64 * char_width;
        let first = width(&self.id, ID_CHAR) + TIME_GAP + width(&self.time, TEXT_CHAR);
        let texts = first.max(width(self.does, TOOL_CHAR)).max(width(&self.undo, TEXT_CHAR));
        texts + TEXT_LEFT + TEXT_RIGHT
    }

    fn draw(&self, centre: Point, width: f64, svg: &mut String) {
        let (left, top) = (centre.x - width / 2.0, centre.y - BOX_HEIGHT / 2.0);
        let selected = if self.selected { " on" } else { "" };
        svg.push_str(&format!(
            "<a href=\"{}\" class=\"node {}{selected}\"><title>{}</title>",
            escape_xml(self.link),
            self.status.as_str(),
            escape_xml(&self.tooltip)
        ));
        if self.point_of_no_return {
            svg.push_str(&rectangle("halo", left - 6.0, top - 6.0, width + 12.0, BOX_HEIGHT + 12.0, 12.0));
        }
        if self.selected {
            svg.push_str(&rectangle("ring", left - 3.0, top - 3.0, width + 6.0, BOX_HEIGHT + 6.0, 10.0));
        }
        if self.stacked {
            svg.push_str(&rectangle("box under", left + 6.0, top - 6.0, width, BOX_HEIGHT, 8.0));
        }
        svg.push_str(&rectangle("box", left, top, width, BOX_HEIGHT, 8.0));
        svg.push_str(&rectangle("bar-l", left, top + 9.0, 3.0, BOX_HEIGHT - 18.0, 1.5));
        svg.push_str(&format!(
            "<svg class=\"i\" x=\"{:.1}\" y=\"{:.1}\" width=\"16\" height=\"16\" aria-hidden=\"true\"><use href=\"#i-{}\"/></svg>",
            left + 12.0,
            top + 9.0,
            self.status.as_str()
        ));
        self.draw_texts(left, top, width, svg);
        if self.point_of_no_return {
            svg.push_str(&no_return_badge(centre.x, top));
        }
        svg.push_str("</a>\n");
    }

    fn draw_texts(&self, left: f64, top: f64, width: f64, svg: &mut String) {
        let room = width - TEXT_LEFT - TEXT_RIGHT;
        let columns = |room: f64, char_width: f64| (room / char_width).floor().max(1.0) as usize;
        let time_width = display_columns(&self.time) as f64 * TEXT_CHAR;
        let id = truncate(&self.id, columns(room - time_width - TIME_GAP, ID_CHAR));
        let does = truncate(self.does, columns(room, TOOL_CHAR));
        let undo = truncate(&self.undo, columns(room, TEXT_CHAR));
        let undo_class = if self.cannot_undo { "stays" } else { "undo" };
        let text = |class: &str, x: f64, y: f64, text: &str| {
            format!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape_xml(text))
        };
        svg.push_str(&text("id", left + TEXT_LEFT, top + 21.5, &id));
        svg.push_str(&text("time", left + width - TEXT_RIGHT, top + 21.5, &self.time));
        svg.push_str(&text("tool", left + TEXT_LEFT, top + 39.0, &does));
        svg.push_str(&text(undo_class, left + TEXT_LEFT, top + 56.0, &undo));
    }
}

fn undo_text(undo: &Undoability) -> String {
    match undo {
        Undoability::Partial(Some(how)) => format!("◐ in part: {how}"),
        Undoability::Partial(None) => "◐ undone in part".to_owned(),
        Undoability::ReadOnly | Undoability::Full(_) | Undoability::Impossible => undo.label(),
    }
}

/// Which status of several a stack shows: the smallest.
fn urgency(status: StepStatus) -> usize {
    match status {
        StepStatus::CompensationFailed => 0,
        StepStatus::Failed => 1,
        StepStatus::Unknown => 2,
        StepStatus::AwaitingApproval => 3,
        StepStatus::AwaitingAgent => 4,
        StepStatus::Running => 5,
        StepStatus::Compensating => 6,
        StepStatus::Pending => 7,
        StepStatus::Cancelled => 8,
        StepStatus::Compensated => 9,
        StepStatus::Succeeded => 10,
        StepStatus::Skipped => 11,
    }
}

fn rectangle(class: &str, left: f64, top: f64, width: f64, height: f64, radius: f64) -> String {
    format!(
        "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{radius}\"/>"
    )
}

/// The badge of the point of no return, on the upper edge of its box.
fn no_return_badge(centre: f64, top: f64) -> String {
    rectangle("badge", centre - BADGE_WIDTH / 2.0, top - 18.0, BADGE_WIDTH, 20.0, 10.0)
        + &format!(
            "<text class=\"badge-t\" x=\"{centre:.1}\" y=\"{:.1}\">point of no return</text>",
            top - 4.0
        )
}
