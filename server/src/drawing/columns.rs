//! How wide a text is, counted in columns, and texts cut to a width.

use crate::tools::escape_hidden;

/// The columns of a character: two for East Asian wide characters and emoji, none for combining ones.
pub fn char_columns(c: char) -> usize {
    match u32::from(c) {
        0x0300..=0x036F | 0x200B..=0x200F | 0xFE00..=0xFE0F => 0,
        0x1100..=0x115F | 0x2E80..=0xA4CF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF => 2,
        0xFE30..=0xFE6F | 0xFF00..=0xFF60 | 0xFFE0..=0xFFE6 | 0x1F300..=0x1FAFF | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
}

/// The columns that a text takes.
pub fn display_columns(text: &str) -> usize {
    text.chars().map(char_columns).sum()
}

/// The text on one line in at most `columns`, control codes written out; a truncated one ends with `…`.
pub fn truncate(text: &str, columns: usize) -> String {
    let flat = escape_hidden(text).replace(['\n', '\r', '\t'], " ");
    if display_columns(&flat) <= columns {
        return flat;
    }
    let mut used = 1;
    let fits = |c: &char| {
        used += char_columns(*c);
        used <= columns
    };
    let mut kept: String = flat.chars().take_while(fits).collect();
    if columns > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_to_its_columns() {
        assert_eq!(truncate("write_file", 10), "write_file");
        assert_eq!(truncate("write_file", 6), "write…");
        assert_eq!(truncate("日本語", 4), "日…");
        assert_eq!(truncate("a\nb", 4), "a b");
        assert_eq!(truncate("abc", 0), "");
    }
}
