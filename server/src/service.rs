//! One function per intent: what a caller may ask, and what it sees. Names no SQL, HTTP, MCP or HTML.

mod agenda;
mod answers;
mod background;
mod context;
mod entries;
mod executions;
mod export;
mod figures;
mod guarantee;
mod journal;
mod keys;
pub mod late;
mod pace;
mod pins;
mod plan_versions;
mod plans;
mod preflight;
mod project;
mod question;
pub mod quote;
mod records;
mod redact;
mod rerun;
mod seal;
mod stats;
mod step;
mod tasks;
mod templates;
mod times;
mod tool_questions;
mod tools;
mod verify;
pub mod view;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::bell::Bell;
use crate::config::{Approvals, Config, Sharing, TaskPlan};
use crate::error::Error;
use crate::ledger::{Ledger, Plans};
use crate::random;
use crate::runner::Runner;
use crate::store::{DEFAULT_TENANT, Db};
use crate::tools::Tools;

pub use crate::ledger::Progress;
pub use crate::store::executions::Filter as ExecutionFilter;
pub use crate::store::{Options, without_password};
pub use crate::tools::{
    Call, Circuit, Executor, Fault, Origin, Purpose, ServerState, ServerTools, ToolInfo,
    kill_child_processes, visible,
};
pub use actbook_engine::event::Reported;
pub use actbook_engine::execution::{Brief, CannotUndo, Facts, ToUndo};
pub use actbook_engine::task::Status as TaskStatus;
pub use agenda::{Agenda, AgendaItem};
pub use background::{Background, Goes};
pub use context::{Belongs, NoteFilter, NoteGiven, NoteView, NoteWritten, NotesFound, Owner, ValueView};
pub use entries::JournalFilter;
pub use executions::{Driver, Found, Glance, Seated, Started, Watching};
pub use export::{Exported, verify_file};
pub use figures::{
    Calibration, Every, ExecutionFigures, FailureFigures, LongStep, Period, PlanFigures, RetryFigures, Stats,
    StatsFilter, Took, ToolFigures, WaitFigures,
};
pub use journal::{Bad, Cleaned, Verified};
pub use pace::Durations;
pub use pins::{ToolStanding, ToolTaken};
pub use plan_versions::PlanFilter;
pub use plans::{PlanChecked, PlanSaved};
pub use question::{Asker, PersonQuestion};
pub use records::{Action, Decision, Noted};
pub use rerun::Executed;
pub use stats::{LastError, Seen, ToolsSeen};
pub use step::{ApprovalView, AttemptView, CompensationView, StepDetail};
pub use tasks::{Happening, Story, TaskAdded, TaskGiven, TaskView};
pub use templates::{InputView, Shipped, TemplateShown, TemplateUse, TemplateVersion, TemplateView, shipped};
pub use times::{DayEdge, parse_time};
pub use tools::ToolCalled;

/// Of a random id: enough to tell the clients of one day apart.
const SESSION_CHARS: usize = 6;

/// Everything a door needs. Clones are the same house.
#[derive(Clone, Debug)]
pub struct Service {
    db: Db,
    tenant: i64,
    ledger: Ledger,
    bell: Bell,
    tools: Arc<Tools>,
    plans: Plans,
    seats: PathBuf,
    /// Rules for new tasks.
    task_plans: Arc<[TaskPlan]>,
    runner: Arc<OnceCell<Runner>>,
    /// What is started here belongs to it.
    project: Arc<str>,
    /// Only what `project` wrote is seen and acted on: see `confined`.
    is_confined: bool,
    /// The config lets agents answer approvals.
    agents_may_approve: bool,
    /// The config lets agents share notes and templates with every project.
    agents_may_share: bool,
}

impl Service {
    pub async fn open(url: &str, options: Options, config: &Config) -> Result<Self, Error> {
        Self::embedded(url, options, config, Vec::new()).await
    }

    /// The same inside a program that performs tools of its own, each under its name `server/tool`.
    pub async fn embedded(
        url: &str,
        options: Options,
        config: &Config,
        executors: Vec<(String, Executor)>,
    ) -> Result<Self, Error> {
        let mut tools = Tools::new(config);
        for (name, executor) in executors {
            tools = tools.with_executor(&name, executor).map_err(|why| {
                Error::new("invalid_executor", why, "give each tool of the program once, as server/tool")
            })?;
        }
        let service = Self::with_tools(url, options, tools).await?;
        let task_plans = config.task_plans.values().cloned().collect();
        let agents_may_approve = config.approvals == Approvals::Agents;
        let agents_may_share = config.everywhere == Sharing::Agents;
        let project = config.project_name().into();
        Ok(Self { project, agents_may_approve, agents_may_share, ..service.with_task_plans(task_plans) })
    }

    /// What new tasks bring with them.
    pub fn with_task_plans(self, task_plans: Vec<TaskPlan>) -> Self {
        Self { task_plans: task_plans.into(), ..self }
    }

    /// The same with tools of the caller's own, such as executors inside this process.
    pub async fn with_tools(url: &str, options: Options, tools: Tools) -> Result<Self, Error> {
        let db = Db::open(url, options).await?;
        let tenant = DEFAULT_TENANT;
        let bell = Bell::new(db.clone(), tenant);
        let ledger = Ledger::open(db.clone(), tenant, bell.clone())?;
        let seats = crate::folders::data().join("seats");
        let (tools, plans, runner) = (Arc::new(tools), ledger.plans(), Arc::default());
        let task_plans = Arc::default();
        let project = Config::default().project_name().into();
        Ok(Self {
            db,
            tenant,
            ledger,
            bell,
            tools,
            plans,
            seats,
            task_plans,
            runner,
            project,
            is_confined: false,
            agents_may_approve: false,
            agents_may_share: false,
        })
    }

    /// This process's seat at the table; taken when first needed.
    pub async fn runner(&self) -> Result<&Runner, Error> {
        let open = || async {
            let (db, ledger, bell) = (self.db.clone(), self.ledger.clone(), self.bell.clone());
            Runner::open(db, self.tenant, ledger, bell, self.tools.clone(), &self.seats).await
        };
        Ok(self.runner.get_or_try_init(open).await?)
    }

    /// A name for one connection: agents of one name are told apart by it.
    pub fn new_session() -> Arc<str> {
        random::id()[..SESSION_CHARS].into()
    }

    pub fn tools(&self) -> &Arc<Tools> {
        &self.tools
    }

    pub fn describe_database(&self) -> String {
        self.db.describe()
    }

    /// Leaves the table, ends the servers that were started, and leaves the database in one file.
    pub async fn close(&self) {
        match self.runner.get() {
            Some(runner) => runner.close().await,
            None => self.tools.shutdown().await,
        }
        if let Err(error) = self.db.leave().await {
            tracing::debug!("the write-ahead log stays as it is: {error}");
        }
    }
}
