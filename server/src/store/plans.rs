//! The projection of the plan library: one row per saved version of a plan or a template. The document itself is the
//! payload of the entry at `position`.

use super::executions::{own_first, read_project, stored, within, within_or_everywhere};
use super::select::prefix_end;
use super::{Db, Error, Found, Row, Select, Statement};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub id: String,
    pub name: String,
    pub version: u64,
    pub digest: String,
    pub position: u64,
    pub saved_at: i64,
    pub steps: u64,
    pub deleted: bool,
    pub task: Option<String>,
    pub template: bool,
    /// None: it is older than projects.
    pub project: Option<String>,
    /// Every project sees it.
    pub everywhere: bool,
}

/// A version of a template, and who saved it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authored {
    pub plan: Plan,
    pub author: String,
}

pub fn insert(tenant: i64, plan: &Plan) -> Statement {
    Statement::new(
        "INSERT INTO plans (tenant, id, name, version, digest, position, saved_at, steps, deleted, task, \
         template, project, everywhere) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        vec![
            tenant.into(),
            plan.id.as_str().into(),
            plan.name.as_str().into(),
            plan.version.into(),
            plan.digest.as_str().into(),
            plan.position.into(),
            plan.saved_at.into(),
            plan.steps.into(),
            plan.deleted.into(),
            plan.task.as_deref().into(),
            plan.template.into(),
            stored(plan.project.as_deref()),
            plan.everywhere.into(),
        ],
    )
}

/// Hides all versions; executions of them keep their plan.
pub fn delete(tenant: i64, id: &str) -> Statement {
    Statement::new(
        "UPDATE plans SET deleted = 1 WHERE tenant = $1 AND id = $2",
        vec![tenant.into(), id.into()],
    )
}

/// What `rebuild` begins with.
pub fn erase_all(tenant: i64) -> Statement {
    Statement::new("DELETE FROM plans WHERE tenant = $1", vec![tenant.into()])
}

macro_rules! plans {
    ($($rest:expr),+ $(,)?) => {
        concat!(
            "SELECT id, name, version, digest, position, saved_at, steps, deleted, task, template, project, \
             everywhere FROM plans ",
            $($rest),+
        )
    };
}

macro_rules! authored {
    ($($rest:expr),+ $(,)?) => {
        concat!(
            "SELECT id, name, plans.version, digest, position, saved_at, steps, deleted, task, template, project, \
             everywhere, actor FROM plans JOIN journal ON journal.entry = $1 * 1099511627776 + plans.position \
             WHERE plans.tenant = $1 AND template = 1 ",
            $($rest),+
        )
    };
}

fn plan(mut row: Row) -> Result<Plan, Error> {
    Ok(Plan {
        id: row.take_text(0)?,
        name: row.take_text(1)?,
        version: row.count(2)?,
        digest: row.take_text(3)?,
        position: row.count(4)?,
        saved_at: row.int(5)?,
        steps: row.count(6)?,
        deleted: row.flag(7)?,
        task: row.maybe_text(8)?.map(str::to_owned),
        template: row.flag(9)?,
        project: read_project(&mut row, 10)?,
        everywhere: row.flag(11)?,
    })
}

fn authored(mut row: Row) -> Result<Authored, Error> {
    let author = row.take_text(12)?;
    Ok(Authored { plan: plan(row)?, author })
}

/// The newest version of the template that bears this name, `home`'s own before another project's.
pub fn template(tenant: i64, within: Option<&str>, home: &str, name: &str) -> Select<Authored> {
    Select::new(
        authored!("AND name = $2 AND deleted = 0 AND ", within_or_everywhere!(3), own_first!(4)),
        vec![tenant.into(), name.into(), stored(within), home.into()],
        authored,
    )
}

/// The newest version of each template, by name.
pub fn templates(tenant: i64, within: Option<&str>, limit: u64) -> Select<Authored> {
    Select::new(
        authored!(
            "AND deleted = 0 AND plans.version = (SELECT MAX(version) FROM plans AS newest \
             WHERE newest.tenant = plans.tenant AND newest.id = plans.id) AND ",
            within_or_everywhere!(3),
            " ORDER BY name LIMIT $2"
        ),
        vec![tenant.into(), limit.into(), stored(within)],
        authored,
    )
}

/// A template's versions, newest first.
pub fn versions(tenant: i64, id: &str, limit: u64) -> Select<Authored> {
    Select::new(
        authored!("AND id = $2 ORDER BY plans.version DESC LIMIT $3"),
        vec![tenant.into(), id.into(), limit.into()],
        authored,
    )
}

pub fn version(tenant: i64, id: &str, version: u64) -> Select<Plan> {
    Select::new(
        plans!("WHERE tenant = $1 AND id = $2 AND version = $3"),
        vec![tenant.into(), id.into(), version.into()],
        plan,
    )
}

/// The newest version that bears this name, `home`'s own before another project's.
pub fn by_name(tenant: i64, within: Option<&str>, home: &str, name: &str) -> Select<Plan> {
    Select::new(
        plans!(
            "WHERE tenant = $1 AND template = 0 AND name = $2 AND deleted = 0 AND ",
            within!(3),
            own_first!(4)
        ),
        vec![tenant.into(), name.into(), stored(within), home.into()],
        plan,
    )
}

/// The newest version of each plan, by name.
pub fn list(tenant: i64, within: Option<&str>, limit: u64) -> Select<Plan> {
    Select::new(
        plans!(
            "WHERE tenant = $1 AND template = 0 AND deleted = 0 AND version = (SELECT MAX(version) FROM plans AS newest \
             WHERE newest.tenant = plans.tenant AND newest.id = plans.id) AND ",
            within!(3),
            " ORDER BY name, id LIMIT $2"
        ),
        vec![tenant.into(), limit.into(), stored(within)],
        plan,
    )
}

/// The newest version of each plan of which no version was ever started, the newest first.
pub fn unstarted(tenant: i64, within: Option<&str>, limit: u64) -> Select<Plan> {
    Select::new(
        plans!(
            "WHERE tenant = $1 AND template = 0 AND deleted = 0 AND version = (SELECT MAX(version) FROM plans AS newest \
             WHERE newest.tenant = plans.tenant AND newest.id = plans.id) \
             AND id NOT IN (SELECT plan FROM executions WHERE executions.tenant = $1) AND ",
            within!(3),
            " ORDER BY position DESC LIMIT $2"
        ),
        vec![tenant.into(), limit.into(), stored(within)],
        plan,
    )
}

/// The versions that belong to a task, in the order of saving.
pub fn of_task(tenant: i64, within: Option<&str>, task: &str, limit: u64) -> Select<Plan> {
    Select::new(
        plans!("WHERE tenant = $1 AND task = $2 AND ", within!(4), " ORDER BY position LIMIT $3"),
        vec![tenant.into(), task.into(), limit.into(), stored(within)],
        plan,
    )
}

/// Every row, in the order of saving: what a rebuilt projection is compared by.
pub fn all(tenant: i64) -> Select<Plan> {
    Select::new(plans!("WHERE tenant = $1 ORDER BY position"), vec![tenant.into()], plan)
}

/// The newest version of the plan that is meant by its name, its id, or the unique beginning of its id.
/// `within`: other projects' do not exist; `home`: whose own come first.
pub async fn find(
    db: &Db,
    tenant: i64,
    within: Option<&str>,
    home: &str,
    name_or_id: &str,
) -> Result<Found<Plan>, Error> {
    if let Some(named) = by_name(tenant, within, home, name_or_id).first(db).await? {
        return Ok(Found::One(named));
    }
    let candidates = beginning_with(tenant, within, name_or_id).all(db).await?;
    Ok(Found::among(name_or_id, candidates, |candidate| &candidate.id))
}

/// Two are enough to see that a prefix is not unique; in byte order a whole id comes first.
fn beginning_with(tenant: i64, within: Option<&str>, prefix: &str) -> Select<Plan> {
    Select::new(
        plans!(
            "WHERE tenant = $1 AND template = 0 AND id >= $2 AND id < $3 AND deleted = 0 \
             AND version = (SELECT MAX(version) FROM plans AS newest \
             WHERE newest.tenant = plans.tenant AND newest.id = plans.id) AND ",
            within!(4),
            " ORDER BY id LIMIT 2"
        ),
        vec![tenant.into(), prefix.into(), prefix_end(prefix).into(), stored(within)],
        plan,
    )
}
