//! The findings of a plan's check, as a part that pages show beside the plan or the editor.

use actbook_engine::analysis::PlanCheck;
use actbook_engine::plan::{Finding, Severity};
use askama::Template;
use askama::filters::HtmlSafe;

use super::markup::{Markup, count};

/// The result of a check.
#[derive(Debug, Template)]
#[template(path = "plan_check.html")]
pub struct CheckPart {
    findings: Vec<FindingLine>,
    has_errors: bool,
    /// In how many waves the steps would run, and which is the point of no return.
    facts: Markup,
}

impl HtmlSafe for CheckPart {}

/// One finding.
#[derive(Debug)]
pub struct FindingLine {
    pub severity: &'static str,
    /// The class of its mark's colour.
    pub class: &'static str,
    pub path: String,
    pub message: Markup,
    /// `None`: there is nothing to do about it.
    pub cure: Option<Markup>,
}

impl CheckPart {
    pub fn of(check: &PlanCheck) -> Self {
        let mut facts = Vec::new();
        if !check.waves.is_empty() {
            let steps: usize = check.waves.iter().map(Vec::len).sum();
            facts.push(format!("{} in {}", count(steps, "step"), count(check.waves.len(), "wave")));
        }
        facts.push(match &check.point_of_no_return {
            Some(step) => format!("the point of no return is `{step}`"),
            None => "everything can be undone".to_owned(),
        });
        let is_error = |finding: &Finding| finding.severity == Severity::Error;
        let has_errors = check.findings.iter().any(is_error);
        Self {
            facts: if has_errors { Markup::default() } else { Markup::sentence(&facts.join("; ")) },
            has_errors,
            findings: check.findings.iter().map(finding_line).collect(),
        }
    }
}

/// A finding as a page shows it.
pub fn finding_line(finding: &Finding) -> FindingLine {
    let (severity, class) = match finding.severity {
        Severity::Error => ("error", "red"),
        Severity::Warning => ("warning", "amber"),
        Severity::Note => ("note", ""),
    };
    FindingLine {
        severity,
        class,
        path: finding.path_with_step(),
        message: Markup::sentence(&finding.message),
        cure: Some(finding.cure.as_str()).filter(|cure| !cure.is_empty()).map(Markup::sentence),
    }
}
