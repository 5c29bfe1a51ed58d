//! The engine's contract in text. A case is a title, a plan, and a transcript: lines that begin with `>` are
//! commands, the lines below are the engine's answers. `ACTBOOK_UPDATE=1` rewrites the answers; review the
//! changes before you keep them.

mod script;

use std::path::PathBuf;

fn check(name: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/semantics/{name}.txt"));
    let expected = std::fs::read_to_string(&path).expect("the cases are there");
    let actual: String = cases(&expected).iter().map(|case| script::replay(case)).collect();
    if std::env::var_os("ACTBOOK_UPDATE").is_some() {
        std::fs::write(&path, &actual).expect("the cases can be written");
        return;
    }
    for (expected, actual) in cases(&expected).iter().zip(cases(&actual)) {
        assert!(*expected == actual, "expected:\n{expected}\nthe engine answers:\n{actual}");
    }
}

/// Splits the text into cases; each begins with a line `# title`.
fn cases(text: &str) -> Vec<&str> {
    let starts: Vec<usize> =
        text.match_indices("# ").map(|(at, _)| at).filter(|at| starts_line(text, *at)).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(start, end)| &text[*start..end]).collect()
}

fn starts_line(text: &str, at: usize) -> bool {
    at == 0 || text[..at].ends_with('\n')
}

macro_rules! chapters {
    ($($name:ident),+ $(,)?) => { $(#[test] fn $name() { check(stringify!($name)); })+ };
}

chapters!(
    ready, outcomes, failure, answers, status, undo, approvals, limits, brief, due, records, questions,
    tasks, terms, session
);

#[test]
fn full_part_of_a_session_stays_paused() {
    let refused = "> call client/shell {} agent refuse\n".repeat(500);
    let case = |end: &str| format!("# Full\nsession: {{\"client\": \"c\"}}\n> pause\n{refused}{end}");
    let last_answer =
        |end: &str| script::replay(&case(end)).rsplit("\n> ").next().expect("an answer").to_owned();
    let paused = last_answer("> call client/shell {} agent\n");
    assert!(paused.contains("refused: cannot start a call: the execution is paused"), "{paused}");
    let refused_once_more = last_answer("> call client/shell {} agent refuse\n");
    assert!(refused_once_more.contains("the execution is paused"), "{refused_once_more}");
    let resumed = last_answer("> resume\n> call client/shell {} agent\n");
    assert!(resumed.contains("SessionPartOver"), "{resumed}");
}
