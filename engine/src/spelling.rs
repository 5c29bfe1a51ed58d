//! Finds the known name nearest to a mistyped one, for error messages that suggest it.

/// Longest word that is compared, in bytes.
const WORD_BYTES_MAX: usize = 64;

/// The candidate that was probably meant: the fewest edits away, or else one with the same beginning; `None`
/// where nothing is near.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = normalize(word)?;
    let near = candidates.into_iter().filter_map(|candidate| {
        let known = normalize(candidate)?;
        let edits = strsim::osa_distance(&typed, &known);
        let near = (edits <= edits_max(&typed)).then_some(edits);
        let rank = near.or_else(|| shared_prefix_rank(&typed, &known))?;
        Some((rank, candidate))
    });
    near.min_by_key(|(rank, _)| *rank).map(|(_, candidate)| candidate)
}

/// Most edits between a word and its suggestion: a third of its length, none for words below three letters.
fn edits_max(word: &str) -> usize {
    word.chars().count() / 3
}

/// The rank of a word with the same beginning, as `on_fail` and `on_failure`; `None` where the beginnings
/// differ. Always above the rank of a word within a few edits, so that edits win.
fn shared_prefix_rank(a: &str, b: &str) -> Option<usize> {
    let (a_length, b_length) = (a.chars().count(), b.chars().count());
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let alike = same >= 4 && same * 4 >= a_length.min(b_length) * 3;
    alike.then_some(WORD_BYTES_MAX + a_length + b_length - 2 * same)
}

/// The word in lower case without `-`, `_` and spaces; `None` where it is too long to compare.
fn normalize(word: &str) -> Option<String> {
    (word.len() <= WORD_BYTES_MAX)
        .then(|| word.chars().flat_map(char::to_lowercase).filter(|c| !"-_ ".contains(*c)).collect())
}
