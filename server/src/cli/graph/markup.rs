//! The drawing for other people's programs: Mermaid and Graphviz.

use super::{Back, Drawing, Kind, Node};
use crate::cli::table::cut;

/// Longer conditions are cut in a label.
const WHEN_MAX: usize = 60;

pub fn mermaid(drawing: &Drawing) -> String {
    let mut text = String::from("flowchart TD\n");
    for (index, node) in drawing.nodes.iter().enumerate() {
        let [open, close] = if node.by_agent { ["([", "])"] } else { ["[", "]"] };
        let lines: Vec<String> = lines(node).iter().map(|line| mermaid_text(line)).collect();
        text.push_str(&format!("  s{index}{open}\"{}\"{close}:::{}\n", lines.join("<br/>"), class(node)));
    }
    for (index, _) in drawing.nodes.iter().enumerate().filter(|(_, node)| node.when.is_some()) {
        text.push_str(&format!("  style s{index} stroke-dasharray: 5 4\n"));
    }
    for edge in drawing.edges() {
        let arrow = match edge.kind {
            Kind::Need => "-->",
            Kind::Status => "-. status .->",
            Kind::Then => "-.->",
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

/// Mermaid reads quotes, tags and its own signs inside labels; as numbered entities they are only text.
fn mermaid_text(text: &str) -> String {
    let plain = |sign: char| sign.is_alphanumeric() || " .,:/_-()↺✗◆".contains(sign);
    text.chars()
        .map(|sign| if plain(sign) { sign.to_string() } else { format!("#{};", u32::from(sign)) })
        .collect()
}

pub fn dot(drawing: &Drawing) -> String {
    let mut text = format!("digraph {} {{\n", dot_text(&drawing.name));
    text.push_str("  rankdir=TB; node [shape=box style=\"rounded,filled\" fontname=\"Helvetica\"];\n");
    for (index, node) in drawing.nodes.iter().enumerate() {
        let (fill, line) = match class(node) {
            "whole" => ("#e7f6ec", "#2e7d4f"),
            "reads" => ("#eef1f5", "#8a94a3"),
            "partly" => ("#fff5dd", "#b7791f"),
            _ => ("#fdeaea", "#c0392b"),
        };
        let width = if node.point_of_no_return { " penwidth=3" } else { "" };
        let dashed = if node.when.is_some() { " style=\"rounded,filled,dashed\"" } else { "" };
        let label = dot_text(&lines(node).join("\n"));
        text.push_str(&format!(
            "  s{index} [label={label} fillcolor=\"{fill}\" color=\"{line}\"{width}{dashed}];\n"
        ));
    }
    for edge in drawing.edges() {
        let style = match edge.kind {
            Kind::Need => "",
            Kind::Status => " [style=dashed label=\"status\"]",
            Kind::Then => " [style=dotted color=\"#9aa3af\" arrowhead=open]",
        };
        text.push_str(&format!("  s{} -> s{}{style};\n", edge.from, edge.to));
    }
    text.push_str("}\n");
    text
}

fn dot_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

fn lines(node: &Node) -> Vec<String> {
    let mut lines = vec![node.id.clone(), node.does.clone(), node.back.words()];
    lines.extend(node.when.iter().map(|when| format!("when {}", cut(when, WHEN_MAX))));
    if node.point_of_no_return {
        lines.push("◆ point of no return".to_owned());
    }
    lines
}

fn class(node: &Node) -> &'static str {
    match (&node.back, node.point_of_no_return) {
        (_, true) => "noreturn",
        (Back::Whole(_), false) => "whole",
        (Back::ReadOnly, false) => "reads",
        (Back::Partly(_), false) => "partly",
        (Back::None, false) => "stays",
    }
}
