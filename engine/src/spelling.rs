//! Finds the known name nearest to a mistyped one, for error messages that suggest it.

/// Longest word that is compared, in bytes.
const WORD_BYTES_MAX: usize = 64;

/// The candidate that was probably meant: the fewest edits away, or else one with the same beginning; `None`
/// where nothing is near.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = normalize(word)?;
    let near = candidates.into_iter().filter_map(|candidate| {
        let known = normalize(candidate)?;
        let rank = edit_distance(&typed, &known, edits_max(&typed))
            .or_else(|| shared_prefix_rank(&typed, &known))?;
        Some((rank, candidate))
    });
    near.min_by_key(|(rank, _)| *rank).map(|(_, candidate)| candidate)
}

/// Most edits between a word and its suggestion: a third of its length, none for words below three letters.
fn edits_max(word: &[char]) -> usize {
    if word.len() < 3 { 0 } else { (word.len() / 3).max(1) }
}

/// The rank of a word with the same beginning, as `on_fail` and `on_failure`; `None` where the beginnings
/// differ. Always above the rank of a word within a few edits, so that edits win.
fn shared_prefix_rank(a: &[char], b: &[char]) -> Option<usize> {
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let alike = same >= 4 && same * 4 >= a.len().min(b.len()) * 3;
    alike.then_some(WORD_BYTES_MAX + a.len() + b.len() - 2 * same)
}

/// The word in lower case without `-`, `_` and spaces; `None` where it is too long to compare.
fn normalize(word: &str) -> Option<Vec<char>> {
    (word.len() <= WORD_BYTES_MAX)
        .then(|| word.chars().flat_map(char::to_lowercase).filter(|c| !"-_ ".contains(*c)).collect())
}

/// The edit distance between two words, a swap of neighbours counting as one; `None` beyond `within`.
fn edit_distance(a: &[char], b: &[char], within: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > within {
        return None;
    }
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 { i + j } else { edit_distance_cell(&rows, a, b, i, j) };
        }
    }
    Some(rows[a.len()][b.len()]).filter(|edits| *edits <= within)
}

/// One cell of the distance table: the edits between the first `i` letters of `a` and the first `j` of `b`.
fn edit_distance_cell(rows: &[Vec<usize>], a: &[char], b: &[char], i: usize, j: usize) -> usize {
    let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
    let best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
    let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
    if swapped { best.min(rows[i - 2][j - 2] + 1) } else { best }
}
