//! Renders the graph for other programs: Mermaid and Graphviz (DOT).

use super::columns::truncate;
use super::{EdgeKind, GraphNode, PlanGraph, Undoability};

/// Columns of a condition shown in a label; longer ones are truncated.
const WHEN_COLUMNS_MAX: usize = 60;

/// The graph as a Mermaid flowchart.
pub fn render_mermaid(graph: &PlanGraph) -> String {
    let mut text = String::from("flowchart TD\n");
    for (index, node) in graph.nodes.iter().enumerate() {
        let [open, close] = if node.by_agent { ["([", "])"] } else { ["[", "]"] };
        let lines: Vec<String> = label_lines(node).iter().map(|line| escape_mermaid(line)).collect();
        text.push_str(&format!(
            "  s{index}{open}\"{}\"{close}:::{}\n",
            lines.join("<br/>"),
            style_class(node)
        ));
    }
    for (index, _) in graph.nodes.iter().enumerate().filter(|(_, node)| node.when.is_some()) {
        text.push_str(&format!("  style s{index} stroke-dasharray: 5 4\n"));
    }
    for edge in graph.edges() {
        let arrow = match edge.kind {
            EdgeKind::Dependency => "-->",
            EdgeKind::StatusOnly => "-. status .->",
            EdgeKind::OrderOnly => "-.->",
        };
        text.push_str(&format!("  s{} {arrow} s{}\n", edge.from, edge.to));
    }
    text.push_str("  classDef whole fill:#e7f6ec,stroke:#2e7d4f,color:#12331f\n");
    text.push_str("  classDef reads fill:#eef1f5,stroke:#8a94a3,color:#2b3440\n");
    text.push_str("  classDef partly fill:#fff5dd,stroke:#b7791f,color:#4a3208\n");
    text.push_str("  classDef stays fill:#fdeaea,stroke:#c0392b,color:#4a1510\n");
    text.push_str("  classDef noreturn fill:#fdeaea,stroke:#c0392b,stroke-width:4px,color:#4a1510\n");
    text
}

/// Escapes a label: Mermaid interprets quotes, tags and its own syntax in labels, but not numbered entities.
fn escape_mermaid(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || " .,:/_-()↺✗◆".contains(c);
    text.chars().map(|c| if is_plain(c) { c.to_string() } else { format!("#{};", u32::from(c)) }).collect()
}

/// The graph in Graphviz' language.
pub fn render_dot(graph: &PlanGraph) -> String {
    let mut text = format!("digraph {} {{\n", quote_dot(&graph.name));
    text.push_str("  rankdir=TB; node [shape=box style=\"rounded,filled\" fontname=\"Helvetica\"];\n");
    for (index, node) in graph.nodes.iter().enumerate() {
        let (fill, line) = match style_class(node) {
            "whole" => ("#e7f6ec", "#2e7d4f"),
            "reads" => ("#eef1f5", "#8a94a3"),
            "partly" => ("#fff5dd", "#b7791f"),
            _ => ("#fdeaea", "#c0392b"),
        };
        let width = if node.point_of_no_return { " penwidth=3" } else { "" };
        let dashed = if node.when.is_some() { " style=\"rounded,filled,dashed\"" } else { "" };
        let label = quote_dot(&label_lines(node).join("\n"));
        text.push_str(&format!(
            "  s{index} [label={label} fillcolor=\"{fill}\" color=\"{line}\"{width}{dashed}];\n"
        ));
    }
    for edge in graph.edges() {
        let style = match edge.kind {
            EdgeKind::Dependency => "",
            EdgeKind::StatusOnly => " [style=dashed label=\"status\"]",
            EdgeKind::OrderOnly => " [style=dotted color=\"#9aa3af\" arrowhead=open]",
        };
        text.push_str(&format!("  s{} -> s{}{style};\n", edge.from, edge.to));
    }
    text.push_str("}\n");
    text
}

/// A DOT string literal.
fn quote_dot(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// The lines of a node's label, not escaped: id, work, undo, condition, point of no return.
fn label_lines(node: &GraphNode) -> Vec<String> {
    let mut lines = vec![node.id.clone(), node.does.clone(), node.undo.label()];
    lines.extend(node.when.iter().map(|when| format!("when {}", truncate(when, WHEN_COLUMNS_MAX))));
    if node.point_of_no_return {
        lines.push("◆ point of no return".to_owned());
    }
    lines
}

/// The style class of a node, by how it can be undone.
fn style_class(node: &GraphNode) -> &'static str {
    match (&node.undo, node.point_of_no_return) {
        (_, true) => "noreturn",
        (Undoability::Full(_), false) => "whole",
        (Undoability::ReadOnly, false) => "reads",
        (Undoability::Partial(_), false) => "partly",
        (Undoability::Impossible, false) => "stays",
    }
}
