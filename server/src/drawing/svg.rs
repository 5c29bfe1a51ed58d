//! Renders the graph as a self-contained SVG: no script, and no font or style from elsewhere.

use actbook_engine::policy::StepStatus;

use super::columns::{display_columns, truncate};
use super::layout::{Layout, Point, compute_layout};
use super::{EdgeKind, GraphEdge, GraphNode, PlanGraph, Undoability};

const MARGIN: f64 = 28.0;
const HEAD_HEIGHT: f64 = 46.0;
const FOOT_HEIGHT: f64 = 44.0;
const PAD_X: f64 = 16.0;
const LINE_HEIGHT: f64 = 19.0;
const BOX_WIDTH_MIN: f64 = 170.0;
/// The average width of a character at the font sizes used here.
const CHAR_WIDTH: f64 = 7.2;
const TEXT_COLUMNS_MAX: usize = 40;
const TITLE_COLUMNS_MAX: usize = 120;
/// Width of the badge "point of no return", in SVG units.
const NO_RETURN_WIDTH: f64 = 128.0;

const STYLE: &str = "\
text{font-family:ui-sans-serif,system-ui,'Segoe UI','DejaVu Sans',sans-serif;font-size:12.5px;fill:#2b3440}\
.title{font-size:17px;font-weight:600;fill:#18202b}.sub{fill:#667085}\
.id{font-size:14px;font-weight:600;fill:#18202b}.does{fill:#475467}\
.when{fill:#35618e}.quiet,.busy,.good,.waits,.bad{font-weight:600}\
.quiet{fill:#667085}.busy{fill:#35618e}.good{fill:#2e7d4f}.waits{fill:#96660f}.bad{fill:#b3372b}.box{stroke-width:1.4}.maybe{stroke-dasharray:5 4}.whole{fill:#effaf3;stroke:#57a777}.reads{fill:#f5f7fa;stroke:#a3aebd}\
.partly{fill:#fff8e6;stroke:#d19a2e}.stays{fill:#fdf0ef;stroke:#d4584c}\
.bar-whole{fill:#57a777}.bar-reads{fill:#a3aebd}.bar-partly{fill:#d19a2e}.bar-stays{fill:#d4584c}\
.t-whole{fill:#2e7d4f}.t-reads{fill:#667085}.t-partly{fill:#96660f}.t-stays{fill:#b3372b}\
.halo{fill:none;stroke:#d4584c;stroke-width:1.6;stroke-dasharray:6 4}\
.badge{fill:#d4584c}.badge-t{fill:#ffffff;font-size:11px;font-weight:600}\
.ask{fill:#fff3cd;stroke:#d19a2e}.ask-t{fill:#7a5307;font-size:11px;font-weight:600}\
.need{fill:none;stroke:#5b6b82;stroke-width:1.6}.status{fill:none;stroke:#5b6b82;stroke-width:1.4;stroke-dasharray:6 4}\
.then{fill:none;stroke:#c3cad5;stroke-width:1.4;stroke-dasharray:2 4}";

/// The graph as an SVG file.
pub fn render_svg(graph: &PlanGraph) -> String {
    let sizes: Vec<(f64, f64)> = graph.nodes.iter().map(box_size).collect();
    let edges = graph.edges();
    let arrows: Vec<(usize, usize)> = edges.iter().map(|edge| (edge.from, edge.to)).collect();
    let layout = compute_layout(&sizes, &arrows, &graph.waves);
    let legend = legend_width();
    let whole_width = layout.width.max(text_width(&short_headline(graph), 9.0)).max(legend) + 2.0 * MARGIN;
    let whole_height = layout.height + HEAD_HEIGHT + FOOT_HEIGHT + 2.0 * MARGIN;
    let left = (whole_width - layout.width) / 2.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{whole_width:.0}\" height=\"{whole_height:.0}\" \
         viewBox=\"0 0 {whole_width:.0} {whole_height:.0}\" role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>\n{ARROWS}\n",
        escape_xml(&graph.name)
    );
    svg.push_str("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
    svg.push_str(&title_lines(graph));
    svg.push_str(&format!("<g transform=\"translate({left:.1} {:.1})\">\n", MARGIN + HEAD_HEIGHT));
    svg.push_str(&arrows_and_boxes(graph, &layout, &sizes, &edges));
    svg.push_str("</g>\n");
    svg.push_str(&legend_items(MARGIN, whole_height - MARGIN - 8.0));
    svg.push_str("</svg>\n");
    svg
}

const ARROWS: &str = "<defs>\
<marker id=\"need\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
<path d=\"M0 0L10 5L0 10z\" fill=\"#5b6b82\"/></marker>\
<marker id=\"then\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
<path d=\"M0 0L10 5L0 10z\" fill=\"#c3cad5\"/></marker></defs>";

fn title_lines(graph: &PlanGraph) -> String {
    let title = text_element(MARGIN, MARGIN + 6.0, "title", &truncate(&graph.name, TITLE_COLUMNS_MAX));
    let headline = graph.headline();
    let rest = headline.strip_prefix(&graph.name).unwrap_or(&headline).trim_start_matches([':', ' ']);
    title + &text_element(MARGIN, MARGIN + 26.0, "sub", rest)
}

/// The headline, truncated to the width that a title may have.
fn short_headline(graph: &PlanGraph) -> String {
    truncate(&graph.headline(), TITLE_COLUMNS_MAX)
}

fn arrows_and_boxes(graph: &PlanGraph, layout: &Layout, sizes: &[(f64, f64)], edges: &[GraphEdge]) -> String {
    let mut svg = String::new();
    for (edge, path) in edges.iter().zip(&layout.arrows) {
        svg.push_str(&arrow(edge.kind, path));
    }
    for ((node, centre), size) in graph.nodes.iter().zip(&layout.boxes).zip(sizes) {
        svg.push_str(&node_box(node, *centre, *size));
    }
    svg
}

/// The lines of a box, each with its CSS class.
fn label_lines(node: &GraphNode) -> Vec<(String, String)> {
    let mut lines = vec![("id".to_owned(), truncate(&node.id, TEXT_COLUMNS_MAX))];
    lines.extend(node.name.iter().map(|name| ("does".to_owned(), truncate(name, TEXT_COLUMNS_MAX))));
    lines.push(("sub".to_owned(), truncate(&node.does, TEXT_COLUMNS_MAX)));
    lines.extend(
        node.status.map(|status| (status_class(status).to_owned(), status.as_str().replace('_', " "))),
    );
    lines.push((format!("t-{}", css_class(node)), truncate(&node.undo.label(), TEXT_COLUMNS_MAX)));
    lines.extend(
        node.when.iter().map(|when| ("when".to_owned(), truncate(&format!("when {when}"), TEXT_COLUMNS_MAX))),
    );
    lines
}

/// The width and height of a node's box.
fn box_size(node: &GraphNode) -> (f64, f64) {
    let lines = label_lines(node);
    let widest = lines
        .iter()
        .map(|(_, line)| text_width(line, CHAR_WIDTH))
        .fold(BOX_WIDTH_MIN - 2.0 * PAD_X, f64::max);
    let badge = if node.point_of_no_return { text_width(&node.id, 9.0) + NO_RETURN_WIDTH } else { 0.0 };
    (widest.max(badge) + 2.0 * PAD_X, lines.len() as f64 * LINE_HEIGHT + 18.0)
}

/// The estimated width of a text whose characters are `char_width` wide.
fn text_width(text: &str, char_width: f64) -> f64 {
    display_columns(text) as f64 * char_width
}

/// A node's box with its text and badges, centred at `centre`.
fn node_box(node: &GraphNode, centre: Point, (width, height): (f64, f64)) -> String {
    let (left, top) = (centre.x - width / 2.0, centre.y - height / 2.0);
    let class = css_class(node);
    let radius = if node.by_agent { 18.0 } else { 8.0 };
    let conditional = if node.when.is_some() { " maybe" } else { "" };
    let mut svg = format!(
        "<g><title>{}</title><rect class=\"box {class}{conditional}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{radius}\"/>",
        escape_xml(&tooltip(node))
    );
    if !node.by_agent {
        svg.push_str(&format!(
            "<rect class=\"bar-{class}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"4\" height=\"{:.1}\" rx=\"2\"/>",
            top + 8.0,
            height - 16.0
        ));
    }
    for (index, (class, line)) in label_lines(node).iter().enumerate() {
        svg.push_str(&text_element(left + PAD_X, top + 22.0 + index as f64 * LINE_HEIGHT, class, line));
    }
    if node.point_of_no_return {
        svg.push_str(&no_return_mark(left, top, width, height));
    }
    if node.approval {
        svg.push_str(&badge("ask", left + width - 74.0, top + height - 9.0, 64.0, "asks first"));
    }
    svg + "</g>\n"
}

/// The step's tool or action and its condition in full: the box may have truncated them.
fn tooltip(node: &GraphNode) -> String {
    match &node.when {
        Some(when) => format!("{}, when {when}", node.does),
        None => node.does.clone(),
    }
}

/// The halo and the badge of the point of no return.
fn no_return_mark(left: f64, top: f64, width: f64, height: f64) -> String {
    let halo = format!(
        "<rect class=\"halo\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"12\"/>",
        left - 6.0,
        top - 6.0,
        width + 12.0,
        height + 12.0
    );
    halo + &badge(
        "badge",
        left + width - NO_RETURN_WIDTH - 10.0,
        top + 9.0,
        NO_RETURN_WIDTH,
        "point of no return",
    )
}

fn badge(class: &str, left: f64, top: f64, width: f64, label: &str) -> String {
    format!(
        "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width}\" height=\"18\" rx=\"9\"/>\
         <text class=\"{class}-t\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
        left + width / 2.0,
        top + 13.0
    )
}

/// The SVG path of an arrow through these points, in the style of its kind.
fn arrow(kind: EdgeKind, path: &[Point]) -> String {
    let (class, head) = match kind {
        EdgeKind::Dependency => ("need", "need"),
        EdgeKind::StatusOnly => ("status", "need"),
        EdgeKind::OrderOnly => ("then", "then"),
    };
    format!("<path class=\"{class}\" d=\"{}\" marker-end=\"url(#{head})\"/>\n", curve_path(path))
}

/// The path data of a smooth curve through the points, vertical at each of them; empty without points.
pub(super) fn curve_path(points: &[Point]) -> String {
    let Some((first, rest)) = points.split_first() else { return String::new() };
    let mut path = format!("M{:.1} {:.1}", first.x, first.y);
    let mut from = *first;
    for to in rest {
        let bend = (to.y - from.y) / 2.0;
        path.push_str(&format!(
            " C{:.1} {:.1} {:.1} {:.1} {:.1} {:.1}",
            from.x,
            from.y + bend,
            to.x,
            to.y - bend,
            to.x,
            to.y
        ));
        from = *to;
    }
    path
}

/// The CSS class of a box, by how its step can be undone.
fn css_class(node: &GraphNode) -> &'static str {
    match node.undo {
        Undoability::Full(_) => "whole",
        Undoability::ReadOnly => "reads",
        Undoability::Partial(_) => "partly",
        Undoability::Impossible => "stays",
    }
}

/// The CSS class of the line that tells a step's state.
fn status_class(status: StepStatus) -> &'static str {
    use StepStatus::{
        AwaitingAgent, AwaitingApproval, Cancelled, Compensated, Compensating, CompensationFailed, Failed,
        Pending, Running, Skipped, Succeeded, Unknown,
    };
    match status {
        Pending | Skipped | Cancelled | Compensated => "quiet",
        Running | Compensating => "busy",
        Succeeded => "good",
        AwaitingApproval | AwaitingAgent => "waits",
        Failed | Unknown | CompensationFailed => "bad",
    }
}

/// CSS classes and what they mean.
const LEGEND: [(&str, &str); 4] = [
    ("whole", "can be undone"),
    ("reads", "reads only"),
    ("partly", "undone in part"),
    ("stays", "cannot be undone"),
];

fn legend_width() -> f64 {
    LEGEND.iter().map(|(_, label)| text_width(label, CHAR_WIDTH) + 40.0).sum()
}

fn legend_items(mut left: f64, bottom: f64) -> String {
    let mut svg = String::new();
    for (class, label) in LEGEND {
        svg.push_str(&format!(
            "<rect class=\"box {class}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"14\" height=\"14\" rx=\"4\"/>",
            bottom - 11.5
        ));
        svg.push_str(&text_element(left + 20.0, bottom, "sub", label));
        left += text_width(label, CHAR_WIDTH) + 40.0;
    }
    svg
}

/// A text element, with its text escaped.
fn text_element(left: f64, bottom: f64, class: &str, content: &str) -> String {
    format!("<text class=\"{class}\" x=\"{left:.1}\" y=\"{bottom:.1}\">{}</text>\n", escape_xml(content))
}

/// Escapes text for XML. Control characters become spaces, and characters that XML forbids are dropped.
pub(super) fn escape_xml(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\u{FFFE}' | '\u{FFFF}' => {}
            other if other.is_control() => safe.push(' '),
            other => safe.push(other),
        }
    }
    safe
}
