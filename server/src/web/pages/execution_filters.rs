//! The filters of the list of executions as its address has them: `plan=a` includes, `plan!=b` excludes, and each may
//! occur several times.

use actbook_engine::policy::{ErrorCategory, ExecutionStatus};
use jiff::tz::TimeZone;

use super::markup::url_part;
use crate::service::{DayEdge, ExecutionFilter, Terms, parse_time};
use crate::web::problem::Problem;

/// Most filters of one list.
const TERMS_MAX: usize = 20;

/// An attribute by which executions are filtered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FilterName {
    Status,
    Plan,
    Task,
    Actor,
    Tool,
    Server,
    Category,
}

impl FilterName {
    pub const ALL: &'static [Self] =
        &[Self::Plan, Self::Task, Self::Actor, Self::Tool, Self::Server, Self::Category, Self::Status];

    /// The parameter's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Plan => "plan",
            Self::Task => "task",
            Self::Actor => "actor",
            Self::Tool => "tool",
            Self::Server => "server",
            Self::Category => "category",
        }
    }

    /// As people call it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Actor => "who",
            Self::Category => "error",
            Self::Status | Self::Plan | Self::Task | Self::Tool | Self::Server => self.as_str(),
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.as_str() == name)
    }

    /// The values of a filter that has a fixed few; none of any other.
    pub fn fixed_values(self) -> Vec<String> {
        match self {
            Self::Status => ExecutionStatus::ALL.iter().map(ToString::to_string).collect(),
            Self::Category => ErrorCategory::ALL.iter().map(ToString::to_string).collect(),
            Self::Plan | Self::Task | Self::Actor | Self::Tool | Self::Server => Vec::new(),
        }
    }
}

/// One filter: an attribute that must, or must not, have a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FilterTerm {
    pub name: FilterName,
    pub excludes: bool,
    pub value: String,
}

/// The query of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ListQuery {
    pub terms: Vec<FilterTerm>,
    pub search: String,
    pub since: String,
    pub until: String,
    /// The stream of the last execution of the page before.
    pub cursor: String,
}

impl ListQuery {
    /// The query of an address. Parameters without a value, and unknown ones, do not count. Err: too many filters.
    pub fn of(pairs: &[(String, String)]) -> Result<Self, Problem> {
        let mut query = Self::default();
        for (given, value) in pairs.iter().filter(|(_, value)| !value.trim().is_empty()) {
            let (name, excludes) =
                given.strip_suffix('!').map_or((given.as_str(), false), |name| (name, true));
            let value = value.trim().to_owned();
            match name {
                "search" => query.search = value,
                "since" => query.since = value,
                "until" => query.until = value,
                "cursor" => query.cursor = value,
                name => query.push(FilterName::parse(name), excludes, value),
            }
        }
        if query.terms.len() > TERMS_MAX {
            return Err(Problem::bad_parameter("plan", format!("more than {TERMS_MAX} filters")));
        }
        Ok(query)
    }

    fn push(&mut self, name: Option<FilterName>, excludes: bool, value: String) {
        let term = name.map(|name| FilterTerm { name, excludes, value });
        self.terms.extend(term.filter(|term| !self.terms.contains(term)));
    }

    /// The path of the list with the filter that a form adds, named by `add`, `is` and `value`. `None`: no form adds
    /// one.
    pub fn path_with_added(&self, pairs: &[(String, String)]) -> Option<String> {
        let text = |name: &str| pairs.iter().find(|(given, _)| given == name).map(|(_, value)| value.trim());
        let name = text("add")?;
        let mut query = Self { cursor: String::new(), ..self.clone() };
        let value = text("value").unwrap_or_default();
        if !value.is_empty() {
            query.push(FilterName::parse(name), text("is") == Some("not"), value.to_owned());
        }
        Some(query.path())
    }

    /// The query as parameters, each with its value.
    pub fn pairs(&self) -> Vec<(String, &str)> {
        let term = |term: &'_ FilterTerm| {
            let excludes = if term.excludes { "!" } else { "" };
            format!("{}{excludes}", term.name.as_str())
        };
        let mut pairs: Vec<(String, &str)> =
            self.terms.iter().map(|one| (term(one), one.value.as_str())).collect();
        let others = [
            ("search", &self.search),
            ("since", &self.since),
            ("until", &self.until),
            ("cursor", &self.cursor),
        ];
        let given = others.into_iter().filter(|(_, value)| !value.is_empty());
        pairs.extend(given.map(|(name, value)| (name.to_owned(), value.as_str())));
        pairs
    }

    /// The query as text, without the position in the list.
    pub fn text(&self) -> String {
        let unpositioned = Self { cursor: String::new(), ..self.clone() };
        unpositioned.encoded()
    }

    fn encoded(&self) -> String {
        let part = |(name, value): (String, &str)| format!("{name}={}", url_part(value));
        self.pairs().into_iter().map(part).collect::<Vec<_>>().join("&")
    }

    /// The path of the list with this query.
    pub fn path(&self) -> String {
        let query = self.encoded();
        if query.is_empty() { "/".to_owned() } else { format!("/?{query}") }
    }

    /// The path of the page of the list that this cursor begins; empty: the first.
    pub fn path_at(&self, cursor: &str) -> String {
        Self { cursor: cursor.to_owned(), ..self.clone() }.path()
    }

    /// The path of the list with only this status; `None`: with any.
    pub fn path_with_status(&self, status: Option<ExecutionStatus>) -> String {
        let mut query = Self { cursor: String::new(), ..self.clone() };
        query.terms.retain(|term| term.name != FilterName::Status);
        query.terms.extend(status.map(|status| FilterTerm {
            name: FilterName::Status,
            excludes: false,
            value: status.to_string(),
        }));
        query.path()
    }

    pub fn path_without(&self, index: usize) -> String {
        let mut query = Self { cursor: String::new(), ..self.clone() };
        query.terms.remove(index);
        query.path()
    }

    /// The path of the list in which a filter excludes what it included, or includes what it excluded.
    pub fn path_turned(&self, index: usize) -> String {
        let mut query = Self { cursor: String::new(), ..self.clone() };
        query.terms[index].excludes ^= true;
        query.path()
    }

    /// The path of the list without `since` or `until`.
    pub fn path_without_time(&self, name: &str) -> String {
        let mut query = Self { cursor: String::new(), ..self.clone() };
        if name == "since" {
            query.since.clear()
        } else {
            query.until.clear()
        }
        query.path()
    }

    /// The path of the stream that keeps this page current.
    pub fn live_path(&self) -> String {
        format!("/live{}", self.path().trim_start_matches('/'))
    }

    pub fn has(&self, name: FilterName) -> bool {
        self.terms.iter().any(|term| term.name == name)
    }

    /// The one value that an attribute must have. `None`: it may have others, or has another filter.
    pub fn only(&self, name: FilterName) -> Option<&str> {
        let mut terms = self.terms.iter().filter(|term| term.name == name);
        let first = terms.next().filter(|term| !term.excludes)?;
        terms.next().is_none().then_some(first.value.as_str())
    }

    /// Whether every execution passes.
    pub fn is_unfiltered(&self) -> bool {
        self.terms.is_empty() && [&self.search, &self.since, &self.until].iter().all(|text| text.is_empty())
    }

    /// The filter that the query means. Err: a value is no status, category, time or cursor.
    pub fn filter(&self) -> Result<ExecutionFilter, Problem> {
        let before = Some(&self.cursor).filter(|cursor| !cursor.is_empty());
        let before = before.map(|cursor| cursor.parse::<u64>()).transpose();
        Ok(ExecutionFilter {
            status: self.parsed(FilterName::Status)?,
            category: self.parsed(FilterName::Category)?,
            plan: self.texts(FilterName::Plan),
            task: self.texts(FilterName::Task),
            tool: self.texts(FilterName::Tool),
            server: self.texts(FilterName::Server),
            actor: self.texts(FilterName::Actor),
            project: None,
            since: time_of("since", &self.since, DayEdge::Start)?,
            until: time_of("until", &self.until, DayEdge::End)?,
            words: self.search.split_whitespace().map(str::to_owned).collect(),
            before: before.map_err(|_| Problem::bad_parameter("cursor", "the cursor is no number"))?,
        })
    }

    fn texts(&self, name: FilterName) -> Terms<String> {
        let values = |excludes: bool| {
            let terms = self.terms.iter().filter(move |term| term.name == name && term.excludes == excludes);
            terms.map(|term| term.value.clone()).collect()
        };
        Terms { any_of: values(false), none_of: values(true) }
    }

    fn parsed<T: std::str::FromStr<Err = String>>(&self, name: FilterName) -> Result<Terms<T>, Problem> {
        let Terms { any_of, none_of } = self.texts(name);
        let parse =
            |texts: Vec<String>| texts.iter().map(|text| text.parse()).collect::<Result<Vec<T>, String>>();
        let bad = |why: String| Problem::bad_parameter(name.as_str(), why);
        Ok(Terms { any_of: parse(any_of).map_err(bad)?, none_of: parse(none_of).map_err(bad)? })
    }
}

/// The time that a parameter means, in milliseconds since 1970. `None`: it is empty.
pub fn time_of(name: &str, text: &str, edge: DayEdge) -> Result<Option<i64>, Problem> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let time = parse_time(text.trim(), edge, &TimeZone::UTC);
    time.map(Some).ok_or_else(|| Problem::bad_parameter(name, format!("`{text}` is no time")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(pairs: &[(&str, &str)]) -> ListQuery {
        let pairs: Vec<(String, String)> =
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        ListQuery::of(&pairs).unwrap()
    }

    #[test]
    fn address_includes_and_excludes() {
        let query =
            query(&[("plan", "a b"), ("plan!", "c"), ("status!", "running"), ("task", ""), ("x", "y")]);
        assert_eq!(query.path(), "/?plan=a%20b&plan!=c&status!=running");
        let filter = query.filter().unwrap();
        assert_eq!(filter.plan, Terms { any_of: vec!["a b".to_owned()], none_of: vec!["c".to_owned()] });
        assert_eq!(filter.status.none_of, [ExecutionStatus::Running]);
        assert_eq!(query.path_turned(0), "/?plan!=a%20b&plan!=c&status!=running");
        assert_eq!(query.path_without(1), "/?plan=a%20b&status!=running");
        assert_eq!(
            query.path_with_status(Some(ExecutionStatus::Failed)),
            "/?plan=a%20b&plan!=c&status=failed"
        );
        assert_eq!(query.live_path(), "/live?plan=a%20b&plan!=c&status!=running");
    }

    #[test]
    fn form_adds_one_filter() {
        let pairs = [("plan", "a"), ("cursor", "9"), ("add", "tool"), ("is", "not"), ("value", " files/x ")];
        let pairs: Vec<(String, String)> =
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let query = ListQuery::of(&pairs).unwrap();
        assert_eq!(query.path_with_added(&pairs).as_deref(), Some("/?plan=a&tool!=files%2Fx"));
        assert_eq!(query.path_with_added(&pairs[..2]), None);
        assert_eq!(query.only(FilterName::Plan), Some("a"));
    }
}
