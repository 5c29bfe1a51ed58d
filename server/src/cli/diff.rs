//! Two texts compared line by line.

use super::signs::{BAD, GOOD, QUIET, painted};

/// Lines around a change that are shown with it.
const CONTEXT: usize = 3;
/// Beyond this many pairs of lines the middle is shown as replaced whole: comparing each with each takes too long.
const PAIRS_MAX: usize = 4_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    Same(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

/// Every line of both texts, in order: what is gone before what took its place.
pub fn lines<'a>(old: &'a str, new: &'a str) -> Vec<Line<'a>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let start = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let rest = old[start..].iter().rev().zip(new[start..].iter().rev());
    let end = rest.take_while(|(one, other)| one == other).count();
    let mut compared: Vec<Line<'a>> = old[..start].iter().map(|line| Line::Same(line)).collect();
    compared.extend(middle(&old[start..old.len() - end], &new[start..new.len() - end]));
    compared.extend(old[old.len() - end..].iter().map(|line| Line::Same(line)));
    compared
}

/// By the longest common subsequence.
fn middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    if old.len().saturating_mul(new.len()) > PAIRS_MAX {
        let removed = old.iter().map(|line| Line::Removed(line));
        return removed.chain(new.iter().map(|line| Line::Added(line))).collect();
    }
    let width = new.len() + 1;
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = match old[i] == new[j] {
                true => common[(i + 1) * width + j + 1] + 1,
                false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut compared) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            compared.push(Line::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || (i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1])
        {
            compared.push(Line::Removed(old[i]));
            i += 1;
        } else {
            compared.push(Line::Added(new[j]));
            j += 1;
        }
    }
    compared
}

/// The changed lines with some of their neighbours, painted; empty where the texts are equal.
pub fn painted_lines(compared: &[Line<'_>]) -> Vec<String> {
    let changed: Vec<usize> =
        (0..compared.len()).filter(|at| !matches!(compared[*at], Line::Same(_))).collect();
    let near = |at: usize| {
        let next = changed.partition_point(|changed| *changed + CONTEXT < at);
        changed.get(next).is_some_and(|changed| *changed <= at + CONTEXT)
    };
    let (mut shown, mut last) = (Vec::new(), None);
    for (at, line) in compared.iter().enumerate().filter(|(at, _)| near(*at)) {
        if last.is_some_and(|last| last + 1 != at) || (last.is_none() && at > 0) {
            shown.push(painted(QUIET, "  …"));
        }
        last = Some(at);
        shown.push(match line {
            Line::Same(text) => format!("  {text}"),
            Line::Removed(text) => painted(BAD, format_args!("- {text}")),
            Line::Added(text) => painted(GOOD, format_args!("+ {text}")),
        });
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_stand_between_those_that_stay() {
        let compared = lines("a\nb\nc\nd", "a\nx\nc\nd\ne");
        let expected = [
            Line::Same("a"),
            Line::Removed("b"),
            Line::Added("x"),
            Line::Same("c"),
            Line::Same("d"),
            Line::Added("e"),
        ];
        assert_eq!(compared, expected);
        assert!(painted_lines(&lines("a\nb", "a\nb")).is_empty());
    }

    #[test]
    fn long_equal_runs_are_left_out() {
        let old: Vec<String> = (0..50).map(|line| line.to_string()).collect();
        let new = old.join("\n").replace("25", "changed");
        let shown = painted_lines(&lines(&old.join("\n"), &new));
        assert_eq!(shown.len(), 1 + 3 + 2 + 3, "{shown:?}");
    }
}
