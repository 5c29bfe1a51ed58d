//! What a check found, where, and what to do about it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::policy::words;

/// Beyond this many errors a reader is not helped by more.
const FINDINGS_MAX: usize = 200;

words!(
    /// Errors refuse a plan; warnings and notes do not.
    Severity { Error = "error", Warning = "warning", Note = "note" }
);

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    /// A word that programs may rely on.
    pub code: &'static str,
    /// Where in the document, as in `steps[2].retry.max_attempts`.
    pub path: String,
    /// The id of the step that `path` points into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    pub message: String,
    pub cure: String,
}

impl Finding {
    /// The path with the step's id, as people read it: `steps[2].retry (publish)`.
    pub fn place(&self) -> String {
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
        }
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

/// Adds to each finding the id of its step, which `id_of` gives for the step's number.
pub fn name_steps(findings: &mut [Finding], id_of: impl Fn(usize) -> Option<String>) {
    for finding in findings.iter_mut().filter(|finding| finding.step.is_none()) {
        let inside = finding.path.strip_prefix("steps[").and_then(|rest| rest.split_once(']'));
        finding.step = inside.and_then(|(number, _)| id_of(number.parse().ok()?));
    }
}

/// A place in the document. Borrowed and linked, so that a place costs nothing until it is named.
#[derive(Clone, Copy, Debug)]
pub(super) enum At<'a> {
    Plan,
    Field(&'a At<'a>, &'a str),
    Item(&'a At<'a>, usize),
}

impl<'a> At<'a> {
    pub fn field(&'a self, name: &'a str) -> At<'a> {
        At::Field(self, name)
    }

    pub fn item(&'a self, index: usize) -> At<'a> {
        At::Item(self, index)
    }

    /// The place of something inside, by its path from here.
    pub fn within(&self, path: &str) -> String {
        match path {
            "" => self.to_string(),
            path if path.starts_with('[') => format!("{self}{path}"),
            path => format!("{self}.{path}"),
        }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan => f.write_str("plan"),
            Self::Field(parent, "") => write!(f, "{parent}.``"),
            Self::Field(At::Plan, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// The errors found so far: all of them, up to `FINDINGS_MAX`.
#[derive(Debug, Default)]
pub(super) struct Findings {
    list: Vec<Finding>,
    more: usize,
}

impl Findings {
    pub fn error(
        &mut self,
        code: &'static str,
        path: impl fmt::Display,
        message: impl Into<String>,
        cure: impl Into<String>,
    ) {
        match self.list.len() < FINDINGS_MAX {
            true => self.list.push(Finding::error(code, path, message, cure)),
            false => self.more += 1,
        }
    }

    pub fn into_list(mut self) -> Vec<Finding> {
        if self.more > 0 {
            let message = format!("there are {} more errors", self.more);
            self.list.push(Finding::error("more_errors", At::Plan, message, "cure these first"));
        }
        self.list
    }
}
