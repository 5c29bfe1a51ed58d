//! The drawing in box characters: a rail of steps in running order, or wave by wave.

use super::{Back, Drawing, Node};
use crate::cli::printable::flat;
use crate::cli::signs::{ASKS, BAD, BUSY, GOOD, QUIET, STRONG, painted};
use crate::cli::table::{cut, width};

const COLUMN_MAX: usize = 44;

pub fn draw(drawing: &Drawing) -> String {
    let columns = Columns::of(drawing);
    let mut lines = vec![painted(STRONG, drawing.headline())];
    match drawing.sequential {
        true => rail(drawing, &columns, &mut lines),
        false => waves(drawing, &columns, &mut lines),
    }
    if !drawing.nodes.iter().any(|node| node.point_of_no_return) {
        lines.push(painted(QUIET, "no point of no return: whatever ran can be undone at any time"));
    }
    // What a plan says in several lines is drawn in one.
    lines.iter().map(|line| flat(line)).collect::<Vec<_>>().join("\n")
}

fn rail(drawing: &Drawing, columns: &Columns, lines: &mut Vec<String>) {
    for (place, index) in drawing.order.iter().enumerate() {
        let node = &drawing.nodes[*index];
        if node.point_of_no_return {
            lines.push(painted(BAD, "╞══ point of no return ══ from here on, full undo is impossible"));
        }
        let joint = if place + 1 == drawing.order.len() { "└─" } else { "├─" };
        lines.push(format!("{joint} {}", columns.line(drawing, node)));
    }
}

fn waves(drawing: &Drawing, columns: &Columns, lines: &mut Vec<String>) {
    for (number, wave) in drawing.waves.iter().enumerate() {
        let corner = if number == 0 { "┌" } else { "├" };
        lines.push(painted(QUIET, format_args!("{corner}─ wave {} {}", number + 1, "─".repeat(24))));
        for index in wave {
            let node = &drawing.nodes[*index];
            let mark = if node.point_of_no_return {
                painted(BAD, "  ◆ point of no return")
            } else {
                String::new()
            };
            lines.push(format!("│  {}{mark}", columns.line(drawing, node)));
        }
    }
    lines.push(painted(QUIET, format_args!("└{}", "─".repeat(33))));
}

/// How wide each column must be.
struct Columns {
    id: usize,
    does: usize,
    needs: usize,
}

impl Columns {
    fn of(drawing: &Drawing) -> Self {
        let widest = |text: fn(&Drawing, &Node) -> String| {
            drawing.nodes.iter().map(|node| width(&text(drawing, node))).max().unwrap_or(0).min(COLUMN_MAX)
        };
        Self {
            id: widest(|_, node| node.id.clone()),
            does: widest(|_, node| does(node)),
            needs: widest(needs),
        }
    }

    fn line(&self, drawing: &Drawing, node: &Node) -> String {
        let style = match node.back {
            Back::Whole(_) => GOOD,
            Back::ReadOnly => QUIET,
            Back::Partly(_) => ASKS,
            Back::None => BAD,
        };
        let (id, does, needs) = (
            padded(&node.id, self.id),
            padded(&does(node), self.does),
            padded(&needs(drawing, node), self.needs),
        );
        let asks = if node.approval { painted(ASKS, "  asks first") } else { String::new() };
        let back = painted(style, node.back.words());
        let when =
            node.when.as_ref().map(|when| painted(BUSY, format_args!("  when {}", cut(when, COLUMN_MAX))));
        let when = when.unwrap_or_default();
        format!("{}  {does}  {}  {back}{asks}{when}", painted(STRONG, id), painted(BUSY, needs))
    }
}

fn padded(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let gap = columns - width(&text);
    text + &" ".repeat(gap)
}

fn does(node: &Node) -> String {
    match (node.by_agent, node.does.starts_with("the agent")) {
        (true, false) => format!("agent: {}", node.does),
        (_, _) => node.does.clone(),
    }
}

fn needs(drawing: &Drawing, node: &Node) -> String {
    if node.needs.is_empty() {
        return String::new();
    }
    let name = |need: &super::Need| {
        let id = &drawing.nodes[need.step].id;
        if need.status_read { format!("({id})") } else { id.clone() }
    };
    format!("← {}", node.needs.iter().map(name).collect::<Vec<_>>().join(", "))
}
