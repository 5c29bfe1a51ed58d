//! The application layer under the CLI, MCP, HTTP and library interfaces: one function per intent of a
//! caller, and the views that are shown to callers. Checks what the caller may do. Names no SQL, HTTP, MCP or
//! HTML.
//!
//! `Service` holds the parts that all intents share; the functions stand on one struct per noun, which
//! borrows it: `service.plans().save(…)`, `service.executions().start(…)`.

mod access;
mod agenda;
mod answers;
mod bulk;
mod claims;
mod commands;
mod context;
mod count_range;
mod driving;
mod entries;
mod execution_list;
mod executions;
mod export;
mod failures;
mod figures;
mod fold_cache;
mod guarantee;
mod guarded_tools;
mod inspect;
mod journal;
mod judged_session;
mod kept_states;
mod keys;
pub mod late;
mod line_diff;
mod listing;
mod past_calls;
mod pins;
mod plan_diff;
mod plan_steps;
mod plan_versions;
mod plans;
mod preflight;
mod progress;
mod project;
mod question;
mod question_content;
mod question_list;
pub mod quote;
mod records;
mod redact;
mod relayed_calls;
mod report_checks;
mod rerun;
mod seal;
mod session_calls;
mod session_undo;
mod session_upkeep;
mod sessions;
mod stats;
mod step;
mod step_values;
mod tail;
mod tasks;
mod templates;
mod timeline;
mod times;
mod tool_changes;
mod tool_questions;
mod tools;
mod verify;
pub mod view;
mod wait_entries;
mod waiting;
mod withhold;

use std::sync::Arc;

use actbook_engine::id::TenantId;

use crate::config::{Authority, Config, DatabaseOptions, TaskPlanRule};
use crate::error::Error;
use crate::ledger::{Ledger, PlanCache, Projector};
use crate::notify::Notifier;
use crate::runner::LazyRunner;
use crate::store::{DEFAULT_TENANT, Db};
use crate::tools::{Executor, Tools};

pub use crate::ledger::DriveState;
pub use crate::notify::RemoteListener;
pub use crate::runner::{
    BackgroundDriver, ContinueResult, DriveStopper, DriveTask, Driver, RegisteredNode, SendingSince,
};
pub use crate::store::execution_filter::{ExecutionFilter, Terms};
pub use crate::store::figures::StatsFilter;
pub use access::{
    Access, LOGIN_CODE_LIFETIME, LoginSessionView, NewToken, OpenedSession, SESSION_IDLE_MAX, TOKEN_LIFETIME,
    TokenSpec, TokenView,
};
pub use actbook_engine::event::ReportedStatus;
pub use actbook_engine::execution::{ActionFacts, Brief, NotUndoable, QuestionSubject, UndoItem};
pub use actbook_engine::task::TaskStatus;
pub use agenda::{Agenda, AgendaItem};
pub use answers::{AnswerChoice, EarlierAnswer, GivenAnswer};
pub use bulk::{BULK_EXECUTIONS_MAX, BulkAction, BulkCommand, BulkRefusal, BulkResult};
pub use claims::{AgentSession, CLAIM_DURATION};
pub use commands::undo_digest;
pub use context::{
    NoteFilter, NoteOwner, NoteOwnerRef, NotePage, NoteReceipt, NoteSpec, NoteValueView, NoteView, Notes,
};
pub use entries::JournalFilter;
pub use execution_list::{FilterAttribute, FilterValue, SummaryPage};
pub use executions::{
    ExecutionWatcher, Executions, FoundExecution, StartedExecution, StepSnapshot, WaitingExecutions,
};
pub use export::{ExportReader, ExportReport, verify_file};
pub use failures::FailureGroup;
pub use figures::{
    CalibrationBucket, DurationPercentiles, ExecutionFigures, FailureFigures, LongestStep, PeriodFigures,
    PeriodLength, PlanFigures, RetryFigures, Stats, ToolFigures, WaitFigures,
};
pub use guarded_tools::{GuardedTool, OfferedDefinition};
pub use inspect::{InboxPage, InspectedExecution, OpenQuestion};
pub use journal::{CleanupReport, Journal, LastVerification, VerifyFailure, VerifyReport};
pub use judged_session::{CalledTool, JudgedSession};
pub use line_diff::{DiffLine, diff_lines, near_changes};
pub use listing::{ExecutionPage, ListedError, ListedExecution, ListedQuestion, ListedStep};
pub use past_calls::{PastCall, PastResult};
pub use pins::{AcceptedTool, ToolPolicyView};
pub use plan_diff::PlanDiff;
pub use plan_versions::PlanFilter;
pub use plans::{CheckedPlan, Plans, SavedPlan};
pub use progress::Durations;
pub use project::EntryScope;
pub use question::{Asker, PersonQuestion, QuestionFacts, QuestionMedium};
pub use question_content::CoveredCall;
pub use question_list::{QuestionPage, WaitingQuestion};
pub use records::{ActionRecord, Decision, RecordResult};
pub use relayed_calls::{AddedRelayedCall, LiveSession, RelayedAnswer, RelayedCall};
pub use report_checks::{ReportCheckView, ReportChecksView, StepRef, argument_forms};
pub use rerun::ExecutedPlan;
pub use session_calls::{SessionCallView, SessionPageView};
pub use session_undo::{CallUndoView, StayingEffect, StaysBecause, UndoClass, UndoPart, UndoSelection};
pub use session_upkeep::GUARDED_IDLE_MAX;
pub use sessions::{ARGUMENTS_BYTES_MAX, AddedCall, SessionKey, SessionPart, SessionStepState, Sessions};
pub use stats::{LastError, ToolCallStats, ToolCallStatsByName};
pub use step::{ApprovalView, AttemptView, CompensationView, StepDetail};
pub use tail::{ExecutionLabels, LabelCache, TailEntry};
pub use tasks::{AddedTask, TaskHistory, TaskHistoryEvent, TaskSpec, TaskView, Tasks};
pub use templates::{
    InputView, ShippedTemplate, TemplateDetail, TemplateUse, TemplateVersion, TemplateView, Templates,
    shipped_templates,
};
pub use timeline::{SpanKind, StepSpan, StepTimeline, Timeline};
pub use times::{DayEdge, parse_time};
pub use tool_changes::ToolChange;
pub use tools::{ToolCallResult, ToolCatalog};

/// Length of a session name: enough random characters to tell the clients of one day apart.
const SESSION_CHARS: usize = 6;

/// Everything that an interface needs to serve a caller. Clones share the same state.
#[derive(Clone, Debug)]
pub struct Service {
    db: Db,
    tenant: TenantId,
    ledger: Ledger,
    notifier: Notifier,
    tools: Arc<Tools>,
    plan_cache: PlanCache,
    folds: fold_cache::FoldCache,
    projector: Projector,
    /// The config's rules that create a plan for each matching new task.
    task_plans: Arc<[TaskPlanRule]>,
    runner: LazyRunner,
    background: BackgroundDriver,
    sessions: claims::OpenSessions,
    credential_use: access::CredentialUse,
    verifications: journal::Verifications,
    /// The project that new plans, executions, notes and tasks belong to.
    project: Arc<str>,
    /// Reads and commands are limited to what `project` wrote: see `confined`.
    is_confined: bool,
    /// The beginning of an id names nothing.
    takes_whole_ids: bool,
    /// Values, texts of tools and documents of plans are left out: see `withhold`.
    withholds: bool,
    /// The config lets agents answer approvals.
    agents_may_approve: bool,
    /// The config lets agents share notes and templates with every project.
    agents_may_share: bool,
}

impl Service {
    /// Opens the database at `url` and the tools that the config names. Starts no server and drives nothing
    /// yet.
    pub async fn open(url: &str, options: DatabaseOptions, config: &Config) -> Result<Self, Error> {
        Self::open_embedded(url, options, config, Vec::new()).await
    }

    /// Like `open`, with executors: tools that the embedding program performs itself, each named
    /// `server/tool`. Err `InvalidExecutor`: a name or schema is refused.
    pub async fn open_embedded(
        url: &str,
        options: DatabaseOptions,
        config: &Config,
        executors: Vec<(String, Executor)>,
    ) -> Result<Self, Error> {
        let mut tools = Tools::new(config);
        for (name, executor) in executors {
            tools = tools.with_executor(&name, executor).map_err(|why| Error::InvalidExecutor { why })?;
        }
        let service = Self::open_with_tools(url, options, tools).await?;
        let task_plans = config.task_plans.values().cloned().collect();
        let agents_may_approve = config.approvals == Authority::Agents;
        let agents_may_share = config.everywhere == Authority::Agents;
        let project = config.project_name().into();
        Ok(Self { project, agents_may_approve, agents_may_share, ..service.with_task_plans(task_plans) })
    }

    /// Replaces the rules that create plans for new tasks. Has no effect on clones made before.
    pub fn with_task_plans(self, task_plans: Vec<TaskPlanRule>) -> Self {
        Self { task_plans: task_plans.into(), ..self }
    }

    /// A service on the same state that takes whole ids alone: for programs, to which a beginning that happens to be
    /// unique must not name an execution, a plan or a token.
    #[must_use]
    pub fn with_whole_ids(&self) -> Self {
        Self { takes_whole_ids: true, ..self.clone() }
    }

    /// Whether a caller's text may name what has this id.
    fn may_name(&self, given: &str, id: &str) -> bool {
        !self.takes_whole_ids || given == id
    }

    /// Keeps folded executions in memory between reads, for a process that serves pages. Has no effect on clones made
    /// before.
    pub fn with_kept_folds(self) -> Self {
        Self { folds: fold_cache::FoldCache::with_limit(fold_cache::FOLD_BYTES_MAX), ..self }
    }

    /// Like `open`, with ready-made tools and default settings instead of a config.
    pub async fn open_with_tools(url: &str, options: DatabaseOptions, tools: Tools) -> Result<Self, Error> {
        let db = Db::open(url, options).await?;
        let tenant = DEFAULT_TENANT;
        let notifier = Notifier::new(db.clone(), tenant);
        let ledger = Ledger::open(db.clone(), tenant, notifier.clone())?;
        let nodes_folder = crate::folders::data_folder().join("seats");
        let tools = tools.with_data_folder(crate::folders::data_folder());
        let (tools, plan_cache) = (Arc::new(tools), ledger.plans());
        let runner = LazyRunner::new(
            db.clone(),
            tenant,
            ledger.clone(),
            notifier.clone(),
            tools.clone(),
            nodes_folder,
        );
        let task_plans = Arc::default();
        let project = Config::default().project_name().into();
        Ok(Self {
            projector: Projector::new(db.clone(), tenant, plan_cache.clone()),
            db,
            tenant,
            ledger,
            notifier,
            tools,
            plan_cache,
            folds: fold_cache::FoldCache::default(),
            task_plans,
            background: BackgroundDriver::new(runner.clone()),
            runner,
            sessions: claims::OpenSessions::default(),
            credential_use: access::CredentialUse::default(),
            verifications: journal::Verifications::default(),
            project,
            is_confined: false,
            takes_whole_ids: false,
            withholds: false,
            agents_may_approve: false,
            agents_may_share: false,
        })
    }

    pub fn plans(&self) -> Plans<'_> {
        Plans(self)
    }

    pub fn templates(&self) -> Templates<'_> {
        Templates(self)
    }

    pub fn notes(&self) -> Notes<'_> {
        Notes(self)
    }

    pub fn tasks(&self) -> Tasks<'_> {
        Tasks(self)
    }

    pub fn catalog(&self) -> ToolCatalog<'_> {
        ToolCatalog(self)
    }

    pub fn journal(&self) -> Journal<'_> {
        Journal(self)
    }

    pub fn executions(&self) -> Executions<'_> {
        Executions(self)
    }

    /// Guarded sessions.
    pub fn sessions(&self) -> Sessions<'_> {
        Sessions(self)
    }

    /// Keeps lists and statistics up to date with the journal, until the future is dropped: for a process that
    /// serves. Other processes catch up when they read.
    pub async fn follow_journal(&self) {
        self.projector.follow(&self.notifier).await;
    }

    /// Brings lists and statistics up to date before a read that may have much to catch up with; calls
    /// `on_progress` with the number of entries that remain.
    pub async fn catch_up(&self, on_progress: impl Fn(u64)) -> Result<(), Error> {
        Ok(self.projector.catch_up_whole(on_progress).await?)
    }

    /// The database's kind and location, without its password.
    pub fn describe_database(&self) -> String {
        self.db.describe()
    }

    /// Closes the runner, stops the servers that this process started, and checkpoints a SQLite database into
    /// one file if no other process has it open.
    pub async fn close(&self) {
        self.runner.close().await;
        if let Err(error) = self.db.checkpoint_if_last().await {
            tracing::debug!("the write-ahead log was not checkpointed: {error}");
        }
    }
}
