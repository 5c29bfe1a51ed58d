//! The projection of the plan library: one row per saved version of a plan or a template. The document is the
//! payload of the entry at `position`.

use std::collections::BTreeMap;

use actbook_engine::id::TenantId;

use super::executions::{decode_project, own_first, project_param, within, within_or_everywhere};
use super::journal::like_pattern;
use super::select::prefix_end;
use super::{Db, EntryKey, Error, PrefixMatch, Row, Select, Statement};

/// One row of the table `plans`: a saved version of a plan or a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRow {
    pub id: String,
    pub name: String,
    pub version: u64,
    pub digest: String,
    pub position: u64,
    pub saved_at: i64,
    /// Number of steps.
    pub steps: u64,
    pub deleted: bool,
    pub task: Option<String>,
    pub template: bool,
    /// None: the plan was saved before projects existed.
    pub project: Option<String>,
    /// The plan is visible in every project.
    pub everywhere: bool,
}

/// A version of a template, with its author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateRow {
    pub plan: PlanRow,
    pub author: String,
}

/// Inserts a saved version.
pub fn insert(tenant: TenantId, plan: &PlanRow) -> Statement {
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
            project_param(plan.project.as_deref()),
            plan.everywhere.into(),
        ],
    )
}

/// Marks all versions of a plan as deleted; executions keep their plan.
pub fn mark_deleted(tenant: TenantId, id: &str) -> Statement {
    Statement::new(
        "UPDATE plans SET deleted = 1 WHERE tenant = $1 AND id = $2",
        vec![tenant.into(), id.into()],
    )
}

/// Deletes all rows, before `rebuild` inserts them again.
pub fn erase_all(tenant: TenantId) -> Statement {
    Statement::new("DELETE FROM plans WHERE tenant = $1", vec![tenant.into()])
}

macro_rules! select_plans {
    ($($rest:expr),+ $(,)?) => {
        concat!(
            "SELECT id, name, version, digest, position, saved_at, steps, deleted, task, template, project, \
             everywhere FROM plans ",
            $($rest),+
        )
    };
}

/// Selects versions of templates with the actor of the entry that saved them; `$2` is the tenant's base key.
macro_rules! select_templates {
    ($($rest:expr),+ $(,)?) => {
        concat!(
            "SELECT id, name, plans.version, digest, position, saved_at, steps, deleted, task, template, project, \
             everywhere, actor FROM plans JOIN journal ON journal.entry = $2 + plans.position \
             WHERE plans.tenant = $1 AND template = 1 ",
            $($rest),+
        )
    };
}

/// Decodes a row of `select_plans!`.
fn decode_plan(mut row: Row) -> Result<PlanRow, Error> {
    Ok(PlanRow {
        id: row.take_text(0)?,
        name: row.take_text(1)?,
        version: row.uint(2)?,
        digest: row.take_text(3)?,
        position: row.uint(4)?,
        saved_at: row.int(5)?,
        steps: row.uint(6)?,
        deleted: row.flag(7)?,
        task: row.optional_text(8)?.map(str::to_owned),
        template: row.flag(9)?,
        project: decode_project(&mut row, 10)?,
        everywhere: row.flag(11)?,
    })
}

/// Decodes a row of `select_templates!`.
fn decode_template(mut row: Row) -> Result<TemplateRow, Error> {
    let author = row.take_text(12)?;
    Ok(TemplateRow { plan: decode_plan(row)?, author })
}

/// The newest version of the template with this name; project `home`'s own comes before another project's.
pub fn template_by_name(
    tenant: TenantId,
    within: Option<&str>,
    home: &str,
    name: &str,
) -> Select<TemplateRow> {
    Select::new(
        select_templates!("AND name = $3 AND deleted = 0 AND ", within_or_everywhere!(4), own_first!(5)),
        vec![tenant.into(), EntryKey::base(tenant).into(), name.into(), project_param(within), home.into()],
        decode_template,
    )
}

/// The newest version of each template, ordered by name.
pub fn list_templates(tenant: TenantId, within: Option<&str>, limit: u64) -> Select<TemplateRow> {
    Select::new(
        select_templates!(
            "AND deleted = 0 AND plans.version = (SELECT MAX(version) FROM plans AS newest \
             WHERE newest.tenant = plans.tenant AND newest.id = plans.id) AND ",
            within_or_everywhere!(4),
            " ORDER BY name LIMIT $3"
        ),
        vec![tenant.into(), EntryKey::base(tenant).into(), limit.into(), project_param(within)],
        decode_template,
    )
}

/// A template's versions, newest first.
pub fn template_versions(tenant: TenantId, id: &str, limit: u64) -> Select<TemplateRow> {
    Select::new(
        select_templates!("AND id = $3 ORDER BY plans.version DESC LIMIT $4"),
        vec![tenant.into(), EntryKey::base(tenant).into(), id.into(), limit.into()],
        decode_template,
    )
}

pub fn by_version(tenant: TenantId, id: &str, version: u64) -> Select<PlanRow> {
    Select::new(
        select_plans!("WHERE tenant = $1 AND id = $2 AND version = $3"),
        vec![tenant.into(), id.into(), version.into()],
        decode_plan,
    )
}

/// A plan's versions, newest first.
pub fn versions(tenant: TenantId, id: &str, limit: u64) -> Select<PlanRow> {
    Select::new(
        select_plans!("WHERE tenant = $1 AND id = $2 ORDER BY version DESC LIMIT $3"),
        vec![tenant.into(), id.into(), limit.into()],
        decode_plan,
    )
}

/// The newest version of the plan with this name; project `home`'s own comes before another project's.
pub fn by_name(tenant: TenantId, within: Option<&str>, home: &str, name: &str) -> Select<PlanRow> {
    Select::new(
        select_plans!(
            "WHERE tenant = $1 AND template = 0 AND name = $2 AND deleted = 0 AND ",
            within!(3),
            own_first!(4)
        ),
        vec![tenant.into(), name.into(), project_param(within), home.into()],
        decode_plan,
    )
}

/// The ids of the plans with this name, deleted ones included.
pub fn ids_by_name(tenant: TenantId, name: &str) -> Select<String> {
    Select::new(
        "SELECT DISTINCT id FROM plans WHERE tenant = $1 AND name = $2 AND template = 0",
        vec![tenant.into(), name.into()],
        |mut row| row.take_text(0),
    )
}

/// The ids of the plans whose name contains `word`, ignoring case, deleted ones included.
pub fn ids_by_name_word(tenant: TenantId, word: &str, limit: u64) -> Select<String> {
    Select::new(
        "SELECT DISTINCT id FROM plans WHERE tenant = $1 AND lower(name) LIKE $2 ESCAPE '\\' \
         AND template = 0 ORDER BY id LIMIT $3",
        vec![tenant.into(), like_pattern(word).into(), limit.into()],
        |mut row| row.take_text(0),
    )
}

/// The name of each of these plans, by id; deleted plans have theirs too.
pub async fn names(db: &Db, tenant: TenantId, ids: &[&str]) -> Result<BTreeMap<String, String>, Error> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let sql = "SELECT id, name FROM plans WHERE tenant = $1 AND id = $2 ORDER BY version DESC LIMIT 1";
    let param_sets = ids.iter().map(|id| vec![tenant.into(), (*id).into()]).collect();
    let rows = db.read_many(sql, param_sets).await?.into_iter().flatten();
    rows.map(|mut row| Ok((row.take_text(0)?, row.take_text(1)?))).collect()
}

/// The newest version of each plan, ordered by name.
pub fn list(tenant: TenantId, within: Option<&str>, limit: u64) -> Select<PlanRow> {
    Select::new(
        select_plans!(
            "WHERE tenant = $1 AND template = 0 AND deleted = 0 AND version = (SELECT MAX(version) FROM plans AS newest \
             WHERE newest.tenant = plans.tenant AND newest.id = plans.id) AND ",
            within!(3),
            " ORDER BY name, id LIMIT $2"
        ),
        vec![tenant.into(), limit.into(), project_param(within)],
        decode_plan,
    )
}

/// Like `list`, after the plan with this name and id.
pub fn list_after(
    tenant: TenantId,
    within: Option<&str>,
    (name, id): (&str, &str),
    limit: u64,
) -> Select<PlanRow> {
    Select::new(
        select_plans!(
            "WHERE tenant = $1 AND template = 0 AND deleted = 0 AND version = (SELECT MAX(version) FROM plans AS newest \
             WHERE newest.tenant = plans.tenant AND newest.id = plans.id) AND (name, id) > ($4, $5) AND ",
            within!(3),
            " ORDER BY name, id LIMIT $2"
        ),
        vec![tenant.into(), limit.into(), project_param(within), name.into(), id.into()],
        decode_plan,
    )
}

/// The newest version of each plan that was never started in any version, newest first.
pub fn never_started(tenant: TenantId, within: Option<&str>, limit: u64) -> Select<PlanRow> {
    Select::new(
        select_plans!(
            "WHERE tenant = $1 AND template = 0 AND deleted = 0 AND version = (SELECT MAX(version) FROM plans AS newest \
             WHERE newest.tenant = plans.tenant AND newest.id = plans.id) \
             AND id NOT IN (SELECT plan FROM executions WHERE executions.tenant = $1) AND ",
            within!(3),
            " ORDER BY position DESC LIMIT $2"
        ),
        vec![tenant.into(), limit.into(), project_param(within)],
        decode_plan,
    )
}

/// The versions that were saved for a task, in the order of saving.
pub fn by_task(tenant: TenantId, within: Option<&str>, task: &str, limit: u64) -> Select<PlanRow> {
    Select::new(
        select_plans!("WHERE tenant = $1 AND task = $2 AND ", within!(4), " ORDER BY position LIMIT $3"),
        vec![tenant.into(), task.into(), limit.into(), project_param(within)],
        decode_plan,
    )
}

/// Every row, in the order of saving: for comparing a rebuilt projection.
pub fn all(tenant: TenantId) -> Select<PlanRow> {
    Select::new(select_plans!("WHERE tenant = $1 ORDER BY position"), vec![tenant.into()], decode_plan)
}

/// Finds the newest version of a plan by its name, its id, or a unique prefix of its id. `within`: plans of
/// other projects are not found; `home`: the project whose own plan comes first.
pub async fn find_by_name_or_id(
    db: &Db,
    tenant: TenantId,
    within: Option<&str>,
    home: &str,
    name_or_id: &str,
) -> Result<PrefixMatch<PlanRow>, Error> {
    if let Some(named) = by_name(tenant, within, home, name_or_id).first(db).await? {
        return Ok(PrefixMatch::One(named));
    }
    let candidates = by_id_prefix(tenant, within, name_or_id).all(db).await?;
    Ok(PrefixMatch::from_candidates(name_or_id, candidates, |candidate| &candidate.id))
}

/// The first two plans whose id begins with `prefix`: two show that it is not unique. In byte order an id
/// that equals the prefix comes first.
fn by_id_prefix(tenant: TenantId, within: Option<&str>, prefix: &str) -> Select<PlanRow> {
    Select::new(
        select_plans!(
            "WHERE tenant = $1 AND template = 0 AND id >= $2 AND id < $3 AND deleted = 0 \
             AND version = (SELECT MAX(version) FROM plans AS newest \
             WHERE newest.tenant = plans.tenant AND newest.id = plans.id) AND ",
            within!(4),
            " ORDER BY id LIMIT 2"
        ),
        vec![tenant.into(), prefix.into(), prefix_end(prefix).into(), project_param(within)],
        decode_plan,
    )
}
