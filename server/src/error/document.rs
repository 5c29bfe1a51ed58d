//! The refusal of a document: a plan, a template or the inputs of a run, with everything that is wrong in it.

use std::fmt;

use actbook_engine::plan::Finding;

/// The code of a refusal because the config is not trusted.
pub const UNTRUSTED_CONFIG: &str = "untrusted_config";
/// The code of a plan that holds a known secret.
pub const SECRET_IN_PLAN: &str = "secret_in_plan";

/// Which tools the shipped templates call, for a place that has others.
const DEMO_TOOLS_HINT: &str = "The templates that come with Actbook call the tools of its demo server \
(`actbook demo-tools`) under the name `files`: configure it, or make a plan with your own tools";

/// A document that was refused, with its findings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidDocument {
    pub kind: DocumentKind,
    pub findings: Vec<Finding>,
    /// The file that the command line read the document from; None: another interface, or a saved plan.
    pub file: Option<String>,
}

/// What a refused document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentKind {
    Plan,
    /// A plan that was made from a template that comes with Actbook.
    PlanOfShippedTemplate,
    DemoPlan,
    /// A plan that was saved before and no longer parses.
    StoredPlan,
    /// A plan whose steps an agent performs and records.
    RecordedPlan,
    Inputs,
    /// The plan that a config starts for a task, filled in with the task's fields.
    TaskPlan,
    /// The inputs of the plan that a config starts for a task.
    TaskInputs,
}

impl InvalidDocument {
    pub fn new(kind: DocumentKind, findings: Vec<Finding>) -> Self {
        Self { kind, findings, file: None }
    }

    /// The document's own code if its shape is not the problem; else `invalid`.
    pub fn code(&self) -> &'static str {
        let has = |code: &&str| self.findings.iter().any(|finding| finding.code == *code);
        [UNTRUSTED_CONFIG, SECRET_IN_PLAN].into_iter().find(has).unwrap_or("invalid")
    }
}

impl fmt::Display for DocumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plan | Self::PlanOfShippedTemplate => "the plan is refused",
            Self::DemoPlan => "the demo's plan is refused",
            Self::StoredPlan => "the stored plan",
            Self::RecordedPlan => "an agent cannot record this plan",
            Self::Inputs => "the inputs are refused",
            Self::TaskPlan => "the task does not fit its plan",
            Self::TaskInputs => "the task lacks what its plan needs",
        })
    }
}

/// The first finding, and how many more there are.
impl fmt::Display for InvalidDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.kind)?;
        if let Some(first) = self.findings.first() {
            let location = first.path_with_step();
            let separator = if location.is_empty() { "" } else { ": " };
            write!(f, "{location}{separator}{}", first.message)?;
        }
        if let Some(more) = self.findings.len().checked_sub(1).filter(|more| *more > 0) {
            write!(f, " (and {more} more)")?;
        }
        if self.kind == DocumentKind::PlanOfShippedTemplate {
            write!(f, ". {DEMO_TOOLS_HINT}")?;
        }
        Ok(())
    }
}
