//! Values by which executions are listed (`facets`), and which executions have each of them (`marks`): for
//! every value one set of ids per stretch of 65,536, chained from the newest stretch to the oldest.
//!
//!   facets(id, name, value, latest) ─► marks(stretch = latest, value = id) ─ earlier ─► marks(…) ─► -1

use actbook_engine::id::TenantId;
use actbook_engine::policy::string_enum;
use serde::{Deserialize, Serialize};

use super::id_set::IdSet;
use super::journal::like_pattern;
use super::select::prefix_end;
use super::{Db, Error, Row, Select, SqlValue, Statement};

string_enum!(
    /// The attribute that a facet is a value of.
    FacetName {
        /// Every execution, under the empty value.
        Any = "any",
        /// The plan's id.
        Plan = "plan",
        /// Empty for executions from before projects existed.
        Project = "project",
        Tool = "tool",
        Server = "server",
        Actor = "actor",
        /// Of a step that ended failed or unknown.
        Category = "category",
        /// A status in which the execution has ended at some time; it may have another one since.
        Ended = "status",
    }
);

/// A value of an attribute of executions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Facet {
    pub name: FacetName,
    pub value: String,
}

impl Facet {
    pub fn new(name: FacetName, value: impl Into<String>) -> Self {
        Self { name, value: value.into() }
    }
}

/// One row of the table `facets`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FacetRow {
    pub id: u64,
    pub value: String,
    /// The newest stretch with an execution that has the value.
    pub latest: u64,
    /// How many executions have the value.
    pub executions: u64,
}

/// One row of the table `marks`: the executions of one stretch that have one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkRow {
    pub stretch: u64,
    /// The id of the facet.
    pub facet: u64,
    /// The stretch before in which the value occurs. None: this one is the oldest.
    pub earlier: Option<u64>,
    pub held: IdSet,
}

macro_rules! select_facets {
    ($rest:literal) => {
        concat!("SELECT id, value, latest, n FROM facets WHERE tenant = $1 AND ", $rest)
    };
}

/// Decodes a row of `select_facets!`: a value that executions are listed by, and how many have it.
fn decode_facet(mut row: Row) -> Result<FacetRow, Error> {
    Ok(FacetRow {
        id: row.uint(0)?,
        value: row.take_text(1)?,
        latest: row.uint(2)?,
        executions: row.uint(3)?,
    })
}

/// The text of a lookup by name and value, and its parameters.
fn lookup(tenant: TenantId, facets: &[Facet]) -> (&'static str, Vec<Vec<SqlValue>>) {
    let params = |facet: &Facet| vec![tenant.into(), facet.name.as_str().into(), facet.value.as_str().into()];
    (select_facets!("name = $2 AND value = $3"), facets.iter().map(params).collect())
}

/// The row of each facet. None: no execution has it.
pub async fn find(db: &Db, tenant: TenantId, facets: &[Facet]) -> Result<Vec<Option<FacetRow>>, Error> {
    if facets.is_empty() {
        return Ok(Vec::new());
    }
    let (sql, param_sets) = lookup(tenant, facets);
    db.look_up(sql, param_sets).await?.into_iter().map(first_facet).collect()
}

/// Like `find`, but blocks the calling thread.
pub fn find_blocking(db: &Db, tenant: TenantId, facets: &[Facet]) -> Result<Vec<Option<FacetRow>>, Error> {
    let (sql, param_sets) = lookup(tenant, facets);
    db.read_many_blocking(sql, param_sets)?.into_iter().map(first_facet).collect()
}

/// The facet in the rows of one lookup.
fn first_facet(rows: Vec<Row>) -> Result<Option<FacetRow>, Error> {
    rows.into_iter().next().map(decode_facet).transpose()
}

/// Facets of one attribute whose value begins with `prefix`, in the order of their values.
pub fn by_prefix(tenant: TenantId, name: FacetName, prefix: &str, limit: u64) -> Select<FacetRow> {
    Select::new(
        select_facets!("name = $2 AND value >= $3 AND value < $4 ORDER BY value LIMIT $5"),
        vec![tenant.into(), name.as_str().into(), prefix.into(), prefix_end(prefix).into(), limit.into()],
        decode_facet,
    )
}

/// Facets of any searched attribute whose value contains `word`, ignoring case.
pub fn containing(tenant: TenantId, word: &str, limit: u64) -> Select<FacetRow> {
    Select::new(
        select_facets!(
            "name IN ('tool', 'server', 'actor', 'category') AND lower(value) LIKE $2 ESCAPE '\\' \
             ORDER BY id LIMIT $3"
        ),
        vec![tenant.into(), like_pattern(word).into(), limit.into()],
        decode_facet,
    )
}

/// The highest id of a facet. None: there is no facet.
pub fn highest_id(tenant: TenantId) -> Select<Option<i64>> {
    Select::new("SELECT MAX(id) FROM facets WHERE tenant = $1", vec![tenant.into()], |row| {
        row.optional_int(0)
    })
}

/// Inserts a facet, or updates its newest stretch and its count.
pub fn upsert(tenant: TenantId, name: FacetName, facet: &FacetRow) -> Statement {
    Statement::new(
        "INSERT INTO facets (tenant, id, name, value, latest, n) VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (tenant, id) DO UPDATE SET latest = excluded.latest, n = excluded.n",
        vec![
            tenant.into(),
            facet.id.into(),
            name.as_str().into(),
            facet.value.as_str().into(),
            facet.latest.into(),
            facet.executions.into(),
        ],
    )
}

const MARK: &str =
    "SELECT stretch, value, earlier, held FROM marks WHERE tenant = $1 AND stretch = $2 AND value = $3";

/// One parameter set of `MARK` for each stretch and facet.
fn mark_params(tenant: TenantId, keys: &[(u64, u64)]) -> Vec<Vec<SqlValue>> {
    keys.iter().map(|(stretch, facet)| vec![tenant.into(), (*stretch).into(), (*facet).into()]).collect()
}

fn decode_mark(row: &Row) -> Result<MarkRow, Error> {
    Ok(MarkRow {
        stretch: row.uint(0)?,
        facet: row.uint(1)?,
        earlier: u64::try_from(row.int(2)?).ok(),
        held: IdSet::decode(row.bytes(3)?)?,
    })
}

/// The marks of each stretch and facet. None: the value does not occur there.
pub async fn marks(db: &Db, tenant: TenantId, keys: &[(u64, u64)]) -> Result<Vec<Option<MarkRow>>, Error> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let found = db.look_up(MARK, mark_params(tenant, keys)).await?;
    found.iter().map(|rows| rows.first().map(decode_mark).transpose()).collect()
}

/// Like `marks`, but blocks the calling thread.
pub fn marks_blocking(db: &Db, tenant: TenantId, keys: &[(u64, u64)]) -> Result<Vec<Option<MarkRow>>, Error> {
    let found = db.read_many_blocking(MARK, mark_params(tenant, keys))?;
    found.iter().map(|rows| rows.first().map(decode_mark).transpose()).collect()
}

/// Follows a facet's chain from a stretch in which it occurs. The last row is the newest stretch below
/// `below` in which it occurs, or -1; the row before is the one that leads there.
pub fn chain_below(tenant: TenantId, facet: u64, from: u64, below: u64) -> Select<(u64, Option<u64>)> {
    Select::new(
        "WITH RECURSIVE chain (stretch, earlier) AS (\
         SELECT stretch, earlier FROM marks WHERE tenant = $1 AND stretch = $3 AND value = $2 UNION ALL \
         SELECT marks.stretch, marks.earlier FROM chain JOIN marks ON marks.tenant = $1 \
         AND marks.stretch = chain.earlier AND marks.value = $2 WHERE chain.earlier >= $4) \
         SELECT stretch, earlier FROM chain ORDER BY stretch LIMIT 1",
        vec![tenant.into(), facet.into(), from.into(), below.into()],
        |row| Ok((row.uint(0)?, u64::try_from(row.int(1)?).ok())),
    )
}

/// Inserts or replaces the marks of one stretch and facet.
pub fn upsert_mark(tenant: TenantId, mark: &MarkRow) -> Statement {
    let earlier = mark.earlier.map_or(SqlValue::Int(-1), SqlValue::from);
    Statement::new(
        "INSERT INTO marks (tenant, stretch, value, earlier, held) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (tenant, stretch, value) DO UPDATE SET earlier = excluded.earlier, held = excluded.held",
        vec![tenant.into(), mark.stretch.into(), mark.facet.into(), earlier, mark.held.encode().into()],
    )
}

/// Lets the marks of a later stretch lead to a stretch that was inserted before it.
pub fn set_earlier(tenant: TenantId, facet: u64, stretch: u64, earlier: u64) -> Statement {
    Statement::new(
        "UPDATE marks SET earlier = $4 WHERE tenant = $1 AND stretch = $2 AND value = $3",
        vec![tenant.into(), stretch.into(), facet.into(), earlier.into()],
    )
}
