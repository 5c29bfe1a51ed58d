//! Colours inside text. A style is written as a mark, a private-use character, and only `output` turns marks
//! into escape sequences: text from outside cannot bring its own.

use std::collections::hash_map::RandomState;
use std::fmt::{Display, Write};
use std::hash::BuildHasher;
use std::sync::LazyLock;

use anstyle::Style;

use super::status_style::{ATTENTION, BAD, BUSY, GOOD, QUIET, STRONG, UNDONE};

/// The only styles that reach a terminal, each with a mark of its own.
const STYLES: [Style; 7] = [GOOD, BAD, ATTENTION, BUSY, UNDONE, QUIET, STRONG];
/// The range from which the marks are drawn: private-use characters, which no text needs.
const MARKS_FROM: u32 = 0xf_0000;
const MARKS_SPAN: u64 = 0xff00;

/// The code point of the mark that ends a style; the marks that begin one follow it. Drawn at random in each
/// process, so that a text written beforehand cannot contain them. A lucky guess yields a colour, nothing
/// worse.
static RESET_MARK: LazyLock<u32> = LazyLock::new(|| {
    let drawn = RandomState::new().hash_one(std::process::id()) % MARKS_SPAN;
    MARKS_FROM + u32::try_from(drawn).unwrap_or_default()
});

/// The text between the marks of a style, which `resolve_marks` turns into escape sequences or removes. Plain
/// text for a style that is not in `STYLES`.
pub fn painted(style: Style, text: impl Display) -> String {
    let index = STYLES.iter().position(|known| *known == style);
    match (index.and_then(style_mark), char::from_u32(*RESET_MARK)) {
        (Some(begin), Some(end)) => format!("{begin}{text}{end}"),
        (_, _) => text.to_string(),
    }
}

/// The mark that begins the style with this index in `STYLES`.
fn style_mark(index: usize) -> Option<char> {
    char::from_u32(*RESET_MARK + 1 + u32::try_from(index).ok()?)
}

/// Whether a character is a style mark, which takes no column on a terminal.
pub fn is_mark(c: char) -> bool {
    let offset = u32::from(c).wrapping_sub(*RESET_MARK);
    usize::try_from(offset).is_ok_and(|offset| offset <= STYLES.len())
}

/// Replaces marks with escape sequences, or without `colours` removes them.
pub fn resolve_marks(text: &str, colours: bool) -> String {
    let mut resolved = String::with_capacity(text.len());
    for c in text.chars() {
        if !is_mark(c) {
            resolved.push(c);
        } else if colours {
            write!(resolved, "{}", escape_sequence(c)).expect("writing to a string cannot fail");
        }
    }
    resolved
}

/// The text without style marks, for files and programs.
pub fn strip_marks(text: &str) -> String {
    resolve_marks(text, false)
}

fn escape_sequence(mark: char) -> String {
    let offset = (u32::from(mark) - *RESET_MARK) as usize;
    match offset.checked_sub(1).map(|index| STYLES[index]) {
        Some(style) => style.render().to_string(),
        None => anstyle::Reset.render().to_string(),
    }
}
