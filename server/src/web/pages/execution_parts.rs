//! The parts of an execution's page: head, brief with answers, tabs, and the views of its steps. The live stream
//! sends each part again when it has changed.

use actbook_engine::policy::{ExecutionStatus, StepStatus};
use askama::Template;
use askama::filters::HtmlSafe;

use super::answer_words::AnswerButton;
use super::execution::PageQuery;
use super::execution_row::split_actor;
use super::markup::{Icon, Markup, StatusMark, count, grouped, icon, short_id, url_part};
use super::question_card::{CallLine, QuestionCard, undo_lines};
use super::sentence::sentence;
use super::times::{PageDuration, PageTime, duration, elapsed, page_time};
use crate::caller::Right;
use crate::drawing::{NodeState, PlanGraph, render_for_page};
use crate::service::view::{ExecutionView, StepView};
use crate::service::{Brief, CoveredCall, InspectedExecution};
use crate::web::authentication::SignedIn;

/// Steps that a column of the brief names.
const BRIEF_STEPS_MAX: usize = 12;
/// Questions that the brief shows; the rest come up as these are answered.
const QUESTIONS_MAX: usize = 25;
/// Most characters of the arguments of a call in the brief.
const BRIEF_ARGUMENTS_MAX: usize = 60;

/// What a reader of a page may do and see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReaderRights {
    /// Arguments, outputs and the texts of errors.
    pub values: bool,
    pub operate: bool,
    pub approve: bool,
    pub run: bool,
}

impl ReaderRights {
    pub fn of(signed_in: &SignedIn) -> Self {
        Self {
            values: signed_in.may(Right::Payloads),
            operate: signed_in.may(Right::Operate),
            approve: signed_in.may(Right::Approve),
            run: signed_in.may(Right::Run),
        }
    }
}

/// A command about the whole execution, as a button.
#[derive(Debug)]
pub struct ControlButton {
    pub action: &'static str,
    pub icon: Icon,
    pub label: &'static str,
    /// It leads to a page that says what will happen.
    pub confirms: bool,
}

/// The head: where the execution stands.
#[derive(Debug, Template)]
#[template(path = "execution_head.html")]
pub struct HeadPart {
    id: String,
    short: String,
    plan: String,
    /// `None`: it is a session, and follows no plan.
    of_plan: Option<PlanHead>,
    /// The labels of a session, and the name of its folder.
    labels: Vec<String>,
    folder: Option<String>,
    status: ExecutionStatus,
    mark: StatusMark,
    is_orphaned: bool,
    controls: Vec<ControlButton>,
    task: Option<String>,
    task_path: String,
    who: String,
    is_agent: bool,
    started: PageTime,
    elapsed: PageDuration,
    done: usize,
    total: usize,
    position: String,
    sentence: Markup,
    may_run: bool,
}

impl HtmlSafe for HeadPart {}

impl HeadPart {
    pub fn of(inspected: &InspectedExecution, rights: ReaderRights) -> Self {
        let view = &inspected.view;
        let (kind, name) = split_actor(inspected.started_by.as_deref().unwrap_or("unknown"));
        let session = view.session.as_ref();
        Self {
            short: short_id(view.id.as_str()).to_owned(),
            plan: view.plan.name.clone(),
            of_plan: if session.is_some() { None } else { Some(PlanHead::of(view)) },
            labels: session.map(|session| session.labels.clone()).unwrap_or_default(),
            folder: session.and_then(|session| folder_name(session.folder.as_deref()?)),
            status: view.status,
            mark: mark_of(view).pill(),
            is_orphaned: inspected.is_orphaned,
            controls: if rights.operate { controls(inspected) } else { Vec::new() },
            task_path: format!("/tasks/{}", url_part(view.task.as_deref().unwrap_or_default())),
            task: view.task.clone(),
            who: name.to_owned(),
            is_agent: kind != "person",
            started: page_time(&view.started_at),
            elapsed: elapsed(&view.started_at, view.ended_at.as_deref()),
            done: view.progress.done,
            total: view.progress.total,
            position: grouped(view.position),
            sentence: sentence(inspected, rights.values),
            may_run: rights.run,
            id: view.id.to_string(),
        }
    }
}

/// The plan in the head of an execution's page.
#[derive(Debug)]
struct PlanHead {
    version: u32,
    /// Leads to its other executions.
    path: String,
}

impl PlanHead {
    fn of(view: &ExecutionView) -> Self {
        Self { version: view.plan.version, path: format!("/?plan={}", url_part(&view.plan.name)) }
    }
}

/// The mark of an execution; a session that goes on is open, whether or not a call is under way.
fn mark_of(view: &ExecutionView) -> StatusMark {
    if is_open_session(view) {
        return StatusMark::new("running", "Open");
    }
    StatusMark::of_execution(view.status)
}

/// Whether it is a session that goes on and waits for nothing.
fn is_open_session(view: &ExecutionView) -> bool {
    view.session.is_some() && view.status == ExecutionStatus::Running
}

/// The last part of a folder's path.
fn folder_name(path: &str) -> Option<String> {
    Some(std::path::Path::new(path).file_name()?.to_string_lossy().into_owned())
}

/// Whether an undo can be asked for.
pub fn may_undo(inspected: &InspectedExecution) -> bool {
    inspected.can_undo && inspected.view.status != ExecutionStatus::Compensating
}

/// The commands that fit an execution's state.
fn controls(inspected: &InspectedExecution) -> Vec<ControlButton> {
    let view = &inspected.view;
    let button = |action, name, label, confirms| ControlButton { action, icon: icon(name), label, confirms };
    let mut controls = Vec::new();
    match view.status {
        ExecutionStatus::Running | ExecutionStatus::Compensating if inspected.is_orphaned => {
            controls.push(button("resume", "play", "Resume", false));
        }
        ExecutionStatus::Running | ExecutionStatus::Compensating | ExecutionStatus::Blocked => {
            controls.push(button("pause", "pause", "Pause", false));
        }
        ExecutionStatus::Paused => controls.push(button("resume", "play", "Resume", false)),
        ExecutionStatus::Succeeded
        | ExecutionStatus::Failed
        | ExecutionStatus::Cancelled
        | ExecutionStatus::Compensated => {}
    }
    if may_undo(inspected) {
        controls.push(button("undo", "compensating", "Undo…", true));
    }
    if view.ended_at.is_none() && view.ending.is_none() {
        controls.push(button("cancel", "cancelled", "Cancel…", true));
    }
    controls
}

/// The brief, and every open question with its answers.
#[derive(Debug, Template)]
#[template(path = "execution_brief.html")]
pub struct BriefPart {
    execution: String,
    guarantee: String,
    columns: Option<BriefColumns>,
    questions: Vec<QuestionCard>,
    /// Questions beyond those that are shown.
    more: usize,
    ending: Option<EndingAnswers>,
    may_answer: bool,
}

impl HtmlSafe for BriefPart {}

/// The five columns of the brief.
#[derive(Debug)]
struct BriefColumns {
    done: StepColumn,
    not_done: StepColumn,
    may_have_run: StepColumn,
    undo: Vec<CallLine>,
    undo_calls: String,
    cannot_undo: Vec<(String, String)>,
}

/// The steps of one column.
#[derive(Debug)]
struct StepColumn {
    steps: Vec<(Markup, String)>,
    total: usize,
    /// Steps beyond those that are named.
    more: usize,
}

impl BriefPart {
    pub fn of(inspected: &InspectedExecution, rights: ReaderRights) -> Self {
        let view = &inspected.view;
        let shown = inspected.questions.iter().take(QUESTIONS_MAX);
        let mut questions: Vec<QuestionCard> =
            shown.map(|one| QuestionCard::of(inspected, one, rights.values)).collect();
        let ending = take_ending_answers(&mut questions);
        // A call of an open session that was denied or failed stops nothing: the list of calls shows it.
        let brief = view.brief.as_ref().filter(|_| !is_open_session(view));
        Self {
            execution: view.id.to_string(),
            guarantee: view.guarantee.clone(),
            columns: brief.map(|brief| BriefColumns::of(view, brief, rights.values)),
            more: inspected.questions.len().saturating_sub(QUESTIONS_MAX),
            questions,
            ending,
            may_answer: rights.operate || rights.approve,
        }
    }

    /// Nothing went wrong, and nothing is asked.
    fn is_empty(&self) -> bool {
        self.columns.is_none() && self.questions.is_empty()
    }
}

/// Moves the answers that end the whole execution out of the questions. Those of the first question stand for the
/// same answers of the others.
fn take_ending_answers(questions: &mut [QuestionCard]) -> Option<EndingAnswers> {
    let first = questions.iter().find(|card| card.buttons.iter().any(|button| button.is_hard))?;
    let buttons: Vec<AnswerButton> = first.buttons.iter().filter(|button| button.is_hard).cloned().collect();
    let ending = EndingAnswers { digest: first.digest.clone(), buttons };
    let is_taken = |button: &AnswerButton| ending.buttons.iter().any(|taken| taken.value == button.value);
    for card in questions {
        card.buttons.retain(|button| !is_taken(button));
    }
    Some(ending)
}

/// Answers that end the whole execution, and the question that they are given to.
#[derive(Debug)]
struct EndingAnswers {
    digest: String,
    buttons: Vec<AnswerButton>,
}

impl BriefColumns {
    fn of(view: &ExecutionView, brief: &Brief, shows_values: bool) -> Self {
        let column = |ids: &[actbook_engine::id::StepId]| {
            let named = ids.iter().take(BRIEF_STEPS_MAX).filter_map(|id| find_step(view, id.as_str()));
            let steps = named.map(|step| (StatusMark::of_step(step.status).icon_only(), step.id.to_string()));
            let more = ids.len().saturating_sub(BRIEF_STEPS_MAX);
            StepColumn { steps: steps.collect(), total: ids.len(), more }
        };
        let shown = brief.undo.iter().take(BRIEF_STEPS_MAX);
        let undo: Vec<CoveredCall> =
            shown.map(|item| CoveredCall { item: item.clone(), attempts_max: None }).collect();
        Self {
            done: column(&brief.done),
            not_done: column(&brief.not_done),
            may_have_run: column(&brief.may_have_run),
            undo: undo_lines(&undo, shows_values, BRIEF_ARGUMENTS_MAX),
            undo_calls: count(brief.undo.len(), "call"),
            cannot_undo: brief
                .cannot_undo
                .iter()
                .take(BRIEF_STEPS_MAX)
                .map(|one| (one.step.to_string(), one.why.clone()))
                .collect(),
        }
    }
}

fn find_step<'a>(view: &'a ExecutionView, id: &str) -> Option<&'a StepView> {
    view.steps.iter().find(|step| step.id.as_str() == id)
}

/// The graph of the execution's plan with the state of each step.
#[derive(Debug, Template)]
#[template(path = "execution_graph.html")]
pub struct GraphPart {
    /// `None`: too many steps to draw.
    drawing: Option<Markup>,
    steps: usize,
    steps_path: String,
    marks: Vec<StatusMark>,
}

impl HtmlSafe for GraphPart {}

impl GraphPart {
    pub fn of(inspected: &InspectedExecution, query: &PageQuery, shows_values: bool) -> Self {
        let view = &inspected.view;
        let graph = PlanGraph::from_plan(&inspected.plan);
        let graph = if shows_values { graph } else { graph.without_texts() };
        let paths = query.step_paths(view.id.as_str());
        let state = |step: &StepView| NodeState {
            status: step.status,
            time: step.took_ms.map_or_else(|| step.status.as_str().replace('_', " "), duration),
            attempts: step.attempts,
            link: paths.of(step.id.as_str()),
            selected: query.step == step.id.as_str(),
        };
        let states: Vec<NodeState> = view.steps.iter().map(state).collect();
        let steps_path = format!("/executions/{}?view=steps", view.id);
        let drawing = render_for_page(&graph, &states, &steps_path);
        let is_present = |status: &&StepStatus| view.steps.iter().any(|step| step.status == **status);
        Self {
            drawing: drawing.map(Markup::from_rendered),
            steps: view.steps.len(),
            steps_path,
            marks: StepStatus::ALL.iter().filter(is_present).map(|one| StatusMark::of_step(*one)).collect(),
        }
    }
}
