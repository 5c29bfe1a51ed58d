//! The nearest known name to one that somebody mistyped, for refusals that say what was meant.

/// Words longer than this are not compared: nobody mistypes a paragraph.
const WORD_MAX: usize = 64;

/// The candidate that was probably meant: few edits away, or else one that begins alike.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = folded(word)?;
    let near = candidates.into_iter().filter_map(|candidate| {
        let known = folded(candidate)?;
        let rank = distance(&typed, &known, edits_max(&typed)).or_else(|| begin_alike(&typed, &known))?;
        Some((rank, candidate))
    });
    near.min_by_key(|(rank, _)| *rank).map(|(_, candidate)| candidate)
}

/// In a short word every edit makes another word.
fn edits_max(word: &[char]) -> usize {
    if word.len() < 3 { 0 } else { (word.len() / 3).max(1) }
}

/// `on_fail` for `on_failure`, `retries` for `retry`; ranked behind anything within a few edits.
fn begin_alike(a: &[char], b: &[char]) -> Option<usize> {
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let alike = same >= 4 && same * 4 >= a.len().min(b.len()) * 3;
    alike.then_some(WORD_MAX + a.len() + b.len() - 2 * same)
}

fn folded(word: &str) -> Option<Vec<char>> {
    (word.len() <= WORD_MAX)
        .then(|| word.chars().flat_map(char::to_lowercase).filter(|c| !"-_ ".contains(*c)).collect())
}

/// Edits between two words, a swap of neighbours counting as one; nothing beyond `within`.
fn distance(a: &[char], b: &[char], within: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > within {
        return None;
    }
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 { i + j } else { edits(&rows, a, b, i, j) };
        }
    }
    Some(rows[a.len()][b.len()]).filter(|edits| *edits <= within)
}

fn edits(rows: &[Vec<usize>], a: &[char], b: &[char], i: usize, j: usize) -> usize {
    let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
    let best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
    let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
    if swapped { best.min(rows[i - 2][j - 2] + 1) } else { best }
}
