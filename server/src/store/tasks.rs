//! The projection of tasks: one row per task with its current state. A task's free-form fields are the
//! payload of the entry at `fields`.

use actbook_engine::id::{StreamId, TenantId};

use super::executions::{decode_project, own_first, project_param, within};
use super::{Error, Row, Select, Statement};

/// One row of the table `tasks`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    pub stream: StreamId,
    pub id: String,
    pub title: String,
    pub status: String,
    pub priority: i64,
    pub estimate_ms: Option<u64>,
    pub parent: Option<String>,
    pub r#type: Option<String>,
    pub labels: Vec<String>,
    /// Id of the plan, one of whose steps the task represents.
    pub plan: Option<String>,
    /// The step of `plan` that the task represents.
    pub step: Option<String>,
    /// Number of entries in its stream.
    pub version: u64,
    /// Position of its newest entry.
    pub position: u64,
    pub added_at: i64,
    /// Time of its newest entry, in epoch milliseconds.
    pub at: i64,
    pub author: String,
    /// Position of the payload with its free-form fields.
    pub fields_position: Option<u64>,
    /// None: the task was added before projects existed.
    pub project: Option<String>,
}

impl TaskRow {
    /// A new task with default values.
    pub(super) fn with_defaults(stream: StreamId, id: &str, at: i64, author: &str) -> Self {
        Self {
            stream,
            id: id.to_owned(),
            title: id.to_owned(),
            status: "open".to_owned(),
            priority: 0,
            estimate_ms: None,
            parent: None,
            r#type: None,
            labels: Vec::new(),
            plan: None,
            step: None,
            version: 0,
            position: 0,
            added_at: at,
            at,
            author: author.to_owned(),
            fields_position: None,
            project: None,
        }
    }
}

/// Inserts a task's row, or replaces it.
pub fn upsert(tenant: TenantId, task: &TaskRow) -> Statement {
    Statement::new(
        "INSERT INTO tasks (tenant, stream, id, title, status, priority, estimate_ms, parent, type, labels, \
         plan, step, version, position, added_at, at, author, fields, project) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19) \
         ON CONFLICT (tenant, stream) DO UPDATE SET title = excluded.title, status = excluded.status, \
         priority = excluded.priority, estimate_ms = excluded.estimate_ms, parent = excluded.parent, \
         type = excluded.type, labels = excluded.labels, plan = excluded.plan, step = excluded.step, \
         version = excluded.version, position = excluded.position, at = excluded.at, fields = excluded.fields",
        vec![
            tenant.into(),
            task.stream.into(),
            task.id.as_str().into(),
            task.title.as_str().into(),
            task.status.as_str().into(),
            task.priority.into(),
            task.estimate_ms.into(),
            task.parent.as_deref().into(),
            task.r#type.as_deref().into(),
            task.labels.join("\n").into(),
            task.plan.as_deref().into(),
            task.step.as_deref().into(),
            task.version.into(),
            task.position.into(),
            task.added_at.into(),
            task.at.into(),
            task.author.as_str().into(),
            task.fields_position.into(),
            project_param(task.project.as_deref()),
        ],
    )
}

/// Deletes all rows, before `rebuild` inserts them again.
pub fn erase_all(tenant: TenantId) -> Statement {
    Statement::new("DELETE FROM tasks WHERE tenant = $1", vec![tenant.into()])
}

macro_rules! select_tasks {
    ($($rest:expr),+ $(,)?) => {
        concat!(
            "SELECT stream, id, title, status, priority, estimate_ms, parent, type, labels, plan, step, \
             version, position, added_at, at, author, fields, project FROM tasks ",
            $($rest),+
        )
    };
}

/// Decodes a row of `select_tasks!`.
fn decode_task(mut row: Row) -> Result<TaskRow, Error> {
    let optional_text = |row: &Row, column| row.optional_text(column).map(|text| text.map(str::to_owned));
    let optional_count =
        |row: &Row, column| if row.is_null(column) { Ok(None) } else { row.uint(column).map(Some) };
    Ok(TaskRow {
        stream: row.stream(0)?,
        id: row.take_text(1)?,
        title: row.take_text(2)?,
        status: row.take_text(3)?,
        priority: row.int(4)?,
        estimate_ms: optional_count(&row, 5)?,
        parent: optional_text(&row, 6)?,
        r#type: optional_text(&row, 7)?,
        labels: row.text(8)?.lines().map(str::to_owned).collect(),
        plan: optional_text(&row, 9)?,
        step: optional_text(&row, 10)?,
        version: row.uint(11)?,
        position: row.uint(12)?,
        added_at: row.int(13)?,
        at: row.int(14)?,
        author: row.take_text(15)?,
        fields_position: optional_count(&row, 16)?,
        project: decode_project(&mut row, 17)?,
    })
}

/// The task with this id; project `home`'s own comes before another project's. `within`: only this project's
/// tasks and those from before projects existed; `None`: all.
pub fn by_id(tenant: TenantId, within: Option<&str>, home: &str, id: &str) -> Select<TaskRow> {
    Select::new(
        select_tasks!("WHERE tenant = $1 AND id = $2 AND ", within!(3), own_first!(4)),
        vec![tenant.into(), id.into(), project_param(within), home.into()],
        decode_task,
    )
}

/// A project's task with this id. `project` None: the task from before projects existed.
pub fn by_id_in_project(tenant: TenantId, project: Option<&str>, id: &str) -> Select<TaskRow> {
    Select::new(
        select_tasks!("WHERE tenant = $1 AND id = $2 AND project = $3"),
        vec![tenant.into(), id.into(), project_param(project)],
        decode_task,
    )
}

/// Every row, by stream: for comparing a rebuilt projection.
pub fn all(tenant: TenantId) -> Select<TaskRow> {
    Select::new(select_tasks!("WHERE tenant = $1 ORDER BY stream"), vec![tenant.into()], decode_task)
}

/// Subtasks that pass the project boundary `within`, in the order in which they were added.
pub fn by_parent(tenant: TenantId, within: Option<&str>, parent: &str, limit: u64) -> Select<TaskRow> {
    Select::new(
        select_tasks!("WHERE tenant = $1 AND parent = $2 AND ", within!(4), " ORDER BY stream LIMIT $3"),
        vec![tenant.into(), parent.into(), limit.into(), project_param(within)],
        decode_task,
    )
}

/// Project and id of each task that has a plan's steps as subtasks.
pub fn parents_split_by_plan(tenant: TenantId, plan: &str, limit: u64) -> Select<(Option<String>, String)> {
    Select::new(
        "SELECT DISTINCT parent, project FROM tasks WHERE tenant = $1 AND plan = $2 AND parent IS NOT NULL \
         ORDER BY parent LIMIT $3",
        vec![tenant.into(), plan.into(), limit.into()],
        |mut row| Ok((decode_project(&mut row, 1)?, row.take_text(0)?)),
    )
}

/// The place of a task in the list: 0 for open ones and 1 for others, its priority, its stream.
pub type TaskPlace = (i64, i64, u64);

pub fn place(row: &TaskRow) -> TaskPlace {
    let is_closed = ["done", "cancelled"].contains(&row.status.as_str());
    (i64::from(is_closed), row.priority, row.stream.0)
}

/// Like `list`, after this place.
pub fn list_after(
    tenant: TenantId,
    within: Option<&str>,
    (closed, priority, stream): TaskPlace,
    limit: u64,
) -> Select<TaskRow> {
    Select::new(
        select_tasks!(
            "WHERE tenant = $1 AND parent IS NULL AND \
             (CASE WHEN status IN ('done', 'cancelled') THEN 1 ELSE 0 END > CAST($4 AS BIGINT) OR \
             (CASE WHEN status IN ('done', 'cancelled') THEN 1 ELSE 0 END = CAST($4 AS BIGINT) AND \
             (priority < $5 OR (priority = $5 AND stream < $6)))) AND ",
            within!(3),
            " ORDER BY CASE WHEN status IN ('done', 'cancelled') THEN 1 \
             ELSE 0 END, priority DESC, stream DESC LIMIT $2"
        ),
        vec![
            tenant.into(),
            limit.into(),
            project_param(within),
            closed.into(),
            priority.into(),
            stream.into(),
        ],
        decode_task,
    )
}

/// Tasks without a parent: open ones first, then by priority, then the newest.
pub fn list(tenant: TenantId, within: Option<&str>, limit: u64) -> Select<TaskRow> {
    Select::new(
        select_tasks!(
            "WHERE tenant = $1 AND parent IS NULL AND ",
            within!(3),
            " ORDER BY CASE WHEN status IN ('done', 'cancelled') THEN 1 \
             ELSE 0 END, priority DESC, stream DESC LIMIT $2"
        ),
        vec![tenant.into(), limit.into(), project_param(within)],
        decode_task,
    )
}
