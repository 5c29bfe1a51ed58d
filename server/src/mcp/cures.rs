//! Rewords the cures of errors for agents: the service names commands of the command line, and an agent needs
//! the tool call instead. Knows error codes and texts, and no state.

use actbook_engine::plan::Finding;

use crate::error::Error;

/// An error code, a substring of the service's cure, and the cure for an agent.
const CURES: [(&str, &str, &str); 24] = [
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
    (
        "invalid_arguments",
        "`actbook tools show",
        "list_tools with the tool's name as `search` shows its schema; give all arguments of the call",
    ),
    ("hidden_text", "`actbook tools show`", "read its description in list_tools, and doubt its server"),
    ("does_not_fit", "`show`", "status with its execution_id says what can be done"),
    (
        "does_not_fit",
        "`record … failed`",
        "its agent reports it first: record_action with status \"failed\", then retry or skip fits. Another agent's step: take_over: true as well, once its claim has lapsed",
    ),
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
    ("stale_question", "`show`", "nothing was decided; status with its execution_id says what it asks now"),
    (
        "not_awaited",
        "`compensated`",
        "the step is being undone: report that with record_compensation, outcome \"succeeded\" or \"failed\"",
    ),
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

/// The cure for an agent. If the table has none: the service's, marked as for the user if it is a command.
pub fn cure_for_agent(code: &str, cure: &str) -> String {
    let entry = CURES.iter().find(|(known, substring, _)| *known == code && cure.contains(substring));
    match entry {
        Some((_, _, reworded)) => (*reworded).to_owned(),
        None if cure.contains("`actbook ") => format!("for your user: {cure}"),
        None => cure.to_owned(),
    }
}

/// The error with cures and answers worded for an agent.
pub fn error_for_agent(error: Error) -> Error {
    let findings = findings_for_agent(error.findings);
    // With findings, the error's cure is that of the first finding.
    let cure =
        findings.first().map_or_else(|| cure_for_agent(error.code, &error.cure), |first| first.cure.clone());
    match error.code {
        // The message lists the possible answers as the command line spells them.
        "does_not_fit" => {
            let (message, cure) = (to_action_spelling(&error.message), to_action_spelling(&cure));
            Error { message, cure, findings, ..error }
        }
        _ => Error { cure, findings, ..error },
    }
}

/// Replaces the command line's `did-not-happen` by the action `did_not_happen` of `control`.
pub fn to_action_spelling(text: &str) -> String {
    text.replace("did-not-happen", "did_not_happen")
}

/// The findings with cures worded for an agent.
pub fn findings_for_agent(findings: Vec<Finding>) -> Vec<Finding> {
    findings
        .into_iter()
        .map(|finding| Finding { cure: cure_for_agent(finding.code, &finding.cure), ..finding })
        .collect()
}
