//! The projection of tasks: one row per task as it stands. What else is said of one is the payload of
//! the entry at `fields`.

use super::executions::{own_first, read_project, stored, within};
use super::{Error, Row, Select, Statement};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub stream: u64,
    pub id: String,
    pub title: String,
    pub status: String,
    pub priority: i64,
    pub estimate_ms: Option<u64>,
    pub parent: Option<String>,
    pub r#type: Option<String>,
    pub labels: Vec<String>,
    /// The plan and the step that it stands for.
    pub plan: Option<String>,
    pub step: Option<String>,
    /// How many entries it has.
    pub version: u64,
    pub position: u64,
    pub added_at: i64,
    pub at: i64,
    pub author: String,
    pub fields: Option<u64>,
    /// None: it is older than projects.
    pub project: Option<String>,
}

impl Task {
    pub(super) fn fresh(stream: u64, id: &str, at: i64, author: &str) -> Self {
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
            fields: None,
            project: None,
        }
    }
}

/// The whole row, as it is after an entry.
pub fn put(tenant: i64, task: &Task) -> Statement {
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
            task.fields.into(),
            stored(task.project.as_deref()),
        ],
    )
}

/// What `rebuild` begins with.
pub fn erase_all(tenant: i64) -> Statement {
    Statement::new("DELETE FROM tasks WHERE tenant = $1", vec![tenant.into()])
}

macro_rules! tasks {
    ($($rest:expr),+ $(,)?) => {
        concat!(
            "SELECT stream, id, title, status, priority, estimate_ms, parent, type, labels, plan, step, \
             version, position, added_at, at, author, fields, project FROM tasks ",
            $($rest),+
        )
    };
}

fn task(mut row: Row) -> Result<Task, Error> {
    let maybe = |row: &Row, column| row.maybe_text(column).map(|text| text.map(str::to_owned));
    let count = |row: &Row, column| if row.is_null(column) { Ok(None) } else { row.count(column).map(Some) };
    Ok(Task {
        stream: row.count(0)?,
        id: row.take_text(1)?,
        title: row.take_text(2)?,
        status: row.take_text(3)?,
        priority: row.int(4)?,
        estimate_ms: count(&row, 5)?,
        parent: maybe(&row, 6)?,
        r#type: maybe(&row, 7)?,
        labels: row.text(8)?.lines().map(str::to_owned).collect(),
        plan: maybe(&row, 9)?,
        step: maybe(&row, 10)?,
        version: row.count(11)?,
        position: row.count(12)?,
        added_at: row.int(13)?,
        at: row.int(14)?,
        author: row.take_text(15)?,
        fields: count(&row, 16)?,
        project: read_project(&mut row, 17)?,
    })
}

/// The task that bears this id, `home`'s own before another project's. `within`: other projects' do not exist.
pub fn by_id(tenant: i64, within: Option<&str>, home: &str, id: &str) -> Select<Task> {
    Select::new(
        tasks!("WHERE tenant = $1 AND id = $2 AND ", within!(3), own_first!(4)),
        vec![tenant.into(), id.into(), stored(within), home.into()],
        task,
    )
}

/// A project's task of this id; no project: the one that is older than projects.
pub fn of_project(tenant: i64, project: Option<&str>, id: &str) -> Select<Task> {
    Select::new(
        tasks!("WHERE tenant = $1 AND id = $2 AND project = $3"),
        vec![tenant.into(), id.into(), stored(project)],
        task,
    )
}

/// Every row, by stream: what a rebuilt projection is compared by.
pub fn all(tenant: i64) -> Select<Task> {
    Select::new(tasks!("WHERE tenant = $1 ORDER BY stream"), vec![tenant.into()], task)
}

/// Subtasks that pass a project's boundary, in the order in which they were put down.
pub fn of_parent(tenant: i64, within: Option<&str>, parent: &str, limit: u64) -> Select<Task> {
    Select::new(
        tasks!("WHERE tenant = $1 AND parent = $2 AND ", within!(4), " ORDER BY stream LIMIT $3"),
        vec![tenant.into(), parent.into(), limit.into(), stored(within)],
        task,
    )
}

/// The tasks that were split into the steps of a plan: the project and the id of each.
pub fn split_by(tenant: i64, plan: &str, limit: u64) -> Select<(Option<String>, String)> {
    Select::new(
        "SELECT DISTINCT parent, project FROM tasks WHERE tenant = $1 AND plan = $2 AND parent IS NOT NULL \
         ORDER BY parent LIMIT $3",
        vec![tenant.into(), plan.into(), limit.into()],
        |mut row| Ok((read_project(&mut row, 1)?, row.take_text(0)?)),
    )
}

/// Those that belong under no other, the most urgent first, then the newest.
pub fn list(tenant: i64, within: Option<&str>, limit: u64) -> Select<Task> {
    Select::new(
        tasks!(
            "WHERE tenant = $1 AND parent IS NULL AND ",
            within!(3),
            " ORDER BY CASE WHEN status IN ('done', 'cancelled') THEN 1 \
             ELSE 0 END, priority DESC, stream DESC LIMIT $2"
        ),
        vec![tenant.into(), limit.into(), stored(within)],
        task,
    )
}
