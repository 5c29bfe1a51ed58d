//! `/executions/{id}`: one execution, with its brief, the views of its steps and the panel of one step.

use askama::Template;
use axum::extract::{Path, Query};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;

use super::execution_parts::{BriefPart, GraphPart, HeadPart, ReaderRights, may_undo};
use super::execution_steps::{StepSelection, StepsPart};
use super::frame::{Area, Frame};
use super::journal_table::JournalTable;
use super::markup::{Markup, short_id, url_part};
use super::render;
use super::session_part::SessionCallsPart;
use super::step_panel::StepPanel;
use super::timeline::TimelinePart;
use crate::service::{InspectedExecution, JournalFilter, ReportCheckView, ReportChecksView};
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

/// Entries that a page of the journal view shows.
const ENTRIES_PER_PAGE: usize = 100;

/// The query of an execution's page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct PageQuery {
    /// `graph`, `timeline`, `steps` or `journal`.
    pub view: String,
    /// The step whose panel is open.
    pub step: String,
    /// `hide`: the table leaves finished steps out.
    pub finished: String,
    /// What the id or the work of the table's steps must contain.
    pub find: String,
    /// How many steps lie before the page of the table or of the timeline.
    pub from: usize,
    /// The value that the panel shows whole: `arguments`, `output` or `recorded`.
    pub all: String,
    /// The kind of entries to show.
    pub kind: String,
    /// `only`: entries that record a failure.
    pub failures: String,
    /// Entries before this position.
    pub before: Option<u64>,
    /// Entries up to this position, which is marked.
    pub at: Option<u64>,
    /// The position that the page was rendered at, for the live stream.
    pub after: Option<u64>,
    /// Shown above the page: `elsewhere`.
    pub note: String,
}

/// A view of an execution's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    /// The calls of a guarded session, in place of the graph.
    Calls,
    Graph,
    Timeline,
    Steps,
    Journal,
}

impl Tab {
    const ALL: [Self; 5] = [Self::Calls, Self::Graph, Self::Timeline, Self::Steps, Self::Journal];
    const OF_PLAN: [Self; 4] = [Self::Graph, Self::Timeline, Self::Steps, Self::Journal];
    const OF_SESSION: [Self; 4] = [Self::Calls, Self::Timeline, Self::Steps, Self::Journal];

    /// The views of this execution.
    fn of(inspected: &InspectedExecution) -> [Self; 4] {
        if inspected.view.session.is_some() { Self::OF_SESSION } else { Self::OF_PLAN }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Graph => "graph",
            Self::Timeline => "timeline",
            Self::Steps => "steps",
            Self::Journal => "journal",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Calls => "Calls",
            Self::Graph => "Graph",
            Self::Timeline => "Timeline",
            Self::Steps => "Steps",
            Self::Journal => "Journal",
        }
    }

    /// The view that a query names; the graph if it names none.
    fn parse(word: &str) -> Self {
        Self::ALL.into_iter().find(|tab| tab.as_str() == word).unwrap_or(Self::Graph)
    }
}

impl PageQuery {
    pub fn tab(&self) -> Tab {
        Tab::parse(&self.view)
    }

    /// The table leaves finished steps out.
    pub fn hides_finished(&self) -> bool {
        self.finished == "hide"
    }

    /// The view that is shown of this execution: the first that it has, where the query names none of its own.
    pub fn tab_of(&self, inspected: &InspectedExecution) -> Tab {
        let views = Tab::of(inspected);
        views.into_iter().find(|tab| tab.as_str() == self.view).unwrap_or(views[0])
    }

    fn selected(&self) -> Option<&str> {
        Some(self.step.as_str()).filter(|step| !step.is_empty())
    }

    /// The path of the stream that keeps the page current, for a page rendered at this position.
    fn live_path(&self, id: &str, position: u64) -> String {
        format!("/executions/{id}/live?view={}&after={position}{}", self.tab().as_str(), self.kept(&[]))
    }

    /// The path of the page with a step's panel open, its view and filters kept.
    pub fn step_path(&self, id: &str, step: &str) -> String {
        self.step_paths(id).of(step)
    }

    /// The same for many steps.
    pub fn step_paths(&self, id: &str) -> StepPaths {
        let (view, kept) = (self.tab().as_str(), self.kept(&["step", "all"]));
        StepPaths { beginning: format!("/executions/{id}?view={view}{kept}&step=") }
    }

    /// What the page shows beside its view, as the end of a query; without the parameters in `dropped`.
    pub fn kept(&self, dropped: &[&str]) -> String {
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let all = [
            ("step", self.step.clone()),
            ("finished", self.finished.clone()),
            ("find", self.find.clone()),
            ("from", number(Some(self.from as u64).filter(|from| *from > 0))),
            ("all", self.all.clone()),
            ("kind", self.kind.clone()),
            ("failures", self.failures.clone()),
            ("before", number(self.before)),
            ("at", number(self.at)),
        ];
        let is_kept = |(name, value): &(&str, String)| !value.is_empty() && !dropped.contains(name);
        all.iter()
            .filter(|one| is_kept(one))
            .map(|(name, value)| format!("&{name}={}", url_part(value)))
            .collect()
    }
}

/// The paths of an execution's page with the panel of one of its steps open.
#[derive(Debug)]
pub struct StepPaths {
    beginning: String,
}

impl StepPaths {
    pub fn of(&self, step: &str) -> String {
        format!("{}{}#panel", self.beginning, url_part(step))
    }
}

/// The parts of the page, each as its HTML; the element of each has the part's name as its id.
#[derive(Clone, Debug)]
pub struct ExecutionPageParts {
    pub head: Markup,
    pub brief: Markup,
    pub tabs: Markup,
    pub view: Markup,
    pub panel: Markup,
}

impl ExecutionPageParts {
    /// Each part with the id of its element.
    pub fn named(&self) -> [(&'static str, &Markup); 5] {
        let Self { head, brief, tabs, view, panel } = self;
        [("head", head), ("brief", brief), ("tabs", tabs), ("view", view), ("panel", panel)]
    }
}

/// The tabs of the page.
#[derive(Debug, Template)]
#[template(path = "execution_tabs.html")]
struct TabsPart {
    tabs: Vec<TabLink>,
}

/// A tab of the page.
#[derive(Debug)]
struct TabLink {
    word: &'static str,
    name: &'static str,
    path: String,
    /// Shown behind the word.
    count: String,
    is_selected: bool,
}

#[derive(Debug, Template)]
#[template(path = "execution.html")]
struct ExecutionHtml {
    frame: Frame,
    plan: String,
    parts: ExecutionPageParts,
    /// How reports of agents agree with what was seen: the counts, and what disagrees.
    reports: Option<(String, Vec<String>)>,
    live_path: String,
    has_panel: bool,
    is_elsewhere: bool,
    id: String,
    short: String,
    may_export: bool,
    /// How to read it from a terminal and from a program.
    commands: Vec<(&'static str, String)>,
}

/// The view that shows the journal of one execution.
#[derive(Debug, Template)]
#[template(path = "execution_journal.html")]
struct JournalPart {
    execution: String,
    table: JournalTable,
    kind: String,
    kinds: Vec<&'static str>,
    only_failures: bool,
    /// The step whose panel stays open.
    step: String,
    position: String,
    /// Leads from an older page to the first one.
    newest_path: Option<String>,
}

/// `GET /executions/{id}`.
pub async fn show(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Html<String>, Problem> {
    let inspected = state.service.executions().inspect(&id).await?;
    let rights = ReaderRights::of(&signed_in);
    let parts = parts(&state, &inspected, &query, rights).await?;
    let view = &inspected.view;
    let (id, name) = (view.id.to_string(), view.plan.name.clone());
    let reports = state.service.executions().report_checks_of(&id).await?;
    let lines = |one: &ReportChecksView| one.disagreements().map(ReportCheckView::line).collect();
    let frame =
        Frame::load(&state, &signed_in, &headers, Area::Executions, format!("{name} {}", view.status))
            .await?;
    render(&ExecutionHtml {
        frame: frame.at(format!("/executions/{id}?view={}{}", query.tab().as_str(), query.kept(&[]))),
        live_path: query.live_path(&id, view.position),
        has_panel: query.selected().is_some(),
        is_elsewhere: query.note == "elsewhere",
        short: short_id(&id).to_owned(),
        may_export: rights.values,
        commands: commands(&id, &state.access.base_url),
        plan: name,
        reports: reports.map(|reports| (reports.counts(), lines(&reports))),
        parts,
        id,
    })
}

/// How to read and watch an execution from a terminal and from a program.
fn commands(id: &str, base_url: &str) -> Vec<(&'static str, String)> {
    let short = short_id(id);
    let bearer = "curl -H \"Authorization: Bearer $ACTBOOK_TOKEN\"";
    vec![
        ("CLI", format!("actbook show {short}")),
        ("CLI", format!("actbook watch {short}")),
        ("curl", format!("{bearer} {base_url}/api/v1/executions/{id}")),
        ("curl", format!("{bearer} '{base_url}/api/v1/events?execution={id}'")),
    ]
}

fn tabs(inspected: &InspectedExecution, query: &PageQuery) -> Vec<TabLink> {
    let id = &inspected.view.id;
    let step = query.selected().map(|step| format!("&step={}", url_part(step))).unwrap_or_default();
    let link = |tab: Tab| TabLink {
        word: tab.word(),
        name: tab.as_str(),
        path: format!("/executions/{id}?view={}{step}", tab.as_str()),
        count: if tab == Tab::Steps { inspected.view.steps.len().to_string() } else { String::new() },
        is_selected: tab == query.tab_of(inspected),
    };
    Tab::of(inspected).map(link).into()
}

/// Renders the parts of the page.
pub async fn parts(
    state: &WebState,
    inspected: &InspectedExecution,
    query: &PageQuery,
    rights: ReaderRights,
) -> Result<ExecutionPageParts, Problem> {
    let html = |html: Html<String>| Markup::from_rendered(html.0);
    let selected = query.selected();
    let view = match query.tab_of(inspected) {
        Tab::Calls => render(&session_part(state, inspected, query, rights).await?)?,
        Tab::Graph => render(&GraphPart::of(inspected, query, rights.values))?,
        Tab::Timeline => {
            let timeline = state.service.executions().timeline(inspected.view.id.as_str()).await?;
            let now_ms = jiff::Timestamp::now().as_millisecond();
            render(&TimelinePart::of(&inspected.view, &timeline, query, now_ms))?
        }
        Tab::Steps => {
            let selection = StepSelection::of(&inspected.view, query);
            let executions = state.service.executions();
            let steps = executions.steps_with_values(inspected.view.id.as_str(), &selection.shown).await?;
            render(&StepsPart::of(&inspected.view, &selection, &steps, query, rights))?
        }
        Tab::Journal => render(&journal_part(state, inspected, query).await?)?,
    };
    let panel = match selected {
        None => Markup::default(),
        Some(step) => {
            let detail = state.service.executions().step(inspected.view.id.as_str(), step).await?;
            let base_url = state.access.base_url.as_str();
            html(render(&StepPanel::of(&inspected.view, detail, query, rights, base_url))?)
        }
    };
    Ok(ExecutionPageParts {
        head: html(render(&HeadPart::of(inspected, rights))?),
        brief: html(render(&BriefPart::of(inspected, rights))?),
        tabs: html(render(&TabsPart { tabs: tabs(inspected, query) })?),
        view: html(view),
        panel,
    })
}

async fn session_part(
    state: &WebState,
    inspected: &InspectedExecution,
    query: &PageQuery,
    rights: ReaderRights,
) -> Result<SessionCallsPart, Problem> {
    let id = inspected.view.id.as_str();
    let page = state.service.sessions().page(id).await?;
    let page =
        page.ok_or_else(|| Problem::bad_parameter("view", "the execution is no session".to_owned()))?;
    let may_undo = rights.operate && may_undo(inspected);
    Ok(SessionCallsPart::of(id, &page, query, may_undo, jiff::Timestamp::now().as_millisecond()))
}

async fn journal_part(
    state: &WebState,
    inspected: &InspectedExecution,
    query: &PageQuery,
) -> Result<JournalPart, Problem> {
    let id = inspected.view.id.to_string();
    let only_failures = query.failures == "only";
    let filter = JournalFilter {
        execution: Some(id.clone()),
        kind: Some(query.kind.clone()).filter(|kind| !kind.is_empty()),
        ..JournalFilter::default()
    };
    let journal = state.service.journal();
    let before = query.at.map(|at| at.saturating_add(1)).or(query.before);
    let limit = ENTRIES_PER_PAGE as u64;
    let entries = if only_failures {
        journal.list_newest_failures(&filter, before, limit).await?
    } else {
        journal.list_newest(&filter, before, limit).await?
    };
    let path = format!("/executions/{id}?view=journal");
    Ok(JournalPart {
        table: JournalTable::of(
            &entries,
            ENTRIES_PER_PAGE,
            true,
            &path,
            &query.kept(&["before", "at", "from"]),
        ),
        newest_path: before.map(|_| format!("{path}{}", query.kept(&["before", "at", "from"]))),
        kind: query.kind.clone(),
        kinds: actbook_engine::event::Event::KINDS_READ.to_vec(),
        only_failures,
        step: query.step.clone(),
        position: super::markup::grouped(inspected.view.position),
        execution: id,
    })
}

/// `GET /executions/{id}/steps/{step}/{value}`: a step's `arguments.json`, `output.json` or `recorded.json`, whole.
pub async fn value(
    state: WebState,
    signed_in: SignedIn,
    Path((id, step, value)): Path<(String, String, String)>,
) -> Result<Response, Problem> {
    if !ReaderRights::of(&signed_in).values {
        let cure = "ask an administrator for a role that may see arguments and outputs";
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "your role may not see this value",
            cure,
        ));
    }
    let detail = state.service.executions().step(&id, &step).await?;
    let found = match value.as_str() {
        "arguments.json" => detail.step.arguments,
        "output.json" => detail.step.output,
        "recorded.json" => detail.step.recorded,
        _ => None,
    };
    let Some(found) = found else {
        let detail = "the step has no such value, or it was erased";
        return Err(Problem::new(StatusCode::NOT_FOUND, "not_found", detail, "go back to the execution"));
    };
    let mut response = axum::Json(found).into_response();
    response.headers_mut().insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_stream_keeps_the_place_that_the_page_shows() {
        let query = PageQuery {
            view: "journal".to_owned(),
            from: 200,
            before: Some(41),
            kind: "step_failed".to_owned(),
            ..PageQuery::default()
        };
        let path = query.live_path("x1", 52);
        assert_eq!(path, "/executions/x1/live?view=journal&after=52&from=200&kind=step_failed&before=41");
    }
}
