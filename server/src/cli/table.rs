//! Tables with aligned columns. Style marks count no width, and lines are truncated to the terminal's width.

use anstyle::Style;

use super::output::Output;
use super::paint::is_mark;
use super::printable::escape_flat;
use super::status_style::{QUIET, painted};

/// A cell: one line of text in one style.
#[derive(Debug)]
pub struct Cell {
    text: String,
    style: Style,
}

/// A cell without a style.
pub fn cell(text: impl Into<String>) -> Cell {
    styled_cell(Style::new(), text)
}

/// A cell in a style; line breaks become spaces.
pub fn styled_cell(style: Style, text: impl Into<String>) -> Cell {
    Cell { text: escape_flat(&text.into()), style }
}

/// Rows of cells, printed with the columns aligned.
#[derive(Debug)]
pub struct Table {
    /// Columns before each line.
    indent: usize,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these column heads; none if `heads` is empty.
    pub fn new(indent: usize, heads: &[&str]) -> Self {
        let mut table = Self { indent, rows: Vec::new() };
        if !heads.is_empty() {
            table.push_row(heads.iter().map(|head| styled_cell(QUIET, *head)).collect());
        }
        table
    }

    pub fn push_row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    pub fn print(&self, output: &Output) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| display_width(&cell.text)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        let terminal = if output.is_live() { Output::terminal_size().0 } else { usize::MAX };
        for row in &self.rows {
            output.line(self.row_line(row, &widths, terminal));
        }
    }

    /// One row as a line, padded to `widths` and truncated to `terminal` columns.
    fn row_line(&self, row: &[Cell], widths: &[usize], terminal: usize) -> String {
        let mut line = " ".repeat(self.indent);
        let mut used = self.indent;
        for (index, cell) in row.iter().enumerate() {
            let last = index + 1 == row.len();
            let text = truncate(&cell.text, terminal.saturating_sub(used));
            let gap = if last { 0 } else { widths[index].saturating_sub(display_width(&text)) + 2 };
            used += display_width(&text) + gap;
            line.push_str(&painted(cell.style, text));
            line.push_str(&" ".repeat(gap));
        }
        line
    }
}

/// The columns that a text takes on a terminal.
pub fn display_width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// The columns of a character: two for East Asian wide characters and emoji, none for combining ones and
/// style marks.
fn char_width(c: char) -> usize {
    match u32::from(c) {
        _ if is_mark(c) => 0,
        0x0300..=0x036F | 0x200B..=0x200F | 0xFE00..=0xFE0F => 0,
        0x1100..=0x115F | 0x2E80..=0xA4CF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF => 2,
        0xFE30..=0xFE6F | 0xFF00..=0xFF60 | 0xFFE0..=0xFFE6 | 0x1F300..=0x1FAFF | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
}

/// The text on one line in at most `columns`; a truncated one ends with `…`.
pub fn truncate(text: &str, columns: usize) -> String {
    let flat = escape_flat(text);
    if display_width(&flat) <= columns {
        return flat;
    }
    let mut kept = String::new();
    let mut used = 1;
    let mut rest = flat.chars();
    for c in rest.by_ref() {
        used += char_width(c);
        if used > columns {
            break;
        }
        kept.push(c);
    }
    if columns > 0 {
        kept.push('…');
    }
    // Keep the marks behind the cut, so that a style that began before it ends.
    kept.extend(rest.filter(|c| is_mark(*c)));
    kept
}
