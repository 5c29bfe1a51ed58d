//! Rewrites the placeholders `$1` to `?1` for SQLite, which would take `$1` for a name and number it by first
//! appearance. Each text is rewritten once and cached for ever: all texts are constants of this program.

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::RwLock;

/// Identifies a static SQL text by its address and length, which is faster than hashing the text.
pub(super) type SqlKey = (usize, usize);

/// The rewritten text of each SQL text seen so far.
static REWRITTEN: LazyLock<RwLock<HashMap<SqlKey, &'static str>>> = LazyLock::new(RwLock::default);

pub(super) fn sql_key(sql: &'static str) -> SqlKey {
    (sql.as_ptr() as usize, sql.len())
}

/// Returns `sql` with SQLite's placeholders, from the cache where possible.
pub(super) fn to_sqlite_placeholders(sql: &'static str) -> &'static str {
    let cached = REWRITTEN.read().get(&sql_key(sql)).copied();
    cached.unwrap_or_else(|| {
        let mut rewritten = REWRITTEN.write();
        rewritten.entry(sql_key(sql)).or_insert_with(|| Box::leak(sql.replace('$', "?").into_boxed_str()))
    })
}
