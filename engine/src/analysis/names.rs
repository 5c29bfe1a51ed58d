//! Checks the names of plans and steps, which are shown inside other text. With control characters, line
//! breaks or backticks a name could imitate the text around it.

use crate::plan::{Finding, Plan};

/// Describes the first forbidden character in a name, as in `a backtick`; `None` where the name is
/// acceptable.
pub fn forbidden_character(name: &str) -> Option<String> {
    let misleads = |c: &char| c.is_control() || *c == '`' || is_separator_or_bidi_control(*c);
    let found = name.chars().find(misleads)?;
    Some(match found {
        '`' => "a backtick".to_owned(),
        '\n' | '\r' => "a line end".to_owned(),
        other => format!("the hidden character U+{:04X}", other as u32),
    })
}

/// Whether the character is a line or paragraph separator or a bidirectional control.
fn is_separator_or_bidi_control(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Errors for the plan's and the steps' names with forbidden characters. Apart from parsing, because a stored
/// plan may be older than this rule.
pub fn check_names(plan: &Plan) -> Vec<Finding> {
    let steps = plan.steps.iter().enumerate();
    let steps =
        steps.filter_map(|(index, step)| Some((format!("steps[{index}].name"), step.name.as_deref()?)));
    let names = [("name".to_owned(), plan.name.as_str())].into_iter().chain(steps);
    let bad = names.filter_map(|(path, name)| Some((path, forbidden_character(name)?)));
    let finding = |(path, trouble): (String, String)| {
        let cure = "use one line of plain text; longer text belongs in `description`";
        Finding::error("invalid_name", path, format!("the name contains {trouble}"), cure)
    };
    bad.map(finding).collect()
}
