//! Colours inside text. A style is written as a private mark, and only `output` turns marks into escape
//! sequences: text from outside can bring no sequence of its own past it.

use std::collections::hash_map::RandomState;
use std::fmt::{Display, Write};
use std::hash::BuildHasher;
use std::sync::LazyLock;

use anstyle::Style;

use super::signs::{ASKS, BAD, BUSY, GOOD, QUIET, STRONG, UNDONE};

/// The only styles that reach a terminal, each with a mark of its own.
const STYLES: [Style; 7] = [GOOD, BAD, ASKS, BUSY, UNDONE, QUIET, STRONG];
/// Where the marks may lie: characters of private use, which no text needs.
const MARKS_FROM: u32 = 0xf_0000;
const MARKS_SPAN: u64 = 0xff00;

/// The mark that ends a style; those that begin one follow it. Drawn anew in each process, so that a text written
/// beforehand cannot hold them. The worst that a lucky guess gives is a colour.
static RESET: LazyLock<u32> = LazyLock::new(|| {
    let drawn = RandomState::new().hash_one(std::process::id()) % MARKS_SPAN;
    MARKS_FROM + u32::try_from(drawn).unwrap_or_default()
});

/// The text in a style; plain where the output wants no colours.
pub fn painted(style: Style, text: impl Display) -> String {
    let place = STYLES.iter().position(|known| *known == style);
    match (place.and_then(mark), char::from_u32(*RESET)) {
        (Some(begin), Some(end)) => format!("{begin}{text}{end}"),
        (_, _) => text.to_string(),
    }
}

fn mark(place: usize) -> Option<char> {
    char::from_u32(*RESET + 1 + u32::try_from(place).ok()?)
}

/// Marks take no room on a terminal.
pub fn is_mark(sign: char) -> bool {
    let place = u32::from(sign).wrapping_sub(*RESET);
    usize::try_from(place).is_ok_and(|place| place <= STYLES.len())
}

/// Marks become escape sequences, or vanish.
pub fn resolved(text: &str, colours: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for sign in text.chars() {
        if !is_mark(sign) {
            shown.push(sign);
        } else if colours {
            write!(shown, "{}", sequence(sign)).expect("a string takes everything");
        }
    }
    shown
}

/// The text without its colours, for files and programs.
pub fn plain(text: &str) -> String {
    resolved(text, false)
}

fn sequence(mark: char) -> String {
    let place = (u32::from(mark) - *RESET) as usize;
    match place.checked_sub(1).map(|place| STYLES[place]) {
        Some(style) => style.render().to_string(),
        None => anstyle::Reset.render().to_string(),
    }
}
