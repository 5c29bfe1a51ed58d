//! Names that people and agents read inside other text: a plan's and its steps'. Control characters, line ends
//! and backticks would let a name pass for somebody else's words.

use crate::plan::{Finding, Plan};

/// Why a name cannot be taken; None: it can.
pub fn name_trouble(name: &str) -> Option<String> {
    let misleads = |c: &char| c.is_control() || *c == '`' || is_direction(*c);
    let found = name.chars().find(misleads)?;
    Some(match found {
        '`' => "a backtick".to_owned(),
        '\n' | '\r' => "a line end".to_owned(),
        other => format!("the hidden character U+{:04X}", other as u32),
    })
}

/// Line and paragraph separators, and marks that turn the direction of reading.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Every name of a plan that cannot be taken. A stored plan may have one from before this rule.
pub fn check_names(plan: &Plan) -> Vec<Finding> {
    let steps = plan.steps.iter().enumerate();
    let steps =
        steps.filter_map(|(index, step)| Some((format!("steps[{index}].name"), step.name.as_deref()?)));
    let names = [("name".to_owned(), plan.name.as_str())].into_iter().chain(steps);
    let bad = names.filter_map(|(path, name)| Some((path, name_trouble(name)?)));
    let finding = |(path, trouble): (String, String)| {
        let cure = "use one line of plain text; longer words belong into `description`";
        Finding::error("invalid_name", path, format!("the name holds {trouble}"), cure)
    };
    bad.map(finding).collect()
}
