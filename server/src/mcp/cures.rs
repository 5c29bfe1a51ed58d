//! What to do instead, in the words of this door: the rooms below speak of the command line, where an agent
//! is not. Knows codes and words, and no state.

use actbook_engine::plan::Finding;

use crate::error::Error;

/// A code, a word of the cure that is given below, and the cure for an agent.
const CURES: [(&str, &str, &str); 20] = [
    ("no_such_execution", "`actbook list`", "status without arguments shows them"),
    (
        "no_such_plan",
        "`actbook plan list`",
        "plan {\"action\":\"list\"} shows them; or give the document as `plan`",
    ),
    ("no_such_template", "`actbook template list`", "template with action \"list\" shows them"),
    (
        "no_such_task",
        "`actbook task list`",
        "give the id of a task that a plan, an execution or a note names, or leave it out",
    ),
    ("no_such_note", "`actbook context", "query_context with `search` finds notes"),
    ("no_such_tool", "`actbook doctor`", "list_tools says what is wrong with its server; tell your user"),
    (
        "no_such_tool",
        "`actbook tools list`",
        "list_tools shows what there is; your user names servers in actbook.yaml",
    ),
    (
        "untrusted_config",
        "`actbook trust`",
        "its servers are not started: your user reads that file, runs `actbook trust` in its folder and starts this server again",
    ),
    ("bad_argument", "`actbook tools show", "list_tools with the tool's name as `search` shows its schema"),
    ("hidden_text", "`actbook tools show`", "read its description in list_tools, and doubt its server"),
    ("does_not_fit", "`show`", "status with its execution_id says what can be done"),
    (
        "does_not_fit",
        "`undo` this one",
        "start a new one, or undo this one: control with action \"compensate\"",
    ),
    ("does_not_fit", "`pause` it", "control with action \"pause\" halts it, or answer what it asks"),
    ("nothing_to_undo", "`show`", "status with its execution_id: the brief names what cannot be undone"),
    ("nothing_to_undo", "`cancel`", "control with action \"cancel\" stops it"),
    ("already_undoing", "`watch`", "status with wait_s waits for it; or answer what it asks"),
    ("nothing_to_approve", "`show`", "status with its execution_id says what waits"),
    ("not_awaited", "`show`", "no step waits for you; status with its execution_id says what does"),
    (
        "out_of_order",
        "`undo`",
        "stop it first with control, action \"cancel\", or undo it all with action \"compensate\"",
    ),
    (
        "other_place",
        "--config",
        "it goes on where it was started; to go on with the servers of this place, your user runs `actbook resume EXECUTION --here`",
    ),
];

/// The cure for an agent; where the table has none, that of the rooms below.
pub fn of(code: &str, cure: &str) -> String {
    let own = CURES.iter().find(|(known, word, _)| *known == code && cure.contains(word));
    match own {
        Some((_, _, own)) => (*own).to_owned(),
        None if cure.contains("`actbook ") => format!("for your user: {cure}"),
        None => cure.to_owned(),
    }
}

pub fn told_here(error: Error) -> Error {
    let findings = found_here(error.findings);
    // The first finding speaks for all.
    let cure = findings.first().map_or_else(|| of(error.code, &error.cure), |first| first.cure.clone());
    match error.code {
        // The refusal lists the answers that fit, as the command line writes them.
        "does_not_fit" => {
            let (message, cure) = (spelled_here(&error.message), spelled_here(&cure));
            Error { message, cure, findings, ..error }
        }
        _ => Error { cure, findings, ..error },
    }
}

/// The answer that the command line writes with hyphens is an action with underscores here.
pub fn spelled_here(text: &str) -> String {
    text.replace("did-not-happen", "did_not_happen")
}

pub fn found_here(findings: Vec<Finding>) -> Vec<Finding> {
    findings.into_iter().map(|finding| Finding { cure: of(finding.code, &finding.cure), ..finding }).collect()
}
