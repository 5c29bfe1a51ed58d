//! What is in which stretch of the journal: for every kind, actor, plan, task and category the stretches
//! that hold it, with the first and the last time. Whoever looks for something rare reads only those.
//! A stretch is indexed once it is full, and never changes.

use std::collections::BTreeMap;

use super::caught_up::{self, Cursor};
use super::journal::place;
use super::{Db, Error, Select, Statement, Value};

/// Entries of one stretch; number `n` holds the positions from `n * ENTRIES + 1`.
pub const ENTRIES: u64 = 500;

/// A thing in a stretch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holds {
    pub name: &'static str,
    pub value: String,
    pub stretch: u64,
}

/// When it was there, first and last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct When {
    pub first_at: i64,
    pub last_at: i64,
}

pub type Held = BTreeMap<Holds, When>;

/// Everything in the full stretches after one position and up to another.
pub async fn read(db: &Db, tenant: i64, after: u64, through: u64) -> Result<Held, Error> {
    let params = || vec![tenant.into(), place(after), place(through)];
    let mut held = Held::new();
    for (stretch, kind, actor, when) in told(params()).all(db).await? {
        put(&mut held, "any", String::new(), stretch, when);
        put(&mut held, "kind", kind, stretch, when);
        put(&mut held, "actor", actor, stretch, when);
    }
    for (stretch, [plan, task], when) in owners(params()).all(db).await? {
        put(&mut held, "plan", plan, stretch, when);
        put(&mut held, "task", task, stretch, when);
    }
    for (stretch, at, body) in judged(params()).all(db).await? {
        let when = When { first_at: at, last_at: at };
        put(&mut held, "category", category(&body).to_owned(), stretch, when);
    }
    held.retain(|holds, _| holds.name == "any" || !holds.value.is_empty());
    Ok(held)
}

fn put(held: &mut Held, name: &'static str, value: String, stretch: u64, when: When) {
    let known = held.entry(Holds { name, value, stretch }).or_insert(when);
    known.first_at = known.first_at.min(when.first_at);
    known.last_at = known.last_at.max(when.last_at);
}

fn told(params: Vec<Value>) -> Select<(u64, String, String, When)> {
    Select::new(
        "SELECT (entry - $1 * 1099511627776 - 1) / 500, kind, actor, MIN(at), MAX(at) FROM journal \
         WHERE entry > $1 * 1099511627776 + $2 AND entry <= $1 * 1099511627776 + $3 AND +tenant = $1 \
         GROUP BY 1, 2, 3",
        params,
        |mut row| {
            let when = When { first_at: row.int(3)?, last_at: row.int(4)? };
            Ok((row.count(0)?, row.take_text(1)?, row.take_text(2)?, when))
        },
    )
}

/// A plan's name, and a task. A cross join, so that SQLite begins with the entries.
fn owners(params: Vec<Value>) -> Select<(u64, [String; 2], When)> {
    Select::new(
        "SELECT (entry - $1 * 1099511627776 - 1) / 500, plan_name, COALESCE(task, ''), \
         MIN(at), MAX(at) FROM journal CROSS JOIN executions \
         WHERE entry > $1 * 1099511627776 + $2 AND entry <= $1 * 1099511627776 + $3 \
         AND +journal.tenant = $1 AND executions.tenant = $1 AND executions.id = journal.stream \
         GROUP BY 1, 2, 3",
        params,
        |mut row| {
            let when = When { first_at: row.int(3)?, last_at: row.int(4)? };
            Ok((row.count(0)?, [row.take_text(1)?, row.take_text(2)?], when))
        },
    )
}

fn judged(params: Vec<Value>) -> Select<(u64, i64, String)> {
    Select::new(
        "SELECT (entry - $1 * 1099511627776 - 1) / 500, at, body FROM journal \
         WHERE entry > $1 * 1099511627776 + $2 AND entry <= $1 * 1099511627776 + $3 AND +tenant = $1 \
         AND body LIKE '%\"category\":\"%'",
        params,
        |mut row| Ok((row.count(0)?, row.int(1)?, row.take_text(2)?)),
    )
}

/// Bodies are written without spaces, and a quote inside a text is escaped.
fn category(body: &str) -> &str {
    let after = body.split_once("\"category\":\"").map_or("", |(_, after)| after);
    after.split_once('"').map_or("", |(category, _)| category)
}

/// Writes them and moves the cursor, in one transaction.
pub async fn add(db: &Db, tenant: i64, (from, to): (u64, u64), held: &Held) -> Result<(), Error> {
    let mut statements = Vec::from(caught_up::advance(tenant, Cursor::Stretches, from, to));
    statements.extend(held.iter().map(|(holds, when)| {
        Statement::new(
            "INSERT INTO stretches (tenant, name, value, stretch, first_at, last_at) \
             VALUES ($1, $2, $3, $4, $5, $6)",
            vec![
                tenant.into(),
                holds.name.into(),
                holds.value.as_str().into(),
                holds.stretch.into(),
                when.first_at.into(),
                when.last_at.into(),
            ],
        )
    }));
    db.transact(statements).await.map(drop)
}

/// What to look for. Everything left out lets all pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sought {
    pub kind: Option<String>,
    /// An older version of the kind, which counts as the kind.
    pub kind_older: Option<String>,
    pub actor: Option<String>,
    /// By its name.
    pub plan: Option<String>,
    pub task: Option<String>,
    pub category: Option<String>,
    pub since: Option<i64>,
    pub until: Option<i64>,
}

macro_rules! holding {
    ($name:literal, $value:literal) => {
        concat!(
            "SELECT name, stretch FROM stretches WHERE tenant = $1 AND name = '",
            $name,
            "' AND value ",
            $value,
            " AND stretch >= $2 AND last_at >= $3 AND first_at < $4"
        )
    };
}

const HOLDING: &str = concat!(
    "SELECT stretch FROM (",
    holding!("any", "= $5"),
    " UNION ALL ",
    holding!("kind", "IN ($6, $13)"),
    " UNION ALL ",
    holding!("actor", "= $7"),
    " UNION ALL ",
    holding!("plan", "= $8"),
    " UNION ALL ",
    holding!("task", "= $9"),
    " UNION ALL ",
    holding!("category", "= $10"),
    ") AS found GROUP BY stretch HAVING COUNT(DISTINCT name) = $11 ORDER BY stretch LIMIT $12"
);

/// The stretches that hold each of what is sought, in order, from one on.
pub fn holding(tenant: i64, sought: &Sought, from: u64, limit: u64) -> Select<u64> {
    let Sought { kind, kind_older, actor, plan, task, category, since, until } = sought;
    let named = [kind, actor, plan, task, category];
    let count = named.iter().filter(|word| word.is_some()).count();
    // Every full stretch holds an empty `any`; where something else is sought, that need not be looked at.
    let any = if count == 0 { "" } else { "none" };
    let mut params: Vec<Value> = vec![tenant.into(), from.into()];
    params.extend([since.unwrap_or(i64::MIN).into(), until.unwrap_or(i64::MAX).into(), any.into()]);
    params.extend(named.map(|word| word.as_deref().unwrap_or_default().into()));
    params.extend([(count.max(1) as u64).into(), limit.into()]);
    params.push(kind_older.as_ref().or(kind.as_ref()).map_or("", String::as_str).into());
    Select::new(HOLDING, params, |row| row.count(0))
}
