//! Columns that line up, in colours that do not count; the last column is cut to the terminal's width.

use anstyle::Style;

use super::output::Output;
use super::paint::is_mark;
use super::printable::flat;
use super::signs::{QUIET, painted};

#[derive(Debug)]
pub struct Cell {
    text: String,
    style: Style,
}

pub fn cell(text: impl Into<String>) -> Cell {
    coloured(Style::new(), text)
}

pub fn coloured(style: Style, text: impl Into<String>) -> Cell {
    Cell { text: flat(&text.into()), style }
}

#[derive(Debug)]
pub struct Table {
    indent: usize,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub fn new(indent: usize, heads: &[&str]) -> Self {
        let mut table = Self { indent, rows: Vec::new() };
        if !heads.is_empty() {
            table.row(heads.iter().map(|head| coloured(QUIET, *head)).collect());
        }
        table
    }

    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    pub fn print(&self, output: &Output) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| width(&cell.text)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        let terminal = if output.is_live() { Output::size().0 } else { usize::MAX };
        for row in &self.rows {
            output.line(self.line(row, &widths, terminal));
        }
    }

    fn line(&self, row: &[Cell], widths: &[usize], terminal: usize) -> String {
        let mut line = " ".repeat(self.indent);
        let mut used = self.indent;
        for (index, cell) in row.iter().enumerate() {
            let last = index + 1 == row.len();
            let text = cut(&cell.text, terminal.saturating_sub(used));
            let gap = if last { 0 } else { widths[index].saturating_sub(width(&text)) + 2 };
            used += width(&text) + gap;
            line.push_str(&painted(cell.style, text));
            line.push_str(&" ".repeat(gap));
        }
        line
    }
}

/// Columns a text takes up on a terminal.
pub fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Wide signs of East Asian writing and pictures take two columns, combining ones none.
fn char_width(sign: char) -> usize {
    match u32::from(sign) {
        _ if is_mark(sign) => 0,
        0x0300..=0x036F | 0x200B..=0x200F | 0xFE00..=0xFE0F => 0,
        0x1100..=0x115F | 0x2E80..=0xA4CF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF => 2,
        0xFE30..=0xFE6F | 0xFF00..=0xFF60 | 0xFFE0..=0xFFE6 | 0x1F300..=0x1FAFF | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
}

/// The text in at most so many columns, on one line.
pub fn cut(text: &str, columns: usize) -> String {
    let flat = flat(text);
    if width(&flat) <= columns {
        return flat;
    }
    let mut kept = String::new();
    let mut used = 1;
    let mut rest = flat.chars();
    for sign in rest.by_ref() {
        used += char_width(sign);
        if used > columns {
            break;
        }
        kept.push(sign);
    }
    if columns > 0 {
        kept.push('…');
    }
    // A style that began before the cut ends behind it.
    kept.extend(rest.filter(|sign| is_mark(*sign)));
    kept
}
