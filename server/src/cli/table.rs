//! Tables with aligned columns. Style marks count no width. On a terminal that is too narrow the widest columns
//! are narrowed, then those on the right dropped; the first column is kept.

use anstyle::Style;

use super::output::Output;
use super::paint::is_mark;
use super::printable::escape_flat;
use super::status_style::{QUIET, painted};
use crate::drawing::char_columns;

/// No column but the first is narrowed below this.
const COLUMN_MIN: usize = 8;
/// Spaces between two columns.
const GAP: usize = 2;

/// A cell: one line of text in one style.
#[derive(Debug)]
pub struct Cell {
    text: String,
    style: Style,
    /// Where the text is too long: cut its beginning, not its end.
    keeps_end: bool,
}

/// A cell without a style.
pub fn cell(text: impl Into<String>) -> Cell {
    styled_cell(Style::new(), text)
}

/// A cell in a style; line breaks become spaces.
pub fn styled_cell(style: Style, text: impl Into<String>) -> Cell {
    Cell { text: escape_flat(&text.into()), style, keeps_end: false }
}

/// A cell with a path, whose end tells most.
pub fn path_cell(style: Style, text: impl Into<String>) -> Cell {
    Cell { keeps_end: true, ..styled_cell(style, text) }
}

/// Rows of cells, printed with the columns aligned.
#[derive(Debug)]
pub struct Table {
    /// Columns before each line.
    indent: usize,
    rows: Vec<Vec<Cell>>,
    /// Columns that are dropped first on a terminal that is too narrow, in this order.
    droppable: &'static [usize],
}

impl Table {
    /// A table with these column heads; none if `heads` is empty.
    pub fn new(indent: usize, heads: &[&str]) -> Self {
        let mut table = Self { indent, rows: Vec::new(), droppable: &[] };
        if !heads.is_empty() {
            table.push_row(heads.iter().map(|head| styled_cell(QUIET, *head)).collect());
        }
        table
    }

    /// The same table, with columns that are dropped first on a terminal that is too narrow.
    pub fn dropping(self, droppable: &'static [usize]) -> Self {
        Self { droppable, ..self }
    }

    pub fn push_row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    pub fn print(&self, output: &Output) {
        let terminal = if output.is_live() { Output::terminal_size().0 } else { usize::MAX };
        self.lines(terminal).into_iter().for_each(|line| output.line(line));
    }

    /// The rows as lines of at most `terminal` columns.
    fn lines(&self, terminal: usize) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| display_width(&cell.text)).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..columns).map(widest).collect();
        self.fit(&mut widths, terminal.saturating_sub(self.indent));
        self.rows.iter().map(|row| self.row_line(row, &widths)).collect()
    }

    /// Reduces `widths` until they and their gaps take at most `room` columns. 0: the column is dropped.
    fn fit(&self, widths: &mut [usize], room: usize) {
        let excess = |widths: &[usize]| {
            let shown = widths.iter().filter(|width| **width > 0);
            shown.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP).saturating_sub(room)
        };
        for column in self.droppable {
            if excess(widths) > 0 {
                widths[*column] = 0;
            }
        }
        while excess(widths) > 0 {
            let over = excess(widths);
            let Some((widest, _)) = widths
                .iter()
                .enumerate()
                .skip(1)
                .max_by_key(|(_, width)| **width)
                .filter(|(_, width)| **width > 0)
            else {
                widths.iter_mut().for_each(|width| *width = (*width).min(room));
                return;
            };
            // Narrow by one column at a time, so that several wide columns share the loss.
            let narrowed = widths[widest].saturating_sub(if over > room { over } else { 1 });
            let last = widths.iter().rposition(|width| *width > 0).unwrap_or(widest);
            if narrowed < COLUMN_MIN { widths[last] = 0 } else { widths[widest] = narrowed }
        }
    }

    /// One row as a line, each cell cut and padded to its column; nothing is padded behind the last text.
    fn row_line(&self, row: &[Cell], widths: &[usize]) -> String {
        let mut line = " ".repeat(self.indent);
        let mut gap = 0;
        for (cell, width) in row.iter().zip(widths).filter(|(_, width)| **width > 0) {
            let text = if cell.keeps_end { truncate_start } else { truncate }(&cell.text, *width);
            let used = display_width(&text);
            if used > 0 {
                line.push_str(&" ".repeat(gap));
                line.push_str(&painted(cell.style, text));
                gap = 0;
            }
            gap += width.saturating_sub(used) + GAP;
        }
        line
    }
}

/// The columns that a text takes on a terminal.
pub fn display_width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// The columns of a character; none for a style mark.
fn char_width(c: char) -> usize {
    if is_mark(c) { 0 } else { char_columns(c) }
}

/// The text on one line, hidden characters escaped, in at most `columns`; a truncated one ends with `…`.
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

/// The end of the text on one line in at most `columns`; a cut one begins with `…`.
fn truncate_start(text: &str, columns: usize) -> String {
    let flat = escape_flat(text);
    if display_width(&flat) <= columns {
        return flat;
    }
    let reversed: String = flat.chars().rev().collect();
    truncate(&reversed, columns).chars().rev().collect()
}

/// The text in lines of at most `columns`, broken between words. A further line has the indent and the bar of
/// the line that it continues, so that words from outside stay marked, and two spaces. A word that is too long
/// stands alone.
pub fn wrap(text: &str, columns: usize) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| wrap_line(line, columns)).collect();
    lines.join("\n")
}

fn wrap_line(line: &str, columns: usize) -> String {
    if display_width(line) <= columns {
        return line.to_owned();
    }
    let body = line.trim_start_matches([' ', '│', '|']);
    let prefix = format!("{}  ", &line[..line.len() - body.len()]);
    let mut wrapped = line[..line.len() - body.len()].to_owned();
    let mut used = display_width(&wrapped);
    for (index, word) in body.split(' ').enumerate() {
        let width = display_width(word);
        if index > 0 && used + 1 + width > columns {
            wrapped.push('\n');
            wrapped.push_str(&prefix);
            used = display_width(&prefix);
        } else if index > 0 {
            wrapped.push(' ');
            used += 1;
        }
        wrapped.push_str(word);
        used += width;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::paint::strip_marks;

    fn table(cells: Vec<Cell>) -> Table {
        let mut table = Table::new(2, &[]);
        table.push_row(cells);
        table
    }

    #[test]
    fn narrow_terminal_narrows_the_widest_columns_and_keeps_the_first() {
        let long = "x".repeat(60);
        let row =
            || vec![cell("files/write_file"), cell("idempotent"), cell(long.clone()), cell(long.clone())];
        for (columns, shown) in [(80, 4), (40, 3), (20, 1)] {
            let line = table(row()).lines(columns).remove(0);
            assert!(display_width(&line) <= columns, "{line}");
            assert!(line.starts_with("  files/write_file"), "{line}");
            assert_eq!(line.split_whitespace().count(), shown, "{line}");
        }
        let dropped = table(row()).dropping(&[2]).lines(100).remove(0);
        assert!(dropped.ends_with(&long), "{dropped}");
    }

    #[test]
    fn paths_lose_their_beginning_and_lines_have_no_padding_at_their_end() {
        let path = path_cell(QUIET, "/srv/projects/alpha");
        let line = strip_marks(&table(vec![cell("7k2m"), path, cell("")]).lines(18).remove(0));
        assert_eq!(line, "  7k2m  …cts/alpha");
    }

    #[test]
    fn text_is_broken_between_words_with_the_indent_of_its_line() {
        assert_eq!(wrap("one two three", 8), "one two\n  three");
        assert_eq!(wrap("  │ one two three", 12), "  │ one two\n  │   three");
        assert_eq!(wrap("  | one two three", 12), "  | one two\n  |   three");
    }
}
