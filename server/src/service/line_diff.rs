//! Compares two texts line by line.

/// Unchanged lines shown around a change.
const CONTEXT_LINES: usize = 3;
/// Beyond this many pairs of lines the changed middle is shown as replaced whole: the comparison would be too
/// slow.
const PAIRS_MAX: usize = 4_000_000;

/// A line of the comparison, without its line break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffLine<'a> {
    Same(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

/// Every line of both texts in order, removed lines before the lines that replace them.
pub fn diff_lines<'a>(old: &'a str, new: &'a str) -> Vec<DiffLine<'a>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let start = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let rest = old[start..].iter().rev().zip(new[start..].iter().rev());
    let end = rest.take_while(|(one, other)| one == other).count();
    let mut compared: Vec<DiffLine<'a>> = old[..start].iter().map(|line| DiffLine::Same(line)).collect();
    compared.extend(diff_middle(&old[start..old.len() - end], &new[start..new.len() - end]));
    compared.extend(old[old.len() - end..].iter().map(|line| DiffLine::Same(line)));
    compared
}

/// Compares what lies between the common beginning and end, by the longest common subsequence.
fn diff_middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<DiffLine<'a>> {
    if old.len().saturating_mul(new.len()) > PAIRS_MAX {
        let removed = old.iter().map(|line| DiffLine::Removed(line));
        return removed.chain(new.iter().map(|line| DiffLine::Added(line))).collect();
    }
    let width = new.len() + 1;
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = if old[i] == new[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut compared) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            compared.push(DiffLine::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || (i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1])
        {
            compared.push(DiffLine::Removed(old[i]));
            i += 1;
        } else {
            compared.push(DiffLine::Added(new[j]));
            j += 1;
        }
    }
    compared
}

/// The changed lines with `CONTEXT_LINES` around them; `None` stands for lines that are left out. Empty if the texts are
/// equal.
pub fn near_changes<'a>(compared: &[DiffLine<'a>]) -> Vec<Option<DiffLine<'a>>> {
    let changed: Vec<usize> =
        (0..compared.len()).filter(|at| !matches!(compared[*at], DiffLine::Same(_))).collect();
    let near = |at: usize| {
        let next = changed.partition_point(|changed| *changed + CONTEXT_LINES < at);
        changed.get(next).is_some_and(|changed| *changed <= at + CONTEXT_LINES)
    };
    let (mut shown, mut last) = (Vec::new(), None);
    for (at, line) in compared.iter().enumerate().filter(|(at, _)| near(*at)) {
        if last.is_some_and(|last| last + 1 != at) || (last.is_none() && at > 0) {
            shown.push(None);
        }
        last = Some(at);
        shown.push(Some(*line));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_keep_their_order_and_equal_texts_print_nothing() {
        let compared = diff_lines("a\nb\nc\nd", "a\nx\nc\nd\ne");
        let expected = [
            DiffLine::Same("a"),
            DiffLine::Removed("b"),
            DiffLine::Added("x"),
            DiffLine::Same("c"),
            DiffLine::Same("d"),
            DiffLine::Added("e"),
        ];
        assert_eq!(compared, expected);
        assert!(near_changes(&diff_lines("a\nb", "a\nb")).is_empty());
    }

    #[test]
    fn long_equal_runs_are_left_out() {
        let old = (0..50).map(|line| line.to_string()).collect::<Vec<_>>().join("\n");
        let new = old.replace("25", "changed");
        let shown = near_changes(&diff_lines(&old, &new));
        assert_eq!(shown.len(), 1 + 3 + 2 + 3, "{shown:?}");
    }
}
