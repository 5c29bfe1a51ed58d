//! Findings: what is wrong with a plan, where in the document, and what to do about it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::policy::string_enum;

/// Most errors listed for one document; the rest are only counted.
const FINDINGS_MAX: usize = 200;

string_enum!(
    /// How serious a finding is: only errors refuse a plan.
    Severity { Error = "error", Warning = "warning", Note = "note" }
);

/// One problem in a plan document, with its location and its cure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    /// A stable code that programs may rely on.
    pub code: &'static str,
    /// Where in the document, as in `steps[2].retry.max_attempts`.
    pub path: String,
    /// The id of the step that `path` points into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    pub message: String,
    /// What the author can do about it, the same for the readers of every interface.
    pub cure: String,
    /// What the cure tells the author to do with Actbook; `None`: the cure is the same for every reader.
    #[serde(skip)]
    pub action: Option<CureAction>,
}

/// What a cure tells its reader to do, where each interface has a command or a call of its own for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CureAction {
    /// Read which arguments the tool takes.
    ReadToolSchema,
    /// Read how the tool describes itself.
    ReadToolDescription,
    ListTools,
    ListServerTools,
    /// Find out why a server does not answer.
    InspectServers,
    /// Trust the config.
    TrustConfig,
    /// Give the inputs that the plan's schema asks for.
    GiveInputs,
}

impl Finding {
    /// The path with the step's id for display: `steps[2].retry (publish)`.
    pub fn path_with_step(&self) -> String {
        match &self.step {
            Some(step) => format!("{} ({step})", self.path),
            None => self.path.clone(),
        }
    }

    pub fn error(
        code: &'static str,
        path: impl fmt::Display,
        message: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Error,
            code,
            path: path.to_string(),
            step: None,
            message: message.into(),
            cure: cure.into(),
            action: None,
        }
    }

    /// The same finding, whose cure tells to do this.
    pub fn with_action(self, action: CureAction) -> Self {
        Self { action: Some(action), ..self }
    }

    pub fn warning(
        code: &'static str,
        path: impl fmt::Display,
        message: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, path, message, cure) }
    }

    pub fn note(
        code: &'static str,
        path: impl fmt::Display,
        message: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Note, ..Self::error(code, path, message, cure) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}; {}", self.severity, self.path, self.message, self.cure)
    }
}

/// Sets `step` on each finding whose path points into a step. `id_of` maps a step's index to its id.
pub fn add_step_ids(findings: &mut [Finding], id_of: impl Fn(usize) -> Option<String>) {
    for finding in findings.iter_mut().filter(|finding| finding.step.is_none()) {
        let inside = finding.path.strip_prefix("steps[").and_then(|rest| rest.split_once(']'));
        finding.step = inside.and_then(|(number, _)| id_of(number.parse().ok()?));
    }
}

/// A location in the document, displayed as in `steps[2].id`. A borrowed linked list: it allocates nothing
/// until it is displayed.
#[derive(Clone, Copy, Debug)]
pub(super) enum DocumentPath<'a> {
    Plan,
    Field(&'a DocumentPath<'a>, &'a str),
    Item(&'a DocumentPath<'a>, usize),
}

impl<'a> DocumentPath<'a> {
    pub fn field(&'a self, name: &'a str) -> DocumentPath<'a> {
        DocumentPath::Field(self, name)
    }

    pub fn item(&'a self, index: usize) -> DocumentPath<'a> {
        DocumentPath::Item(self, index)
    }

    /// This location extended by a relative path, as in `args[0].name`.
    pub fn join(&self, path: &str) -> String {
        match path {
            "" => self.to_string(),
            path if path.starts_with('[') => format!("{self}{path}"),
            path => format!("{self}.{path}"),
        }
    }
}

impl fmt::Display for DocumentPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan => f.write_str("plan"),
            Self::Field(parent, "") => write!(f, "{parent}.``"),
            Self::Field(DocumentPath::Plan, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Collects errors: keeps the first `FINDINGS_MAX` and counts the rest.
#[derive(Debug, Default)]
pub(super) struct FindingCollector {
    list: Vec<Finding>,
    /// Errors beyond `FINDINGS_MAX`, which are not kept.
    omitted: usize,
}

impl FindingCollector {
    pub fn error(
        &mut self,
        code: &'static str,
        path: impl fmt::Display,
        message: impl Into<String>,
        cure: impl Into<String>,
    ) {
        if self.list.len() < FINDINGS_MAX {
            self.list.push(Finding::error(code, path, message, cure));
        } else {
            self.omitted += 1;
        }
    }

    /// The errors, with a last one that tells how many more there are.
    pub fn into_list(mut self) -> Vec<Finding> {
        if self.omitted > 0 {
            let message = format!("there are {} more errors", self.omitted);
            self.list.push(Finding::error("more_errors", DocumentPath::Plan, message, "correct these first"));
        }
        self.list
    }
}
